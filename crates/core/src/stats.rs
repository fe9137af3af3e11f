//! What charts show: which time, in which steps, how long the counts for it are kept, and what counts as an end.

use std::ops::Range;
use std::time::Duration;

use crate::{Delivery, State, Timestamp};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// What is counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breadth {
    /// All that a workspace does.
    Workspace,
    /// One of its sources or endpoints.
    Part,
}

/// The time that is counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grain {
    /// Only of whole workspaces.
    Minute,
    TenMinutes,
}

impl Grain {
    /// Its length in milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Self::Minute => MINUTE_MS,
            Self::TenMinutes => 10 * MINUTE_MS,
        }
    }

    /// The start of the one that a moment lies in, counted from the epoch.
    pub fn start(self, at: Timestamp) -> Timestamp {
        Timestamp::from_millis(at.millis().div_euclid(self.ms()) * self.ms())
    }

    /// How long its counts are kept from its start: as long as a [`Span`] may ask for them, and an hour.
    pub fn kept(self, breadth: Breadth) -> Duration {
        let hours = match self {
            Self::Minute => FINE_HOURS_MAX,
            Self::TenMinutes => hours_max(breadth),
        };
        Duration::from_secs(u64::from(hours + 1) * 3600)
    }
}

/// Hours that are shown minute by minute, at most.
const FINE_HOURS_MAX: u32 = 3;
/// Hours that are shown in steps of ten minutes, at most.
const MIDDLE_HOURS_MAX: u32 = 24;

/// How many hours can be asked for: a week of a workspace, two days of a part.
pub const fn hours_max(breadth: Breadth) -> u32 {
    match breadth {
        Breadth::Workspace => 7 * 24,
        Breadth::Part => 48,
    }
}

/// The last hours in equal steps, at most 180: of a minute up to three hours of a workspace, of ten minutes up to a
/// day, else of an hour. The last step is the one that now lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub since: Timestamp,
    /// Its length in milliseconds.
    pub step_ms: i64,
    /// How many.
    pub steps: usize,
}

impl Span {
    /// `hours`: 1 to [`hours_max`].
    pub fn last(hours: u32, breadth: Breadth, now: Timestamp) -> Self {
        let step_ms = match hours {
            ..=FINE_HOURS_MAX if breadth == Breadth::Workspace => MINUTE_MS,
            ..=MIDDLE_HOURS_MAX => 10 * MINUTE_MS,
            _ => HOUR_MS,
        };
        let until = (now.millis().div_euclid(step_ms) + 1) * step_ms;
        let length_ms = i64::from(hours) * HOUR_MS;
        let steps = usize::try_from(length_ms / step_ms).unwrap_or(0);
        Self { since: Timestamp::from_millis(until - length_ms), step_ms, steps }
    }

    /// What its counts are made of.
    pub fn grain(&self) -> Grain {
        if self.step_ms < Grain::TenMinutes.ms() { Grain::Minute } else { Grain::TenMinutes }
    }

    /// From its first to behind its last millisecond.
    pub fn millis(&self) -> Range<i64> {
        let since = self.since.millis();
        since..since + self.step_ms * i64::try_from(self.steps).unwrap_or(0)
    }

    /// Which step a moment lies in; `None`: in none.
    pub fn step_of(&self, at: Timestamp) -> Option<usize> {
        let steps = usize::try_from((at.millis() - self.since.millis()).div_euclid(self.step_ms)).ok()?;
        (steps < self.steps).then_some(steps)
    }

    /// When its steps begin.
    pub fn starts(&self) -> impl Iterator<Item = Timestamp> + use<> {
        let Range { start, end } = self.millis();
        let step = usize::try_from(self.step_ms).unwrap_or(1);
        (start..end).step_by(step).map(Timestamp::from_millis)
    }
}

/// How a delivery ended, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Delivered {
        /// Since it was made. A delivery that had to wait for its first attempt's time is counted from then on.
        arrival_ms: u64,
    },
    Failed,
}

/// What a change of a delivery that was made at `made_at` counts as, and when; `None`: it is no end, or one that is not
/// shown, or the delivery had ended so before and this was a replay.
pub fn end(before: &Delivery, after: &Delivery, made_at: Timestamp) -> Option<(End, Timestamp)> {
    let was = before.back_to.unwrap_or(before.state);
    let at = after.ended_at?;
    match after.state {
        State::Delivered if was != State::Delivered => {
            let first = after.attempts_made == 1;
            let from = if first { made_at.max(after.due_at) } else { made_at };
            let arrival_ms = u64::try_from(at.since(from).as_millis()).unwrap_or(u64::MAX);
            Some((End::Delivered { arrival_ms }, at))
        }
        State::Failed(_) if !matches!(was, State::Failed(_)) => Some((End::Failed, at)),
        State::Pending
        | State::Sending
        | State::Delivered
        | State::Failed(_)
        | State::Cancelled(_)
        | State::Skipped => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::{CancelReason, FailReason};

    #[test]
    fn an_end_counts_once() {
        let failed = State::Failed(FailReason::Exhausted);
        let delivered = Some(End::Delivered { arrival_ms: 4_000 });
        // State before, the state a replay goes back to, state after, and what that counts as.
        let table = [
            (State::Sending, None, State::Delivered, delivered),
            (State::Sending, None, failed, Some(End::Failed)),
            (State::Sending, None, State::Pending, None),
            (State::Sending, None, State::Cancelled(CancelReason::Requested), None),
            (State::Sending, Some(State::Delivered), State::Delivered, None),
            (State::Sending, Some(failed), State::Delivered, delivered),
            (State::Sending, Some(failed), failed, None),
            (State::Sending, Some(State::Pending), failed, Some(End::Failed)),
            (State::Pending, None, State::Failed(FailReason::EndpointPaused), Some(End::Failed)),
            (State::Pending, None, State::Skipped, None),
            (State::Delivered, None, State::Sending, None),
            (failed, None, State::Sending, None),
        ];
        let (made_at, ended_at) = (Timestamp::from_millis(1_000), Timestamp::from_millis(5_000));
        for (state, back_to, now, expected) in table {
            let before = Delivery { state, back_to, attempts_made: 2, ..Delivery::new(made_at) };
            let due_at = Timestamp::from_millis(4_500);
            let after =
                Delivery { state: now, back_to: None, ended_at: Some(ended_at), due_at, ..before.clone() };
            assert_eq!(end(&before, &after, made_at).map(|(end, _)| end), expected, "{before:?} → {now:?}");
        }
    }

    #[test]
    fn a_first_attempt_is_counted_from_its_time() {
        let (made_at, ended_at) = (Timestamp::from_millis(1_000), Timestamp::from_millis(5_000));
        for (due_at, arrival_ms) in [(1_000, 4_000), (4_500, 500), (0, 4_000), (6_000, 0)] {
            let before = Delivery::born_leased(made_at);
            let (state, due_at) = (State::Delivered, Timestamp::from_millis(due_at));
            let after = Delivery { state, ended_at: Some(ended_at), due_at, ..before.clone() };
            assert_eq!(end(&before, &after, made_at), Some((End::Delivered { arrival_ms }, ended_at)));
        }
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn a_span_ends_with_the_step_that_now_lies_in() {
        let now = at("2026-11-29T23:19:41.500Z");
        let table = [
            (1, Breadth::Workspace, "2026-11-29T22:20:00.000Z", 60, 60),
            (3, Breadth::Workspace, "2026-11-29T20:20:00.000Z", 60, 180),
            (4, Breadth::Workspace, "2026-11-29T19:20:00.000Z", 600, 24),
            (24, Breadth::Workspace, "2026-11-28T23:20:00.000Z", 600, 144),
            (25, Breadth::Workspace, "2026-11-28T23:00:00.000Z", 3600, 25),
            (168, Breadth::Workspace, "2026-11-23T00:00:00.000Z", 3600, 168),
            (1, Breadth::Part, "2026-11-29T22:20:00.000Z", 600, 6),
            (24, Breadth::Part, "2026-11-28T23:20:00.000Z", 600, 144),
            (48, Breadth::Part, "2026-11-28T00:00:00.000Z", 3600, 48),
        ];
        for (hours, breadth, since, step_seconds, steps) in table {
            let span = Span::last(hours, breadth, now);
            let expected = Span { since: at(since), step_ms: step_seconds * 1000, steps };
            assert_eq!(span, expected, "{hours} h of {breadth:?}");
            assert_eq!(span.step_of(now), Some(steps - 1));
        }
    }

    #[test]
    fn steps_hold_what_begins_with_them() {
        let span = Span { since: at("2026-11-29T22:00:00Z"), step_ms: 600_000, steps: 6 };
        let table = [
            ("2026-11-29T21:59:59.999Z", None),
            ("2026-11-29T22:00:00.000Z", Some(0)),
            ("2026-11-29T22:09:59.999Z", Some(0)),
            ("2026-11-29T22:10:00.000Z", Some(1)),
            ("2026-11-29T22:59:59.999Z", Some(5)),
            ("2026-11-29T23:00:00.000Z", None),
        ];
        for (moment, step) in table {
            assert_eq!(span.step_of(at(moment)), step, "{moment}");
        }
        assert_eq!(span.starts().count(), 6);
        assert_eq!(span.starts().last(), Some(at("2026-11-29T22:50:00Z")));
    }

    #[test]
    fn what_can_be_asked_for_is_kept() {
        for breadth in [Breadth::Workspace, Breadth::Part] {
            for hours in 1..=hours_max(breadth) {
                let span = Span::last(hours, breadth, at("2026-11-29T23:00:00.000Z"));
                let asked = Duration::from_secs(u64::from(hours) * 3600);
                assert!(span.grain().kept(breadth) > asked, "{hours} h of {breadth:?}");
                assert!(span.steps <= 180);
                assert_eq!(span.since, span.grain().start(span.since));
            }
        }
    }
}
