//! Promises of what becomes of emails' deliveries, and of what webhooks are told about it.

use std::time::Duration;

use restante_core::delivery::FailReason;
use restante_core::email::{EmailStatus, RecipientStatus, Role};
use restante_core::outcome::Failure;
use restante_core::{FailureKind, Outcome, State, Timestamp};
use serde_json::Value;

use super::{World, failed, ok};
use crate::record::{Suppression, SuppressionReason};
use crate::{Page, Policy};

const TO: (Role, &str) = (Role::To, "a@one.example");

fn said(code: u16, enhanced: (u8, u16, u16), words: &str) -> Failure {
    let message = format!("{code} {}.{}.{} {words}", enhanced.0, enhanced.1, enhanced.2);
    let enhanced = Some(enhanced);
    Failure { kind: FailureKind::Smtp, status: Some(code), enhanced, message, retry_after: None }
}

async fn recipient(world: &World, id: restante_core::id::EmailId) -> RecipientStatus {
    world.email(id).await.recipients[0].standing.status()
}

async fn suppressions(world: &World) -> Vec<(String, SuppressionReason)> {
    let found = world.store.list::<Suppression>(Some(world.workspace), None, Page::newest(10)).await.unwrap();
    found.items.into_iter().map(|it| (it.body.email, it.body.reason)).collect()
}

pub async fn what_happens_to_a_recipient_is_told(mut world: World) {
    let webhook = world.webhook_for(&["email.*"]).await;
    let id = world.mail_to(&[TO]).await;
    let mut parcels = world.tray.take();
    let mail = parcels.iter().position(|it| it.mailbox.is_some()).unwrap();
    let mail = parcels.remove(mail);
    assert_eq!(parcels.len(), 1, "the webhook hears that it was accepted");
    world.settle(&mail, Outcome::Failed(said(451, (4, 7, 1), "later"))).await;
    world.pass(3 * 60_000);
    while world.claim().await.count > 0 {}
    let parcels = world.tray.take();
    let mail = parcels.iter().find(|it| it.mailbox.is_some()).unwrap().clone();
    world.settle(&mail, Outcome::Delivered { status: Some(250) }).await;

    let types = ["email.accepted", "email.processed", "email.deferred", "email.delivered"];
    assert_eq!(world.told(id).await, types);
    let events = world.store.email_events(world.workspace, id, world.now).await.unwrap().unwrap();
    let mut times = Vec::new();
    for event in &events {
        let body: Value = serde_json::from_slice(&event.body).unwrap();
        assert_eq!(body["type"], event.event_type.as_str());
        assert_eq!(body["data"]["email_id"], id.to_string());
        assert_eq!(body["data"]["recipient"], "a@one.example");
        assert_eq!(
            (&body["data"]["recipient_role"], &body["data"]["broadcast_id"]),
            (&"to".into(), &Value::Null)
        );
        assert_eq!(body["data"]["recipient_id"].as_str().map(|id| &id[..3]), Some("er_"));
        times.push(body["timestamp"].as_str().unwrap().parse::<String>().unwrap());
        let known = world.event(event.id).await;
        assert_eq!(known.deliveries.len(), 1, "{webhook} is told");
    }
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    let deferred: Value = serde_json::from_slice(&events[2].body).unwrap();
    assert_eq!(deferred["data"]["defer_reason"], "451 4.7.1 later");
}

pub async fn a_refusal_ends_a_delivery_and_a_hard_one_suppresses_the_mailbox(mut world: World) {
    let id = world.mail_to(&[TO]).await;
    let parcel = world.parcel();
    world.settle(&parcel, Outcome::Refused(said(550, (5, 7, 1), "not you"))).await;
    assert_eq!(world.state(parcel.lease.delivery).await, State::Failed(FailReason::Refused));
    assert_eq!(recipient(&world, id).await, RecipientStatus::Bounced);
    assert!(suppressions(&world).await.is_empty(), "a policy says nothing about the mailbox");

    let id = world.mail_to(&[(Role::To, "Nobody@one.example")]).await;
    let parcel = world.parcel();
    world.settle(&parcel, Outcome::Refused(said(550, (5, 1, 1), "no such user"))).await;
    let email = world.email(id).await;
    assert_eq!(email.status(world.now), EmailStatus::Bounced);
    assert_eq!(email.recipients[0].error.as_deref(), Some("550 5.1.1 no such user"));
    assert_eq!(
        suppressions(&world).await,
        [("Nobody@one.example".to_owned(), SuppressionReason::HardBounce)]
    );
    let events = world.store.email_events(world.workspace, id, world.now).await.unwrap().unwrap();
    let bounced: Value = serde_json::from_slice(&events.last().unwrap().body).unwrap();
    assert_eq!(
        (&bounced["type"], &bounced["data"]["bounce_type"]),
        (&"email.bounced".into(), &"hard".into())
    );
    assert_eq!(world.claim().await.count, 0);
}

pub async fn a_suppressed_mailbox_gets_nothing(mut world: World) {
    world.suppress("A@one.example").await;
    let id = world.mail_to(&[TO, (Role::Cc, "b@one.example")]).await;
    let parcel = world.parcel();
    assert_eq!(parcel.mailbox.as_deref(), Some("b@one.example"));
    assert_eq!(recipient(&world, id).await, RecipientStatus::Suppressed);
    world.settle(&parcel, ok()).await;
    assert_eq!(world.email(id).await.status(world.now), EmailStatus::Partial);
    let told = world.told(id).await;
    assert_eq!(told.iter().filter(|it| *it == "email.rejected").count(), 1, "{told:?}");
}

pub async fn a_mailbox_suppressed_later_gets_nothing_either(mut world: World) {
    let id = world.mail_at(world.now + Duration::from_secs(60)).await;
    world.suppress("a@one.example").await;
    world.pass(60_000);
    assert_eq!(world.claim().await.count, 0);
    assert!(world.tray.take().is_empty());
    assert_eq!(recipient(&world, id).await, RecipientStatus::Suppressed);
    assert_eq!(world.told(id).await, ["email.accepted", "email.scheduled", "email.rejected"]);
}

pub async fn what_was_sent_and_not_answered_is_uncertain(mut world: World) {
    let id = world.mail_to(&[TO]).await;
    let parcel = world.parcel();
    assert!(world.store.data_sent(parcel.lease).await.unwrap());
    let Outcome::Failed(failure) = Outcome::failed(FailureKind::Network, "no answer") else { unreachable!() };
    world.settle(&parcel, Outcome::Uncertain(failure)).await;
    assert_eq!(world.state(parcel.lease.delivery).await, State::Failed(FailReason::Uncertain));
    assert_eq!(recipient(&world, id).await, RecipientStatus::Uncertain);
    world.pass(48 * 3600 * 1000);
    assert_eq!(world.claim().await.count, 0, "it is not sent again");
    let told = world.told(id).await;
    assert_eq!(told, ["email.accepted", "email.processed", "email.bounced"]);
}

pub async fn a_lost_attempt_that_had_sent_the_message_is_uncertain(mut world: World) {
    let before = world.mail_to(&[TO]).await;
    world.tray.take();
    let behind = world.mail_to(&[TO]).await;
    let parcel = world.parcel();
    assert!(world.store.data_sent(parcel.lease).await.unwrap());
    world.pass(1_000);
    let mut world = world.crash().await;
    // A node that died is known to be dead after a while.
    world.pass(120_000);
    assert_eq!(world.take_over_all().await, 2);
    assert_eq!(recipient(&world, behind).await, RecipientStatus::Uncertain);
    let error = world.email(behind).await.recipients[0].error.clone().unwrap();
    assert!(error.contains("may have arrived"), "{error}");
    assert_eq!(recipient(&world, before).await, RecipientStatus::Pending);
    assert_eq!(world.claim().await.count, 1, "only what cannot have arrived is sent again");
}

pub async fn the_operator_may_have_what_is_uncertain_sent_again(mut world: World) {
    let id = world.mail_to(&[TO]).await;
    let parcel = world.parcel();
    assert!(world.store.data_sent(parcel.lease).await.unwrap());
    world.pass(1_000);
    let mut world = world.restart(Policy { resend_uncertain: true, ..Policy::default() }).await;
    world.pass(120_000);
    assert_eq!(world.take_over_all().await, 1);
    assert_eq!(recipient(&world, id).await, RecipientStatus::Pending);
    assert_eq!(world.claim().await.count, 1);
}

pub async fn only_who_holds_the_lease_may_end_a_message(mut world: World) {
    world.mail_to(&[TO]).await;
    let parcel = world.parcel();
    world.settle(&parcel, failed()).await;
    assert!(!world.store.data_sent(parcel.lease).await.unwrap(), "it was settled");
    world.pass(3 * 60_000);
    assert_eq!(world.claim().await.count, 1);
    let second = world.parcel();
    assert!(!world.store.data_sent(parcel.lease).await.unwrap(), "another attempt is running");
    assert!(world.store.data_sent(second.lease).await.unwrap());
}

pub async fn used_up_attempts_fail_a_recipient(mut world: World) {
    let id = world.mail_to(&[TO]).await;
    let parcel = world.parcel();
    world.settle(&parcel, failed()).await;
    for _ in 0..8 {
        world.pass(30 * 3600 * 1000);
        world.claim_and_settle(failed()).await;
    }
    let email = world.email(id).await;
    assert_eq!(
        (email.status(world.now), recipient(&world, id).await),
        (EmailStatus::Failed, RecipientStatus::Failed)
    );
    let told = world.told(id).await;
    assert_eq!(told.last().map(String::as_str), Some("email.rejected"));
    assert_eq!(told.iter().filter(|it| *it == "email.deferred").count(), 8);
    assert!(email.created_at < Timestamp::from_millis(i64::MAX));
}
