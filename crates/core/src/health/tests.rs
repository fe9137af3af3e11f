use super::*;

const BEGAN: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The turn that the last of several failures makes; `ends_ms` count from [`BEGAN`].
fn after(limits: &Limits, ends_ms: &[u64]) -> Turn {
    let first = Turn { health: Health::default(), notices: Vec::new(), pause: false };
    ends_ms.iter().fold(first, |turn, ms| turn.health.failed(BEGAN + Duration::from_millis(*ms), limits))
}

fn limits(degraded_failures: u32, degraded_after_ms: u64, paused_after_ms: u64) -> Limits {
    Limits {
        degraded_failures,
        degraded_after: Duration::from_millis(degraded_after_ms),
        paused_after: Duration::from_millis(paused_after_ms),
    }
}

#[test]
fn the_limits_unless_configured() {
    let limits = Limits::default();
    assert_eq!(limits.degraded_failures, 5);
    assert_eq!(limits.degraded_after.as_secs(), 300);
    assert_eq!(limits.paused_after.as_secs(), 432_000);
}

#[test]
fn the_first_failure_begins_a_run_at_its_end() {
    let turn = after(&Limits::default(), &[700]);
    let run = Run { since: Timestamp::from_millis(1_800_000_000_700), failures: 1 };
    assert_eq!(turn.health, Health { run: Some(run), degraded: false });
    assert_eq!((turn.notices, turn.pause), (vec![], false));
}

#[test]
fn five_failures_over_five_minutes_degrade_and_a_failure_after_120_hours_pauses() {
    use Notice::{Degraded, Paused};
    let table: [(&str, &[u64], bool, &[Notice]); 11] = [
        ("fifth at exactly 5 min", &[0, 1, 2, 3, 5 * MINUTE], true, &[Degraded]),
        ("fifth one ms earlier", &[0, 1, 2, 3, 5 * MINUTE - 1], false, &[]),
        ("four after 6 min", &[0, 1, 2, 6 * MINUTE], false, &[]),
        ("five at once", &[0, 0, 0, 0, 0], false, &[]),
        ("sixth at 5 min", &[0, 1, 2, 3, 4, 5 * MINUTE], true, &[Degraded]),
        ("degraded already", &[0, 1, 2, 3, 5 * MINUTE, 6 * MINUTE], true, &[]),
        ("at exactly 120 h", &[0, 1, 2, 3, 5 * MINUTE, 120 * HOUR], true, &[Paused]),
        ("one ms earlier", &[0, 1, 2, 3, 5 * MINUTE, 120 * HOUR - 1], true, &[]),
        ("long after", &[0, 1, 2, 3, 5 * MINUTE, 9000 * HOUR], true, &[Paused]),
        ("both in one step", &[0, 1, 2, 3, 120 * HOUR], true, &[Degraded, Paused]),
        ("four in 121 h", &[0, 1, 2, 121 * HOUR], false, &[]),
    ];
    for (name, ends_ms, degraded, notices) in table {
        let turn = after(&Limits::default(), ends_ms);
        let run = Run { since: BEGAN, failures: ends_ms.len() as u32 };
        assert_eq!(turn.health, Health { run: Some(run), degraded }, "{name}");
        assert_eq!(turn.notices, notices, "{name}");
        assert_eq!(turn.pause, notices.contains(&Paused), "{name}");
    }
}

#[test]
fn odd_limits_pause_nothing_that_is_not_degraded() {
    use Notice::{Degraded, Paused};
    let table: [(&str, Limits, &[u64], &[Notice]); 6] = [
        ("pause before degrade", limits(2, HOUR, MINUTE), &[0, 2 * MINUTE], &[]),
        ("until it degrades", limits(2, HOUR, MINUTE), &[0, HOUR], &[Degraded, Paused]),
        ("too few", limits(9, 0, 0), &[0, 1000 * HOUR], &[]),
        ("all zero", limits(0, 0, 0), &[0], &[Degraded, Paused]),
        ("first failure degrades", limits(1, 0, HOUR), &[0], &[Degraded]),
        ("never", limits(1, 0, u64::MAX), &[0, 900_000 * HOUR], &[]),
    ];
    for (name, limits, ends_ms, notices) in table {
        let turn = after(&limits, ends_ms);
        assert_eq!(turn.notices, notices, "{name}");
        assert_eq!(turn.pause, notices.contains(&Paused), "{name}");
    }
}

#[test]
fn an_episode_has_one_degraded_notice_and_the_next_only_after_a_recovery() {
    let limits = Limits::default();
    let ends_ms = [0, 1, 2, 3, 4, 5 * MINUTE, 6 * MINUTE, 7 * MINUTE, 119 * HOUR];
    let told = |mut health: Health| {
        let mut notices = Vec::new();
        for ms in ends_ms {
            let turn = health.failed(BEGAN + Duration::from_millis(ms), &limits);
            health = turn.health;
            notices.extend(turn.notices);
        }
        (health, notices)
    };
    let (health, notices) = told(Health::default());
    assert_eq!((health.degraded, notices), (true, vec![Notice::Degraded]));
    let (health, notices) = told(Health::cleared());
    assert_eq!((health.degraded, notices), (true, vec![Notice::Degraded]));
    let (_, notices) = told(health);
    assert_eq!(notices, []);
}

#[test]
fn clearing_leaves_no_trace_of_the_run() {
    assert_eq!(Health::cleared(), Health { run: None, degraded: false });
    assert_eq!(Health::cleared(), Health::default());
    assert_eq!(Turn::cleared(), Turn { health: Health::default(), notices: vec![], pause: false });
    let limits = Limits::default();
    let turn = Health::cleared().failed(BEGAN + Duration::from_secs(3600 * 200), &limits);
    assert_eq!(turn.health.run.map(|run| run.failures), Some(1));
    assert_eq!((turn.notices, turn.pause), (vec![], false));
}

#[test]
fn a_clock_that_went_back_makes_the_run_no_time_long() {
    let limits = limits(2, SECOND, 2 * SECOND);
    let turn = after(&limits, &[60_000, 0]);
    assert_eq!(turn.health.run, Some(Run { since: BEGAN + Duration::from_secs(60), failures: 2 }));
    assert_eq!((turn.health.degraded, turn.pause), (false, false));
    let turn = after(&limits, &[60_000, 0, 60_999]);
    assert!(!turn.health.degraded);
    let turn = after(&limits, &[60_000, 0, 61_000]);
    assert_eq!((turn.health.degraded, turn.pause), (true, false));
    // Degraded already, the clock behind the begin of the run: no pause, and it stays degraded.
    let turn = after(&limits, &[60_000, 0, 61_000, 0]);
    assert_eq!((turn.health.degraded, turn.notices, turn.pause), (true, vec![], false));
}

#[test]
fn a_changed_limit_does_not_cure() {
    let degraded = after(&limits(1, 0, HOUR), &[0]).health;
    let turn = degraded.failed(BEGAN + Duration::from_secs(1), &limits(100, HOUR, 2 * HOUR));
    assert_eq!((turn.health.degraded, turn.notices), (true, vec![]));
}

#[test]
fn a_count_at_its_end_stays_there() {
    let run = Run { since: BEGAN, failures: u32::MAX };
    let turn = Health { run: Some(run), degraded: true }.failed(BEGAN, &Limits::default());
    assert_eq!(turn.health.run, Some(run));
}

#[test]
fn a_run_says_from_when_on_a_failure_pauses() {
    let limits = Limits::default();
    assert_eq!(Health::default().pauses_at(&limits), None);
    let health = after(&limits, &[0, 1, 2, 3, 5 * MINUTE]).health;
    let at = health.pauses_at(&limits).unwrap();
    assert_eq!(at, Timestamp::from_millis(1_800_432_000_000));
    assert!(health.failed(at, &limits).pause);
    assert!(!health.failed(at - Duration::from_millis(1), &limits).pause);
}

#[test]
fn the_status_is_what_weighs_most() {
    let degraded = Health { run: Some(Run { since: BEGAN, failures: 9 }), degraded: true };
    let failing = Health { degraded: false, ..degraded };
    let table = [
        (false, Health::default(), "active"),
        (false, failing, "active"),
        (false, degraded, "degraded"),
        (true, degraded, "paused"),
        (true, Health::default(), "paused"),
    ];
    for (paused, health, name) in table {
        assert_eq!(status(paused, &health).name(), name, "{paused} {health:?}");
    }
}

#[test]
fn notices_have_names() {
    assert_eq!(Notice::Degraded.name(), "webhook_degraded");
    assert_eq!(Notice::Paused.name(), "webhook_paused");
}
