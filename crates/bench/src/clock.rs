//! The clocks of the benchmark: the only place that reads them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock, for durations within one process.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time; this is its one reading of it"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The wall clock in microseconds since 1970, for latencies between processes of one machine.
#[expect(
    clippy::disallowed_methods,
    reason = "generator and receiver are two processes that share only this clock"
)]
pub(crate) fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros)
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Time passed since `start`, in microseconds; 0 when `start` is in the future.
pub(crate) fn micros_since(start: Instant) -> u64 {
    micros(now().saturating_duration_since(start))
}
