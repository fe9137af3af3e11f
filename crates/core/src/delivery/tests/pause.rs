use super::*;
use crate::health::Notice;

const LATER: Timestamp = Timestamp::from_millis(1_800_000_600_000);
const ENDPOINT_PAUSED: State = State::Failed(FailReason::EndpointPaused);

/// Pending after one used attempt.
fn tried(schedule: &Schedule) -> Delivery {
    settle(&Delivery::born_leased(NOW), terms(schedule), &attempt(1, failed(), NOW), Jitter::NONE).delivery
}

#[test]
fn a_pause_ends_what_is_pending_by_whether_it_was_attempted() {
    let schedule = Schedule::default();
    let lost_once =
        settle(&Delivery::born_leased(NOW), terms(&schedule), &attempt(1, Outcome::Lost, NOW), Jitter::NONE);
    let table = [
        (Delivery::new(NOW), State::Skipped),
        (tried(&schedule), ENDPOINT_PAUSED),
        (lost_once.delivery, ENDPOINT_PAUSED),
    ];
    for (pending, expected) in table {
        let ended = abandon(&pending, Over::Paused, LATER).unwrap();
        assert_eq!((ended.state, ended.ended_at), (expected, Some(LATER)));
        let paused = Terms { over: Some(Over::Paused), ..terms(&schedule) };
        let Claim::End(claimed) = claim(&pending, paused, LATER) else { panic!("it began: {pending:?}") };
        assert_eq!(claimed, ended);
    }
    for state in [State::Sending, State::Delivered, State::Skipped, ENDPOINT_PAUSED] {
        let resting = Delivery { state, ..Delivery::new(NOW) };
        assert_eq!(abandon(&resting, Over::Paused, LATER), None, "{state:?}");
    }
}

#[test]
fn what_is_in_flight_at_a_pause_ends_with_its_attempt() {
    let schedule = Schedule::default();
    let again = begin(&tried(&schedule), &schedule, NOW);
    for in_flight in [Delivery::born_leased(NOW), again] {
        let marked = pause(&in_flight);
        assert_eq!(marked, Delivery { ending: Some(Ending::Pause), ..in_flight.clone() });
        assert!(!marked.cancel_requested(), "nobody cancelled it");
        let table =
            [(delivered(), State::Delivered), (failed(), ENDPOINT_PAUSED), (Outcome::Lost, ENDPOINT_PAUSED)];
        for (outcome, expected) in table {
            let result = attempt(in_flight.attempts_made, outcome, LATER);
            let after = settle(&marked, terms(&schedule), &result, Jitter::NONE).delivery;
            assert_eq!((after.state, after.ending, after.ended_at), (expected, None, Some(LATER)));
        }
    }
}

#[test]
fn what_never_dialled_before_a_pause_is_skipped_unless_it_was_tried_before() {
    let schedule = Schedule::default();
    let again = begin(&tried(&schedule), &schedule, NOW);
    for (in_flight, expected) in [(Delivery::born_leased(NOW), State::Skipped), (again, ENDPOINT_PAUSED)] {
        let released = release(&pause(&in_flight), terms(&schedule), LATER);
        assert_eq!((released.state, released.ending), (expected, None));
        assert_eq!(released.attempts_made, in_flight.attempts_made - 1);
    }
}

#[test]
fn the_last_attempt_ends_by_the_pause_that_came_before_its_result() {
    let schedule = Schedule::Quadratic { attempts: 1 };
    let marked = pause(&Delivery::born_leased(NOW));
    let after = settle(&marked, terms(&schedule), &attempt(1, failed(), LATER), Jitter::NONE);
    assert_eq!((after.delivery.state, after.uses_budget), (ENDPOINT_PAUSED, true));
}

#[test]
fn the_failure_that_pauses_ends_its_own_delivery() {
    let limits =
        Limits { degraded_failures: 1, degraded_after: Duration::ZERO, paused_after: Duration::ZERO };
    let watch = Some(Watch { health: Health::default(), limits: &limits, paused: false });
    let table = [
        (Schedule::Quadratic { attempts: 2 }, ENDPOINT_PAUSED),
        (Schedule::Quadratic { attempts: 1 }, State::Failed(FailReason::Exhausted)),
    ];
    for (schedule, expected) in table {
        let terms = Terms { watch, ..terms(&schedule) };
        let settled = settle(&Delivery::born_leased(NOW), terms, &attempt(1, failed(), LATER), Jitter::NONE);
        let turn = settled.health.unwrap();
        assert_eq!((turn.pause, turn.notices), (true, vec![Notice::Degraded, Notice::Paused]));
        assert_eq!((settled.delivery.state, settled.delivery.ended_at), (expected, Some(LATER)));
    }
}

#[test]
fn a_cancel_weighs_more_than_a_pause_whichever_came_first() {
    let schedule = Schedule::default();
    let in_flight = Delivery::born_leased(NOW);
    let both = [pause(&cancel(&in_flight, NOW).unwrap()), cancel(&pause(&in_flight), NOW).unwrap()];
    for marked in both {
        let after = settle(&marked, terms(&schedule), &attempt(1, failed(), LATER), Jitter::NONE).delivery;
        assert_eq!(after.state, State::Cancelled(CancelReason::Requested));
        let released = release(&marked, terms(&schedule), LATER);
        assert_eq!(released.state, State::Cancelled(CancelReason::Requested));
    }
}

#[test]
fn a_pause_during_a_replay_ends_what_was_pending_and_nothing_else() {
    let schedule = Schedule::default();
    let skipped = Delivery::skipped(NOW);
    let exhausted = Delivery { state: State::Failed(FailReason::Exhausted), ..tried(&schedule) };
    let table = [
        (tried(&schedule), ENDPOINT_PAUSED),
        (skipped.clone(), State::Skipped),
        (exhausted.clone(), exhausted.state),
    ];
    for (before, expected) in table {
        let marked = pause(&begin_replay(&before).unwrap());
        for outcome in [failed(), Outcome::Lost] {
            let result = attempt(marked.attempts_made, outcome, LATER);
            let after = settle(&marked, terms(&schedule), &result, Jitter::NONE).delivery;
            assert_eq!((after.state, after.ending, after.back_to), (expected, None, None));
        }
        assert_eq!(release(&marked, terms(&schedule), LATER).state, expected);
        let result = attempt(marked.attempts_made, delivered(), LATER);
        let after = settle(&marked, terms(&schedule), &result, Jitter::NONE).delivery;
        assert_eq!((after.state, after.ending), (State::Delivered, None));
    }
    // It has not been tried but by the replay that was taken back.
    let marked = pause(&begin_replay(&Delivery::new(NOW)).unwrap());
    assert_eq!(release(&marked, terms(&schedule), LATER).state, State::Skipped);
}
