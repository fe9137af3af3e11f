//! Promises of [`Store::settle`](crate::Store::settle) and [`Store::release`](crate::Store::release).

use std::time::Duration;

use restante_core::delivery::{CancelReason, FailReason};
use restante_core::outcome::Failure;
use restante_core::retry::{Schedule, WaitCause};
use restante_core::{FailureKind, Outcome, State};

use super::{World, failed, ok};
use crate::row::{AttemptResult, Trigger};
use crate::{Lease, Settled};

const MINUTE_MS: u64 = 60_000;

pub async fn a_2xx_ends_a_delivery(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    assert!(matches!(world.settle(&parcel, Outcome::of_status(204, None)).await, Settled::Done(_)));

    let delivery = world.delivery(parcel.lease.delivery).await;
    assert_eq!((delivery.life.state, delivery.life.ended_at), (State::Delivered, Some(world.now)));
    assert_eq!((delivery.life.attempts_made, delivery.life.attempts_used), (1, 1));
    let [attempt] = &delivery.attempts[..] else { panic!("{:?}", delivery.attempts) };
    assert_eq!(
        (attempt.number, attempt.trigger, attempt.started_at),
        (1, Trigger::Automatic, parcel.claimed_at)
    );
    let result = AttemptResult {
        duration_ms: 1000,
        delivered: true,
        status: Some(204),
        failure: None,
        lost: false,
        message: None,
        uses_budget: true,
    };
    assert_eq!(attempt.result, Some(result));
}

pub async fn a_failure_waits_for_its_schedule_from_its_end(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.pass(20_000);
    let Settled::Done(life) = world.settle(&parcel, Outcome::of_status(410, None)).await else {
        panic!("the lease was ours");
    };
    let wait = life.wait.unwrap();
    assert_eq!((wait.length, wait.cause), (Duration::from_secs(240), WaitCause::Schedule));
    assert_eq!((life.state, life.due_at), (State::Pending, world.now + wait.length));

    let delivery = world.delivery(parcel.lease.delivery).await;
    assert_eq!(delivery.life, life);
    let result = delivery.attempts[0].result.clone().unwrap();
    assert_eq!(
        (result.status, result.failure, result.delivered),
        (Some(410), Some(FailureKind::Status), false)
    );
    assert_eq!(result.message.as_deref(), Some("the receiver answered 410"));
}

pub async fn used_up_attempts_end_a_delivery(mut world: World) {
    let source = world.source("short").await;
    world.destination_with(&source, |it| it.schedule = Schedule::Quadratic { attempts: 3 }).await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    for minutes in [4, 9] {
        assert_eq!(world.state(parcel.lease.delivery).await, State::Pending);
        world.pass(minutes * MINUTE_MS);
        world.claim_and_settle(failed()).await;
    }
    let delivery = world.delivery(parcel.lease.delivery).await;
    assert_eq!(delivery.life.state, State::Failed(FailReason::Exhausted));
    let numbers: Vec<u32> = delivery.attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!((numbers, delivery.life.attempts_used), (vec![1, 2, 3], 3));
    world.pass(1000 * MINUTE_MS);
    assert_eq!(world.claim().await.count, 0);
}

pub async fn a_lost_attempt_is_due_at_once_and_costs_nothing(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, Outcome::Lost).await;
    let life = world.delivery(parcel.lease.delivery).await.life;
    assert_eq!((life.state, life.due_at), (State::Pending, world.now));
    assert_eq!((life.attempts_made, life.attempts_used, life.lost_in_row), (1, 0, 1));

    world.claim_and_settle(ok()).await;
    let delivery = world.delivery(parcel.lease.delivery).await;
    assert_eq!((delivery.life.state, delivery.life.attempts_used), (State::Delivered, 1));
    let results: Vec<_> = delivery.attempts.iter().map(|it| it.result.clone().unwrap()).collect();
    assert_eq!((results[0].lost, results[0].uses_budget, results[0].failure), (true, false, None));
    assert_eq!((results[1].delivered, results[1].uses_budget, results[1].status), (true, true, Some(200)));
}

pub async fn the_third_lost_in_a_row_uses_one_attempt(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, Outcome::Lost).await;
    world.claim_and_settle(Outcome::Lost).await;
    world.claim_and_settle(Outcome::Lost).await;
    let delivery = world.delivery(parcel.lease.delivery).await;
    let life = &delivery.life;
    assert_eq!((life.attempts_made, life.attempts_used, life.lost_in_row), (3, 1, 0));
    assert_eq!(life.due_at, world.now + Duration::from_secs(240));
    let used: Vec<_> = delivery.attempts.iter().map(|it| it.result.clone().unwrap().uses_budget).collect();
    assert_eq!(used, [false, false, true]);
}

pub async fn a_stale_lease_cannot_settle(mut world: World) {
    let (source, _) = world.pair().await;
    let mut parcel = world.send(&source).await;
    let first = parcel.lease;
    for attempt in [0, 2] {
        parcel.lease = Lease { attempt, ..first };
        assert_eq!(world.settle(&parcel, ok()).await, Settled::LeaseLost);
    }
    parcel.lease = first;
    assert!(matches!(world.settle(&parcel, failed()).await, Settled::Done(_)));
    let settled = world.delivery(first.delivery).await;
    assert_eq!(world.settle(&parcel, ok()).await, Settled::LeaseLost, "settled before");
    assert_eq!(world.delivery(first.delivery).await, settled);

    world.pass(4 * MINUTE_MS);
    world.claim().await;
    let second = world.parcel();
    assert_eq!(world.settle(&parcel, ok()).await, Settled::LeaseLost, "attempt 2 is running");
    assert!(matches!(world.settle(&second, ok()).await, Settled::Done(_)));
    assert_eq!(world.settle(&second, failed()).await, Settled::LeaseLost);
    assert_eq!(world.state(first.delivery).await, State::Delivered);
}

pub async fn answers_are_in_the_order_of_the_attempts(mut world: World) {
    let (source, _) = world.pair().await;
    let (one, two) = (world.send(&source).await, world.send(&source).await);
    world.pass(1000);
    let batch = [(&one, ok()), (&one, failed()), (&two, failed()), (&two, ok())];
    let batch = batch.into_iter().map(|(parcel, outcome)| world.finished(parcel, outcome)).collect();
    let answers = world.store.settle(batch).await.unwrap();
    let states: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Settled::Done(life) => Some(life.state),
            Settled::LeaseLost => None,
        })
        .collect();
    assert_eq!(states, [Some(State::Delivered), None, Some(State::Pending), None]);
}

pub async fn an_attempt_shows_the_url_it_was_made_with(mut world: World) {
    let (source, destination) = world.pair().await;
    let parcel = world.send(&source).await;
    world.settle(&parcel, failed()).await;
    let at_once = world.send(&source).await;
    world.settle(&at_once, ok()).await;
    world.change_destination(destination, |it| it.url = "https://b.example/in?k=1".into()).await;
    world.change_destination(destination, |it| it.timeout_seconds = 5).await;
    world.pass(4 * MINUTE_MS);
    world.claim_and_settle(failed()).await;
    world.change_destination(destination, |it| it.url = "https://c.example".into()).await;
    world.pass(9 * MINUTE_MS);
    world.claim().await;
    world.parcel();

    let urls = |delivery: crate::row::Delivery| -> Vec<String> {
        delivery.attempts.into_iter().map(|attempt| attempt.url).collect()
    };
    let delivery = world.delivery(parcel.lease.delivery).await;
    assert_eq!(delivery.receiver.url(), "https://c.example");
    let [first, second, third] =
        ["https://a.example/hook/orders", "https://b.example/in/orders?k=1", "https://c.example/orders"];
    assert_eq!(urls(delivery), [first, second, third]);
    assert_eq!(urls(world.delivery(at_once.lease.delivery).await), [first]);
}

pub async fn retry_after_lengthens_the_wait(mut world: World) {
    let source = world.source("mannered").await;
    world.destination_with(&source, |it| it.schedule = Schedule::Standard).await;
    let parcel = world.send(&source).await;
    let wish = world.now + Duration::from_secs(601);
    world.settle(&parcel, Outcome::of_status(503, Some(wish))).await;
    let life = world.delivery(parcel.lease.delivery).await.life;
    let wait = life.wait.unwrap();
    assert_eq!((wait.length, wait.cause), (Duration::from_secs(600), WaitCause::RetryAfter));
    assert_eq!(life.due_at, wish);
}

pub async fn a_cancelled_delivery_ends_with_its_attempt(mut world: World) {
    let (source, _) = world.pair().await;
    let cancelled = State::Cancelled(CancelReason::Requested);
    for (outcome, ends_as) in [(ok(), State::Delivered), (failed(), cancelled), (Outcome::Lost, cancelled)] {
        let parcel = world.send(&source).await;
        world.store.cancel(world.workspace, parcel.lease.delivery, world.now).await.unwrap();
        world.settle(&parcel, outcome).await;
        let delivery = world.delivery(parcel.lease.delivery).await;
        assert_eq!((delivery.life.state, delivery.attempts.len()), (ends_as, 1));
    }
    world.pass(100 * MINUTE_MS);
    assert_eq!(world.claim().await.count, 0);
}

pub async fn a_release_leaves_no_trace(mut world: World) {
    let (source, _) = world.pair().await;
    let born = world.send(&source).await;
    world.release(born.lease).await;
    let delivery = world.delivery(born.lease.delivery).await;
    assert_eq!((delivery.life.state, delivery.life.attempts_made), (State::Pending, 0));
    assert_eq!((delivery.life.due_at, delivery.attempts), (born.claimed_at, vec![]));
    assert_eq!(world.settle(&born, ok()).await, Settled::LeaseLost);

    world.claim_and_settle(failed()).await;
    let before = world.delivery(born.lease.delivery).await;
    world.pass(4 * MINUTE_MS);
    world.claim().await;
    let claimed = world.parcel();
    assert_eq!(claimed.lease.attempt, 2);
    world.release(claimed.lease).await;
    assert_eq!(world.delivery(born.lease.delivery).await, before);
    world.claim().await;
    assert_eq!(world.parcel().lease, claimed.lease, "the number is free again");
    assert_eq!(world.store.health().await.unwrap().leased, 1);
}

pub async fn a_release_after_a_cancel_ends_the_delivery(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.store.cancel(world.workspace, parcel.lease.delivery, world.now).await.unwrap();
    world.release(parcel.lease).await;
    let delivery = world.delivery(parcel.lease.delivery).await;
    assert_eq!(delivery.life.state, State::Cancelled(CancelReason::Requested));
    assert!(delivery.attempts.is_empty());
    assert_eq!(world.claim().await.count, 0);
}

pub async fn an_attempt_never_starts_before_the_one_before_ended(mut world: World) {
    let (source, _) = world.pair().await;
    let parcel = world.send(&source).await;
    world.pass(60_000);
    world.settle(&parcel, Outcome::Lost).await;
    let ended = world.now;
    world.claim().await;
    let second = world.parcel();
    world.now = world.now - Duration::from_secs(40);
    world.settle(&second, failed()).await;
    world.now = ended + Duration::from_secs(1000);
    world.claim().await;
    let third = world.parcel();
    world.settle(&third, ok()).await;

    let attempts = world.delivery(parcel.lease.delivery).await.attempts;
    let mut before = attempts[0].started_at;
    for attempt in &attempts {
        assert!(attempt.started_at >= before, "{attempts:?}");
        let result = attempt.result.as_ref().unwrap();
        before = attempt.started_at + Duration::from_millis(result.duration_ms);
    }
    assert_eq!(attempts[1].result.as_ref().unwrap().duration_ms, 1000, "a length of time stays what it was");
}

pub async fn every_kind_of_failure_is_read_back(mut world: World) {
    let (source, _) = world.pair().await;
    for kind in FailureKind::ALL.into_iter().filter(|kind| *kind != FailureKind::Status) {
        let parcel = world.send(&source).await;
        let failure =
            Failure { kind, status: None, enhanced: None, message: "what it said".into(), retry_after: None };
        world.settle(&parcel, Outcome::Failed(failure)).await;
        let result = world.delivery(parcel.lease.delivery).await.attempts.remove(0).result.unwrap();
        assert_eq!((result.failure, result.message.as_deref()), (Some(kind), Some("what it said")));
        assert!(!result.delivered && !result.lost && result.uses_budget);
    }
}
