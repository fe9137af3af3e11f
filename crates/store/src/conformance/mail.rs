//! Promises of [`Store::send`](crate::Store::send), and of cancelling, changing and reading what it stored.

use std::time::Duration;

use restante_core::email::{EmailStatus, Role};
use restante_core::endpoint::EndpointId;
use restante_core::id::{EmailId, WorkspaceId};
use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use restante_core::message::{Content, MessageId};
use restante_core::{State, Timestamp};

use super::{World, failed, ok};
use crate::email::{EmailChange, EmailChanged, Sending, Sent};
use crate::record::Mode;
use crate::row::{DeliveryFilter, EmailFilter};
use crate::{KeyClaim, Page};

const A_DAY: u64 = 24 * 3600 * 1000;

fn claim(key: &str, what: &str) -> KeyClaim {
    KeyClaim {
        key: IdempotencyKey::parse(key.as_bytes()).unwrap(),
        fingerprint: Fingerprint::builder("emails.send").field("what", Some(what)).finish(),
    }
}

async fn status(world: &World, id: EmailId) -> EmailStatus {
    world.email(id).await.status(world.now)
}

async fn listed(world: &World, filter: EmailFilter) -> Vec<EmailId> {
    let page = Page { total: true, ..Page::newest(100) };
    let found = world.store.emails(world.workspace, filter, page, world.now).await.unwrap();
    assert_eq!(found.total, Some(found.items.len() as u64));
    found.items.iter().map(|it| it.id).collect()
}

pub async fn an_email_goes_to_each_of_its_recipients(mut world: World) {
    let recipients = [(Role::To, "a@one.example"), (Role::Cc, "b@two.example"), (Role::Bcc, "c@one.example")];
    let id = world.mail_to(&recipients).await;
    let parcels = world.tray.take();
    let mut to: Vec<&str> = parcels.iter().map(|it| it.mailbox.as_deref().unwrap()).collect();
    to.sort_unstable();
    assert_eq!(to, ["a@one.example", "b@two.example", "c@one.example"]);
    assert!(parcels.iter().all(|it| it.message == MessageId::Email(id) && it.lease.attempt == 1));

    let email = world.email(id).await;
    assert_eq!(email.status(world.now), EmailStatus::Sending);
    let seen: Vec<_> = email.recipients.iter().map(|it| (it.role, it.mailbox.email.as_str())).collect();
    assert_eq!(seen, recipients);
    for parcel in &parcels {
        world.settle(parcel, ok()).await;
    }
    assert_eq!(status(&world, id).await, EmailStatus::Sent);
}

pub async fn an_emails_bytes_carry_its_id(mut world: World) {
    let id = world.mail_to(&[(Role::To, "a@one.example")]).await;
    let mime = world.store.email_mime(world.workspace, id, world.now).await.unwrap().unwrap();
    let expected = format!("Subject: x\r\nMessage-ID: <{id}@from.example>\r\n\r\nhello\r\n");
    assert_eq!(std::str::from_utf8(&mime).unwrap(), expected);
    let parcel = world.parcel();
    let Content::Email(mail) = &parcel.content.message else { panic!("it is no email") };
    assert_eq!((mail.sender.as_str(), mail.test, &mail.mime), ("s@from.example", false, &mime));
}

pub async fn a_delivery_names_its_mailbox(mut world: World) {
    let (source, _) = world.pair().await;
    let request = world.receive(&source).await;
    let email = world.mail_to(&[(Role::To, "A@one.example"), (Role::Bcc, "b@two.example")]).await;
    let (store, workspace, now) = (&world.store, world.workspace, world.now);
    let listed = store.deliveries(workspace, DeliveryFilter::default(), Page::newest(10), now).await.unwrap();
    let mailboxes: Vec<Option<&str>> = listed.items.iter().map(|it| it.mailbox.as_deref()).collect();
    assert_eq!(mailboxes, [Some("b@two.example"), Some("A@one.example"), None]);
    for shown in &listed.items {
        let one = store.delivery(workspace, shown.id, now).await.unwrap().unwrap();
        assert_eq!((one.message, &one.mailbox), (shown.message, &shown.mailbox));
    }
    assert_eq!(listed.items[0].message, MessageId::Email(email));
    let request = store.request(workspace, request, now).await.unwrap().unwrap();
    assert_eq!(request.deliveries[0].mailbox, None);
}

pub async fn domains_have_lanes_of_their_own(mut world: World) {
    let recipients = [(Role::To, "a@one.example"), (Role::To, "b@two.example"), (Role::To, "c@one.example")];
    world.mail_to(&recipients).await;
    let lane = |to: &str, parcels: &[crate::Parcel]| -> EndpointId {
        parcels.iter().find(|it| it.mailbox.as_deref() == Some(to)).unwrap().endpoint.id
    };
    let first = world.tray.take();
    assert_eq!(lane("a@one.example", &first), lane("c@one.example", &first));
    assert_ne!(lane("a@one.example", &first), lane("b@two.example", &first));
    world.mail_to(&[(Role::To, "d@two.example")]).await;
    assert_eq!(lane("d@two.example", &world.tray.take()), lane("b@two.example", &first));
}

pub async fn n_calls_with_one_key_make_one_email(mut world: World) {
    let mut fresh = Vec::new();
    for _ in 0..3 {
        let mut sending = world.sending(&[(Role::To, "a@one.example")]);
        sending.claim = Some(claim("k", "same"));
        match world.store.send(sending).await.unwrap() {
            Sent::Fresh(items) => fresh.extend(items),
            Sent::Replayed(items) => assert_eq!(items, fresh),
            other @ (Sent::KeyReused | Sent::NoWorkspace) => panic!("{other:?}"),
        }
    }
    assert_eq!((fresh.len(), world.tray.take().len()), (1, 1));
    let known = world.store.known_send(world.workspace, Mode::Live, claim("k", "same")).await.unwrap();
    assert_eq!(known, Some(Sent::Replayed(fresh)));
    let free = world.store.known_send(world.workspace, Mode::Live, claim("other", "same")).await.unwrap();
    assert_eq!(free, None);
}

pub async fn a_key_used_for_something_else_stores_nothing(mut world: World) {
    let mut publishing = world.publishing(&["order.paid"]);
    publishing.claim = Some(claim("event", "event"));
    world.publish_this(publishing).await;
    let mut first = world.sending(&[(Role::To, "a@one.example")]);
    first.claim = Some(claim("mail", "mail"));
    world.send_this(first).await;
    world.tray.take();
    for key in ["event", "mail"] {
        let mut sending = world.sending(&[(Role::To, "a@one.example")]);
        sending.claim = Some(claim(key, "another"));
        assert_eq!(world.store.send(sending).await.unwrap(), Sent::KeyReused, "{key}");
        let known = world.store.known_send(world.workspace, Mode::Live, claim(key, "another")).await.unwrap();
        assert_eq!(known, Some(Sent::KeyReused), "{key}");
    }
    assert!(world.tray.take().is_empty());
    assert_eq!(listed(&world, EmailFilter::default()).await.len(), 1);
}

pub async fn keys_of_the_two_modes_are_apart(mut world: World) {
    for mode in [Mode::Live, Mode::Test] {
        let mut sending = world.sending(&[(Role::To, "a@one.example")]);
        (sending.mode, sending.claim) = (mode, Some(claim("k", "same")));
        assert!(matches!(world.store.send(sending).await.unwrap(), Sent::Fresh(_)), "{mode:?}");
    }
    let tests = |parcels: Vec<crate::Parcel>| {
        parcels.iter().filter(|it| matches!(&it.content.message, Content::Email(mail) if mail.test)).count()
    };
    assert_eq!(tests(world.tray.take()), 1);
    let test = EmailFilter { test: true, ..EmailFilter::default() };
    assert_eq!(
        (listed(&world, EmailFilter::default()).await.len(), listed(&world, test).await.len()),
        (1, 1)
    );
}

pub async fn a_key_remembers_the_items_that_were_none(mut world: World) {
    let mut sending = world.sending(&[(Role::To, "a@one.example")]);
    sending.items.push(Err("{\"code\":\"x\"}".into()));
    sending.claim = Some(claim("k", "same"));
    let Sent::Fresh(items) = world.store.send(sending).await.unwrap() else { panic!("it is fresh") };
    assert_eq!((items.len(), &items[1]), (2, &Err("{\"code\":\"x\"}".to_owned())));
    let known = world.store.known_send(world.workspace, Mode::Live, claim("k", "same")).await.unwrap();
    assert_eq!(known, Some(Sent::Replayed(items)));
}

pub async fn a_scheduled_email_waits_for_its_time(mut world: World) {
    let at = world.now + Duration::from_secs(60);
    let id = world.mail_at(at).await;
    assert!(world.tray.take().is_empty());
    assert_eq!(status(&world, id).await, EmailStatus::Scheduled);
    let claimed = world.claim().await;
    assert_eq!((claimed.count, claimed.next_due), (0, Some(at)));
    world.pass(59_999);
    assert_eq!(world.claim().await.count, 0);
    world.pass(1);
    assert_eq!(world.claim().await.count, 1);
    assert_eq!(world.parcel().mailbox.as_deref(), Some("a@one.example"));
    assert_eq!(status(&world, id).await, EmailStatus::Sending);
}

pub async fn what_has_not_begun_can_be_cancelled(mut world: World) {
    let id = world.mail_at(world.now + Duration::from_secs(60)).await;
    for _ in 0..2 {
        let cancelled = world.store.cancel_email(world.workspace, id, world.now).await.unwrap();
        assert_eq!(cancelled, EmailChanged::Done);
        assert_eq!(status(&world, id).await, EmailStatus::Cancelled);
    }
    world.pass(120_000);
    assert_eq!(world.claim().await.count, 0);
    assert_eq!(world.told(id).await, ["email.accepted", "email.scheduled", "email.canceled"]);
}

pub async fn what_has_begun_cannot_be_cancelled(mut world: World) {
    let id = world.mail_to(&[(Role::To, "a@one.example")]).await;
    let cancel = |world: &World, now: Timestamp| {
        let (store, workspace) = (world.store.clone(), world.workspace);
        async move { store.cancel_email(workspace, id, now).await.unwrap() }
    };
    assert_eq!(cancel(&world, world.now).await, EmailChanged::Conflict(EmailStatus::Sending));
    let parcel = world.parcel();
    world.settle(&parcel, failed()).await;
    assert_eq!(cancel(&world, world.now).await, EmailChanged::Conflict(EmailStatus::Sending));
    world.pass(3 * 60_000);
    world.claim_and_settle(ok()).await;
    assert_eq!(cancel(&world, world.now).await, EmailChanged::Conflict(EmailStatus::Sent));
    let nobody = world.store.cancel_email(WorkspaceId::from_uuid(7), id, world.now).await.unwrap();
    assert_eq!(nobody, EmailChanged::NotFound);
}

pub async fn a_scheduled_email_can_be_moved_and_changed(mut world: World) {
    let id = world.mail_at(world.now + Duration::from_secs(60)).await;
    let later = world.now + Duration::from_secs(600);
    let change = EmailChange { frozen: Some(world.frozen("other")), scheduled_at: Some(later) };
    let changed = world.store.change_email(world.workspace, id, change, world.now).await.unwrap();
    assert_eq!(changed, EmailChanged::Done);
    let email = world.email(id).await;
    assert_eq!((email.scheduled_at, email.details.subject.as_deref()), (Some(later), Some("other")));
    world.pass(60_000);
    assert_eq!(world.claim().await.count, 0);

    // Earlier again: the dispatcher must hear of it.
    let sooner = world.now + Duration::from_secs(1);
    let change = EmailChange { frozen: None, scheduled_at: Some(sooner) };
    world.store.change_email(world.workspace, id, change, world.now).await.unwrap();
    world.pass(1_000);
    assert_eq!(world.claim().await.count, 1);
    let parcel = world.parcel();
    assert!(parcel.content.message.body().starts_with(b"Subject: other\r\n"));
    let change = EmailChange { frozen: None, scheduled_at: Some(later) };
    let changed = world.store.change_email(world.workspace, id, change, world.now).await.unwrap();
    assert_eq!(changed, EmailChanged::Conflict(EmailStatus::Sending));
}

pub async fn lists_show_what_was_asked_for(mut world: World) {
    let at = world.now + Duration::from_secs(60);
    let scheduled = world.mail_at(at).await;
    world.pass(1);
    let sent = world.mail_to(&[(Role::To, "a@one.example")]).await;
    let parcel = world.parcel();
    world.settle(&parcel, ok()).await;
    world.publish("order.paid").await;
    let of = |statuses: &[EmailStatus]| EmailFilter { statuses: statuses.to_vec(), ..EmailFilter::default() };
    assert_eq!(listed(&world, EmailFilter::default()).await, [sent, scheduled]);
    assert_eq!(listed(&world, of(&[EmailStatus::Sent])).await, [sent]);
    assert_eq!(listed(&world, of(&[EmailStatus::Scheduled, EmailStatus::Failed])).await, [scheduled]);
    let from = |from: &str| EmailFilter { from: Some(from.to_owned()), ..EmailFilter::default() };
    assert_eq!(listed(&world, from("s@from.example")).await, [sent, scheduled]);
    assert!(listed(&world, from("t@from.example")).await.is_empty());
    let between = |from: Timestamp, to: Timestamp| EmailFilter {
        scheduled_from: Some(from),
        scheduled_to: Some(to),
        ..EmailFilter::default()
    };
    assert_eq!(listed(&world, between(at, at)).await, [scheduled]);
    assert!(
        listed(&world, between(at + Duration::from_millis(1), at + Duration::from_secs(9))).await.is_empty()
    );
}

pub async fn another_workspace_sees_nothing(mut world: World) {
    let id = world.mail_at(world.now + Duration::from_secs(60)).await;
    let other = world.new_workspace("second").await;
    let (store, now) = (&world.store, world.now);
    assert!(store.email(other, id, now).await.unwrap().is_none());
    assert!(store.email_mime(other, id, now).await.unwrap().is_none());
    assert!(store.email_events(other, id, now).await.unwrap().is_none());
    let found = store.emails(other, EmailFilter::default(), Page::newest(10), now).await.unwrap();
    assert!(found.items.is_empty());
    assert_eq!(store.cancel_email(other, id, now).await.unwrap(), EmailChanged::NotFound);
    let nobody =
        Sending { workspace: WorkspaceId::from_uuid(7), ..world.sending(&[(Role::To, "a@b.example")]) };
    assert_eq!(world.store.send(nobody).await.unwrap(), Sent::NoWorkspace);
}

pub async fn emails_go_when_their_time_is_over(mut world: World) {
    let mut sending = world.sending(&[(Role::To, "a@one.example")]);
    sending.claim = Some(claim("k", "same"));
    let id = world.send_this(sending).await;
    let parcel = world.parcel();
    world.settle(&parcel, ok()).await;
    let waiting = world.mail_at(world.now + Duration::from_millis(29 * A_DAY)).await;
    world.pass(30 * A_DAY - 5_000);
    world.prune().await;
    assert!(world.store.email(world.workspace, id, world.now).await.unwrap().is_some());
    world.pass(6_000);
    assert!(world.store.email(world.workspace, id, world.now).await.unwrap().is_none());
    // Once an hour is often enough for what nobody can see.
    world.pass(3_700_000);
    world.prune().await;
    assert!(world.store.email_mime(world.workspace, id, world.now).await.unwrap().is_none());
    let free = world.store.known_send(world.workspace, Mode::Live, claim("k", "same")).await.unwrap();
    assert_eq!(free, None, "the key went with the email");
    assert_eq!(world.delivery_state_of(waiting).await, State::Pending, "it has not been sent");
}
