use super::*;

const ENDED: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn status(status: u16, retry_after: Option<Duration>) -> Failure {
    Failure {
        kind: FailureKind::Status,
        status: Some(status),
        enhanced: None,
        message: String::new(),
        retry_after: retry_after.map(|wait| ENDED + wait),
    }
}

fn timeout() -> Failure {
    Failure {
        kind: FailureKind::Timeout,
        status: None,
        enhanced: None,
        message: String::new(),
        retry_after: None,
    }
}

fn minutes(schedule: &Schedule) -> Vec<f64> {
    (2..=schedule.attempts_max())
        .map(|number| schedule.wait_before(number).unwrap().as_secs_f64() / 60.0)
        .collect()
}

#[test]
fn the_nine_waits_of_quadratic_and_their_sum() {
    let waits = minutes(&Schedule::Quadratic { attempts: 10 });
    assert_eq!(waits, [4.0, 9.0, 16.0, 25.0, 36.0, 49.0, 64.0, 81.0, 100.0]);
    assert_eq!(waits.iter().sum::<f64>(), 6.0 * 60.0 + 24.0);
}

#[test]
fn the_seven_waits_of_standard_and_their_sum() {
    let waits = minutes(&Schedule::Standard);
    assert_eq!(waits, [5.0 / 60.0, 5.0, 30.0, 120.0, 300.0, 600.0, 600.0]);
    let sum: Duration = (2..=8).filter_map(|number| Schedule::Standard.wait_before(number)).sum();
    assert_eq!(sum.as_secs(), 27 * 3600 + 35 * 60 + 5);
}

#[test]
fn the_eight_waits_of_mail() {
    assert_eq!(minutes(&Schedule::Mail), [1.0, 5.0, 15.0, 60.0, 180.0, 360.0, 720.0, 1440.0]);
}

#[test]
fn custom_takes_its_waits_as_given_with_fractions() {
    let schedule = Schedule::Custom { waits_seconds: vec![0.25, 60.0, 604_800.0], jitter: 0.0 };
    assert_eq!(schedule.attempts_max(), 4);
    assert_eq!(schedule.wait_before(2), Some(Duration::from_millis(250)));
    assert_eq!(schedule.wait_before(4), Some(Duration::from_secs(604_800)));
    assert_eq!(schedule.wait_before(5), None);
}

#[test]
fn n_attempts_means_n() {
    for attempts in 1..=10 {
        let schedule = Schedule::Quadratic { attempts };
        assert_eq!(schedule.attempts_max(), attempts);
        assert!(schedule.wait_after(attempts, Some(&status(500, None)), ENDED, Jitter::NONE).is_none());
        if attempts > 1 {
            assert!(
                schedule.wait_after(attempts - 1, Some(&status(500, None)), ENDED, Jitter::NONE).is_some()
            );
        }
    }
}

#[test]
fn what_lengthens_a_wait() {
    let seconds = Duration::from_secs;
    let table: [(&str, Schedule, Failure, u64, WaitCause); 9] = [
        ("schedule alone", Schedule::Standard, status(500, None), 5, WaitCause::Schedule),
        ("longer wish", Schedule::Standard, status(503, Some(seconds(90))), 90, WaitCause::RetryAfter),
        ("shorter wish", Schedule::Standard, status(503, Some(seconds(2))), 5, WaitCause::Schedule),
        (
            "absurd wish",
            Schedule::Standard,
            status(503, Some(seconds(900_000))),
            86_400,
            WaitCause::RetryAfter,
        ),
        ("past wish", Schedule::Standard, status(503, Some(Duration::ZERO)), 5, WaitCause::Schedule),
        ("bare 429", Schedule::Standard, status(429, None), 60, WaitCause::Throttled),
        ("429 with a wish", Schedule::Standard, status(429, Some(seconds(7))), 7, WaitCause::RetryAfter),
        ("timeout", Schedule::Standard, timeout(), 60, WaitCause::Throttled),
        (
            "quadratic ignores",
            Schedule::default(),
            status(429, Some(seconds(9_000))),
            240,
            WaitCause::Schedule,
        ),
    ];
    for (name, schedule, failure, expected, cause) in table {
        let wait = schedule.wait_after(1, Some(&failure), ENDED, Jitter::NONE).unwrap();
        assert_eq!(wait, Wait { length: seconds(expected), cause }, "{name}");
    }
}

#[test]
fn bad_schedules_name_their_field() {
    let custom = |waits_seconds, jitter| Schedule::Custom { waits_seconds, jitter };
    let table = [
        (Schedule::Quadratic { attempts: 0 }, "attempts"),
        (Schedule::Quadratic { attempts: 11 }, "attempts"),
        (custom(vec![1.0; 10], 0.0), "waits_seconds"),
        (custom(vec![-1.0], 0.0), "waits_seconds"),
        (custom(vec![f64::NAN], 0.0), "waits_seconds"),
        (custom(vec![604_801.0], 0.0), "waits_seconds"),
        (custom(vec![1.0], 0.51), "jitter"),
        (custom(vec![1.0], f64::NAN), "jitter"),
    ];
    for (schedule, field) in table {
        let fault = schedule.check(CUSTOM_WAITS_MAX_DESTINATION).unwrap_err();
        assert_eq!(fault.field(), field, "{schedule:?}");
    }
    assert_eq!(custom(vec![], 0.0).check(9), Ok(()));
    assert_eq!(custom(vec![604_800.0; 9], 0.5).check(9), Ok(()));
}

#[test]
fn schedules_are_written_and_read_back() {
    let table = [
        (Schedule::Quadratic { attempts: 5 }, r#"{"kind":"quadratic","attempts":5}"#),
        (Schedule::Standard, r#"{"kind":"standard"}"#),
        (Schedule::Mail, r#"{"kind":"mail"}"#),
        (
            Schedule::Custom { waits_seconds: vec![0.5, 300.0], jitter: 0.25 },
            r#"{"kind":"custom","waits_seconds":[0.5,300.0],"jitter":0.25}"#,
        ),
    ];
    for (schedule, text) in table {
        assert_eq!(serde_json::to_string(&schedule).unwrap(), text);
        assert_eq!(serde_json::from_str::<Schedule>(text).unwrap(), schedule);
    }
    let plain: Schedule = serde_json::from_str(r#"{"kind":"custom","waits_seconds":[60]}"#).unwrap();
    assert_eq!(plain, Schedule::Custom { waits_seconds: vec![60.0], jitter: 0.0 });
    for text in [
        r#"{"kind":"unheard of"}"#,
        r#"{"kind":"quadratic"}"#,
        r#"{"kind":"custom"}"#,
        r#"{"kind":"standard","attempts":3}"#,
        r#"{"kind":"quadratic","attempts":3,"waits_seconds":[1]}"#,
        r#"{"kind":"mail","other":1}"#,
    ] {
        assert!(serde_json::from_str::<Schedule>(text).is_err(), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn jitter_stays_within_its_share(bits: u64, attempt in 1u32..8) {
        let planned = Schedule::Standard.wait_before(attempt + 1).unwrap().as_secs_f64();
        let drawn = Schedule::Standard
            .wait_after(attempt, Some(&status(500, None)), ENDED, Jitter::from_bits(bits)).unwrap()
            .length.as_secs_f64();
        proptest::prop_assert!((planned * 0.799_999..=planned * 1.200_001).contains(&drawn));
    }
}

/// Draws, one after the other, whose bits are spread (splitmix64).
fn draws() -> impl Iterator<Item = Jitter> {
    let mut state = 0u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Jitter::from_bits(mixed ^ (mixed >> 31))
    })
}

/// The shortest and the longest of the waits of `standard`, in milliseconds.
const STANDARD_BOUNDS_MS: [(u64, u64); 7] = [
    (4_000, 6_000),
    (240_000, 360_000),
    (1_440_000, 2_160_000),
    (5_760_000, 8_640_000),
    (14_400_000, 21_600_000),
    (28_800_000, 43_200_000),
    (28_800_000, 43_200_000),
];

fn standard_wait(used: u32, jitter: Jitter) -> Duration {
    let wait = Schedule::Standard.wait_after(used, Some(&status(500, None)), ENDED, jitter).unwrap();
    assert_eq!(wait.cause, WaitCause::Schedule);
    wait.length
}

#[test]
fn the_smallest_and_the_largest_draw_of_standard() {
    for (used, (shortest_ms, longest_ms)) in (1..).zip(STANDARD_BOUNDS_MS) {
        let bounds = [0, u64::MAX].map(|bits| standard_wait(used, Jitter::from_bits(bits)));
        assert_eq!(bounds, [shortest_ms, longest_ms].map(Duration::from_millis), "wait {used}");
    }
}

#[test]
fn each_wait_of_standard_is_spread_evenly_over_its_range() {
    let mut draws = draws();
    for (used, (shortest_ms, longest_ms)) in (1..).zip(STANDARD_BOUNDS_MS) {
        let [shortest, longest] = [shortest_ms, longest_ms].map(Duration::from_millis);
        let mut tenths = [0; 10];
        for jitter in draws.by_ref().take(10_000) {
            let length = standard_wait(used, jitter);
            assert!((shortest..=longest).contains(&length), "wait {used}: {length:?}");
            let tenth = 10 * (length - shortest).as_nanos() / (longest - shortest).as_nanos();
            tenths[(tenth as usize).min(9)] += 1;
        }
        assert!(tenths.iter().all(|hits| (800..1200).contains(hits)), "wait {used}: {tenths:?}");
    }
}
