//! Time and randomness: the one place that reads them.

use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use restante_core::Timestamp;
use tokio::sync::watch;

/// Where the server takes time and random bits from. Tests put a [`ManualClock`] here.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// Time that never goes back, from an arbitrary start. Durations and leases are measured with it.
    fn monotonic(&self) -> Duration;

    /// 64 unpredictable bits.
    fn draw(&self) -> u64;

    /// Returns at or after `at`, as this clock tells it.
    ///
    /// A wall clock may jump: callers read the clock again afterwards instead of trusting that `at` has come, and
    /// implementations look at it at least once a second.
    async fn sleep_until(&self, at: Timestamp);
}

/// How long the system clock is trusted not to jump.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The machine's clocks and its random source.
#[derive(Debug)]
pub struct SystemClock {
    started: std::time::Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place")]
    pub fn start() -> Self {
        Self { started: std::time::Instant::now() }
    }
}

thread_local! {
    /// Random bytes that were fetched and not used yet.
    static DRAWN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place")]
    fn draw(&self) -> u64 {
        // One call to the kernel for many draws.
        DRAWN.with_borrow_mut(|drawn| {
            if drawn.len() < 8 {
                drawn.resize(2048, 0);
                getrandom::fill(drawn).expect("the system's random source works");
            }
            let rest = drawn.len() - 8;
            let mut bits = [0; 8];
            bits.copy_from_slice(&drawn[rest..]);
            drawn.truncate(rest);
            u64::from_ne_bytes(bits)
        })
    }

    async fn sleep_until(&self, at: Timestamp) {
        let wait = at.since(self.now()).min(LOOK_EVERY);
        tokio::time::sleep(wait).await;
    }
}

/// A clock that stands until somebody moves it. Random bits count up from a seed.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
    drawn: Mutex<u64>,
    /// The sum of all advances.
    advanced: Mutex<Duration>,
}

impl ManualClock {
    pub fn new(now: Timestamp, seed: u64) -> Self {
        Self { now: watch::channel(now).0, drawn: Mutex::new(seed), advanced: Mutex::default() }
    }

    /// Moves the clock; whoever slept until a time it has now reached wakes.
    pub fn advance(&self, by: Duration) {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner) += by;
        self.now.send_modify(|now| *now = now.after(by));
    }

    /// Sets the time of day to any time, also back, as a person or a time server might.
    pub fn set(&self, to: Timestamp) {
        self.now.send_replace(to);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn monotonic(&self) -> Duration {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self) -> u64 {
        // splitmix64: every seed gives a full, well-mixed sequence.
        let mut state = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    async fn sleep_until(&self, at: Timestamp) {
        let mut moved = self.now.subscribe();
        // The sender lives in `self`, so waiting can only end by a move.
        let _ = moved.wait_for(|now| *now >= at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_it_is_moved_far_enough() {
        let clock = std::sync::Arc::new(ManualClock::new(Timestamp::from_millis(1000), 1));
        let sleeper = {
            let clock = std::sync::Arc::clone(&clock);
            tokio::spawn(async move { clock.sleep_until(Timestamp::from_millis(2000)).await })
        };
        tokio::task::yield_now().await;
        clock.advance(Duration::from_millis(999));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_millis(1));
        sleeper.await.unwrap();
    }

    #[test]
    fn draws_differ() {
        let clock = SystemClock::start();
        let drawn: std::collections::HashSet<u64> = (0..1000).map(|_| clock.draw()).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
