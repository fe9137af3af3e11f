//! The waits of all schedules, written down a second time.

use restante_core::FailureKind;
use restante_core::retry::Schedule;
use restante_store::row::{Attempt, Trigger};

use crate::receiver::Reply;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const STANDARD_SECONDS: [f64; 7] =
    [5.0, 5.0 * MINUTE, 30.0 * MINUTE, 2.0 * HOUR, 5.0 * HOUR, 10.0 * HOUR, 10.0 * HOUR];
const DAY_MS: u64 = 24 * 3_600_000;
const THROTTLED_MS: u64 = 60_000;
/// So many lost attempts in a row use one of the budget.
const LOST_MAX: u32 = 3;

/// Which attempts use budget.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) used: u32,
    lost_in_row: u32,
}

/// The shortest and the longest wait that is right, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) least_ms: u64,
    pub(super) most_ms: u64,
}

impl Budget {
    /// Counts the next attempt. Returns whether it uses budget. Replays count for nothing.
    pub(super) fn count(&mut self, attempt: &Attempt) -> bool {
        let Some(result) = attempt.result.as_ref().filter(|_| attempt.trigger != Trigger::Replay) else {
            return false;
        };
        self.lost_in_row = if result.lost { self.lost_in_row + 1 } else { 0 };
        let uses = !result.lost || self.lost_in_row == LOST_MAX;
        if uses {
            self.used += 1;
            self.lost_in_row = 0;
        }
        uses
    }
}

/// The wait after the used attempt that brought the count to `used`; `None`: there is no attempt after it.
///
/// `reply` is what a receiver said, if the attempt was not lost.
pub(super) fn bounds(schedule: &Schedule, used: u32, reply: Option<&Reply>) -> Option<Bounds> {
    let index = used as usize - 1;
    let (seconds, jitter) = match schedule {
        Schedule::Quadratic { attempts } if used < *attempts => {
            (f64::from((used + 1) * (used + 1)) * MINUTE, 0.0)
        }
        Schedule::Quadratic { .. } => return None,
        Schedule::Standard => (*STANDARD_SECONDS.get(index)?, 0.2),
        Schedule::Custom { waits_seconds, jitter } => (*waits_seconds.get(index)?, *jitter),
        Schedule::Mail => unreachable!("only mailboxes have a mail schedule"),
    };
    let ms = |seconds: f64| (seconds * 1000.0) as u64;
    let planned =
        Bounds { least_ms: ms(seconds * (1.0 - jitter)), most_ms: ms(seconds * (1.0 + jitter)) + 1 };
    if matches!(schedule, Schedule::Quadratic { .. }) {
        return Some(planned);
    }
    let asked_ms = match reply {
        Some(Reply::Status { retry_after_seconds: Some(seconds @ 1..), .. }) => (seconds * 1000).min(DAY_MS),
        Some(Reply::Status { status: 429, .. } | Reply::Broken(FailureKind::Timeout)) => THROTTLED_MS,
        Some(Reply::Status { .. } | Reply::Broken(_)) | None => 0,
    };
    Some(Bounds { least_ms: planned.least_ms.max(asked_ms), most_ms: planned.most_ms.max(asked_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_set_of_tables_says_what_the_specification_says() {
        let minutes =
            |least: u64, most: u64| Some(Bounds { least_ms: least * 60_000, most_ms: most * 60_000 + 1 });
        let quadratic = Schedule::Quadratic { attempts: 4 };
        let waits: Vec<_> = (1..=4).map(|used| bounds(&quadratic, used, None)).collect();
        assert_eq!(waits, [minutes(4, 4), minutes(9, 9), minutes(16, 16), None]);
        assert_eq!(bounds(&Schedule::Standard, 2, None), minutes(4, 6));
        assert_eq!(bounds(&Schedule::Standard, 8, None), None);
        let away = Reply::Status { status: 503, retry_after_seconds: Some(90) };
        let first = bounds(&Schedule::Standard, 1, Some(&away));
        assert_eq!(first, Some(Bounds { least_ms: 90_000, most_ms: 90_000 }));
        assert_eq!(bounds(&quadratic, 1, Some(&away)), minutes(4, 4));
    }
}
