//! When a call is made again, and after what wait. Pure: time, randomness and the budget's level are arguments.

mod after;

use std::time::Duration;

use crate::Timestamp;
use crate::calls::Class;

#[cfg(feature = "client")]
pub(crate) use after::date;
pub use after::retry_after;

/// Extra tries of a call, unless the caller says otherwise.
pub const MAX_RETRIES: u32 = 2;
/// The first wait's ceiling; each further one is twice as high.
pub const CEILING_FIRST: Duration = Duration::from_millis(500);
/// No wait's ceiling is higher.
pub const CEILING_MAX: Duration = Duration::from_secs(8);
/// The longest `Retry-After` that is waited for. Who asks for more asks to stop.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// What a retry budget holds at most, and at first.
pub const BUDGET_TOKENS: u32 = 500;
/// What a success gives back to the budget.
pub const SUCCESS_TOKENS: u32 = 1;
/// What a retry after a status takes from the budget.
pub const STATUS_TOKENS: u32 = 5;
/// What a retry after a network failure or a timeout takes from the budget.
pub const NETWORK_TOKENS: u32 = 10;

/// One try of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Try {
    /// From 1.
    pub number: u32,
    /// How many may follow the first.
    pub max_retries: u32,
}

/// How a try ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome<'a> {
    /// An answer came.
    Status {
        /// 100 to 599.
        status: u16,
        /// The header `Retry-After`, as it came.
        retry_after: Option<&'a str>,
    },
    /// No whole answer came: no address, no connection, no TLS, or it broke.
    Network,
    /// No whole answer came in time.
    Timeout,
}

impl Outcome<'_> {
    /// Tokens that a retry after it takes from the budget.
    pub const fn tokens(self) -> u32 {
        match self {
            Self::Status { .. } => STATUS_TOKENS,
            Self::Network | Self::Timeout => NETWORK_TOKENS,
        }
    }
}

/// A random number from 0 to 1, which spreads waits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Jitter(f64);

impl Jitter {
    /// From any 32 random bits.
    pub fn from_bits(bits: u32) -> Self {
        Self(f64::from(bits) / f64::from(u32::MAX))
    }
}

/// What comes after a try.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Decision {
    /// The outcome is the caller's: a success, or a failure that no repetition mends.
    Return,
    /// Another try, after this wait. It takes [`Outcome::tokens`] from the budget.
    Wait(Duration),
    /// The outcome could be tried again, but will not be.
    GiveUp(GaveUp),
}

/// Why a call that failed in a way that may pass is not tried again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GaveUp {
    /// An identical second request could do harm. Whether the first took effect is for the caller to find out.
    #[error("not tried again: a call of the class `{}` is sent once", .0.name())]
    Class(Class),
    /// All tries that the caller allowed were made.
    #[error("no retries are left")]
    RetriesUsedUp,
    /// The server asked for a wait of more than [`RETRY_AFTER_MAX`].
    #[error("the server asks for a longer wait than a call takes")]
    RetryAfterTooLong,
    /// The wait would have left no time before the call's deadline.
    #[error("the next try would come after the deadline")]
    Deadline,
    /// Too many retries of this client and its clones failed lately.
    #[error("the client's retry budget is spent")]
    Budget,
}

/// What to do after a try of a call.
///
/// `now` is the time of day, against which a `Retry-After` with a date is read. `budget` is how many tokens there are,
/// `deadline` how much time the call has left; `None` is all the time there is.
///
/// A wait that the server asked for is kept exactly. Otherwise the ceiling of the wait before try n + 2, n from 0, is
/// the lesser of 8 s and 0.5 s · 2^n, and the wait lies between half the ceiling and all of it.
pub fn decide(
    class: Class,
    made: Try,
    outcome: Outcome<'_>,
    now: Timestamp,
    jitter: Jitter,
    budget: u32,
    deadline: Option<Duration>,
) -> Decision {
    let asked = match outcome {
        Outcome::Status { retry_after: Some(text), .. } => retry_after(text, now),
        Outcome::Status { retry_after: None, .. } | Outcome::Network | Outcome::Timeout => None,
    };
    let may_pass = match outcome {
        Outcome::Status { status, .. } => {
            matches!(status, 408 | 500 | 502 | 503 | 504) || (status == 429 && asked.is_some())
        }
        Outcome::Network | Outcome::Timeout => true,
    };
    let wait = asked.unwrap_or_else(|| backoff(made.number, jitter));
    if !may_pass {
        Decision::Return
    } else if !class.is_retried() {
        Decision::GiveUp(GaveUp::Class(class))
    } else if made.number > made.max_retries {
        Decision::GiveUp(GaveUp::RetriesUsedUp)
    } else if wait > RETRY_AFTER_MAX {
        Decision::GiveUp(GaveUp::RetryAfterTooLong)
    } else if deadline.is_some_and(|left| wait >= left) {
        Decision::GiveUp(GaveUp::Deadline)
    } else if budget < outcome.tokens() {
        Decision::GiveUp(GaveUp::Budget)
    } else {
        Decision::Wait(wait)
    }
}

/// The wait after the try with this number, from 1.
fn backoff(number: u32, Jitter(jitter): Jitter) -> Duration {
    let doublings = number.saturating_sub(1).min(16);
    let ceiling = CEILING_FIRST.saturating_mul(1 << doublings).min(CEILING_MAX);
    ceiling / 2 + (ceiling / 2).mul_f64(jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_994_381_000);
    const LOW: Jitter = Jitter(0.0);
    const HIGH: Jitter = Jitter(1.0);
    const FIRST: Try = Try { number: 1, max_retries: 2 };

    fn status(status: u16, retry_after: Option<&str>) -> Outcome<'_> {
        Outcome::Status { status, retry_after }
    }

    fn after(outcome: Outcome<'_>) -> Decision {
        decide(Class::Keyed, FIRST, outcome, NOW, LOW, BUDGET_TOKENS, None)
    }

    #[test]
    fn waits_lie_between_half_the_ceiling_and_the_ceiling() {
        let ceilings_ms = [500, 1000, 2000, 4000, 8000, 8000, 8000];
        for (number, ceiling_ms) in (1..).zip(ceilings_ms) {
            let made = Try { number, max_retries: 100 };
            let with = |jitter| decide(Class::Read, made, Outcome::Network, NOW, jitter, BUDGET_TOKENS, None);
            assert_eq!(with(LOW), Decision::Wait(Duration::from_millis(ceiling_ms / 2)), "{number}");
            assert_eq!(with(Jitter(0.5)), Decision::Wait(Duration::from_millis(ceiling_ms * 3 / 4)));
            assert_eq!(with(HIGH), Decision::Wait(Duration::from_millis(ceiling_ms)), "{number}");
        }
        let last = Try { number: u32::MAX - 1, max_retries: u32::MAX };
        let wait = decide(Class::Read, last, Outcome::Timeout, NOW, HIGH, BUDGET_TOKENS, None);
        assert_eq!(wait, Decision::Wait(Duration::from_secs(8)));
        assert_eq!((Jitter::from_bits(0), Jitter::from_bits(u32::MAX)), (LOW, HIGH));
    }

    #[test]
    fn only_failures_that_may_pass_are_tried_again() {
        for code in 100..=599 {
            let again = [408, 500, 502, 503, 504].contains(&code);
            let expected = if again { Decision::Wait(Duration::from_millis(250)) } else { Decision::Return };
            assert_eq!(after(status(code, None)), expected, "{code}");
            // The server's wish makes only a 429 one of them.
            let expected =
                if again || code == 429 { Decision::Wait(Duration::from_secs(7)) } else { Decision::Return };
            assert_eq!(after(status(code, Some("7"))), expected, "{code}");
        }
        assert_eq!(after(status(429, Some("soon"))), Decision::Return);
        assert_eq!(after(status(429, Some("-1"))), Decision::Return);
        assert_eq!(after(Outcome::Network), Decision::Wait(Duration::from_millis(250)));
        assert_eq!(after(Outcome::Timeout), Decision::Wait(Duration::from_millis(250)));
    }

    #[test]
    fn the_class_decides_whether_a_write_is_repeated() {
        for &class in Class::ALL {
            let decision = decide(class, FIRST, Outcome::Timeout, NOW, HIGH, BUDGET_TOKENS, None);
            let expected = if class.is_retried() {
                Decision::Wait(Duration::from_millis(500))
            } else {
                Decision::GiveUp(GaveUp::Class(class))
            };
            assert_eq!(decision, expected);
            let refused = decide(class, FIRST, status(422, None), NOW, HIGH, BUDGET_TOKENS, None);
            assert_eq!(refused, Decision::Return);
        }
    }

    #[test]
    fn a_wish_is_kept_exactly_up_to_a_minute() {
        let table = [
            ("0", Decision::Wait(Duration::ZERO)),
            ("1.5", Decision::Wait(Duration::from_millis(1500))),
            ("60", Decision::Wait(Duration::from_secs(60))),
            ("60.001", Decision::GiveUp(GaveUp::RetryAfterTooLong)),
            ("61", Decision::GiveUp(GaveUp::RetryAfterTooLong)),
            ("Sun, 29 Nov 2026 23:20:41 GMT", Decision::Wait(Duration::from_secs(60))),
            ("Sun, 29 Nov 2026 23:20:42 GMT", Decision::GiveUp(GaveUp::RetryAfterTooLong)),
            ("Sun, 29 Nov 2026 23:19:40 GMT", Decision::Wait(Duration::ZERO)),
            ("soon", Decision::Wait(Duration::from_millis(250))),
            ("-1", Decision::Wait(Duration::from_millis(250))),
        ];
        for (text, expected) in table {
            assert_eq!(after(status(503, Some(text))), expected, "{text}");
        }
    }

    #[test]
    fn retries_are_counted() {
        for (number, max_retries, again) in [(1, 0, false), (1, 1, true), (2, 1, false), (3, 3, true)] {
            let made = Try { number, max_retries };
            let decision = decide(Class::Read, made, Outcome::Network, NOW, LOW, BUDGET_TOKENS, None);
            assert_eq!(matches!(decision, Decision::Wait(_)), again, "{number} of {max_retries}");
            if !again {
                assert_eq!(decision, Decision::GiveUp(GaveUp::RetriesUsedUp));
            }
        }
    }

    #[test]
    fn no_wait_is_begun_that_leaves_no_time() {
        let left = |ms| {
            let left = Some(Duration::from_millis(ms));
            decide(Class::Read, FIRST, status(503, Some("2")), NOW, LOW, BUDGET_TOKENS, left)
        };
        assert_eq!(left(2001), Decision::Wait(Duration::from_secs(2)));
        assert_eq!(left(2000), Decision::GiveUp(GaveUp::Deadline));
        assert_eq!(left(0), Decision::GiveUp(GaveUp::Deadline));
    }

    #[test]
    fn a_retry_must_be_affordable() {
        let with = |outcome, budget| decide(Class::Read, FIRST, outcome, NOW, LOW, budget, None);
        let wait = Decision::Wait(Duration::from_millis(250));
        for (outcome, tokens) in [(status(500, None), 5), (Outcome::Network, 10), (Outcome::Timeout, 10)] {
            assert_eq!(with(outcome, tokens), wait);
            assert_eq!(with(outcome, tokens - 1), Decision::GiveUp(GaveUp::Budget));
        }
        assert_eq!(with(status(404, None), 0), Decision::Return);
    }
}
