//! What the receiver counts.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::HeaderMap;
use hyper::header::HeaderName;
use serde::{Deserialize, Serialize};

use crate::latency::{Latencies, Percentiles};
use crate::{body, clock};

/// The header that names an event, whatever names other messages.
const EVENT_IDENTITY: &str = "webhook-id";
/// Paths are spread over this many locks, so that threads seldom wait for each other.
const SHARDS: usize = 8;

/// What arrived since the start or the last reset.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stats {
    /// Requests that arrived and were answered.
    pub(crate) arrivals: u64,
    /// Arrivals that named their message for the first time on their path.
    pub(crate) distinct: u64,
    /// Arrivals that named a message known on their path.
    pub(crate) duplicates: u64,
    /// Arrivals without the header that names their message.
    pub(crate) unnamed: u64,
    /// Different paths of the arrivals.
    pub(crate) paths: u64,
    /// Requests that arrived at a hanging path, and are counted nowhere else.
    pub(crate) hung: u64,
    /// Requests that were answered with no 2xx, and are counted nowhere else.
    pub(crate) refused: u64,
    /// Requests that were open at once at slow paths: at most, and before the first of them was answered.
    pub(crate) open_max: u64,
    pub(crate) first_wave: u64,
    /// First and last arrival, in microseconds of the steady clock; 0 when nothing arrived.
    pub(crate) first_us: u64,
    pub(crate) last_us: u64,
    /// From `sent_at_us` in the body to the arrival, of those arrivals that have it.
    pub(crate) latency: Percentiles,
}

/// Counts arrivals from several threads.
pub(super) struct Tally {
    identity: Option<HeaderName>,
    hashes: RandomState,
    hung: AtomicU64,
    refused: AtomicU64,
    waves: Waves,
    shards: [Mutex<Shard>; SHARDS],
}

/// Requests that are open at once.
#[derive(Default)]
struct Waves {
    open: AtomicU64,
    open_max: AtomicU64,
    /// What was open when the first was answered; 0 until then.
    first: AtomicU64,
}

/// An open request at a slow path; dropped, it is answered.
pub(super) struct Open<'a>(&'a Waves);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let open = self.0.open.fetch_sub(1, Ordering::AcqRel);
        // Only the first answer counts.
        let _ = self.0.first.compare_exchange(0, open, Ordering::AcqRel, Ordering::Relaxed);
    }
}

struct Shard {
    paths: HashMap<Box<str>, Path>,
    first_us: u64,
    last_us: u64,
    latencies: Latencies,
}

#[derive(Default)]
struct Path {
    arrivals: u64,
    duplicates: u64,
    unnamed: u64,
    /// 64-bit hashes of the names seen: among a million the chance of one collision is 1 in 30 million.
    seen: HashSet<u64>,
}

impl Stats {
    /// Acknowledged deliveries that did not arrive, when every message goes to `destinations` destinations.
    pub(crate) fn lost(&self, acknowledged: u64, destinations: u64) -> u64 {
        (acknowledged * destinations).saturating_sub(self.distinct)
    }
}

impl Tally {
    /// Counts; `identity` is the header that names a message, `None` leaves duplicates uncounted.
    pub(super) fn new(identity: Option<HeaderName>) -> Self {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::new()));
        Self {
            identity,
            hashes: RandomState::new(),
            hung: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            waves: Waves::default(),
            shards,
        }
    }

    pub(super) fn arrive(&self, path: &str, headers: &HeaderMap, body: &[u8]) {
        let now_us = clock::steady_us();
        let name = self
            .identity
            .as_ref()
            .and_then(|identity| headers.get(identity).or_else(|| headers.get(EVENT_IDENTITY)));
        let name = name.map(|name| self.hashes.hash_one(name.as_bytes()));
        self.shard(path).arrive(path, name, now_us, body::sent_at_us(body));
    }

    pub(super) fn hang(&self) {
        self.hung.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn open(&self) -> Open<'_> {
        let open = 1 + self.waves.open.fetch_add(1, Ordering::AcqRel);
        self.waves.open_max.fetch_max(open, Ordering::AcqRel);
        Open(&self.waves)
    }

    /// Requests that are open stay so.
    pub(super) fn reset(&self) {
        self.waves.open_max.store(0, Ordering::Relaxed);
        self.waves.first.store(0, Ordering::Relaxed);
        self.shards.iter().for_each(|shard| *lock(shard) = Shard::new());
        self.hung.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> Stats {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut stats = Stats {
            hung: get(&self.hung),
            refused: get(&self.refused),
            open_max: get(&self.waves.open_max),
            first_wave: get(&self.waves.first),
            ..Stats::default()
        };
        let (mut first_us, mut latencies) = (u64::MAX, Latencies::new());
        for shard in &self.shards {
            let shard = lock(shard);
            for path in shard.paths.values() {
                stats.arrivals += path.arrivals;
                stats.distinct += path.seen.len() as u64;
                stats.duplicates += path.duplicates;
                stats.unnamed += path.unnamed;
            }
            stats.paths += shard.paths.len() as u64;
            stats.last_us = stats.last_us.max(shard.last_us);
            first_us = first_us.min(shard.first_us);
            latencies.merge(&shard.latencies);
        }
        stats.first_us = first_us.min(stats.last_us);
        stats.latency = latencies.percentiles();
        stats
    }

    fn shard(&self, path: &str) -> MutexGuard<'_, Shard> {
        let bucket = self.hashes.hash_one(path) % SHARDS as u64;
        lock(&self.shards[usize::try_from(bucket).expect("an index of the shards")])
    }
}

impl Shard {
    fn new() -> Self {
        Self { paths: HashMap::new(), first_us: u64::MAX, last_us: 0, latencies: Latencies::new() }
    }

    fn arrive(&mut self, path: &str, name: Option<u64>, now_us: u64, sent_at_us: Option<u64>) {
        self.first_us = self.first_us.min(now_us);
        self.last_us = self.last_us.max(now_us);
        if let Some(sent_at_us) = sent_at_us {
            self.latencies.record(now_us.saturating_sub(sent_at_us));
        }
        match self.paths.get_mut(path) {
            Some(known) => known.arrive(name),
            None => self.paths.entry(path.into()).or_default().arrive(name),
        }
    }
}

impl Path {
    fn arrive(&mut self, name: Option<u64>) {
        self.arrivals += 1;
        match name.map(|name| self.seen.insert(name)) {
            Some(true) => {}
            Some(false) => self.duplicates += 1,
            None => self.unnamed += 1,
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Counts stay usable when a thread died while it held them.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static("id"), name.parse().unwrap())])
    }

    #[test]
    fn a_name_twice_on_one_path_is_a_duplicate() {
        let tally = Tally::new(Some(HeaderName::from_static("id")));
        for (path, name) in [("/d/1", "a"), ("/d/1", "a"), ("/d/1", "b"), ("/d/2", "a")] {
            tally.arrive(path, &named(name), b"{}");
        }
        tally.arrive("/d/2", &HeaderMap::new(), b"{}");
        let stats = tally.stats();
        assert_eq!((stats.arrivals, stats.paths), (5, 2));
        assert_eq!((stats.distinct, stats.duplicates, stats.unnamed), (3, 1, 1));
        assert_eq!(stats.latency.count, 0, "no body had a time");
        assert!(0 < stats.first_us && stats.first_us <= stats.last_us);
    }

    #[test]
    fn latency_counts_from_the_time_in_the_body() {
        let tally = Tally::new(None);
        let long_ago_us = clock::steady_us() - 5_000_000;
        tally.arrive("/", &HeaderMap::new(), &body::write(long_ago_us, 0, 512));
        let latency = tally.stats().latency;
        assert_eq!(latency.count, 1);
        assert!(latency.max_us >= 4_990_000, "{latency:?}");
    }

    #[test]
    fn lost_is_what_was_acknowledged_and_did_not_arrive() {
        let arrived = |distinct, duplicates| Stats { distinct, duplicates, ..Stats::default() };
        assert_eq!(arrived(1_000, 0).lost(100, 10), 0);
        assert_eq!(arrived(999, 5).lost(100, 10), 1, "duplicates make up for nothing");
        assert_eq!(arrived(0, 0).lost(100, 0), 0);
        assert_eq!(arrived(101, 0).lost(100, 1), 0, "a request without an answer may have been stored");
    }

    #[test]
    fn what_is_open_at_once_is_counted_until_the_first_answer_and_in_all() {
        let tally = Tally::new(None);
        let (one, two) = (tally.open(), tally.open());
        drop(one);
        let (three, four) = (tally.open(), tally.open());
        drop((two, three, four));
        let stats = tally.stats();
        assert_eq!((stats.first_wave, stats.open_max), (2, 3));
    }

    #[test]
    fn a_reset_clears_everything() {
        let tally = Tally::new(None);
        tally.arrive("/", &HeaderMap::new(), b"{}");
        tally.hang();
        tally.reset();
        let stats = tally.stats();
        assert_eq!((stats.arrivals, stats.paths, stats.hung, stats.first_us, stats.last_us), (0, 0, 0, 0, 0));
    }
}
