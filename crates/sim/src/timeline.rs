//! Virtual time: what happens next, and what the two clocks say.

use std::collections::BTreeMap;
use std::time::Duration;

use restante_core::Timestamp;

/// What the wall clock says when the world begins: ten minutes into a UTC day, so that a clock that is set back meets
/// the day before.
const WALL_AT_START_MS: i64 = 1_795_997_400_000;

/// Milliseconds of true time since the world began. The monotonic clock shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub u64);

impl Moment {
    #[must_use]
    pub fn after(self, ms: u64) -> Self {
        Self(self.0 + ms)
    }

    #[must_use]
    pub fn before(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Milliseconds since `earlier`; zero when that is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The monotonic clock's reading.
    pub fn monotonic(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// A jump of the wall clock.
#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Moment,
    by_ms: i64,
}

/// The clocks: true time, and a wall clock that was set forward and back.
#[derive(Debug, Default)]
pub struct Clocks {
    pub now: Moment,
    jumps: Vec<Jump>,
}

impl Clocks {
    pub fn wall(&self) -> Timestamp {
        self.wall_at(self.now)
    }

    /// What the wall clock said then.
    pub fn wall_at(&self, moment: Moment) -> Timestamp {
        let jumped: i64 = self.jumps.iter().filter(|jump| jump.at <= moment).map(|jump| jump.by_ms).sum();
        Timestamp::from_millis(WALL_AT_START_MS + jumped + moment.0.cast_signed())
    }

    pub fn jump(&mut self, by_ms: i64) {
        self.jumps.push(Jump { at: self.now, by_ms });
    }

    /// By how much the wall clock was set forward in this span, jumps back not deducted.
    pub fn forward_ms(&self, from: Moment, to: Moment) -> u64 {
        let within = self.jumps.iter().filter(|jump| from <= jump.at && jump.at <= to);
        within.map(|jump| jump.by_ms.max(0).unsigned_abs()).sum()
    }

    pub fn has_jumped(&self, from: Moment, to: Moment) -> bool {
        self.jumps.iter().any(|jump| from <= jump.at && jump.at <= to)
    }

    /// The earliest time the wall clock showed in this span.
    pub fn least_wall(&self, from: Moment, to: Moment) -> Timestamp {
        let jumped = self.jumps.iter().filter(|jump| from <= jump.at && jump.at <= to);
        jumped.map(|jump| self.wall_at(jump.at)).chain([self.wall_at(from)]).min().unwrap_or_default()
    }

    /// The latest time the wall clock ever showed.
    pub fn most_wall(&self) -> Timestamp {
        let jumped = self.jumps.iter().map(|jump| self.wall_at(jump.at.before(1)));
        jumped.chain([self.wall()]).max().unwrap_or_default()
    }
}

/// Events in the order of their time; those of one millisecond in the order they were planned in.
#[derive(Debug)]
pub struct Timeline<E> {
    events: BTreeMap<(Moment, u64), E>,
    planned: u64,
}

impl<E> Default for Timeline<E> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), planned: 0 }
    }
}

impl<E> Timeline<E> {
    pub fn plan(&mut self, at: Moment, event: E) {
        self.events.insert((at, self.planned), event);
        self.planned += 1;
    }

    /// Takes out what happens next.
    pub fn pop(&mut self) -> Option<(Moment, E)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
