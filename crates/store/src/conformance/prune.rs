//! Promises of [`Store::prune`](crate::Store::prune), and what retention means before it ran.

use std::time::Duration;

use restante_core::State;
use restante_core::delivery::CancelReason;

use super::{Origin, World, failed, ok};
use crate::row::{DeliveryFilter, RequestFilter};
use crate::{Cancelled, Page, Replayed, Retried, Settled};

const DAY_MS: u64 = 24 * 3_600_000;

async fn one_day(world: &mut World) -> Origin {
    let source = world.source_with("one day", |source| source.retention_days = 1).await;
    world.destination(&source).await;
    source
}

async fn listed(world: &World) -> (usize, usize) {
    let (store, page) = (&world.store, Page::newest(100));
    let requests = store.requests(world.workspace, RequestFilter::default(), page, world.now).await;
    let deliveries = store.deliveries(world.workspace, DeliveryFilter::default(), page, world.now).await;
    (requests.unwrap().items.len(), deliveries.unwrap().items.len())
}

pub async fn a_request_is_there_until_its_very_end(mut world: World) {
    let source = one_day(&mut world).await;
    let id = world.receive(&source).await;
    let expires_at = world.request(id).await.expires_at;
    world.pass(DAY_MS - 1);
    world.prune().await;
    assert_eq!(listed(&world).await, (1, 1));
    world.pass(1);
    assert_eq!(expires_at, world.now);
    for _ in 0..2 {
        assert_eq!(listed(&world).await, (0, 0));
        assert!(world.store.request(world.workspace, id, world.now).await.unwrap().is_none());
        assert!(world.store.request_body(world.workspace, id, world.now).await.unwrap().is_none());
        world.prune().await;
    }
    world.now = expires_at - Duration::from_millis(1);
    assert_eq!(listed(&world).await, (0, 0), "it is gone for good");
}

pub async fn a_late_settle_of_an_expired_request_changes_nothing(mut world: World) {
    let source = one_day(&mut world).await;
    let [in_time, before, after] =
        [world.send(&source).await, world.send(&source).await, world.send(&source).await];
    let expires_at = world.request(before.request()).await.expires_at;
    world.now = expires_at - Duration::from_millis(1001);
    assert!(matches!(world.settle(&in_time, ok()).await, Settled::Done(_)), "in its last millisecond");
    world.now = expires_at - Duration::from_millis(1000);
    assert_eq!(world.settle(&before, ok()).await, Settled::LeaseLost);
    assert_eq!(world.now, expires_at);
    world.prune().await;
    assert_eq!(world.settle(&after, ok()).await, Settled::LeaseLost);
    assert_eq!(world.store.health().await.unwrap().leased, 0);
    assert_eq!(world.claim().await.count, 0);
}

pub async fn an_expired_request_cannot_be_touched(mut world: World) {
    let source = one_day(&mut world).await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, ok()).await;
    world.now = world.request(parcel.request()).await.expires_at;
    let (workspace, now, delivery) = (world.workspace, world.now, parcel.lease.delivery);
    assert_eq!(world.store.retry(workspace, delivery, now).await.unwrap(), Retried::NotFound);
    assert_eq!(world.store.cancel(workspace, delivery, now).await.unwrap(), Cancelled::NotFound);
    assert!(!world.store.erase(workspace, parcel.request(), now).await.unwrap());
    let tail = world.tail();
    assert_eq!(world.store.replay(workspace, parcel.request(), now, tail).await.unwrap(), Replayed::NotFound);
}

pub async fn pruning_takes_the_oldest_and_leaves_the_rest(mut world: World) {
    let source = one_day(&mut world).await;
    let kept_longer = world.source("month").await;
    for _ in 0..5 {
        world.receive(&source).await;
        world.receive(&kept_longer).await;
    }
    world.pass(DAY_MS / 2);
    let young = world.receive(&source).await;
    world.pass(DAY_MS / 2);
    let mut rounds = 0;
    while world.store.prune(world.now, 2).await.unwrap() {
        rounds += 1;
    }
    assert!(rounds >= 2, "two at a time");
    assert_eq!(listed(&world).await, (6, 1));
    world.request(young).await;
}

pub async fn a_changed_retention_counts_for_what_is_there(mut world: World) {
    let (source, _) = world.pair().await;
    let id = world.receive(&source).await;
    world.pass(2 * DAY_MS);
    world.change_source(source.id, |source| source.retention_days = 1).await;
    assert!(world.store.request(world.workspace, id, world.now).await.unwrap().is_none());
    world.change_source(source.id, |source| source.retention_days = 3).await;
    world.request(id).await;
    world.prune().await;
    world.request(id).await;
    world.change_source(source.id, |source| source.retention_days = 2).await;
    world.prune().await;
    world.change_source(source.id, |source| source.retention_days = 30).await;
    assert!(
        world.store.request(world.workspace, id, world.now).await.unwrap().is_none(),
        "it is gone for good"
    );
}

pub async fn what_a_deletion_left_pending_is_swept(mut world: World) {
    let (source, destination) = world.pair().await;
    let (living, _) = world.pair().await;
    let mut pending = Vec::new();
    for source in [&source, &source, &source, &living] {
        let parcel = world.send(source).await;
        world.settle(&parcel, failed()).await;
        pending.push(parcel.lease.delivery);
    }
    let untouched = pending.pop().unwrap();
    world.delete_destination(destination).await;
    world.pass(10);
    while world.store.prune(world.now, 1).await.unwrap() {}
    world.pass(10);
    for delivery in pending {
        let life = world.delivery(delivery).await.life;
        assert_eq!(life.state, State::Cancelled(CancelReason::EndpointDeleted));
        assert!(life.ended_at < Some(world.now), "it ended when it was swept");
    }
    assert_eq!(world.state(untouched).await, State::Pending);
}

pub async fn pruning_gives_leases_back(mut world: World) {
    let source = one_day(&mut world).await;
    let parcel = world.send(&source).await;
    parcel.endpoint.set_leases_max(1);
    world.pass(DAY_MS);
    world.prune().await;
    assert_eq!(world.tray.take_withdrawals().len(), 1);
    assert_eq!(world.store.health().await.unwrap().leased, 0);
    world.send(&source).await;
}
