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
