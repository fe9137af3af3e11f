//! Promises of [`Store::prune`](crate::Store::prune) for events, their attempts, and what retention means before it
//! ran.

use std::time::Duration;

use restante_core::delivery::FailReason;
use restante_core::id::EventId;
use restante_core::limits::ATTEMPTS_KEPT;
use restante_core::{Outcome, State};

use super::{World, failed, ok, started};
use crate::row::{DeliveryFilter, EventFilter};
use crate::{Cancelled, Page, Policy, Recovery, Resent, Retried, Settled, Window};

const DAY_MS: u64 = 24 * 3_600_000;

/// A world whose events are kept for so many days.
async fn kept(world: World, days: u64) -> World {
    let event_retention = Duration::from_millis(days * DAY_MS);
    world.restart(Policy { event_retention, ..Policy::default() }).await
}

async fn listed(world: &World) -> (usize, usize) {
    let (store, page) = (&world.store, Page { total: true, ..Page::newest(100) });
    let events = store.events(world.workspace, EventFilter::default(), page, world.now).await.unwrap();
    let deliveries = store.deliveries(world.workspace, DeliveryFilter::default(), page, world.now).await;
    let deliveries = deliveries.unwrap();
    let totals = (events.total.unwrap() as usize, deliveries.total.unwrap() as usize);
    assert_eq!((events.items.len(), deliveries.items.len()), totals);
    totals
}

async fn is_there(world: &World, event: EventId) -> bool {
    world.store.event(world.workspace, event, world.now).await.unwrap().is_some()
}

pub async fn an_event_is_kept_from_the_end_of_its_last_delivery(mut world: World) {
    world.one_try_webhook().await;
    world.one_try_webhook().await;
    let event = world.publish("order.paid").await.id;
    let parcels = world.tray.take();
    world.settle(&parcels[0], ok()).await;
    world.pass(20 * DAY_MS);
    world.settle(&parcels[1], failed()).await;
    let ended = world.now;
    world.now = ended + Duration::from_millis(30 * DAY_MS - 1);
    world.prune().await;
    assert_eq!((listed(&world).await, is_there(&world, event).await), ((1, 2), true));
    world.pass(1);
    let delivery = parcels[0].lease.delivery;
    for _ in 0..2 {
        assert_eq!((listed(&world).await, is_there(&world, event).await), ((0, 0), false));
        assert!(world.find(delivery).await.is_none());
        let of_event = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
        let page = Page::newest(9);
        let found = world.store.deliveries(world.workspace, of_event, page, world.now).await.unwrap();
        assert!(found.items.is_empty());
        world.pass(DAY_MS);
        world.prune().await;
    }
    world.now = ended;
    assert_eq!((listed(&world).await, is_there(&world, event).await), ((0, 0), false), "it is gone for good");
}

pub async fn an_event_without_deliveries_is_kept_from_its_acceptance(world: World) {
    let mut world = kept(world, 2).await;
    let alone = world.publish("order.paid").await.id;
    world.webhook_with(|it| it.paused = true).await;
    let skipped = world.publish("order.paid").await.id;
    world.pass(2 * DAY_MS - 1);
    world.prune().await;
    assert!(is_there(&world, alone).await && is_there(&world, skipped).await);
    world.pass(1);
    for _ in 0..2 {
        assert!(!is_there(&world, alone).await && !is_there(&world, skipped).await);
        assert_eq!(listed(&world).await, (0, 0));
        world.pass(DAY_MS);
        world.prune().await;
    }
}

pub async fn an_event_is_there_as_long_as_it_is_being_delivered(world: World) {
    let mut world = kept(world, 1).await;
    world.webhook().await;
    let pending = world.emit_and_settle(failed()).await;
    let sending = world.emit().await;
    for _ in 0..5 {
        world.pass(DAY_MS);
        world.prune().await;
        assert_eq!(listed(&world).await, (2, 2));
    }
    assert!(matches!(world.settle(&sending, ok()).await, Settled::Done(_)));
    world.claim_and_settle(ok()).await;
    assert_eq!(world.state(pending.lease.delivery).await, State::Delivered);
    world.pass(DAY_MS);
    assert_eq!(listed(&world).await, (0, 0));
    world.prune().await;
    assert_eq!(listed(&world).await, (0, 0));
}

pub async fn a_replay_of_an_old_event_keeps_it(world: World) {
    let mut world = kept(world, 2).await;
    let webhook = world.webhook().await;
    let parcel = world.emit_and_settle(ok()).await;
    world.pass(2 * DAY_MS - 1);
    started(world.replay_one(webhook, parcel.lease.delivery).await);
    let again = world.claim_all().await.remove(0);
    world.pass(DAY_MS);
    world.prune().await;
    assert!(is_there(&world, parcel.event()).await);
    world.settle(&again, failed()).await;
    world.pass(2 * DAY_MS - 1);
    world.prune().await;
    assert!(is_there(&world, parcel.event()).await);
    world.pass(1);
    assert!(!is_there(&world, parcel.event()).await);
}

pub async fn an_expired_event_cannot_be_touched(world: World) {
    let mut world = kept(world, 1).await;
    let webhook = world.one_try_webhook().await;
    let parcel = world.emit_and_settle(failed()).await;
    let delivery = parcel.lease.delivery;
    world.pass(DAY_MS);
    assert_eq!(world.replay_one(webhook, delivery).await, Resent::NotFound);
    let (workspace, now) = (world.workspace, world.now);
    assert_eq!(world.store.cancel(workspace, delivery, now).await.unwrap(), Cancelled::NotFound);
    assert_eq!(world.store.retry(workspace, delivery, now).await.unwrap(), Retried::NotFound);
    assert!(world.claim_all().await.is_empty());
}

pub async fn an_expired_event_is_not_sent_again(world: World) {
    let mut world = kept(world, 1).await;
    let webhook = world.one_try_webhook().await;
    world.emit_and_settle(failed()).await;
    world.pause(webhook).await;
    world.publish("order.paid").await;
    world.activate(webhook).await;
    let since_start = Window { since: world.now.before(2 * ATTEMPTS_KEPT), until: world.now };
    world.pass(DAY_MS);
    // Nothing was erased yet: what is past its time is as good as gone.
    let (store, workspace, now) = (world.store.clone(), world.workspace, world.now);
    assert_eq!(store.count_replay(workspace, webhook, since_start, now).await.unwrap(), Some(0));
    assert_eq!(started(world.replay_all(webhook).await).1, 0);
    for recovery in [Recovery::Accepted(since_start), Recovery::SincePause { until: None }] {
        let tail = world.tail();
        assert_eq!(started(store.recover(workspace, webhook, recovery, now, tail).await.unwrap()).1, 0);
    }
    assert!(world.claim_all().await.is_empty());
    assert_eq!(listed(&world).await, (0, 0));
}

pub async fn what_expires_before_its_turn_is_skipped_by_a_replay(world: World) {
    replay_two_of_which_one_expires(world, false).await;
}

pub async fn what_is_erased_before_its_turn_is_skipped_by_a_replay(world: World) {
    replay_two_of_which_one_expires(world, true).await;
}

/// `erased`: what has expired is erased before its turn comes.
async fn replay_two_of_which_one_expires(world: World, erased: bool) {
    let mut world = kept(world, 1).await;
    let webhook = world.one_try_webhook().await;
    world.emit_and_settle(failed()).await;
    world.pass(DAY_MS / 2);
    let young = world.emit_and_settle(failed()).await;
    let (id, events) = started(world.replay_all(webhook).await);
    assert_eq!(events, 2);
    world.store.attach(None).await.unwrap();
    world.pass(DAY_MS / 2);
    if erased {
        world.prune().await;
    }
    world.attach().await;
    let sent = world.run(ok()).await;
    assert_eq!((sent.len(), sent[0].lease.delivery), (1, young.lease.delivery));
    let job = world.job(id).await;
    assert_eq!((job.delivered, job.skipped), (1, 1));
}

pub async fn pruning_takes_a_few_at_a_time_and_leaves_the_rest(world: World) {
    let mut world = kept(world, 1).await;
    world.webhook().await;
    let mut young = Vec::new();
    for round in 0..6 {
        // Every other one ends much later than it came.
        let parcel = world.emit().await;
        if round % 2 == 0 {
            world.settle(&parcel, ok()).await;
        } else {
            young.push(parcel);
        }
    }
    let second = world.new_workspace("second").await;
    let first = std::mem::replace(&mut world.workspace, second);
    world.publish("order.paid").await;
    world.workspace = first;
    world.pass(DAY_MS / 2);
    for parcel in &young {
        world.settle(parcel, ok()).await;
    }
    world.pass(DAY_MS / 2);
    let mut rounds = 0;
    while world.store.prune(world.now, 2).await.unwrap() {
        rounds += 1;
    }
    assert!(rounds >= 2, "two at a time");
    assert_eq!(listed(&world).await, (3, 3));
    for parcel in &young {
        assert!(is_there(&world, parcel.event()).await);
    }
    world.workspace = second;
    world.now = world.now - Duration::from_millis(DAY_MS);
    assert_eq!(listed(&world).await, (0, 0), "it was erased there too");
}

pub async fn a_changed_policy_counts_for_what_is_there(mut world: World) {
    world.webhook().await;
    let event = world.emit_and_settle(ok()).await.event();
    world.pass(2 * DAY_MS);
    let world = kept(world, 1).await;
    assert!(!is_there(&world, event).await);
    let world = kept(world, 3).await;
    world.prune().await;
    assert!(is_there(&world, event).await);
    let world = kept(world, 2).await;
    world.prune().await;
    let world = kept(world, 30).await;
    assert!(!is_there(&world, event).await, "it is gone for good");
}

pub async fn attempts_go_after_three_days_and_deliveries_stay(mut world: World) {
    let webhook = world.webhook().await;
    let at_once = world.emit_and_settle(ok()).await.lease.delivery;
    let pending = world.emit_and_settle(failed()).await.lease.delivery;
    let lost = world.emit_and_settle(Outcome::Lost).await.lease.delivery;
    let before = [world.delivery(at_once).await, world.delivery(pending).await, world.delivery(lost).await];
    world.now = world.now + ATTEMPTS_KEPT;
    for _ in 0..2 {
        for known in &before {
            let shown = world.delivery(known.id).await;
            assert_eq!(known.attempts.len(), 1);
            assert_eq!((&shown.life, shown.attempts.len()), (&known.life, 0));
        }
        while world.store.prune(world.now, 1).await.unwrap() {}
    }
    // What comes next has the next number all the same.
    for parcel in world.claim_all().await {
        assert_eq!(parcel.lease.attempt, 2);
        world.settle(&parcel, ok()).await;
        let numbers: Vec<_> =
            world.delivery(parcel.lease.delivery).await.attempts.iter().map(|it| it.number).collect();
        assert_eq!(numbers, [2]);
    }
    started(world.replay_one(webhook, at_once).await);
    world.run(ok()).await;
    let numbers: Vec<_> = world.delivery(at_once).await.attempts.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [2], "the first is too old to be shown");
}

pub async fn attempts_to_destinations_are_kept_as_long_as_their_requests(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    world.now = world.now + ATTEMPTS_KEPT + ATTEMPTS_KEPT;
    world.prune().await;
    assert_eq!(world.delivery(parcel.lease.delivery).await.attempts.len(), 1);
}

pub async fn what_a_pause_left_pending_is_swept(mut world: World) {
    let webhook = world.webhook().await;
    let mut pending = Vec::new();
    for _ in 0..5 {
        pending.push(world.emit_and_settle(failed()).await.lease.delivery);
    }
    world.pause(webhook).await;
    let paused_at = Some(world.now);
    let mut rounds = 0;
    while world.store.prune(world.now, 2).await.unwrap() {
        rounds += 1;
        world.pass(10);
    }
    assert!(rounds >= 2, "two at a time");
    for delivery in pending {
        let life = world.delivery(delivery).await.life;
        assert_eq!((life.state, life.ended_at), (State::Failed(FailReason::EndpointPaused), paused_at));
    }
}

pub async fn events_of_a_deleted_webhook_are_pruned_too(world: World) {
    let mut world = kept(world, 1).await;
    let webhook = world.webhook().await;
    let parcel = world.emit_and_settle(failed()).await;
    world.delete_webhook(webhook).await;
    world.prune().await;
    world.pass(DAY_MS - 1);
    assert!(is_there(&world, parcel.event()).await);
    world.pass(1);
    assert!(!is_there(&world, parcel.event()).await);
    world.prune().await;
    world.now = world.now - Duration::from_millis(DAY_MS);
    assert!(!is_there(&world, parcel.event()).await);
}
