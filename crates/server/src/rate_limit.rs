//! How often a key may call, and a source be sent to, on this node.
//!
//! The generic cell rate algorithm (ITU-T I.371): of whoever is counted one moment is kept, that at which the rate has
//! made up for all that was asked. It knows no windows, so there is no start of one for all to rush at.

mod standing;
#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

pub(crate) use standing::{Counted, Standing};

/// Counts that are kept at once, 16 bytes each. Whoever comes on top of them goes uncounted: nobody's count may be lost
/// because others come.
const COUNTS_MAX: usize = 65_536;
/// How often counts that are over are looked for, when there is no room. Looking takes time.
const SWEEP_EVERY_NS: u64 = 100_000_000;

const SECOND_NS: f64 = 1_000_000_000.0;

/// The limits of a node. `None`: there is none.
#[derive(Debug, Default)]
pub(crate) struct RateLimits {
    /// Calls of the API, by key.
    pub(crate) keys: Option<RateLimit>,
    /// Requests that intake takes, by the token of the source.
    pub(crate) sources: Option<RateLimit>,
    /// Logins of command-line clients, by the token of the source. They are counted apart: a source that is sent too
    /// much must not lock out its clients.
    pub(crate) logins: Option<RateLimit>,
}

impl RateLimits {
    pub(crate) fn new(key: Option<Rate>, source: Option<Rate>) -> Self {
        Self {
            keys: key.map(RateLimit::new),
            sources: source.map(RateLimit::new),
            logins: source.map(RateLimit::new),
        }
    }
}

/// So many at once, and from then on so many in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    per_second: f64,
    burst: u32,
}

impl Rate {
    /// `per_second`: above 0. `burst`: 1 or more; without it what comes in a second.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast keeps to the range")]
    pub(crate) fn new(per_second: f64, burst: Option<u32>) -> Self {
        let burst = burst.unwrap_or(per_second.ceil() as u32).max(1);
        Self { per_second, burst }
    }

    /// Time between two that keep the rate.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast keeps to the range")]
    fn interval_ns(self) -> u64 {
        // Rounded up: never more than the rate.
        (SECOND_NS / self.per_second).ceil().max(1.0) as u64
    }

    /// How somebody stands who asks when the rate has `debt_ns` to make up for.
    fn judge(self, debt_ns: u64) -> Standing {
        let interval_ns = self.interval_ns();
        let room_ns = interval_ns.saturating_mul(self.burst.into()).saturating_sub(debt_ns);
        let admitted = room_ns >= interval_ns;
        let left_ns = if admitted { room_ns - interval_ns } else { room_ns };
        Standing {
            rate: self,
            admitted,
            remaining: left_ns / interval_ns,
            next: Duration::from_nanos(interval_ns - left_ns % interval_ns),
        }
    }
}

/// A rate, and how those stand who are counted by it.
#[derive(Debug)]
pub(crate) struct RateLimit {
    rate: Rate,
    /// Whoever is counted is known by a keyed hash of 64 bits: what an outsider sends takes no memory but that.
    hasher: RandomState,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// When the rate has made up for all that was asked. From then on it is as if nothing had been.
    even_at_ns: FxHashMap<u64, u64>,
    swept_at_ns: u64,
}

impl RateLimit {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, hasher: RandomState::new(), counts: Mutex::default() }
    }

    #[cfg(test)]
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Counts one more of `who`, if that keeps the rate. What is refused does not count.
    ///
    /// `now` is of a clock that never goes back.
    pub(crate) fn take(&self, who: impl Hash, now: Duration) -> Standing {
        let who = self.hasher.hash_one(who);
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut counts = self.counts();
        let even_at_ns = counts.even_at_ns.get(&who).copied().unwrap_or_default().max(now_ns);
        let standing = self.rate.judge(even_at_ns - now_ns);
        if standing.admitted {
            counts.set(who, even_at_ns.saturating_add(self.rate.interval_ns()), now_ns);
        }
        standing
    }

    /// Counts nothing of `who` any more: there is nobody of that name.
    pub(crate) fn forget(&self, who: impl Hash) {
        self.counts().even_at_ns.remove(&self.hasher.hash_one(who));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn set(&mut self, who: u64, even_at_ns: u64, now_ns: u64) {
        let is_full = self.even_at_ns.len() >= COUNTS_MAX;
        if is_full && now_ns.saturating_sub(self.swept_at_ns) >= SWEEP_EVERY_NS {
            self.swept_at_ns = now_ns;
            self.even_at_ns.retain(|_, even_at_ns| *even_at_ns > now_ns);
        }
        if self.even_at_ns.len() < COUNTS_MAX || self.even_at_ns.contains_key(&who) {
            self.even_at_ns.insert(who, even_at_ns);
        }
    }
}
