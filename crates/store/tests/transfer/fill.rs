//! A store with something of everything, and how it goes on.

use std::time::Duration;

use restante_core::email::Role;
use restante_core::endpoint::{Sealed, Source};
use restante_core::id::{DeliveryId, DestinationId, ReplayId, WebhookId, WorkspaceId};
use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use restante_core::retry::Schedule;
use restante_store::conformance::{Origin, World, failed, ok, started};
use restante_store::record::{ApiKey, BulkRetryJob, BulkRetryState, Mode, ReplayJob, Written};
use restante_store::row::{DeliveryFilter, RequestFilter};
use restante_store::{BulkRetry, Grant, KeyClaim, Page, Parcel, Publishing, Retried, Window};

const HOUR_MS: u64 = 3_600_000;

/// What was put into a store.
pub(crate) struct Filled {
    pub(crate) workspaces: [WorkspaceId; 2],
    pub(crate) webhooks: Vec<WebhookId>,
    pub(crate) destinations: Vec<DestinationId>,
    /// Attempts under way.
    pub(crate) in_flight: u64,
    shop: Origin,
    replay: ReplayId,
    recovery: ReplayId,
    bulk: ReplayId,
    paused: WebhookId,
}

/// Fills a store that holds nothing yet but the world's workspace.
pub(crate) async fn fill(world: &mut World) -> Filled {
    let first = world.workspace;
    let (shop, mut destinations) = requests(world).await;
    let bulk = exhausted(world, &mut destinations).await;
    deleted(world).await;
    let second = counted(world).await;
    world.pass(48 * HOUR_MS);
    world.run(failed()).await;

    let replayed = world.webhook_with(|it| {
        it.events = restante_store::conformance::filters(&["one.*"]);
        it.schedule = Schedule::Custom { waits_seconds: Vec::new(), jitter: 0.0 };
        it.max_in_flight = 2;
    });
    let replayed = replayed.await;
    for _ in 0..5 {
        emit(world, "one.a", false).await;
    }
    let degraded = world.webhook_for(&["four.*"]).await;
    for _ in 0..6 {
        world.pass(100_000);
        emit(world, "four.a", false).await;
    }
    let publishing = keyed(world, "this");
    world.publish_this(publishing).await;
    let parcel = world.parcel();
    world.settle(&parcel, ok()).await;
    let recovered = paused_and_active(world).await;
    let check = world.store.secret_check(Some(Sealed("word".into()))).await.unwrap();
    assert_eq!(check, Some(Sealed("word".into())));
    api_key(world).await;
    emails(world).await;

    // From here on attempts stay under way, and no claim comes between.
    world.pass(HOUR_MS);
    let mut in_flight = world.claim_all().await;
    assert!(!in_flight.is_empty(), "what failed is due again");
    let (replay, events) = started(world.replay_all(replayed).await);
    assert_eq!((events, world.claim_up_to(2).await.count), (5, 2));
    in_flight.extend(world.tray.take());
    world.receive(&shop).await;
    let born = world.tray.take();
    world.store.cancel(world.workspace, born[0].lease.delivery, world.now).await.unwrap();
    in_flight.extend(born);
    let (now, tail) = (world.now, world.tail());
    let (recovery, _) = started(world.store.recover(first, recovered, None.into(), now, tail).await.unwrap());
    let (paused, sending) = paused_and_unmarked(world).await;
    in_flight.push(sending);
    world.mail_to(&[(Role::To, "may@have.example")]).await;
    let sending = world.parcel();
    assert!(world.store.data_sent(sending.lease).await.unwrap());
    in_flight.push(sending);
    let back = paused_and_back(world).await;
    world.store.roll_up(world.now).await.unwrap();
    Filled {
        workspaces: [first, second],
        webhooks: vec![replayed, degraded, recovered, paused, back],
        destinations,
        in_flight: in_flight.len() as u64,
        shop,
        replay,
        recovery,
        bulk,
        paused,
    }
}

/// Requests that came to different ends, a retry by hand, a replay, a cancel.
async fn requests(world: &mut World) -> (Origin, Vec<DestinationId>) {
    let shop = world.source("shop").await;
    let destinations = vec![world.destination(&shop).await, world.destination(&shop).await];
    for outcomes in [[true, true], [true, false], [false, false]] {
        world.pass(10);
        world.receive(&shop).await;
        for (parcel, delivers) in world.tray.take().iter().zip(outcomes) {
            world.settle(parcel, if delivers { ok() } else { failed() }).await;
        }
    }
    let last = world.store.requests(world.workspace, RequestFilter::default(), Page::newest(1), world.now);
    let last = last.await.unwrap().items.remove(0).id;
    let pending = world.request(last).await.deliveries[0].id;
    world.store.cancel(world.workspace, pending, world.now).await.unwrap();
    let (now, tail) = (world.now, world.tail());
    world.store.replay(world.workspace, last, now, tail).await.unwrap();
    for parcel in world.tray.take() {
        world.settle(&parcel, ok()).await;
    }
    let (held, _) = world.pair().await;
    let paused = world.destination_with(&held, |it| it.paused = true).await;
    world.receive(&held).await;
    let parcel = world.parcel();
    world.settle(&parcel, ok()).await;
    (shop, [destinations, vec![paused]].concat())
}

/// Deliveries without attempts left, of which one was retried by hand, and a bulk retry of the rest.
async fn exhausted(world: &mut World, destinations: &mut Vec<DestinationId>) -> ReplayId {
    let source = world.source("one try").await;
    let once = |it: &mut restante_core::endpoint::Destination| {
        it.schedule = Schedule::Quadratic { attempts: 1 };
    };
    let destination = world.destination_with(&source, once).await;
    for _ in 0..4 {
        let parcel = world.send(&source).await;
        world.settle(&parcel, failed()).await;
        if destinations.len() == 3 {
            let retried = world.store.retry(world.workspace, parcel.lease.delivery, world.now).await.unwrap();
            assert!(matches!(retried, Retried::Fresh(_)));
            let parcel = world.parcel();
            world.settle(&parcel, ok()).await;
            destinations.push(destination);
        }
    }
    let always = world.always();
    let bulk = BulkRetry { since: always.since, until: always.until, state: "failed".into() };
    let total = world.store.count_bulk_retry(world.workspace, destination, bulk.clone()).await.unwrap();
    assert_eq!(total, 3);
    let state = BulkRetryState::Running;
    let job = BulkRetryJob { bulk, cursor: -1, end: i64::MAX, total, created: 0, state };
    let (tail, parent) = (world.tail(), Some(destination.uuid()));
    let id = match world.store.make(Some(world.workspace), parent, job, tail, world.now).await.unwrap() {
        Written::Done(record) => record.id,
        refused @ (Written::NotFound | Written::NameTaken | Written::TooMany | Written::Stale) => {
            panic!("{refused:?}")
        }
    };
    assert!(world.store.advance_bulk_retry(id, world.now, 1).await.unwrap());
    let parcel = world.parcel();
    world.settle(&parcel, ok()).await;
    id
}

/// A destination and a source that are gone and had something pending.
async fn deleted(world: &mut World) {
    let (one, destination) = world.pair().await;
    let (other, _) = world.pair().await;
    for source in [&one, &other] {
        let parcel = world.send(source).await;
        world.settle(&parcel, failed()).await;
    }
    world.delete_destination(destination).await;
    world.delete_source(other.id).await;
}

/// A workspace that pays.
async fn counted(world: &mut World) -> WorkspaceId {
    let first = world.workspace;
    let second = world.new_workspace("second").await;
    world.workspace = second;
    world.store.grant(second, Grant::Delta(5), "paid".into(), world.now).await.unwrap();
    let (source, _) = world.pair().await;
    for delivers in [true, false] {
        let parcel = world.send(&source).await;
        world.settle(&parcel, if delivers { ok() } else { failed() }).await;
    }
    // What it knows is not forgotten while the store is filled.
    let long = |source: &mut Source| source.dedupe.iter_mut().for_each(|dedupe| dedupe.hours = 8760);
    let careful = world.careful_with("careful", long).await;
    world.bring(&careful, "a").await;
    let parcel = world.parcel();
    world.settle(&parcel, ok()).await;
    world.bring(&careful, "a").await;
    world.reject(&careful).await;
    world.workspace = first;
    second
}

async fn emit(world: &mut World, event_type: &str, delivers: bool) -> Parcel {
    world.publish(event_type).await;
    let parcel = world.parcel();
    world.settle(&parcel, if delivers { ok() } else { failed() }).await;
    parcel
}

async fn publish_unattempted(world: &mut World, event_type: &str) {
    world.store.attach(None).await.unwrap();
    world.publish(event_type).await;
    world.attach().await;
}

/// A webhook whose last pause is all marked.
async fn paused_and_active(world: &mut World) -> WebhookId {
    let webhook = world.webhook_for(&["three.*"]).await;
    emit(world, "three.a", true).await;
    emit(world, "three.b", false).await;
    publish_unattempted(world, "three.c").await;
    world.pass(10);
    world.pause(webhook).await;
    world.prune().await;
    world.publish("three.d").await;
    world.pass(10);
    world.activate(webhook).await;
    webhook
}

/// A webhook whose pause nobody has marked yet, with an attempt under way.
async fn paused_and_unmarked(world: &mut World) -> (WebhookId, Parcel) {
    let webhook = world.webhook_for(&["two.*"]).await;
    emit(world, "two.a", false).await;
    publish_unattempted(world, "two.b").await;
    world.publish("two.c").await;
    let sending = world.parcel();
    world.pass(10);
    world.pause(webhook).await;
    world.pass(10);
    world.publish("two.d").await;
    (webhook, sending)
}

/// A webhook whose pause nobody has marked yet, and which is active again.
async fn paused_and_back(world: &mut World) -> WebhookId {
    let webhook = world.webhook_for(&["five.*"]).await;
    emit(world, "five.a", false).await;
    publish_unattempted(world, "five.b").await;
    world.pass(10);
    world.pause(webhook).await;
    world.pass(10);
    world.activate(webhook).await;
    emit(world, "five.c", false).await;
    publish_unattempted(world, "five.d").await;
    webhook
}

/// Emails that were sent, that wait, and whose mailboxes get nothing.
async fn emails(world: &mut World) {
    world.suppress("nobody@one.example").await;
    let mut sending = world.sending(&[(Role::To, "a@one.example"), (Role::Bcc, "Nobody@one.example")]);
    sending.claim = Some(claim("this"));
    world.send_this(sending).await;
    let parcel = world.parcel();
    world.settle(&parcel, ok()).await;
    world.mail_to(&[(Role::Cc, "b@two.example")]).await;
    let parcel = world.parcel();
    world.settle(&parcel, failed()).await;
    world.mail_at(world.now + Duration::from_millis(20 * HOUR_MS)).await;
    let cancelled = world.mail_at(world.now + Duration::from_millis(20 * HOUR_MS)).await;
    world.store.cancel_email(world.workspace, cancelled, world.now).await.unwrap();
}

async fn api_key(world: &mut World) {
    let key = ApiKey {
        name: "deploy".into(),
        mode: Mode::Live,
        scopes: vec!["events.publish".into()],
        hash: "ab".repeat(32),
        last4: "wxyz".into(),
        revoked_at: None,
        last_used_at: Some(world.now),
    };
    let tail = world.tail();
    let made = world.store.make(Some(world.workspace), None, key, tail, world.now).await.unwrap();
    assert!(matches!(made, Written::Done(_)));
}

/// A call with the one key, whose fingerprint is made of `what`.
fn keyed(world: &mut World, what: &str) -> Publishing {
    let key = IdempotencyKey::parse(b"order-1042-paid").unwrap();
    let fingerprint = Fingerprint::builder("events.publish").field("what", Some(what)).finish();
    Publishing { claim: Some(KeyClaim { key, fingerprint }), ..world.publishing(&["four.k"]) }
}

/// The key of a call that sends emails, likewise.
fn claim(what: &str) -> KeyClaim {
    let key = IdempotencyKey::parse(b"order-1042-mail").unwrap();
    let fingerprint = Fingerprint::builder("emails.send").field("what", Some(what)).finish();
    KeyClaim { key, fingerprint }
}

/// Takes a filled store on to the end of all that it holds, and tells what became of it.
pub(crate) async fn go_on(world: &mut World, filled: &Filled) -> Vec<String> {
    let mut told = Vec::new();
    let old = all_deliveries(world, filled).await;
    for what in ["this", "that"] {
        let publishing = keyed(world, what);
        told.push(format!("{what}: {:?}", world.store.publish(publishing).await.unwrap()));
        let known = world.store.known_send(world.workspace, Mode::Live, claim(what)).await.unwrap();
        told.push(format!("{what}: {known:?}"));
    }
    told.push(format!("lost: {}", world.store.take_over(world.now).await.unwrap()));
    told.extend(states(world, &old).await);
    world.prune().await;
    told.extend(states(world, &old).await);
    while world.store.advance_bulk_retry(filled.bulk, world.now, 1).await.unwrap() {}
    world.tray.take();
    for _ in 0..8 {
        world.pass(6 * HOUR_MS);
        world.run(ok()).await;
    }
    world.activate(filled.paused).await;
    let (now, tail) = (world.now, world.tail());
    let window = Some(Window { since: now - Duration::from_secs(30 * 24 * 3600), until: now });
    let recovery =
        world.store.recover(world.workspace, filled.paused, window.into(), now, tail).await.unwrap();
    let (recovery, count) = started(recovery);
    told.push(format!("to recover: {count}"));
    world.run(ok()).await;
    for id in [filled.replay, filled.recovery, recovery] {
        let ReplayJob { kind, state, total, delivered, failed, skipped, .. } = world.job(id).await;
        told.push(format!("{kind:?} {state:?}: {total} {delivered} {failed} {skipped}"));
    }
    let bulk = world.store.get::<BulkRetryJob>(world.workspace, filled.bulk).await.unwrap().unwrap().body;
    told.push(format!("{:?}: {} of {}", bulk.state, bulk.created, bulk.total));
    told.extend(states(world, &old).await);
    for webhook in &filled.webhooks {
        told.push(format!("{:?}, {:?}", world.health(*webhook).await, world.notices(*webhook).await));
    }
    for workspace in filled.workspaces {
        told.push(format!("balance {:?}", world.store.balance(workspace).await.unwrap()));
    }
    told.push(format!("what comes now is the newest: {}", is_newest(world, &filled.shop).await));
    told
}

/// Whether a request that comes now leads the list, and a source can be made.
async fn is_newest(world: &mut World, shop: &Origin) -> bool {
    world.source("new").await;
    let id = world.receive(shop).await;
    let filter = RequestFilter::default();
    let newest = world.store.requests(world.workspace, filter, Page::newest(1), world.now).await.unwrap();
    newest.items[0].id == id
}

async fn all_deliveries(world: &World, filled: &Filled) -> Vec<(WorkspaceId, DeliveryId)> {
    let mut found = Vec::new();
    for workspace in filled.workspaces {
        let filter = DeliveryFilter::default();
        let page = world.store.deliveries(workspace, filter, Page::newest(100), world.now).await.unwrap();
        assert_eq!(page.next, None, "more than a page holds");
        found.extend(page.items.iter().map(|it| (workspace, it.id)));
    }
    found
}

/// How deliveries stand, with the number of their attempts.
async fn states(world: &World, deliveries: &[(WorkspaceId, DeliveryId)]) -> Vec<String> {
    let mut told = Vec::new();
    for (workspace, id) in deliveries {
        let delivery = world.store.delivery(*workspace, *id, world.now).await.unwrap().unwrap();
        told.push(format!("{id}: {:?}, {} attempts", delivery.life.state, delivery.attempts.len()));
    }
    told
}
