//! Rules of schedules, cancels and releases; those of replays, pauses and health in files of their own.

mod health;
mod pause;
mod replay;

use super::*;
use crate::endpoint::Destination;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn terms(schedule: &Schedule) -> Terms<'_> {
    Terms { schedule, over: None, watch: None }
}

fn failed() -> Outcome {
    Outcome::of_status(500, None)
}

fn delivered() -> Outcome {
    Outcome::Delivered { status: Some(204) }
}

fn attempt(number: u32, outcome: Outcome, ended_at: Timestamp) -> Attempt {
    Attempt { number, outcome, started_at: ended_at, ended_at }
}

fn begin(delivery: &Delivery, schedule: &Schedule, now: Timestamp) -> Delivery {
    match claim(delivery, terms(schedule), now) {
        Claim::Begin(leased) => leased,
        Claim::End(ended) => panic!("nothing left to try: {ended:?}"),
    }
}

#[test]
fn a_failing_delivery_walks_through_the_nine_waits_from_the_end_of_each_attempt() {
    let schedule = Schedule::Quadratic { attempts: 10 };
    let took = Duration::from_secs(7);
    let mut delivery = Delivery::born_leased(NOW);
    let mut now = NOW;
    let mut waits_minutes = Vec::new();
    for number in 1..=10 {
        let ended_at = now + took;
        let settled =
            settle(&delivery, terms(&schedule), &attempt(number, failed(), ended_at), Jitter::NONE).delivery;
        if settled.state == State::Pending {
            waits_minutes.push(settled.due_at.since(ended_at).as_secs() / 60);
            now = settled.due_at;
            delivery = begin(&settled, &schedule, now);
        } else {
            delivery = settled;
        }
    }
    assert_eq!(waits_minutes, [4, 9, 16, 25, 36, 49, 64, 81, 100]);
    assert_eq!(delivery.state, State::Failed(FailReason::Exhausted));
    assert_eq!((delivery.attempts_made, delivery.attempts_used), (10, 10));
}

#[test]
fn two_lost_use_nothing_and_the_third_uses_one_and_waits_normally() {
    let schedule = Schedule::Quadratic { attempts: 2 };
    let mut delivery = Delivery::born_leased(NOW);
    let mut seen = Vec::new();
    for number in 1..=3 {
        let settled = settle(&delivery, terms(&schedule), &attempt(number, Outcome::Lost, NOW), Jitter::NONE);
        seen.push((
            settled.uses_budget,
            settled.delivery.attempts_used,
            settled.delivery.due_at.since(NOW).as_secs(),
        ));
        delivery = begin(&settled.delivery, &schedule, settled.delivery.due_at);
    }
    assert_eq!(seen, [(false, 0, 0), (false, 0, 0), (true, 1, 240)]);
    assert_eq!(delivery.attempts_made, 4);
}

#[test]
fn a_failure_between_breaks_the_row_of_lost() {
    let schedule = Schedule::Quadratic { attempts: 10 };
    let mut delivery = Delivery::born_leased(NOW);
    let outcomes = [Outcome::Lost, Outcome::Lost, failed(), Outcome::Lost, Outcome::Lost];
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let number = index as u32 + 1;
        let settled =
            settle(&delivery, terms(&schedule), &attempt(number, outcome, NOW), Jitter::NONE).delivery;
        delivery = begin(&settled, &schedule, settled.due_at);
    }
    assert_eq!((delivery.attempts_made, delivery.attempts_used), (6, 1));
}

#[test]
fn cancel_by_state() {
    let schedule = Schedule::default();
    let pending = Delivery::new(NOW);
    let cancelled = cancel(&pending, NOW).unwrap();
    assert_eq!(cancelled.state, State::Cancelled(CancelReason::Requested));
    assert_eq!(cancel(&cancelled, NOW + Duration::from_secs(9)), Ok(cancelled.clone()));

    let sending = cancel(&Delivery::born_leased(NOW), NOW).unwrap();
    assert_eq!((sending.state, sending.cancel_requested()), (State::Sending, true));
    let table = [
        (delivered(), State::Delivered),
        (failed(), State::Cancelled(CancelReason::Requested)),
        (Outcome::Lost, State::Cancelled(CancelReason::Requested)),
    ];
    for (outcome, expected) in table {
        let settled = settle(&sending, terms(&schedule), &attempt(1, outcome, NOW), Jitter::NONE).delivery;
        assert_eq!(settled.state, expected);
        let again = cancel(&settled, NOW);
        assert_eq!(again.is_ok(), expected != State::Delivered);
    }
}

#[test]
fn a_deleted_endpoint_gets_no_further_attempt() {
    let schedule = Schedule::default();
    let gone = Terms { over: Some(Over::Gone(CancelReason::EndpointDeleted)), ..terms(&schedule) };
    let state = |outcome| {
        settle(&Delivery::born_leased(NOW), gone, &attempt(1, outcome, NOW), Jitter::NONE).delivery.state
    };
    assert_eq!(state(delivered()), State::Delivered);
    assert_eq!(state(failed()), State::Cancelled(CancelReason::EndpointDeleted));
    assert_eq!(state(Outcome::Lost), State::Cancelled(CancelReason::EndpointDeleted));
    assert!(matches!(claim(&Delivery::new(NOW), gone, NOW), Claim::End(_)));
}

#[test]
fn a_shortened_schedule_ends_without_another_attempt() {
    let long = Schedule::Quadratic { attempts: 10 };
    let short = Schedule::Quadratic { attempts: 1 };
    let settled =
        settle(&Delivery::born_leased(NOW), terms(&long), &attempt(1, failed(), NOW), Jitter::NONE).delivery;
    let Claim::End(ended) = claim(&settled, terms(&short), settled.due_at) else { panic!("one was used") };
    assert_eq!((ended.state, ended.attempts_made), (State::Failed(FailReason::Exhausted), 1));
}

#[test]
fn a_released_claim_leaves_no_trace() {
    let schedule = Schedule::default();
    let pending = Delivery::new(NOW);
    let leased = begin(&pending, &schedule, NOW);
    assert_eq!(release(&leased, terms(&schedule), NOW), pending);
    let cancelled = release(&cancel(&leased, NOW).unwrap(), terms(&schedule), NOW);
    assert_eq!(cancelled.state, State::Cancelled(CancelReason::Requested));
}

#[test]
fn only_what_ended_can_be_retried_by_hand() {
    let table = [
        (State::Pending, false),
        (State::Sending, false),
        (State::Delivered, true),
        (State::Failed(FailReason::Exhausted), true),
        (State::Cancelled(CancelReason::Requested), true),
        (State::Skipped, false),
    ];
    for (state, fine) in table {
        assert_eq!(retryable(state).is_ok(), fine, "{state:?}");
    }
}

#[test]
fn the_reason_for_a_wait_is_one_line() {
    let destination = Destination {
        kind: crate::endpoint::DestinationKind::Http,
        url: String::new(),
        schedule: Schedule::Quadratic { attempts: 8 },
        idempotency_header: crate::endpoint::IdempotencyHeader::Off,
        paused: false,
        headers: Vec::new(),
        max_in_flight: 64,
        rate_per_second: None,
        timeout_seconds: 30,
    };
    let settled = settle(
        &Delivery::born_leased(NOW),
        terms(&destination.schedule),
        &attempt(1, failed(), NOW),
        Jitter::NONE,
    )
    .delivery;
    let receiver = Receiver::Destination;
    let because = |destination: &Destination, now| {
        let receiver = receiver(destination.clone());
        wait_because(&settled, &receiver, receiver.holds_back(), now).unwrap()
    };
    assert_eq!(because(&destination, NOW), "attempt 2 of 8, 4 min after the one before");
    assert_eq!(
        because(&destination, NOW + Duration::from_secs(300)),
        "attempt 2 of 8, 4 min after the one before; due, waits for a free slot"
    );
    let paused = Destination { paused: true, schedule: Schedule::Standard, ..destination.clone() };
    let held_back = receiver(paused.clone()).holds_back();
    assert_eq!(waiting_for(&settled, held_back, NOW), Some(WaitingFor::Resume));
    assert_eq!(
        because(&paused, NOW),
        "attempt 2 of 8, 4 min (planned wait ± 20 %) after the one before; waits for the destination to be resumed"
    );
    assert_eq!(wait_because(&Delivery::born_leased(NOW), &receiver(destination), None, NOW), None);
}

#[test]
fn spans_for_people() {
    let table = [
        (250, "0.25 s"),
        (5_000, "5 s"),
        (240_000, "4 min"),
        (90_000, "1 min 30 s"),
        (3_600_000, "1 h"),
        (4_860_000, "1 h 21 min"),
    ];
    for (millis, text) in table {
        assert_eq!(span(Duration::from_millis(millis)), text);
    }
}
