use super::*;

const LATER: Timestamp = Timestamp::from_millis(1_800_000_600_000);

/// Deliveries in each state that a replay can meet, after two used attempts and a lost one where there were any.
fn resting() -> Vec<Delivery> {
    let wait = Wait { length: Duration::from_secs(540), cause: WaitCause::Schedule };
    let tried = |state| Delivery {
        state,
        attempts_made: 3,
        attempts_used: 2,
        lost_in_row: 1,
        due_at: NOW + wait.length,
        wait: Some(wait),
        ended_at: Some(NOW),
        ..Delivery::new(NOW)
    };
    vec![
        Delivery::new(NOW),
        tried(State::Pending),
        tried(State::Delivered),
        tried(State::Failed(FailReason::Exhausted)),
        tried(State::Failed(FailReason::EndpointPaused)),
        tried(State::Cancelled(CancelReason::Requested)),
        Delivery::skipped(NOW),
    ]
}

/// What a replay of `delivery` leaves that ends `LATER`.
fn replayed(delivery: &Delivery, outcome: Outcome) -> Settlement {
    let begun = begin_replay(delivery).unwrap();
    let number = begun.attempts_made;
    settle(&begun, terms(&Schedule::default()), &attempt(number, outcome, LATER), Jitter::NONE)
}

#[test]
fn a_replays_attempt_is_due_when_it_is_leased() {
    for before in resting() {
        assert_eq!(begin_replay(&before).unwrap().attempt_due_at(LATER), LATER);
    }
    let Claim::Begin(planned) = claim(&Delivery::new(NOW), terms(&Schedule::default()), LATER) else {
        panic!("it is pending")
    };
    assert_eq!(planned.attempt_due_at(LATER), NOW);
}

#[test]
fn a_replay_is_one_more_attempt_whatever_the_delivery_came_to() {
    for before in resting() {
        let begun = begin_replay(&before).unwrap();
        let expected = Delivery {
            state: State::Sending,
            attempts_made: before.attempts_made + 1,
            back_to: Some(before.state),
            ..before.clone()
        };
        assert_eq!(begun, expected);
        assert_eq!(begin_replay(&begun), Err(Conflict(State::Sending)), "one at a time");
    }
    assert_eq!(begin_replay(&Delivery::born_leased(NOW)), Err(Conflict(State::Sending)));
}

#[test]
fn a_replay_that_delivers_ends_the_delivery() {
    for before in resting() {
        let settlement = replayed(&before, delivered());
        let expected = Delivery {
            state: State::Delivered,
            attempts_made: before.attempts_made + 1,
            lost_in_row: 0,
            ended_at: Some(LATER),
            ..before.clone()
        };
        assert_eq!(settlement, Settlement { delivery: expected, uses_budget: false, health: None });
    }
}

#[test]
fn a_replay_that_does_not_deliver_leaves_all_but_the_count_as_it_was() {
    let wish = Some(LATER + Duration::from_secs(3600));
    for before in resting() {
        for outcome in [failed(), Outcome::of_status(429, wish), Outcome::Lost] {
            let settlement = replayed(&before, outcome.clone());
            let expected =
                Delivery { attempts_made: before.attempts_made + 1, ended_at: Some(LATER), ..before.clone() };
            let expected = Settlement { delivery: expected, uses_budget: false, health: None };
            assert_eq!(settlement, expected, "{outcome:?}");
        }
    }
}

#[test]
fn the_schedule_goes_on_after_a_replay_where_it_was() {
    let schedule = Schedule::Quadratic { attempts: 3 };
    let first =
        settle(&Delivery::born_leased(NOW), terms(&schedule), &attempt(1, failed(), NOW), Jitter::NONE);
    let after = replayed(&first.delivery, failed()).delivery;
    assert_eq!(after.due_at, NOW + Duration::from_secs(240));
    let second = begin(&after, &schedule, LATER);
    assert_eq!(second.attempts_made, 3);
    let settled = settle(&second, terms(&schedule), &attempt(3, failed(), LATER), Jitter::NONE).delivery;
    assert_eq!((settled.attempts_used, settled.due_at), (2, LATER + Duration::from_secs(540)));
}

#[test]
fn lost_replays_break_no_row_and_make_none() {
    let schedule = Schedule::default();
    let mut delivery = Delivery::born_leased(NOW);
    for number in [1, 3] {
        let lost = attempt(number, Outcome::Lost, NOW);
        let settled = settle(&delivery, terms(&schedule), &lost, Jitter::NONE).delivery;
        let replayed = replayed(&settled, Outcome::Lost).delivery;
        assert_eq!(replayed.lost_in_row, settled.lost_in_row);
        delivery = begin(&replayed, &schedule, LATER);
    }
    let third = settle(&delivery, terms(&schedule), &attempt(5, Outcome::Lost, LATER), Jitter::NONE);
    assert!(third.uses_budget, "the third of the schedule's own");
}

#[test]
fn a_released_replay_leaves_no_trace() {
    let schedule = Schedule::default();
    for before in resting() {
        let begun = begin_replay(&before).unwrap();
        assert_eq!(release(&begun, terms(&schedule), LATER), before);
    }
}

#[test]
fn a_cancel_during_a_replay_counts_for_what_the_delivery_was() {
    let schedule = Schedule::default();
    let cancelled = State::Cancelled(CancelReason::Requested);
    for before in resting() {
        let begun = begin_replay(&before).unwrap();
        let number = begun.attempts_made;
        let asked = cancel(&begun, NOW);
        let after = |asked: &Delivery, outcome| {
            settle(asked, terms(&schedule), &attempt(number, outcome, LATER), Jitter::NONE).delivery.state
        };
        match before.state {
            State::Pending => {
                let asked = asked.unwrap();
                assert!(asked.cancel_requested());
                assert_eq!(after(&asked, delivered()), State::Delivered);
                assert_eq!(after(&asked, failed()), cancelled);
                assert_eq!(after(&asked, Outcome::Lost), cancelled);
                assert_eq!(release(&asked, terms(&schedule), LATER).state, cancelled);
            }
            State::Cancelled(_) => {
                // Marked, so that a replay that has not dialled is withdrawn.
                let asked = asked.unwrap();
                assert!(asked.cancel_requested());
                assert_eq!(after(&asked, delivered()), State::Delivered);
                assert_eq!(after(&asked, failed()), before.state);
                assert_eq!(release(&asked, terms(&schedule), LATER), before);
            }
            State::Sending | State::Delivered | State::Failed(_) | State::Skipped => {
                assert_eq!(asked, Err(Conflict(before.state)));
            }
        }
    }
}

#[test]
fn a_deletion_during_a_replay_ends_only_what_was_pending() {
    let schedule = Schedule::default();
    let deleted = State::Cancelled(CancelReason::EndpointDeleted);
    let gone = Terms { over: Some(Over::Gone(CancelReason::EndpointDeleted)), ..terms(&schedule) };
    for before in resting() {
        let begun = begin_replay(&before).unwrap();
        let result = attempt(begun.attempts_made, failed(), LATER);
        let after = settle(&begun, gone, &result, Jitter::NONE).delivery.state;
        let expected = if before.state == State::Pending { deleted } else { before.state };
        assert_eq!(after, expected);
        assert_eq!(release(&begun, gone, LATER).state, expected);
    }
}

#[test]
fn an_end_is_never_before_that_of_the_latest_attempt() {
    // The clock went back, and a replay must not begin before that attempt ended.
    let tried = Delivery { attempts_made: 1, ended_at: Some(LATER), ..Delivery::new(NOW) };
    assert_eq!(cancel(&tried, NOW).unwrap().ended_at, Some(LATER));
    let skipped = Delivery { state: State::Skipped, ..tried };
    assert_eq!(recover(&skipped, NOW).unwrap().ended_at, Some(LATER));
    assert_eq!(recover(&Delivery::skipped(LATER), NOW).unwrap().ended_at, None);
}

#[test]
fn only_what_was_skipped_can_be_recovered() {
    for before in resting() {
        let recovered = recover(&before, LATER);
        assert_eq!(recovered.is_some(), before.state == State::Skipped, "{before:?}");
    }
    assert_eq!(recover(&Delivery::born_leased(NOW), LATER), None);
    let recovered = recover(&Delivery::skipped(NOW), LATER).unwrap();
    assert_eq!(recovered, Delivery::new(LATER), "as if it had come now");
    assert_eq!(begin(&recovered, &Schedule::default(), LATER).attempts_made, 1);
}

#[test]
fn a_recovered_delivery_keeps_the_numbers_of_its_replays() {
    let replayed = replayed(&Delivery::skipped(NOW), failed()).delivery;
    assert_eq!((replayed.state, replayed.attempts_made), (State::Skipped, 1));
    let recovered = recover(&replayed, LATER).unwrap();
    let begun = begin(&recovered, &Schedule::default(), LATER);
    assert_eq!((begun.attempts_made, begun.attempts_used), (2, 0));
}
