use axum::http::HeaderMap;
use proptest::prelude::*;

use super::*;

fn limit(per_second: f64, burst: u32) -> RateLimit {
    RateLimit::new(Rate::new(per_second, Some(burst)))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The three headers, empty where there is none.
fn told(standing: Standing) -> [String; 3] {
    let mut headers = HeaderMap::new();
    standing.tell(&mut headers);
    ["ratelimit-policy", "ratelimit", "retry-after"]
        .map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default())
}

#[test]
fn a_burst_passes_and_then_the_rate() {
    let limit = limit(2.0, 3);
    let admitted = |at_ms| limit.take("k", ms(at_ms)).admitted;
    let table = [
        (10_000, true),
        (10_000, true),
        (10_000, true),
        (10_000, false),
        (10_499, false),
        (10_500, true),
        (10_500, false),
        (10_999, false),
        (11_000, true),
        (12_000, true),
        (12_000, true),
        (12_000, false),
        (60_000, true),
        (60_000, true),
        (60_000, true),
        (60_000, false),
    ];
    for (index, (at_ms, expected)) in table.into_iter().enumerate() {
        assert_eq!(admitted(at_ms), expected, "row {index}");
    }
}

#[test]
fn those_who_are_counted_do_not_count_for_others() {
    let limit = limit(1.0, 1);
    assert!(limit.take("a", ms(0)).admitted && !limit.take("a", ms(0)).admitted);
    assert!(limit.take("b", ms(0)).admitted);
    limit.forget("a");
    assert!(limit.take("a", ms(0)).admitted && !limit.take("b", ms(0)).admitted);
}

#[test]
fn without_a_burst_it_is_what_comes_in_a_second() {
    for (per_second, burst) in [(0.01, 1), (1.0, 1), (1.5, 2), (100.0, 100), (100_000.0, 100_000)] {
        assert_eq!(Rate::new(per_second, None), Rate { per_second, burst });
    }
}

#[test]
fn the_headers_say_what_is_left_and_until_when() {
    let limit = limit(0.5, 2);
    let ask = |at_ms| told(limit.take("k", ms(at_ms)));
    let policy = r#""default";q=2;w=4"#;
    assert_eq!(ask(0), [policy, r#""default";r=1;t=2"#, ""]);
    assert_eq!(ask(500), [policy, r#""default";r=0;t=2"#, ""]);
    assert_eq!(ask(500), [policy, r#""default";r=0;t=2"#, "2"]);
    assert_eq!(ask(1_500), [policy, r#""default";r=0;t=1"#, "1"]);
    assert_eq!(ask(60_000), [policy, r#""default";r=1;t=2"#, ""]);
}

#[test]
fn the_policy_is_the_rate_over_the_time_in_which_the_burst_comes_back() {
    for (per_second, burst, expected) in [
        (100.0, 100, (100, 1)),
        (100.0, 200, (200, 2)),
        (100.0, 150, (200, 2)),
        (100.0, 1, (100, 1)),
        (3.0, 3, (3, 1)),
        (0.1, 1, (1, 10)),
        (0.07, 7, (7, 100)),
        (0.01, 1_000_000, (1_000_000, 100_000_000)),
        (100_000.0, 1, (100_000, 1)),
    ] {
        assert_eq!(Rate::new(per_second, Some(burst)).policy(), expected, "{per_second} {burst}");
    }
}

#[test]
fn memory_is_bounded_and_no_count_is_lost_for_others() {
    let limit = limit(1.0, 1);
    let max = u64::try_from(COUNTS_MAX).unwrap();
    for who in 0..max + 100 {
        assert!(limit.take(who, ms(200)).admitted);
    }
    assert_eq!(limit.counts().even_at_ns.len(), COUNTS_MAX);
    assert!((0..max).all(|who| !limit.take(who, ms(300)).admitted));
    assert!(limit.take(max, ms(300)).admitted, "uncounted");
    // Those counts are over a second later, and give room.
    assert!(limit.take(max, ms(1200)).admitted && !limit.take(max, ms(1200)).admitted);
    assert_eq!(limit.counts().even_at_ns.len(), 1);
}

#[test]
fn a_call_is_counted_once() {
    let (limit, counted) = (limit(1.0, 2), Counted::default());
    assert_eq!(counted.standing(), None);
    for _ in 0..3 {
        assert!(counted.clone().once(|| limit.take("k", ms(0))).admitted);
    }
    assert_eq!(counted.standing().map(|standing| standing.remaining), Some(1));
}

/// A bucket of tokens as one would write it down: it is filled as time passes, and each takes one out.
struct Bucket {
    level_ns: u64,
    at_ns: u64,
}

impl Bucket {
    fn take(&mut self, rate: Rate, at_ns: u64) -> bool {
        let full_ns = rate.interval_ns() * u64::from(rate.burst);
        self.level_ns = full_ns.min(self.level_ns + (at_ns - self.at_ns));
        self.at_ns = at_ns;
        let admitted = self.level_ns >= rate.interval_ns();
        if admitted {
            self.level_ns -= rate.interval_ns();
        }
        admitted
    }
}

proptest! {
    #[test]
    fn what_conforms_passes_and_never_more_than_the_burst_and_the_rate(
        per_second in 0.01_f64..100_000.0,
        burst in 1_u32..50,
        gaps in prop::collection::vec(0.0_f64..3.0, 1..200),
        start_ns in 0_u64..1 << 60,
    ) {
        let rate = Rate::new(per_second, Some(burst));
        let limit = RateLimit::new(rate);
        let mut bucket = Bucket { level_ns: rate.interval_ns() * u64::from(burst), at_ns: start_ns };
        let (mut now_ns, mut passed) = (start_ns, Vec::new());
        for gap in gaps {
            // Gaps as long as three intervals, a third of them none: bursts and pauses.
            now_ns += ((gap - 1.0).max(0.0) * SECOND_NS / per_second) as u64;
            let standing = limit.take("k", Duration::from_nanos(now_ns));
            prop_assert_eq!(standing.admitted, bucket.take(rate, now_ns));
            prop_assert_eq!(standing.remaining, bucket.level_ns / rate.interval_ns());
            if standing.admitted {
                passed.push(now_ns);
            }
        }
        for (first, from_ns) in passed.iter().enumerate() {
            for (last, to_ns) in passed.iter().enumerate().skip(first) {
                let count = (last - first + 1) as f64;
                let seconds = (to_ns - from_ns) as f64 / SECOND_NS;
                prop_assert!(count <= seconds * per_second + f64::from(burst) + 1e-6);
            }
        }
    }

    #[test]
    fn who_waits_as_told_is_admitted_and_who_comes_earlier_is_not(
        per_second in 0.01_f64..100_000.0,
        burst in 1_u32..20,
        part in 0.0_f64..1.0,
    ) {
        let rate = Rate::new(per_second, Some(burst));
        let limit = RateLimit::new(rate);
        let at = |ns| Duration::from_nanos(ns);
        for _ in 0..burst {
            prop_assert!(limit.take("k", at(0)).admitted);
        }
        let now_ns = (rate.interval_ns() as f64 * part) as u64;
        let now_ns = now_ns.min(rate.interval_ns() - 1);
        let refused = limit.take("k", at(now_ns));
        prop_assert!(!refused.admitted && refused.remaining == 0);
        prop_assert!(refused.next_seconds() >= 1);
        prop_assert!(Duration::from_secs(refused.next_seconds()) >= refused.next);
        let next = at(now_ns) + refused.next;
        prop_assert!(!limit.take("k", next - at(1)).admitted);
        prop_assert!(limit.take("k", next).admitted);
    }
}
