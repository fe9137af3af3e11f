//! The clocks of the benchmark and its randomness: the only place that reads them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

/// The monotonic clock, for durations within one process.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time; this is its one reading of it"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The monotonic clock in microseconds since the machine started, for latencies between processes: they share it, and
/// nobody sets it.
pub(crate) fn steady_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(now.tv_sec) * 1_000_000 + part(now.tv_nsec) / 1_000
}

/// The wall clock in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "what is stored by hand has the time of day, as in a server")]
pub(crate) fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A duration in whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Time passed since `start`, in microseconds; 0 when `start` is in the future.
pub(crate) fn micros_since(start: Instant) -> u64 {
    micros(now().saturating_duration_since(start))
}

/// Random bits.
///
/// # Errors
/// The machine has none.
#[expect(
    clippy::disallowed_methods,
    reason = "a bare call takes a key of its own, as a caller would make it"
)]
pub(crate) fn draw() -> Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("the machine has no random bytes")?;
    Ok(u128::from_le_bytes(bytes))
}
