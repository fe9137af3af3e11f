//! How a replay of a webhook goes on: one attempt each, in turn, through crashes, pauses and cancels.

use std::time::Duration;

use restante_core::delivery::{CancelReason, FailReason};
use restante_core::id::{DeliveryId, ReplayId, WebhookId};
use restante_core::{Outcome, State};

use super::{World, failed, ok, started};
use crate::record::{ReplayJob, ReplayKind, ReplayState};
use crate::row::Trigger;
use crate::{Cancelled, Parcel, Settled};

/// A webhook with as many failed events, each of which used its only attempt.
async fn with_failures(world: &mut World, count: usize) -> (WebhookId, Vec<DeliveryId>) {
    let webhook = world.one_try_webhook().await;
    let mut failures = Vec::new();
    for _ in 0..count {
        failures.push(world.emit_and_settle(failed()).await.lease.delivery);
    }
    (webhook, failures)
}

async fn replay(world: &mut World, webhook: WebhookId) -> ReplayId {
    started(world.replay_all(webhook).await).0
}

fn sent(parcels: &[Parcel]) -> Vec<DeliveryId> {
    parcels.iter().map(|it| it.lease.delivery).collect()
}

fn counters(job: &ReplayJob) -> (u64, u64, u64, u64) {
    (job.total, job.delivered, job.failed, job.skipped)
}

async fn numbers(world: &World, delivery: DeliveryId) -> Vec<u32> {
    world.delivery(delivery).await.attempts.iter().map(|it| it.number).collect()
}

pub async fn there_is_one_attempt_each_whatever_its_result(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 3).await;
    let before = world.delivery(failures[0]).await;
    let id = replay(&mut world, webhook).await;
    let job = world.job(id).await;
    assert_eq!((job.kind, counters(&job)), (ReplayKind::Replay, (3, 0, 0, 0)));
    assert!(world.woken(), "it begins by itself");
    let parcels = world.claim_all().await;
    assert_eq!(sent(&parcels), failures);
    for (parcel, outcome) in parcels.iter().zip([failed(), ok(), Outcome::Lost]) {
        assert_eq!(parcel.lease.attempt, 2);
        assert_eq!(world.job(id).await.state, ReplayState::Running);
        assert!(matches!(world.settle(parcel, outcome).await, Settled::Done(_)));
    }
    let job = world.job(id).await;
    assert_eq!((job.state, counters(&job)), (ReplayState::Done, (3, 1, 2, 0)));
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty(), "no attempt follows");

    let failed = world.delivery(failures[0]).await;
    assert_eq!((failed.life.state, failed.message), (State::Failed(FailReason::Exhausted), before.message));
    assert_eq!((failed.life.attempts_made, failed.life.attempts_used), (2, 1));
    let results: Vec<_> =
        failed.attempts.iter().map(|it| (it.trigger, it.result.clone().unwrap().uses_budget)).collect();
    assert_eq!(results, [(Trigger::Automatic, true), (Trigger::Replay, false)]);
    assert_eq!(world.state(failures[1]).await, State::Delivered);
    assert_eq!(world.state(failures[2]).await, State::Failed(FailReason::Exhausted));
}

pub async fn a_planned_attempt_stays_unless_the_replay_delivers(mut world: World) {
    let webhook = world.webhook().await;
    let fails = world.emit_and_settle(failed()).await;
    let delivers = world.emit_and_settle(failed()).await;
    let lost = world.emit_and_settle(failed()).await;
    let planned = world.delivery(fails.lease.delivery).await.life;
    let id = replay(&mut world, webhook).await;
    let parcels = world.claim_all().await;
    assert_eq!(sent(&parcels), [&fails, &delivers, &lost].map(|it| it.lease.delivery));
    for (parcel, outcome) in parcels.iter().zip([failed(), ok(), Outcome::Lost]) {
        world.settle(parcel, outcome).await;
    }
    let life = world.delivery(fails.lease.delivery).await.life;
    assert_eq!((life.state, life.due_at, life.wait), (State::Pending, planned.due_at, planned.wait));
    assert_eq!((life.attempts_made, life.attempts_used, life.lost_in_row), (2, 1, 0));
    assert_eq!(world.job(id).await.state, ReplayState::Done);

    world.now = world.delivery(lost.lease.delivery).await.life.due_at;
    let parcels = world.run(failed()).await;
    assert_eq!(sent(&parcels), [fails.lease.delivery, lost.lease.delivery], "what was delivered is over");
    for parcel in parcels {
        let delivery = world.delivery(parcel.lease.delivery).await;
        let triggers: Vec<_> = delivery.attempts.iter().map(|it| (it.number, it.trigger)).collect();
        let expected = [(1, Trigger::Automatic), (2, Trigger::Replay), (3, Trigger::Automatic)];
        assert_eq!(triggers, expected);
        assert_eq!(delivery.life.attempts_used, 2);
        assert_eq!(delivery.life.due_at, world.now + Duration::from_secs(300), "the second wait");
    }
    assert_eq!(counters(&world.job(id).await), (3, 1, 2, 0), "what follows is not the replay's");
}

pub async fn a_replay_begins_no_more_than_its_lane_has_room_for(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 6).await;
    let one = world.emit().await;
    one.endpoint.set_leases_max(3);
    replay(&mut world, webhook).await;
    let mut begun = world.claim_all().await;
    assert_eq!(sent(&begun), failures[..2]);
    world.settle(&one, ok()).await;
    assert!(world.woken(), "there is room again");
    begun.extend(world.claim_all().await);
    assert_eq!(sent(&begun), failures[..3]);
    let finished = begun.iter().map(|parcel| world.finished(parcel, ok())).collect();
    world.store.settle(finished).await.unwrap();
    assert_eq!(sent(&world.run(ok()).await), failures[3..]);
}

pub async fn what_is_due_comes_before_what_is_replayed(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 2).await;
    world.emit_unattempted().await;
    replay(&mut world, webhook).await;
    assert_eq!(world.claim_up_to(1).await.count, 1);
    let due = world.parcel();
    assert!(!failures.contains(&due.lease.delivery));
    assert!(world.woken(), "there is more to do");
    assert_eq!(world.claim_up_to(1).await.count, 1);
    assert_eq!(world.parcel().lease.delivery, failures[0]);
}

pub async fn replays_of_one_webhook_run_one_after_another(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 2).await;
    let first = replay(&mut world, webhook).await;
    let second = replay(&mut world, webhook).await;
    let states = [world.job(first).await.state, world.job(second).await.state];
    assert_eq!(states, [ReplayState::Running, ReplayState::Queued]);
    let begun = world.claim_all().await;
    assert_eq!(sent(&begun), failures);
    world.settle(&begun[0], failed()).await;
    assert!(world.claim_all().await.is_empty(), "the first has not ended");
    world.settle(&begun[1], ok()).await;
    assert_eq!(world.job(first).await.state, ReplayState::Done);
    assert!(world.woken());
    let begun = world.claim_all().await;
    assert_eq!(sent(&begun), failures[..1], "the other was acknowledged meanwhile");
    assert_eq!(world.job(second).await.state, ReplayState::Running);
    world.settle(&begun[0], failed()).await;
    let job = world.job(second).await;
    assert_eq!((job.state, counters(&job)), (ReplayState::Done, (2, 0, 1, 1)));
}

pub async fn replays_of_different_webhooks_run_side_by_side(mut world: World) {
    let (first, _) = with_failures(&mut world, 2).await;
    world.change_webhook(first, |it| it.events = super::filters(&["invoice.*"])).await;
    let (second, _) = with_failures(&mut world, 3).await;
    let jobs = [replay(&mut world, first).await, replay(&mut world, second).await];
    let mut turns = Vec::new();
    for _ in 0..4 {
        assert_eq!(world.claim_up_to(1).await.count, 1);
        turns.push(world.parcel().endpoint.id);
    }
    assert_eq!((turns[0], turns[1]), (turns[2], turns[3]), "they take turns");
    assert_ne!(turns[0], turns[1]);
    for id in jobs {
        assert_eq!(world.job(id).await.state, ReplayState::Running);
    }
    assert_eq!(world.claim_all().await.len(), 1);
}

pub async fn a_replay_of_nothing_is_done_at_once(mut world: World) {
    let webhook = world.webhook().await;
    let id = replay(&mut world, webhook).await;
    assert!(world.claim_all().await.is_empty());
    let job = world.job(id).await;
    assert_eq!((job.state, counters(&job)), (ReplayState::Done, (0, 0, 0, 0)));
}

pub async fn a_crash_neither_skips_nor_doubles(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 6).await;
    let id = replay(&mut world, webhook).await;
    assert_eq!(world.claim_up_to(3).await.count, 3);
    let begun = world.tray.take();
    world.settle(&begun[0], ok()).await;
    world.settle(&begun[1], failed()).await;
    let mut world = world.crash().await;
    assert_eq!(world.store.take_over(world.now).await.unwrap(), 1);
    assert!(world.woken(), "it goes on by itself");
    let rest = world.run(ok()).await;
    assert_eq!(sent(&rest), failures[3..]);
    let job = world.job(id).await;
    assert_eq!((job.state, counters(&job)), (ReplayState::Done, (6, 4, 2, 0)), "lost is failed");
    let lost = world.delivery(failures[2]).await;
    assert_eq!(lost.life.state, State::Failed(FailReason::Exhausted));
    assert!(lost.attempts[1].result.as_ref().unwrap().lost);
    for failure in failures {
        assert_eq!(numbers(&world, failure).await, [1, 2]);
    }
    let world = world.crash().await;
    assert!(world.claim_all().await.is_empty());
}

pub async fn a_replay_whose_last_attempt_a_crash_took_ends(mut world: World) {
    let (webhook, _) = with_failures(&mut world, 1).await;
    let id = replay(&mut world, webhook).await;
    world.claim_all().await;
    let world = world.crash().await;
    world.store.take_over(world.now).await.unwrap();
    assert!(world.claim_all().await.is_empty());
    let job = world.job(id).await;
    assert_eq!((job.state, counters(&job)), (ReplayState::Done, (1, 0, 1, 0)));
}

pub async fn a_release_puts_it_back(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 2).await;
    let before = world.delivery(failures[0]).await;
    let id = replay(&mut world, webhook).await;
    let begun = world.claim_all().await;
    world.release(begun[0].lease).await;
    assert_eq!(world.delivery(failures[0]).await, before, "as if it had not been");
    world.settle(&begun[1], ok()).await;
    assert_eq!(world.job(id).await.state, ReplayState::Running);
    let again = world.claim_all().await;
    assert_eq!((again.len(), again[0].lease), (1, begun[0].lease), "the number is free again");
    world.settle(&again[0], ok()).await;
    let job = world.job(id).await;
    assert_eq!((job.state, counters(&job)), (ReplayState::Done, (2, 2, 0, 0)));
}

pub async fn what_was_released_goes_on_after_a_crash(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 1).await;
    let id = replay(&mut world, webhook).await;
    let begun = world.claim_all().await;
    world.release(begun[0].lease).await;
    let mut world = world.crash().await;
    assert_eq!(sent(&world.run(ok()).await), failures);
    assert_eq!(world.job(id).await.state, ReplayState::Done);
}

pub async fn a_pause_ends_a_replay(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 4).await;
    let first = replay(&mut world, webhook).await;
    let second = replay(&mut world, webhook).await;
    assert_eq!(world.claim_up_to(3).await.count, 3);
    let begun = world.tray.take();
    world.settle(&begun[0], failed()).await;
    world.pause(webhook).await;
    assert!(world.withdrew(webhook));
    for id in [first, second] {
        assert_eq!(world.job(id).await.state, ReplayState::Ended);
    }
    world.settle(&begun[1], ok()).await;
    world.release(begun[2].lease).await;
    assert_eq!(world.state(failures[1]).await, State::Delivered);
    assert_eq!(world.state(failures[2]).await, State::Failed(FailReason::Exhausted));
    let world = world.crash().await;
    world.activate(webhook).await;
    assert!(world.claim_all().await.is_empty(), "it does not come back to life");
    assert_eq!(counters(&world.job(first).await), (4, 0, 1, 0));
}

pub async fn a_deletion_ends_a_replay(mut world: World) {
    let (webhook, _) = with_failures(&mut world, 3).await;
    let id = replay(&mut world, webhook).await;
    assert_eq!(world.claim_up_to(1).await.count, 1);
    let begun = world.parcel();
    world.delete_webhook(webhook).await;
    assert!(world.withdrew(webhook));
    assert_eq!(world.job(id).await.state, ReplayState::Ended);
    world.settle(&begun, failed()).await;
    assert_eq!(world.state(begun.lease.delivery).await, State::Failed(FailReason::Exhausted));
    assert!(world.claim_all().await.is_empty());
    let world = world.crash().await;
    assert!(world.claim_all().await.is_empty());
}

pub async fn a_cancel_takes_a_delivery_out_of_what_is_left(mut world: World) {
    let webhook = world.webhook().await;
    let pending = world.emit_and_settle(failed()).await.lease.delivery;
    let other = world.emit_and_settle(failed()).await.lease.delivery;
    let id = replay(&mut world, webhook).await;
    let single = started(world.replay_one(webhook, pending).await).0;
    let cancelled = world.store.cancel(world.workspace, pending, world.now).await.unwrap();
    assert_eq!(cancelled, Cancelled::Done);
    assert_eq!(sent(&world.run(ok()).await), [other], "no attempt starts after a cancel");
    assert_eq!(world.state(pending).await, State::Cancelled(CancelReason::Requested));
    for (id, expected) in [(id, (2, 1, 0, 1)), (single, (1, 0, 0, 1))] {
        let job = world.job(id).await;
        assert_eq!((job.state, counters(&job)), (ReplayState::Done, expected));
    }
    // Who asks afterwards means it.
    started(world.replay_one(webhook, pending).await);
    assert_eq!(sent(&world.run(ok()).await), [pending]);
}

pub async fn a_cancelled_attempt_that_never_dialled_does_not_come_back(mut world: World) {
    let webhook = world.webhook().await;
    let pending = world.emit_and_settle(failed()).await.lease.delivery;
    let id = replay(&mut world, webhook).await;
    let begun = world.claim_all().await;
    let cancelled = world.store.cancel(world.workspace, pending, world.now).await.unwrap();
    assert_eq!((cancelled, world.tray.take_withdrawals().len()), (Cancelled::Done, 1));
    world.release(begun[0].lease).await;
    assert!(world.claim_all().await.is_empty());
    assert_eq!(world.state(pending).await, State::Cancelled(CancelReason::Requested));
    let job = world.job(id).await;
    assert_eq!((job.state, counters(&job)), (ReplayState::Done, (1, 0, 0, 1)));
}

pub async fn a_delivery_that_ended_cannot_be_cancelled_while_it_is_replayed(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 1).await;
    replay(&mut world, webhook).await;
    let begun = world.claim_all().await;
    let cancelled = world.store.cancel(world.workspace, failures[0], world.now).await.unwrap();
    assert_eq!(cancelled, Cancelled::Conflict(State::Failed(FailReason::Exhausted)));
    world.settle(&begun[0], ok()).await;
    assert_eq!(world.state(failures[0]).await, State::Delivered);
}

pub async fn a_replay_goes_on_when_a_dispatcher_is_back(mut world: World) {
    let (webhook, failures) = with_failures(&mut world, 2).await;
    replay(&mut world, webhook).await;
    world.store.attach(None).await.unwrap();
    assert!(world.claim_all().await.is_empty());
    world.woken();
    world.attach().await;
    assert!(world.woken(), "there is something to begin now");
    assert_eq!(sent(&world.claim_all().await), failures);
}

pub async fn what_a_pause_ended_and_nobody_marked_is_replayed_as_ended(mut world: World) {
    let webhook = world.webhook().await;
    let tried = world.emit_and_settle(failed()).await.lease.delivery;
    world.pause(webhook).await;
    world.activate(webhook).await;
    replay(&mut world, webhook).await;
    let ended = State::Failed(FailReason::EndpointPaused);
    let mut seen = world.run(failed()).await;
    world.prune().await;
    assert_eq!((sent(&seen), world.state(tried).await), (vec![tried], ended));
    world.pass(100_000_000);
    seen = world.claim_all().await;
    assert!(seen.is_empty(), "its schedule is over");
}

pub async fn the_last_of_many_that_a_pause_ended_is_replayed_as_ended(mut world: World) {
    let webhook = world.webhook().await;
    let first = world.emit_and_settle(failed()).await;
    first.endpoint.set_leases_max(1000);
    // More than one claim marks.
    let publishing = world.publishing(&vec!["order.paid"; 700]);
    world.publish_this(publishing).await;
    let finished = world.claim_all().await.iter().map(|parcel| world.finished(parcel, failed())).collect();
    world.store.settle(finished).await.unwrap();
    let last = world.emit_and_settle(failed()).await.lease.delivery;
    world.pause(webhook).await;
    world.activate(webhook).await;
    started(world.replay_one(webhook, last).await);
    let begun = world.claim_all().await;
    assert_eq!(sent(&begun), [last]);
    world.prune().await;
    world.settle(&begun[0], failed()).await;
    assert_eq!(world.state(last).await, State::Failed(FailReason::EndpointPaused));
    world.pass(100_000_000);
    assert!(world.claim_all().await.is_empty(), "its schedule is over");
}
