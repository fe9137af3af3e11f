//! What is counted while the store works. Counting costs a few atomic additions, reading touches no database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Items of a commit; both databases take at most 512 at once.
const ITEMS: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 512];
/// Microseconds of a commit: from an fsync of a good disk to one that hangs.
const DURATIONS_US: [u64; 13] =
    [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000];

/// Counts of values by bounds, and their sum. Values are whole numbers: items, or microseconds.
#[derive(Debug)]
pub struct Histogram {
    /// Ascending.
    bounds: &'static [u64],
    /// One for each bound, and one for what lies above the last.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// `bounds`: the highest value of each bucket, ascending.
    pub fn new(bounds: &'static [u64]) -> Self {
        debug_assert!(bounds.is_sorted());
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Counts one value.
    pub fn observe(&self, value: u64) {
        let index = self.bounds.partition_point(|bound| *bound < value);
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts one duration, in microseconds.
    pub fn observe_us(&self, took: Duration) {
        self.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// For each bound how many values do not exceed it; last, for `None`, how many there are.
    pub fn cumulative(&self) -> Vec<(Option<u64>, u64)> {
        let mut below = 0;
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        let mut count = |it: &AtomicU64| {
            below += it.load(Ordering::Relaxed);
            below
        };
        bounds.zip(&self.counts).map(|(bound, it)| (bound, count(it))).collect()
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }
}

/// Commits that hold what many callers wanted: those of the embedded database's writer, and PostgreSQL's batches.
#[derive(Debug)]
pub struct Commits {
    /// Calls that each made durable.
    pub items: Histogram,
    /// From its beginning to its durable end, in microseconds.
    pub duration_us: Histogram,
    refused: AtomicU64,
}

impl Default for Commits {
    fn default() -> Self {
        Self {
            items: Histogram::new(&ITEMS),
            duration_us: Histogram::new(&DURATIONS_US),
            refused: AtomicU64::new(0),
        }
    }
}

impl Commits {
    /// How many the database refused; nothing of them was acknowledged.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, items: usize, took: Duration) {
        self.items.observe(items as u64);
        self.duration_us.observe_us(took);
    }

    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Connections to the database at one moment, without those that are set apart, such as the writer's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    pub in_use: u64,
    pub idle: u64,
    /// Callers that wait for one.
    pub waiting: u64,
    /// As many may be open; `None`: as many as are asked for.
    pub max: Option<u64>,
}

/// Measures how long something takes, by the runtime's clock: nothing is decided by it.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Room on the disk for what is new.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Room {
    /// Why nothing new is accepted.
    pub short: Option<String>,
    /// Held for what must be written when the disk is full; 0: nothing is, or it is in use.
    pub reserve_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_below_every_bound_that_it_does_not_exceed() {
        let histogram = Histogram::new(&[1, 10, 100]);
        for value in [0, 1, 2, 10, 11, 100, 101, 5000] {
            histogram.observe(value);
        }
        assert_eq!(histogram.cumulative(), [(Some(1), 2), (Some(10), 4), (Some(100), 6), (None, 8)]);
        assert_eq!(histogram.sum(), 5225);
    }

    #[test]
    fn durations_are_counted_in_microseconds() {
        let histogram = Histogram::new(&[1500]);
        histogram.observe_us(Duration::from_micros(1500));
        histogram.observe_us(Duration::from_millis(2));
        assert_eq!(histogram.cumulative(), [(Some(1500), 1), (None, 2)]);
        assert_eq!(histogram.sum(), 3500);
    }

    #[test]
    fn a_stopwatch_does_not_go_back() {
        let watch = Stopwatch::start();
        let first = watch.elapsed();
        assert!(watch.elapsed() >= first);
    }
}
