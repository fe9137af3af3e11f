//! Promises of [`Store::recover`](crate::Store::recover).

use std::time::Duration;

use restante_core::delivery::FailReason;
use restante_core::id::{EventId, ReplayId, WebhookId};
use restante_core::{State, Timestamp};

use super::{World, failed, ok, started};
use crate::record::{ReplayKind, ReplayState};
use crate::row::Trigger;
use crate::{Parcel, Recovery, Resent, Window};

async fn recover(world: &mut World, webhook: WebhookId, recovery: impl Into<Recovery>) -> Resent {
    let tail = world.tail();
    world.store.recover(world.workspace, webhook, recovery.into(), world.now, tail).await.unwrap()
}

/// Recovers what was skipped since the last pause.
async fn recover_all(world: &mut World, webhook: WebhookId) -> (ReplayId, u64) {
    started(recover(world, webhook, None).await)
}

fn events(parcels: &[Parcel]) -> Vec<EventId> {
    parcels.iter().map(Parcel::event).collect()
}

async fn publish(world: &mut World) -> EventId {
    world.publish("order.paid").await.id
}

async fn state(world: &World, event: EventId) -> State {
    world.event(event).await.deliveries[0].life.state
}

pub async fn what_was_skipped_since_the_last_pause_is_delivered(mut world: World) {
    let webhook = world.webhook().await;
    world.pause(webhook).await;
    let before = publish(&mut world).await;
    world.pass(10);
    world.activate(webhook).await;
    world.pass(10);
    let pending = world.emit_unattempted().await;
    let tried = world.emit_and_settle(failed()).await;
    world.pass(10);
    world.pause(webhook).await;
    let during = [publish(&mut world).await, publish(&mut world).await];
    world.activate(webhook).await;
    let (id, count) = recover_all(&mut world, webhook).await;
    assert_eq!(count, 3);
    assert!(world.woken(), "it begins by itself");
    let sent = world.run(ok()).await;
    assert_eq!(events(&sent), [pending, during[0], during[1]]);
    let job = world.job(id).await;
    assert_eq!((job.kind, job.state), (ReplayKind::Recover, ReplayState::Done));
    assert_eq!((job.total, job.delivered, job.failed, job.skipped), (3, 3, 0, 0));
    assert_eq!(state(&world, before).await, State::Skipped, "an earlier pause skipped it");
    let ended = State::Failed(FailReason::EndpointPaused);
    assert_eq!(world.state(tried.lease.delivery).await, ended, "it was not skipped: it failed");
    assert_eq!(recover_all(&mut world, webhook).await.1, 0, "nothing is left");
    assert!(world.claim_all().await.is_empty());
}

pub async fn the_window_is_on_acceptance_and_inclusive(mut world: World) {
    let webhook = world.webhook_with(|it| it.paused = true).await;
    let first = world.now;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(publish(&mut world).await);
        world.pass(1);
    }
    world.activate(webhook).await;
    world.pass(100);
    // Accepted in time, whenever it was skipped.
    let at = |index: u64| first + Duration::from_millis(index);
    for (since, until, expected) in [(9, 20, 0..0), (1, 2, 1..3), (1, 3, 3..4), (4, 4, 4..5), (0, 99, 0..1)] {
        let window = Some(Window { since: at(since), until: at(until) });
        let (id, count) = started(recover(&mut world, webhook, window).await);
        assert_eq!(count as usize, expected.len(), "{since} to {until}");
        assert_eq!(events(&world.run(ok()).await), ids[expected], "{since} to {until}");
        assert_eq!(world.job(id).await.delivered, count);
    }
}

pub async fn the_window_is_exact_also_when_the_clock_went_back(mut world: World) {
    let webhook = world.webhook_with(|it| it.paused = true).await;
    let early = publish(&mut world).await;
    let at = world.now;
    world.now = world.now - Duration::from_secs(3600);
    let late = publish(&mut world).await;
    let back_at = world.now;
    world.activate(webhook).await;
    for (moment, expected) in [(back_at, late), (at, early)] {
        let window = Some(Window { since: moment, until: moment });
        assert_eq!(started(recover(&mut world, webhook, window).await).1, 1);
        assert_eq!(events(&world.run(ok()).await), [expected]);
    }
}

pub async fn a_window_takes_what_a_pause_skipped_by_when_it_was_accepted(mut world: World) {
    let webhook = world.webhook().await;
    let early = world.now;
    let pending = world.emit_unattempted().await;
    world.pass(1000);
    world.pause(webhook).await;
    world.pass(1);
    let during = publish(&mut world).await;
    world.activate(webhook).await;
    let window = |since: Timestamp| Some(Window { since, until: since });
    let late = world.now;
    assert_eq!(started(recover(&mut world, webhook, window(early)).await).1, 1);
    assert_eq!(events(&world.run(ok()).await), [pending]);
    assert_eq!(started(recover(&mut world, webhook, window(late)).await).1, 1);
    assert_eq!(events(&world.run(ok()).await), [during]);
}

pub async fn an_end_alone_takes_what_the_last_pause_skipped_up_to_then(mut world: World) {
    let webhook = world.webhook().await;
    world.pause(webhook).await;
    let before = publish(&mut world).await;
    world.activate(webhook).await;
    world.pass(10);
    let early = world.now;
    let pending = world.emit_unattempted().await;
    world.pass(10);
    world.pause(webhook).await;
    let paused_at = world.now;
    let first = publish(&mut world).await;
    world.pass(1);
    let second = publish(&mut world).await;
    world.activate(webhook).await;
    for (until, expected) in [(early, pending), (paused_at, first), (world.now, second)] {
        let recovery = Recovery::SincePause { until: Some(until) };
        let (id, count) = started(recover(&mut world, webhook, recovery).await);
        assert_eq!((count, events(&world.run(ok()).await)), (1, vec![expected]));
        let job = world.job(id).await;
        assert_eq!((job.since, job.until, job.state), (paused_at, until, ReplayState::Done));
    }
    assert_eq!(state(&world, before).await, State::Skipped, "an earlier pause skipped it");
}

pub async fn what_is_recovered_runs_its_schedule(mut world: World) {
    let webhook = world.webhook().await;
    world.pause(webhook).await;
    let event = publish(&mut world).await;
    world.pass(1_000_000);
    world.activate(webhook).await;
    let (id, _) = recover_all(&mut world, webhook).await;
    let parcels = world.claim_all().await;
    assert_eq!((parcels.len(), parcels[0].lease.attempt), (1, 1));
    assert_eq!(world.job(id).await.state, ReplayState::Done, "all are on their schedules");
    world.settle(&parcels[0], failed()).await;
    let life = world.event(event).await.deliveries[0].life.clone();
    assert_eq!((life.state, life.attempts_used), (State::Pending, 1));
    assert_eq!(life.due_at, world.now + Duration::from_secs(5));
    let run = world.health(webhook).await.run.unwrap();
    assert_eq!(run.failures, 1, "its failures are those of automatic attempts");
    assert_eq!(world.job(id).await.failed, 0, "that is not decided yet");
    world.pass(5000);
    world.run(ok()).await;
    let delivery = world.event(event).await.deliveries.remove(0);
    assert_eq!((delivery.life.state, delivery.attempts.len()), (State::Delivered, 2));
    assert!(delivery.attempts.iter().all(|it| it.trigger == Trigger::Automatic));
    let job = world.job(id).await;
    assert_eq!((job.total, job.delivered, job.failed), (1, 1, 0));
}

pub async fn a_recovery_counts_what_became_of_it(mut world: World) {
    let webhook = world.one_try_webhook().await;
    world.pause(webhook).await;
    for _ in 0..3 {
        publish(&mut world).await;
    }
    world.activate(webhook).await;
    let (id, _) = recover_all(&mut world, webhook).await;
    let parcels = world.claim_all().await;
    for (parcel, outcome) in parcels.iter().zip([ok(), failed(), ok()]) {
        world.settle(parcel, outcome).await;
    }
    let job = world.job(id).await;
    assert_eq!((job.total, job.delivered, job.failed, job.skipped), (3, 2, 1, 0));
}

pub async fn nothing_is_recovered_of_a_paused_or_unknown_webhook(mut world: World) {
    let webhook = world.webhook_with(|it| it.paused = true).await;
    publish(&mut world).await;
    assert_eq!(recover(&mut world, webhook, None).await, Resent::Paused);
    assert_eq!(recover(&mut world, WebhookId::from_uuid(7), None).await, Resent::NotFound);
    let (workspace, second) = (world.workspace, world.new_workspace("second").await);
    world.workspace = second;
    assert_eq!(recover(&mut world, webhook, None).await, Resent::NotFound);
    world.workspace = workspace;
    world.activate(webhook).await;
    assert!(world.claim_all().await.is_empty());
    assert_eq!(recover_all(&mut world, webhook).await.1, 1, "it was paused from the start");
    world.delete_webhook(webhook).await;
    assert_eq!(recover(&mut world, webhook, None).await, Resent::NotFound);
    assert!(world.claim_all().await.is_empty());
}

pub async fn a_recovery_uses_no_quota(mut world: World) {
    let webhook = world.webhook().await;
    for _ in 0..25 {
        recover_all(&mut world, webhook).await;
        world.claim_all().await;
    }
    started(world.replay_all(webhook).await);
}

/// A webhook that is active again, with so many deliveries that a pause skipped and that nobody marked.
async fn many_skipped(world: &mut World, count: usize) -> (WebhookId, Vec<EventId>) {
    let webhook = world.webhook().await;
    world.store.attach(None).await.unwrap();
    let publishing = world.publishing(&vec!["order.paid"; count]);
    let receipts = world.publish_this(publishing).await;
    world.attach().await;
    world.pause(webhook).await;
    world.activate(webhook).await;
    (webhook, receipts.iter().map(|it| it.id).collect())
}

pub async fn many_are_recovered(mut world: World) {
    let (webhook, ids) = many_skipped(&mut world, 1500).await;
    let (id, count) = recover_all(&mut world, webhook).await;
    assert_eq!(count, 1500);
    let mut sent = events(&world.run(ok()).await);
    sent.sort_unstable();
    assert_eq!(sent, ids, "each once");
    let job = world.job(id).await;
    assert_eq!((job.state, job.delivered), (ReplayState::Done, 1500));
}

/// A webhook that is active again, with one event that was skipped and more pending ones that the pause ended than
/// one claim marks.
async fn skipped_among_many(world: &mut World) -> (WebhookId, EventId) {
    let webhook = world.webhook().await;
    let first = world.emit_and_settle(failed()).await;
    first.endpoint.set_leases_max(1000);
    for _ in 0..2 {
        let publishing = world.publishing(&vec!["order.paid"; 700]);
        world.publish_this(publishing).await;
        world.run(failed()).await;
    }
    world.pause(webhook).await;
    let skipped = publish(world).await;
    world.activate(webhook).await;
    (webhook, skipped)
}

pub async fn a_recovery_waits_for_no_upkeep(mut world: World) {
    let (webhook, skipped) = skipped_among_many(&mut world).await;
    recover_all(&mut world, webhook).await;
    assert_eq!(events(&world.run(ok()).await), [skipped]);
}

pub async fn a_recovery_goes_on_when_upkeep_marked_the_rest(mut world: World) {
    let (webhook, skipped) = skipped_among_many(&mut world).await;
    recover_all(&mut world, webhook).await;
    world.claim().await;
    world.woken();
    world.prune().await;
    assert!(world.woken());
    assert_eq!(events(&world.run(ok()).await), [skipped]);
}

pub async fn a_crash_neither_skips_nor_doubles(mut world: World) {
    let (webhook, ids) = many_skipped(&mut world, 700).await;
    let (id, _) = recover_all(&mut world, webhook).await;
    world.claim().await;
    let world = world.crash().await;
    world.store.take_over(world.now).await.unwrap();
    for _ in 0..2 {
        world.claim().await;
    }
    let mut world = world.crash().await;
    world.store.take_over(world.now).await.unwrap();
    let mut sent = events(&world.run(ok()).await);
    sent.sort_unstable();
    assert_eq!(sent, ids);
    let job = world.job(id).await;
    assert_eq!((job.state, job.total, job.delivered), (ReplayState::Done, 700, 700));
}

pub async fn what_a_pause_skipped_is_recovered_also_after_a_crash(mut world: World) {
    let webhook = world.webhook().await;
    let skipped = world.emit_unattempted().await;
    world.pause(webhook).await;
    let mut world = world.crash().await;
    world.store.attach(None).await.unwrap();
    world.activate(webhook).await;
    assert_eq!(recover_all(&mut world, webhook).await.1, 1);
    // Nobody takes anything yet: only upkeep goes on.
    world.claim_all().await;
    world.attach().await;
    assert_eq!(events(&world.run(ok()).await), [skipped]);
}

pub async fn a_pause_ends_a_recovery(mut world: World) {
    let (webhook, ids) = many_skipped(&mut world, 600).await;
    let (id, _) = recover_all(&mut world, webhook).await;
    let begun = world.claim_all().await;
    assert!(!begun.is_empty() && begun.len() < 600);
    world.pause(webhook).await;
    for parcel in &begun {
        world.release(parcel.lease).await;
    }
    let (second, count) = {
        world.activate(webhook).await;
        recover_all(&mut world, webhook).await
    };
    assert_eq!(count, 600, "all of them are skipped again");
    let mut sent = events(&world.run(ok()).await);
    sent.sort_unstable();
    assert_eq!(sent, ids);
    assert_eq!(world.job(second).await.delivered, 600);
    assert_eq!(world.job(id).await.delivered, 0);
}

pub async fn recoveries_and_replays_take_turns(mut world: World) {
    let webhook = world.one_try_webhook().await;
    let failure = world.emit_and_settle(failed()).await;
    world.pause(webhook).await;
    let skipped = publish(&mut world).await;
    world.activate(webhook).await;
    let (replay, _) = started(world.replay_all(webhook).await);
    let (recovery, _) = recover_all(&mut world, webhook).await;
    assert_eq!(world.job(recovery).await.state, ReplayState::Queued);
    let begun = world.claim_all().await;
    assert_eq!(events(&begun), [failure.event()]);
    world.settle(&begun[0], ok()).await;
    assert_eq!(events(&world.run(ok()).await), [skipped]);
    for id in [replay, recovery] {
        let job = world.job(id).await;
        assert_eq!((job.state, job.delivered), (ReplayState::Done, 1));
    }
}

pub async fn what_was_skipped_by_a_clock_that_runs_behind_is_of_this_pause(mut world: World) {
    let webhook = world.webhook().await;
    let in_flight = world.emit().await;
    world.pause(webhook).await;
    // Whoever published looked at the clock before the pause was stored, or at another clock.
    world.now = world.now - Duration::from_millis(50);
    let skipped = publish(&mut world).await;
    assert_eq!(state(&world, skipped).await, State::Skipped);
    world.release(in_flight.lease).await;
    world.activate(webhook).await;
    assert_eq!(recover_all(&mut world, webhook).await.1, 2);
    let mut sent = events(&world.run(ok()).await);
    sent.sort_unstable();
    assert_eq!(sent, [in_flight.event(), skipped]);
}

pub async fn what_a_webhook_skipped_that_was_created_paused_is_recovered_when_the_clock_went_back(
    mut world: World,
) {
    let webhook = world.webhook_with(|it| it.paused = true).await;
    let created_at = world.now;
    world.now = world.now - Duration::from_secs(2 * 3600);
    let left = publish(&mut world).await;
    let tried = publish(&mut world).await;
    world.activate(webhook).await;
    let delivery = world.event(tried).await.deliveries[0].id;
    started(world.replay_one(webhook, delivery).await);
    world.run(failed()).await;
    assert_eq!(world.state(delivery).await, State::Skipped, "a failed replay changes nothing");
    let (id, count) = recover_all(&mut world, webhook).await;
    assert_eq!((count, world.job(id).await.since), (2, created_at), "its creation was its last pause");
    // What was tried may not begin before the end of that, and the clock is behind.
    world.now = created_at + Duration::from_secs(60);
    let mut sent = events(&world.run(ok()).await);
    sent.sort_unstable();
    assert_eq!(sent, [left, tried]);
    assert_eq!(world.job(id).await.delivered, 2);
}

pub async fn a_recovered_delivery_can_be_cancelled(mut world: World) {
    let webhook = world.webhook().await;
    world.pause(webhook).await;
    let events = [publish(&mut world).await, publish(&mut world).await];
    world.activate(webhook).await;
    recover_all(&mut world, webhook).await;
    world.store.attach(None).await.unwrap();
    world.claim_all().await;
    let delivery = world.event(events[0]).await.deliveries[0].clone();
    assert_eq!(delivery.life.state, State::Pending);
    world.store.cancel(world.workspace, delivery.id, world.now).await.unwrap();
    world.attach().await;
    let sent = world.run(ok()).await;
    assert_eq!(sent.iter().map(Parcel::event).collect::<Vec<_>>(), events[1..]);
}
