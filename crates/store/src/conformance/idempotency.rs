//! Promises of [`Store::publish`](crate::Store::publish) about the keys of its callers.

use std::sync::Arc;
use std::time::Duration;

use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use tokio::task::JoinSet;

use super::{World, failed, ok};
use crate::row::EventFilter;
use crate::{EventReceipt, KeyClaim, Page, Policy, Published, Publishing};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A call with a key, whose fingerprint is made of `what`.
fn keyed(world: &mut World, key: &str, what: &str, types: &[&str]) -> Publishing {
    let key = IdempotencyKey::parse(key.as_bytes()).unwrap();
    let fingerprint = Fingerprint::builder("events.publish").field("what", Some(what)).finish();
    Publishing { claim: Some(KeyClaim { key, fingerprint }), ..world.publishing(types) }
}

async fn call(world: &mut World, key: &str, what: &str) -> Published {
    let publishing = keyed(world, key, what, &["order.paid"]);
    world.store.publish(publishing).await.unwrap()
}

fn fresh(published: Published) -> Vec<EventReceipt> {
    match published {
        Published::Fresh { events, .. } => events,
        other @ (Published::Replayed(_) | Published::KeyReused | Published::NoWorkspace) => {
            panic!("{other:?}")
        }
    }
}

async fn stored(world: &World) -> u64 {
    let page = Page { total: true, ..Page::newest(1) };
    let events = world.store.events(world.workspace, EventFilter::default(), page, world.now).await.unwrap();
    events.total.unwrap()
}

pub async fn the_same_call_again_gives_the_same_events(mut world: World) {
    world.webhook().await;
    let first = fresh(call(&mut world, "a", "this").await);
    let parcel = world.parcel();
    assert_eq!(first[0].deliveries, 1);
    world.pass(1);
    assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(first.clone()));
    world.settle(&parcel, ok()).await;
    // What the webhooks are by now does not matter.
    world.webhook().await;
    assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(first.clone()));
    let mut world = world.crash().await;
    assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(first));
    assert!(world.tray.take().is_empty());
    assert_eq!(stored(&world).await, 1);
}

pub async fn another_call_with_the_key_stores_nothing(mut world: World) {
    world.webhook().await;
    let first = fresh(call(&mut world, "a", "this").await);
    world.tray.take();
    assert_eq!(call(&mut world, "a", "that").await, Published::KeyReused);
    assert!(world.tray.take().is_empty());
    assert_eq!(stored(&world).await, 1);
    assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(first));
    let other = fresh(call(&mut world, "A", "that").await);
    assert_eq!((other.len(), stored(&world).await), (1, 2), "keys differ by case");
}

pub async fn a_call_without_a_key_is_never_a_repeat(mut world: World) {
    for expected in 1..=2 {
        world.publish("order.paid").await;
        assert_eq!(stored(&world).await, expected);
    }
}

pub async fn one_key_covers_a_batch(mut world: World) {
    world.webhook_for(&["order.*"]).await;
    let types = ["order.paid", "invoice.sent", "order.paid"];
    let publishing = keyed(&mut world, "a", "this", &types);
    let first = fresh(world.store.publish(publishing).await.unwrap());
    assert_eq!(first.iter().map(|it| it.deliveries).collect::<Vec<_>>(), [1, 0, 1]);
    let publishing = keyed(&mut world, "a", "this", &types);
    assert_eq!(world.store.publish(publishing).await.unwrap(), Published::Replayed(first));
    assert_eq!(stored(&world).await, 3);
}

pub async fn a_key_belongs_to_its_workspace(mut world: World) {
    let ours = fresh(call(&mut world, "a", "this").await);
    let (workspace, other) = (world.workspace, world.new_workspace("second").await);
    world.workspace = other;
    let theirs = fresh(call(&mut world, "a", "that").await);
    assert_ne!(ours[0].id, theirs[0].id);
    assert_eq!(call(&mut world, "a", "that").await, Published::Replayed(theirs));
    world.workspace = workspace;
    assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(ours));
}

pub async fn of_calls_at_the_same_time_one_is_fresh(mut world: World) {
    world.webhook().await;
    let mut calls = JoinSet::new();
    for _ in 0..30 {
        let publishing = keyed(&mut world, "a", "this", &["order.paid"]);
        let store = Arc::clone(&world.store);
        calls.spawn(async move { store.publish(publishing).await.unwrap() });
    }
    let (mut made, mut repeated) = (Vec::new(), Vec::new());
    for answer in calls.join_all().await {
        match answer {
            Published::Fresh { events, .. } => made.push(events),
            Published::Replayed(events) => repeated.push(events),
            other @ (Published::KeyReused | Published::NoWorkspace) => panic!("{other:?}"),
        }
    }
    assert_eq!((made.len(), repeated.len(), stored(&world).await), (1, 29, 1));
    assert!(repeated.iter().all(|events| *events == made[0]));
    assert_eq!(world.parcel().event(), made[0][0].id);
}

pub async fn of_different_calls_at_the_same_time_one_is_refused(mut world: World) {
    let (this, that) =
        (keyed(&mut world, "a", "this", &["order.paid"]), keyed(&mut world, "a", "that", &["order.late"]));
    let (this, that) = tokio::join!(world.store.publish(this), world.store.publish(that));
    let (this, that) = (this.unwrap(), that.unwrap());
    let refused = [&this, &that].iter().filter(|it| ***it == Published::KeyReused).count();
    let made = [&this, &that].iter().filter(|it| matches!(it, Published::Fresh { .. })).count();
    assert_eq!((made, refused, stored(&world).await), (1, 1, 1));
}

pub async fn a_key_is_held_for_a_day_at_least(world: World) {
    let policy = Policy { event_retention: Duration::from_millis(HOUR_MS), ..Policy::default() };
    let mut world = world.restart(policy).await;
    let first = fresh(call(&mut world, "a", "this").await);
    world.pass(HOUR_MS);
    world.prune().await;
    assert_eq!(stored(&world).await, 0, "the event is gone");
    assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(first.clone()));
    world.pass(23 * HOUR_MS - 1);
    world.prune().await;
    assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(first.clone()));
    assert_eq!(call(&mut world, "a", "that").await, Published::KeyReused);
    world.pass(1);
    world.prune().await;
    assert_ne!(fresh(call(&mut world, "a", "that").await)[0].id, first[0].id);
}

pub async fn a_key_is_held_as_long_as_its_event(world: World) {
    let policy = Policy { event_retention: Duration::from_millis(2 * DAY_MS), ..Policy::default() };
    let mut world = world.restart(policy).await;
    world.one_try_webhook().await;
    let first = fresh(call(&mut world, "a", "this").await);
    let parcel = world.parcel();
    for _ in 0..10 {
        // It is on its way for ever so long.
        world.pass(DAY_MS);
        world.prune().await;
        assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(first.clone()));
    }
    world.settle(&parcel, failed()).await;
    for _ in 0..2 {
        assert_eq!(call(&mut world, "a", "this").await, Published::Replayed(first.clone()));
        world.pass(DAY_MS);
        world.prune().await;
    }
    assert_eq!(stored(&world).await, 0);
    world.pass(DAY_MS);
    world.prune().await;
    fresh(call(&mut world, "a", "that").await);
}
