//! Promises of [`Store::replay_webhook`](crate::Store::replay_webhook): what a replay takes, and how often.

use std::sync::Arc;
use std::time::Duration;

use restante_core::id::{DeliveryId, EventId, WebhookId};
use restante_core::limits::{ATTEMPTS_KEPT, REPLAY_EVENTS_MAX, REPLAYS_PER_DAY_MAX};
use restante_core::{Outcome, State, Timestamp};
use tokio::task::JoinSet;

use super::{World, failed, ok, started};
use crate::record::ReplayState;
use crate::{Parcel, Resent, Window};

const DAY_MS: i64 = 24 * 3_600_000;

/// An event whose attempt starts now and fails at once.
async fn fails_now(world: &mut World) -> DeliveryId {
    let parcel = world.emit().await;
    settle_now(world, &parcel, failed()).await;
    parcel.lease.delivery
}

/// Settles an attempt that starts and ends now.
async fn settle_now(world: &World, parcel: &Parcel, outcome: Outcome) {
    let mut finished = world.finished(parcel, outcome);
    finished.attempt.started_at = world.now;
    world.store.settle(vec![finished]).await.unwrap();
}

async fn count(world: &World, webhook: WebhookId, window: Window) -> u64 {
    world.store.count_replay(world.workspace, webhook, window, world.now).await.unwrap().unwrap()
}

/// Asks for a replay, and sees that it takes what was counted.
async fn replay(world: &mut World, webhook: WebhookId, since: Timestamp, until: Timestamp) -> u64 {
    let window = Window { since, until };
    let counted = count(world, webhook, window).await;
    let tail = world.tail();
    let resent = world.store.replay_webhook(world.workspace, webhook, window, world.now, tail).await.unwrap();
    assert_eq!(started(resent).1, counted);
    counted
}

/// Begins all that is left to replay, and says of which deliveries, in their order.
async fn begun(world: &mut World) -> Vec<DeliveryId> {
    world.run(failed()).await.iter().map(|it| it.lease.delivery).collect()
}

pub async fn the_window_is_on_the_start_of_attempts_and_inclusive(mut world: World) {
    let webhook = world.one_try_webhook().await;
    let mut deliveries = Vec::new();
    let first = world.now;
    for _ in 0..4 {
        let parcel = world.emit().await;
        deliveries.push(parcel.lease.delivery);
        // It started with the millisecond and ended much later.
        let mut finished = world.finished(&parcel, failed());
        finished.attempt.started_at = world.now;
        finished.attempt.ended_at = world.now + Duration::from_secs(10);
        world.store.settle(vec![finished]).await.unwrap();
        world.pass(1);
    }
    world.pass(20_000);
    let at = |index: u64| first + Duration::from_millis(index);
    let table = [(0, 3, 0..4), (1, 2, 1..3), (2, 2, 2..3), (3, 9, 3..4), (4, 9, 0..0), (2, 1, 0..0)];
    for (since, until, expected) in table {
        let taken = replay(&mut world, webhook, at(since), at(until)).await;
        assert_eq!(taken as usize, expected.len(), "{since} to {until}");
        assert_eq!(begun(&mut world).await, deliveries[expected], "{since} to {until}");
    }
}

pub async fn what_was_acknowledged_is_left_out(mut world: World) {
    let webhook = world.webhook().await;
    let acknowledged = world.emit_and_settle(failed()).await;
    world.pass(5000);
    world.claim_and_settle(ok()).await;
    let fails = world.emit_and_settle(failed()).await;
    assert_eq!(world.state(acknowledged.lease.delivery).await, State::Delivered);
    assert_eq!(started(world.replay_all(webhook).await).1, 1);
    assert_eq!(begun(&mut world).await, [fails.lease.delivery]);
}

pub async fn what_is_acknowledged_before_its_turn_is_skipped(mut world: World) {
    let webhook = world.webhook().await;
    let first = world.emit_and_settle(failed()).await;
    let second = world.emit_and_settle(failed()).await;
    world.pass(5000);
    // Leased before anybody asked for a replay, and delivered after.
    assert_eq!(world.claim_all().await.len(), 2);
    let (id, events) = started(world.replay_all(webhook).await);
    assert_eq!(events, 2);
    assert!(world.claim_all().await.is_empty(), "while another attempt is in flight it waits");
    for (parcel, outcome) in [(&first, ok()), (&second, failed())] {
        let mut again = parcel.clone();
        again.lease.attempt = 2;
        world.settle(&again, outcome).await;
    }
    assert!(world.woken(), "what waited may begin");
    assert_eq!(begun(&mut world).await, [second.lease.delivery]);
    let job = world.job(id).await;
    assert_eq!((job.total, job.delivered, job.failed, job.skipped), (2, 0, 1, 1));
    assert_eq!(job.state, ReplayState::Done);
}

pub async fn what_never_failed_is_not_covered(mut world: World) {
    let webhook = world.webhook().await;
    world.emit_unattempted().await;
    world.emit_and_settle(Outcome::Lost).await;
    world.emit().await;
    world.pause(webhook).await;
    world.publish("order.paid").await;
    world.activate(webhook).await;
    assert_eq!(started(world.replay_all(webhook).await).1, 0);
    let other = world.one_try_webhook().await;
    world.change_webhook(webhook, |it| it.events = super::filters(&["invoice.*"])).await;
    world.emit_and_settle(failed()).await;
    assert_eq!(started(world.replay_all(webhook).await).1, 0, "that failed at another webhook");
    assert_eq!(started(world.replay_all(other).await).1, 1);
}

pub async fn the_oldest_by_their_first_failure_in_the_window_come_first(mut world: World) {
    let webhook = world.webhook().await;
    let early = world.now;
    let [first, second] = [fails_now(&mut world).await, fails_now(&mut world).await];
    world.pass(5000);
    let (late, mut again) = (world.now, world.claim_all().await);
    again.reverse();
    for parcel in again {
        settle_now(&world, &parcel, failed()).await;
        world.pass(1);
    }
    let third = fails_now(&mut world).await;
    world.pass(1);
    let until = world.now;
    replay(&mut world, webhook, early, until).await;
    assert_eq!(begun(&mut world).await, [first, second, third]);
    replay(&mut world, webhook, late, until).await;
    assert_eq!(begun(&mut world).await, [second, first, third], "each once, by its first in the window");
}

pub async fn nothing_older_than_attempts_are_kept_is_reached(mut world: World) {
    let webhook = world.one_try_webhook().await;
    fails_now(&mut world).await;
    world.pass(1);
    fails_now(&mut world).await;
    world.now = world.now + ATTEMPTS_KEPT - Duration::from_millis(1);
    for _ in 0..2 {
        assert_eq!(count(&world, webhook, world.always()).await, 1);
        world.prune().await;
    }
    world.pass(1);
    assert_eq!(started(world.replay_all(webhook).await).1, 0);
}

/// More failed events than one replay takes, oldest first, each a millisecond after the one before.
async fn fail_too_many(world: &mut World) -> Vec<EventId> {
    let first = world.emit().await;
    first.endpoint.set_leases_max(1000);
    settle_now(world, &first, failed()).await;
    let mut events = vec![first.event()];
    for _ in 0..20 {
        world.pass(1);
        let publishing = world.publishing(&["order.paid"; 500]);
        let receipts = world.publish_this(publishing).await;
        events.extend(receipts.iter().map(|it| it.id));
        let mut parcels = world.tray.take();
        while parcels.len() < receipts.len() {
            world.claim().await;
            parcels.extend(world.tray.take());
        }
        let finished = parcels.iter().map(|parcel| {
            let mut finished = world.finished(parcel, failed());
            finished.attempt.started_at = world.now;
            finished
        });
        world.store.settle(finished.collect()).await.unwrap();
    }
    events
}

pub async fn one_replay_takes_the_oldest_ten_thousand(mut world: World) {
    let webhook = world.one_try_webhook().await;
    let events = fail_too_many(&mut world).await;
    assert_eq!(events.len(), REPLAY_EVENTS_MAX + 1);
    let (id, taken) = started(world.replay_all(webhook).await);
    assert_eq!((taken, count(&world, webhook, world.always()).await), (10_000, 10_000));
    let mut sent: Vec<_> = world.run(failed()).await.iter().map(|it| it.event()).collect();
    assert_eq!(sent.len(), 10_000);
    sent.sort_unstable();
    assert_eq!(sent, events[..10_000], "all but the newest, each once");
    let job = world.job(id).await;
    assert_eq!((job.failed, job.state), (10_000, ReplayState::Done));

    // The acknowledged are left out before it is counted.
    let oldest = world.event(events[0]).await.deliveries[0].id;
    started(world.replay_one(webhook, oldest).await);
    world.run(ok()).await;
    started(world.replay_all(webhook).await);
    let mut sent: Vec<_> = world.run(ok()).await.iter().map(|it| it.event()).collect();
    sent.sort_unstable();
    assert_eq!(sent, events[1..], "the newest in the place of the oldest");
    assert_eq!(count(&world, webhook, world.always()).await, 0);
}

pub async fn a_workspace_has_twenty_replays_a_day(mut world: World) {
    let webhook = world.webhook().await;
    let other = world.webhook().await;
    let midnight = Timestamp::from_millis((world.now.millis() / DAY_MS + 1) * DAY_MS);
    for _ in 0..REPLAYS_PER_DAY_MAX / 2 {
        started(world.replay_all(webhook).await);
        // Neither what is not found nor what is only counted uses one.
        assert_eq!(world.replay_all(WebhookId::from_uuid(7)).await, Resent::NotFound);
        count(&world, webhook, world.always()).await;
        started(world.replay_all(other).await);
    }
    assert_eq!(world.replay_all(webhook).await, Resent::QuotaExceeded);
    let mut world = world.crash().await;
    world.now = midnight - Duration::from_millis(1);
    assert_eq!(world.replay_all(other).await, Resent::QuotaExceeded);
    let (workspace, second) = (world.workspace, world.new_workspace("second").await);
    world.workspace = second;
    let theirs = world.webhook().await;
    started(world.replay_all(theirs).await);
    world.workspace = workspace;
    world.pass(1);
    for _ in 0..REPLAYS_PER_DAY_MAX {
        started(world.replay_all(webhook).await);
    }
    assert_eq!(world.replay_all(webhook).await, Resent::QuotaExceeded);
}

pub async fn of_calls_at_the_same_time_twenty_are_taken(mut world: World) {
    let webhook = world.webhook().await;
    let mut calls = JoinSet::new();
    for _ in 0..REPLAYS_PER_DAY_MAX + 15 {
        let (store, tail, window) = (Arc::clone(&world.store), world.tail(), world.always());
        let (workspace, now) = (world.workspace, world.now);
        let call = async move { store.replay_webhook(workspace, webhook, window, now, tail).await.unwrap() };
        calls.spawn(call);
    }
    let answers = calls.join_all().await;
    let refused = answers.iter().filter(|it| **it == Resent::QuotaExceeded).count();
    assert_eq!((refused, answers.len()), (15, 35));
}

pub async fn a_paused_webhook_takes_the_call_and_nothing_more(mut world: World) {
    let webhook = world.one_try_webhook().await;
    fails_now(&mut world).await;
    world.pause(webhook).await;
    assert_eq!(count(&world, webhook, world.always()).await, 0);
    for _ in 0..REPLAYS_PER_DAY_MAX {
        let (id, events) = started(world.replay_all(webhook).await);
        assert_eq!((events, world.job(id).await.state), (0, ReplayState::Ended));
    }
    world.activate(webhook).await;
    assert!(world.claim_all().await.is_empty());
    assert_eq!(world.replay_all(webhook).await, Resent::QuotaExceeded, "each of them counted");
    assert_eq!(count(&world, webhook, world.always()).await, 1);
}

pub async fn a_webhook_of_another_workspace_is_not_found(mut world: World) {
    let webhook = world.one_try_webhook().await;
    let parcel = world.emit_and_settle(failed()).await;
    let (workspace, window) = (world.workspace, world.always());
    world.workspace = world.new_workspace("second").await;
    assert_eq!(world.replay_all(webhook).await, Resent::NotFound);
    assert_eq!(world.replay_one(webhook, parcel.lease.delivery).await, Resent::NotFound);
    let count = world.store.count_replay(world.workspace, webhook, window, world.now).await.unwrap();
    assert_eq!(count, None);
    world.workspace = workspace;
    world.delete_webhook(webhook).await;
    assert_eq!(world.replay_all(webhook).await, Resent::NotFound);
}

pub async fn an_acknowledged_event_that_is_sent_again_stays_acknowledged(mut world: World) {
    let webhook = world.webhook().await;
    let parcel = world.emit_and_settle(failed()).await;
    world.pass(5000);
    world.claim_and_settle(ok()).await;
    started(world.replay_one(webhook, parcel.lease.delivery).await);
    assert_eq!(world.claim_all().await.len(), 1);
    assert_eq!(count(&world, webhook, world.always()).await, 0, "while it is in flight");
    assert_eq!(started(world.replay_all(webhook).await).1, 0);
}
