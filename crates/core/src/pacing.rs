//! How fast a lane may go: attempts in flight, and attempts a second.

use std::time::Duration;

use crate::Timestamp;
use crate::outcome::{FailureKind, Outcome};

/// Where every lane starts.
const LIMIT_START: u32 = 8;
/// Attempts that are looked at before a limit changes, at least: fewer say little.
const LOOK_MIN: u32 = 16;
/// A lane that was not made faster by a higher limit looks so many times as long before it tries again, ...
const PATIENCE_STEP: u32 = 8;
/// ... and so many times at most.
const PATIENCE_MAX: u32 = 64;
/// How far attempts may run ahead of an even rate, to make up for a late timer.
const RATE_SLACK: Duration = Duration::from_millis(10);

/// How many attempts of one lane may be in flight.
///
/// Starts small and grows while attempts succeed and more wait, as long as that makes the lane faster: what a receiver,
/// or this machine, cannot do at once would only wait somewhere else. Halves when the receiver shows distress. One in
/// flight always remains, or a receiver that came back would never be noticed.
#[derive(Debug, Clone)]
pub struct InFlightLimit {
    limit: u32,
    max: u32,
    /// How many attempts delivered since the limit changed while more waited, and how long they took in all.
    delivered: u32,
    took: Duration,
    /// How long the latest of them took.
    latest: Duration,
    /// The limit before it grew, and what it brought.
    before: Option<Step>,
    patience: u32,
    delivers: bool,
}

/// A limit, and how long attempts took with it.
#[derive(Debug, Clone, Copy)]
struct Step {
    limit: u32,
    usual: Duration,
}

impl Step {
    /// Attempts a second.
    fn speed(self) -> f64 {
        f64::from(self.limit) / self.usual.as_secs_f64().max(1e-6)
    }

    /// Whether at least half of what was added to `before` came out faster.
    fn is_worth_it(self, before: Self) -> bool {
        let added = f64::from(self.limit) / f64::from(before.limit) - 1.0;
        self.speed() >= before.speed() * (1.0 + added / 2.0)
    }
}

impl InFlightLimit {
    /// `max` is the endpoint's `max_in_flight`, 1 to 1,000.
    pub fn new(max: u32) -> Self {
        Self {
            limit: LIMIT_START.min(max),
            max,
            delivered: 0,
            took: Duration::ZERO,
            latest: Duration::ZERO,
            before: None,
            patience: 1,
            delivers: false,
        }
    }

    /// Whether the receiver took something lately, and has shown no distress since.
    pub fn delivers(&self) -> bool {
        self.delivers
    }

    pub fn get(&self) -> u32 {
        self.limit
    }

    /// Takes a changed `max_in_flight`.
    pub fn set_max(&mut self, max: u32) {
        self.max = max;
        if self.limit > max {
            self.change(max, None);
        }
    }

    /// Notes how long an attempt took that delivered; [`learn`](Self::learn) comes after it.
    pub fn note(&mut self, took: Duration) {
        self.latest = took;
    }

    /// Learns from an outcome. `more_wait`: the lane had work that the limit held back.
    pub fn learn(&mut self, outcome: &Outcome, more_wait: bool) {
        self.delivers = self.delivers || matches!(outcome, Outcome::Delivered { .. });
        if is_distress(outcome) {
            self.delivers = false;
            self.change((self.limit / 2).max(1), None);
        } else if more_wait && (self.limit < self.max || self.before.is_some()) {
            self.delivered += 1;
            self.took += self.latest;
            if self.delivered >= self.limit.max(LOOK_MIN).saturating_mul(self.patience) {
                self.judge(Step { limit: self.limit, usual: self.took / self.delivered });
            }
        }
    }

    /// Grows, or takes back what growing did not pay for.
    fn judge(&mut self, now: Step) {
        match self.before {
            Some(before) if !now.is_worth_it(before) => {
                self.patience = self.patience.saturating_mul(PATIENCE_STEP).min(PATIENCE_MAX);
                self.change(before.limit, None);
            }
            grown => {
                if grown.is_some() {
                    self.patience = 1;
                }
                let more = (self.limit + (self.limit / 4).max(1)).min(self.max);
                self.change(more, Some(now).filter(|_| more > self.limit));
            }
        }
    }

    fn change(&mut self, limit: u32, before: Option<Step>) {
        self.limit = limit;
        self.before = before;
        (self.delivered, self.took) = (0, Duration::ZERO);
    }
}

/// Whether an outcome says that the receiver has more than it can bear.
fn is_distress(outcome: &Outcome) -> bool {
    match outcome {
        // A mail server that refuses one recipient may take the next.
        Outcome::Delivered { .. } | Outcome::Lost | Outcome::Refused(_) => false,
        Outcome::Failed(failure) | Outcome::Uncertain(failure) => match failure.kind {
            FailureKind::Timeout | FailureKind::Connect | FailureKind::Network => true,
            // The server has no time. Any other 4xx is about one mailbox or one sender, as with greylisting.
            FailureKind::Smtp => failure.status == Some(421),
            FailureKind::Status => failure.status.is_some_and(|status| status == 429 || status >= 500),
            FailureKind::Dns
            | FailureKind::Tls
            | FailureKind::RefusedAddress
            | FailureKind::LocalUnreachable => false,
        },
    }
}

/// An even rate of attempts (the generic cell rate algorithm).
#[derive(Debug, Clone)]
pub struct Rate {
    per_second: f64,
    /// When the next attempt would begin at a perfectly even rate, in milliseconds with fractions.
    even_ms: f64,
}

impl Rate {
    pub fn new(per_second: f64) -> Self {
        Self { per_second, even_ms: 0.0 }
    }

    pub fn set(&mut self, per_second: f64) {
        self.per_second = per_second;
    }

    /// Begins an attempt at `now`, or says when one may begin.
    ///
    /// # Errors
    /// The earliest time at which to ask again.
    pub fn begin(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit into 53 bits")]
        let now_ms = now.millis() as f64;
        // A clock that went back must not hold the lane for as long as it went back.
        let step_ms = 1000.0 / self.per_second;
        self.even_ms = self.even_ms.min(now_ms + step_ms + RATE_SLACK.as_secs_f64() * 1000.0);
        let earliest_ms = self.even_ms - RATE_SLACK.as_secs_f64() * 1000.0;
        if now_ms < earliest_ms {
            #[expect(clippy::cast_possible_truncation, reason = "a time of this era")]
            return Err(Timestamp::from_millis(earliest_ms.ceil() as i64));
        }
        self.even_ms = self.even_ms.max(now_ms) + step_ms;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Failure;

    fn delivered() -> Outcome {
        Outcome::Delivered { status: Some(200) }
    }

    #[test]
    fn the_limit_grows_to_its_maximum_only_while_work_waits() {
        let mut limit = InFlightLimit::new(64);
        for _ in 0..1000 {
            limit.learn(&delivered(), false);
        }
        assert_eq!(limit.get(), 8);
        for _ in 0..1000 {
            limit.learn(&delivered(), true);
        }
        assert_eq!(limit.get(), 64);
    }

    /// The limits of a lane to a receiver that works at `at_once` requests, each for 1 ms, after so many attempts each.
    fn limits(max: u32, at_once: u32, attempts: [u32; 4]) -> [u32; 4] {
        let mut limit = InFlightLimit::new(max);
        attempts.map(|attempts| {
            for _ in 0..attempts {
                limit.note(Duration::from_millis(1) * limit.get().max(at_once) / at_once);
                limit.learn(&delivered(), true);
            }
            limit.get()
        })
    }

    #[test]
    fn the_limit_grows_no_further_than_it_makes_the_lane_faster() {
        // From 8 on each step up is taken back, after 16 attempts at first, then 128, then 1,024.
        assert_eq!(limits(64, 8, [16, 16, 127, 1]), [10, 8, 8, 10]);
        assert_eq!(limits(64, 8, [10_000, 10_000, 10_000, 10_000]).map(|limit| limit <= 10), [true; 4]);
        // 8, 10, 12, 15 are each faster by at least half of the step, 18 is not.
        assert_eq!(limits(64, 15, [16, 16, 16, 16]), [10, 12, 15, 18]);
        assert!(
            limits(64, 15, [10_000, 10_000, 10_000, 10_000]).iter().all(|limit| (15..=18).contains(limit))
        );
        // A receiver that takes its time but never more than that is given as much as it may have.
        assert_eq!(limits(64, 1_000, [1_000, 0, 0, 0]), [64; 4]);
    }

    #[test]
    fn a_receiver_that_can_do_more_than_before_gets_more() {
        let mut limit = InFlightLimit::new(64);
        for _ in 0..10_000 {
            limit.note(Duration::from_millis(1) * limit.get());
            limit.learn(&delivered(), true);
        }
        assert!(limit.get() <= 10);
        for _ in 0..4_000 {
            limit.note(Duration::from_millis(20));
            limit.learn(&delivered(), true);
        }
        assert_eq!(limit.get(), 64);
    }

    #[test]
    fn a_receiver_delivers_until_it_is_in_distress() {
        let mut limit = InFlightLimit::new(64);
        let outcomes = [
            Outcome::of_status(404, None),
            delivered(),
            Outcome::of_status(404, None),
            Outcome::failed(FailureKind::Timeout, ""),
            Outcome::of_status(404, None),
            delivered(),
        ];
        let seen = outcomes.map(|outcome| {
            limit.learn(&outcome, true);
            limit.delivers()
        });
        assert_eq!(seen, [false, true, true, false, false, true]);
    }

    #[test]
    fn distress_halves_the_limit_down_to_one() {
        let distress = [
            Outcome::failed(FailureKind::Timeout, ""),
            Outcome::of_status(429, None),
            Outcome::of_status(500, None),
            Outcome::of_status(503, None),
        ];
        let mut limit = InFlightLimit::new(64);
        let seen: Vec<u32> = distress
            .iter()
            .map(|outcome| {
                limit.learn(outcome, true);
                limit.get()
            })
            .collect();
        assert_eq!(seen, [4, 2, 1, 1]);
    }

    #[test]
    fn a_plain_refusal_is_no_distress() {
        let mut limit = InFlightLimit::new(64);
        for status in [301, 400, 401, 404, 410] {
            limit.learn(&Outcome::of_status(status, None), true);
        }
        limit.learn(&Outcome::Lost, true);
        assert_eq!(limit.get(), 8);
    }

    #[test]
    fn a_mail_server_that_has_no_time_is_in_distress_and_one_that_greylists_is_not() {
        let said = |code: u16| {
            Outcome::Failed(Failure { status: Some(code), ..Failure::new(FailureKind::Smtp, "later") })
        };
        let mut limit = InFlightLimit::new(64);
        for code in [450, 451, 452, 454] {
            limit.learn(&said(code), true);
        }
        assert_eq!(limit.get(), 8);
        limit.learn(&said(421), true);
        assert_eq!(limit.get(), 4);
    }

    #[test]
    fn a_rate_is_even() {
        let mut rate = Rate::new(10.0);
        let begun =
            (0..2_000).filter(|ms| rate.begin(Timestamp::from_millis(1_000_000 + ms)).is_ok()).count();
        assert_eq!(begun, 21); // one at once, then one each 100 ms, 10 ms of slack at the end
    }

    #[test]
    fn a_refused_begin_names_the_time_that_works() {
        let mut rate = Rate::new(0.1);
        let now = Timestamp::from_millis(1_000_000);
        assert_eq!(rate.begin(now), Ok(()));
        let again = rate.begin(now).unwrap_err();
        assert_eq!(again, Timestamp::from_millis(1_009_990));
        assert_eq!(rate.begin(again), Ok(()));
    }

    #[test]
    fn a_clock_that_goes_back_holds_the_lane_for_one_step_at_most() {
        let mut rate = Rate::new(1.0);
        assert_eq!(rate.begin(Timestamp::from_millis(9_000_000)), Ok(()));
        let again = rate.begin(Timestamp::from_millis(1_000_000)).unwrap_err();
        assert_eq!(again, Timestamp::from_millis(1_001_000));
    }
}
