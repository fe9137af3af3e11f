//! Schedules: when the next attempt may begin.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::outcome::{Failure, FailureKind};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// Waits of the `standard` schedule, in milliseconds, before attempts 2 to 8.
const STANDARD_WAITS_MS: [u64; 7] =
    [5_000, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR];
/// Waits of the `mail` schedule, in milliseconds, before attempts 2 to 9.
const MAIL_WAITS_MS: [u64; 8] =
    [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR];
/// The fixed schedules' jitter: each wait is drawn uniformly from ±20 %.
const FIXED_JITTER: f64 = 0.2;

/// Most attempts of a quadratic schedule, the first included.
pub const QUADRATIC_ATTEMPTS_MAX: u32 = 10;
/// Attempts of a destination that sets no schedule.
pub const QUADRATIC_ATTEMPTS_DEFAULT: u32 = 5;
/// Most waits of a custom schedule.
pub const CUSTOM_WAITS_MAX: usize = 19;
/// Most waits of a custom schedule of a destination.
pub const CUSTOM_WAITS_MAX_DESTINATION: usize = 9;
/// Longest wait of a custom schedule.
pub const CUSTOM_WAIT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Largest jitter of a custom schedule, as a share of the wait.
pub const CUSTOM_JITTER_MAX: f64 = 0.5;
/// A receiver's `Retry-After` counts up to this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);
/// Shortest wait after a timeout, or after a 429 that names none.
pub const THROTTLED_WAIT: Duration = Duration::from_secs(60);

/// When the attempts of a delivery are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", try_from = "Written")]
pub enum Schedule {
    /// Before attempt n: n² minutes. `attempts` is 1 to 10, the first included.
    Quadratic { attempts: u32 },
    /// Eight attempts over 27 h 35 min 5 s, each wait ±20 %.
    Standard,
    /// Nine attempts over 46 h 21 min, each wait ±20 %.
    Mail,
    /// One attempt more than waits.
    Custom { waits_seconds: Vec<f64>, jitter: f64 },
}

/// A schedule as it is read. Told apart by `kind` only when all of it is there: serde keeps what comes before a tag
/// in a buffer, and serde_json's exact numbers do not come out of that as floats.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    kind: Name,
    attempts: Option<u32>,
    waits_seconds: Option<Vec<f64>>,
    jitter: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Quadratic,
    Standard,
    Mail,
    Custom,
}

impl TryFrom<Written> for Schedule {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        match (written.kind, written.attempts, written.waits_seconds, written.jitter) {
            (Name::Quadratic, Some(attempts), None, None) => Ok(Self::Quadratic { attempts }),
            (Name::Standard, None, None, None) => Ok(Self::Standard),
            (Name::Mail, None, None, None) => Ok(Self::Mail),
            (Name::Custom, None, Some(waits_seconds), jitter) => {
                Ok(Self::Custom { waits_seconds, jitter: jitter.unwrap_or(0.0) })
            }
            (Name::Quadratic | Name::Standard | Name::Mail | Name::Custom, ..) => {
                Err("a schedule has exactly the fields of its kind")
            }
        }
    }
}

/// What is wrong with a schedule, and in which field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("attempts must be 1 to {QUADRATIC_ATTEMPTS_MAX}")]
    Attempts,
    #[error("waits_seconds must hold at most {0} waits")]
    TooManyWaits(usize),
    #[error("each of waits_seconds must be 0 to 604800 seconds")]
    Wait,
    #[error("jitter must be 0 to 0.5")]
    Jitter,
}

impl Fault {
    /// The schedule's field that is at fault.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Attempts => "attempts",
            Self::TooManyWaits(_) | Self::Wait => "waits_seconds",
            Self::Jitter => "jitter",
        }
    }
}

/// A random draw in [0, 1) that somebody else made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter(f64);

impl Jitter {
    /// The middle of every range: no deviation.
    pub const NONE: Self = Self(0.5);

    /// From 64 random bits.
    pub fn from_bits(bits: u64) -> Self {
        // The upper 53 bits are what an f64 holds exactly.
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        Self((bits >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// `wait` moved by up to ±`share` of itself.
    fn apply(self, wait: Duration, share: f64) -> Duration {
        if share == 0.0 { wait } else { wait.mul_f64(1.0 - share + 2.0 * share * self.0) }
    }
}

/// A wait and what made it as long as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub length: Duration,
    pub cause: WaitCause,
}

/// What decided the length of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCause {
    /// The schedule alone.
    Schedule,
    /// The receiver's `Retry-After` was longer.
    RetryAfter,
    /// A timeout or a bare 429 asked for at least [`THROTTLED_WAIT`].
    Throttled,
    /// None: the attempt before was lost by our own fault.
    Lost,
}

impl WaitCause {
    pub const ALL: [Self; 4] = [Self::Schedule, Self::RetryAfter, Self::Throttled, Self::Lost];
}

impl Schedule {
    /// The most attempts that use budget.
    pub fn attempts_max(&self) -> u32 {
        match self {
            Self::Quadratic { attempts } => *attempts,
            Self::Standard => 1 + STANDARD_WAITS_MS.len() as u32,
            Self::Mail => 1 + MAIL_WAITS_MS.len() as u32,
            Self::Custom { waits_seconds, .. } => 1 + waits_seconds.len() as u32,
        }
    }

    /// The share by which each wait may deviate, 0 to 0.5.
    pub fn jitter_share(&self) -> f64 {
        match self {
            Self::Quadratic { .. } => 0.0,
            Self::Standard | Self::Mail => FIXED_JITTER,
            Self::Custom { jitter, .. } => *jitter,
        }
    }

    /// The planned wait before attempt `number` (2 or more) without jitter; `None` past the last.
    pub fn wait_before(&self, number: u32) -> Option<Duration> {
        if number < 2 || number > self.attempts_max() {
            return None;
        }
        let index = number as usize - 2;
        match self {
            Self::Quadratic { .. } => Some(Duration::from_secs(u64::from(number).pow(2) * 60)),
            Self::Standard => Some(Duration::from_millis(STANDARD_WAITS_MS[index])),
            Self::Mail => Some(Duration::from_millis(MAIL_WAITS_MS[index])),
            Self::Custom { waits_seconds, .. } => Some(Duration::from_secs_f64(waits_seconds[index])),
        }
    }

    /// Wait after the used attempt that brought the count to `attempts_used`; `None` when none is left.
    ///
    /// `failure` is the receiver's part in it; `None` when the attempt was lost by ours.
    /// The jitter comes first. On all schedules but `quadratic` the wait is then at least what the receiver asked
    /// for in `Retry-After` (RFC 9110, 10.2.3; up to [`RETRY_AFTER_MAX`], never shortening), and at least
    /// [`THROTTLED_WAIT`] after a timeout or a 429 without it.
    pub fn wait_after(
        &self,
        attempts_used: u32,
        failure: Option<&Failure>,
        ended_at: Timestamp,
        jitter: Jitter,
    ) -> Option<Wait> {
        let planned = jitter.apply(self.wait_before(attempts_used + 1)?, self.jitter_share());
        let by_schedule = Wait { length: planned, cause: WaitCause::Schedule };
        let Some(failure) = failure.filter(|_| !matches!(self, Self::Quadratic { .. })) else {
            return Some(by_schedule);
        };
        let asked = failure.retry_after.map(|at| at.since(ended_at)).filter(|asked| !asked.is_zero());
        let throttled =
            failure.kind == FailureKind::Timeout || (failure.status == Some(429) && asked.is_none());
        let least = match asked {
            Some(asked) => Wait { length: asked.min(RETRY_AFTER_MAX), cause: WaitCause::RetryAfter },
            None if throttled => Wait { length: THROTTLED_WAIT, cause: WaitCause::Throttled },
            None => return Some(by_schedule),
        };
        Some(if least.length > planned { least } else { by_schedule })
    }

    /// Checks what came over the wire. `waits_max` is [`CUSTOM_WAITS_MAX`] or that of destinations.
    ///
    /// # Errors
    /// The first `Fault`, naming its field.
    pub fn check(&self, waits_max: usize) -> Result<(), Fault> {
        match self {
            Self::Quadratic { attempts } if (1..=QUADRATIC_ATTEMPTS_MAX).contains(attempts) => Ok(()),
            Self::Quadratic { .. } => Err(Fault::Attempts),
            Self::Standard | Self::Mail => Ok(()),
            Self::Custom { waits_seconds, jitter } => {
                if waits_seconds.len() > waits_max {
                    return Err(Fault::TooManyWaits(waits_max));
                }
                if !waits_seconds.iter().all(|wait| (0.0..=CUSTOM_WAIT_MAX.as_secs_f64()).contains(wait)) {
                    return Err(Fault::Wait);
                }
                if (0.0..=CUSTOM_JITTER_MAX).contains(jitter) { Ok(()) } else { Err(Fault::Jitter) }
            }
        }
    }
}

impl Default for Schedule {
    /// What a destination gets that sets none.
    fn default() -> Self {
        Self::Quadratic { attempts: QUADRATIC_ATTEMPTS_DEFAULT }
    }
}

#[cfg(test)]
mod tests;
