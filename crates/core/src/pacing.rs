//! How fast a lane may go: attempts in flight, and attempts a second.

use std::time::Duration;

use crate::Timestamp;
use crate::outcome::{FailureKind, Outcome};

/// Where every lane starts.
const LIMIT_START: u32 = 8;
/// Attempts that usually take so many times as long as the fastest are a sign of strain.
const STRAIN: u32 = 4;
/// Under strain a lane needs so many times as many successes to grow.
const STRAINED_SUCCESSES: u32 = 32;
/// How far attempts may run ahead of an even rate, to make up for a late timer.
const RATE_SLACK: Duration = Duration::from_millis(10);

/// How many attempts of one lane may be in flight.
///
/// Starts small, grows while attempts succeed and more wait, halves when the receiver shows distress. One in
/// flight always remains, or a receiver that came back would never be noticed.
#[derive(Debug, Clone)]
pub struct InFlightLimit {
    limit: u32,
    max: u32,
    successes: u32,
    /// The shortest time an attempt took lately, and the usual one.
    fastest: Duration,
    usual: Duration,
}

impl InFlightLimit {
    /// `max` is the endpoint's `max_in_flight`, 1 to 1,000.
    pub fn new(max: u32) -> Self {
        let (fastest, usual) = (Duration::MAX, Duration::ZERO);
        Self { limit: LIMIT_START.min(max), max, successes: 0, fastest, usual }
    }

    pub fn get(&self) -> u32 {
        self.limit
    }

    /// Takes a changed `max_in_flight`.
    pub fn set_max(&mut self, max: u32) {
        self.max = max;
        self.limit = self.limit.min(max);
    }

    /// Notes how long an attempt took that delivered.
    pub fn note(&mut self, took: Duration) {
        // What was fastest is forgotten slowly: receivers move.
        self.fastest = took.min(self.fastest.saturating_add(self.fastest / 1024));
        self.usual = if self.usual.is_zero() { took } else { (self.usual * 7 + took) / 8 };
    }

    /// Whether attempts take so much longer than they could that more of them would only wait somewhere else.
    fn is_strained(&self) -> bool {
        self.usual > self.fastest.saturating_mul(STRAIN)
    }

    /// Learns from an outcome. `more_wait`: the lane had work that the limit held back.
    pub fn learn(&mut self, outcome: &Outcome, more_wait: bool) {
        if is_distress(outcome) {
            self.limit = (self.limit / 2).max(1);
            self.successes = 0;
        } else if more_wait && self.limit < self.max {
            self.successes += 1;
            let wanted = if self.is_strained() { self.limit * STRAINED_SUCCESSES } else { self.limit };
            if self.successes >= wanted {
                self.successes = 0;
                self.limit = (self.limit + (self.limit / 4).max(1)).min(self.max);
            }
        }
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

    #[test]
    fn under_strain_the_limit_grows_much_slower() {
        let mut limit = InFlightLimit::new(64);
        limit.note(Duration::from_millis(1));
        for _ in 0..250 {
            limit.note(Duration::from_millis(9));
            limit.learn(&delivered(), true);
        }
        assert_eq!(limit.get(), 8);
        // A receiver that is always slow is not strained.
        let mut limit = InFlightLimit::new(64);
        for _ in 0..1000 {
            limit.note(Duration::from_millis(900));
            limit.learn(&delivered(), true);
        }
        assert_eq!(limit.get(), 64);
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
