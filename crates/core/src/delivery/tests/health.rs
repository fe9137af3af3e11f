use super::*;
use crate::health::Run;

const LIMITS: Limits =
    Limits { degraded_failures: 2, degraded_after: Duration::ZERO, paused_after: Duration::from_secs(1) };

fn watched(schedule: &Schedule, health: Health, paused: bool) -> Terms<'_> {
    Terms { watch: Some(Watch { health, limits: &LIMITS, paused }), ..terms(schedule) }
}

fn failing() -> Health {
    Health { run: Some(Run { since: NOW, failures: 1 }), degraded: false }
}

/// What an automatic attempt that ends `NOW` changes for its webhook.
fn turn(delivery: &Delivery, health: Health, paused: bool, outcome: Outcome) -> Option<Turn> {
    let schedule = Schedule::default();
    let result = attempt(delivery.attempts_made, outcome, NOW);
    settle(delivery, watched(&schedule, health, paused), &result, Jitter::NONE).health
}

#[test]
fn an_automatic_attempt_that_failed_counts() {
    let born = Delivery::born_leased(NOW);
    let first = turn(&born, Health::default(), false, failed()).unwrap();
    assert_eq!(first, Turn { health: failing(), notices: vec![], pause: false });
    let second = turn(&born, first.health, false, failed()).unwrap();
    let degraded = Health { run: Some(Run { since: NOW, failures: 2 }), degraded: true };
    assert_eq!((second.health, second.notices.len(), second.pause), (degraded, 1, false));
}

#[test]
fn a_failure_counts_also_as_the_last_of_its_delivery_and_after_a_cancel() {
    let schedule = Schedule::Quadratic { attempts: 1 };
    let born = Delivery::born_leased(NOW);
    for delivery in [born.clone(), cancel(&born, NOW).unwrap()] {
        let result = attempt(1, failed(), NOW);
        let settled = settle(&delivery, watched(&schedule, Health::default(), false), &result, Jitter::NONE);
        assert_eq!(settled.health.map(|turn| turn.health), Some(failing()));
    }
}

#[test]
fn a_lost_attempt_never_counts_nor_does_the_third_in_a_row() {
    for lost_in_row in 0..3 {
        let delivery = Delivery { lost_in_row, ..Delivery::born_leased(NOW) };
        assert_eq!(turn(&delivery, failing(), false, Outcome::Lost), None);
    }
}

#[test]
fn a_replay_that_fails_does_not_count_and_one_that_delivers_clears() {
    let replay = begin_replay(&Delivery::skipped(NOW)).unwrap();
    for outcome in [failed(), Outcome::Lost] {
        assert_eq!(turn(&replay, failing(), false, outcome), None);
    }
    assert_eq!(turn(&replay, failing(), false, delivered()), Some(Turn::cleared()));
    assert_eq!(turn(&replay, Health::default(), false, delivered()), None, "there is nothing to clear");
}

#[test]
fn a_paused_webhook_is_past_being_watched_but_not_past_recovering() {
    let in_flight = pause(&Delivery::born_leased(NOW));
    let degraded = Health { degraded: true, ..failing() };
    for outcome in [failed(), Outcome::Lost] {
        assert_eq!(turn(&in_flight, degraded, true, outcome), None);
    }
    assert_eq!(turn(&in_flight, degraded, true, delivered()), Some(Turn::cleared()));
}

#[test]
fn a_delivered_attempt_clears_what_there_is() {
    let born = Delivery::born_leased(NOW);
    assert_eq!(turn(&born, failing(), false, delivered()), Some(Turn::cleared()));
    assert_eq!(turn(&born, Health::default(), false, delivered()), None);
}

#[test]
fn nobody_watches_over_destinations() {
    let schedule = Schedule::default();
    for outcome in [delivered(), failed(), Outcome::Lost] {
        let result = attempt(1, outcome, NOW);
        let settled = settle(&Delivery::born_leased(NOW), terms(&schedule), &result, Jitter::NONE);
        assert_eq!(settled.health, None);
    }
}
