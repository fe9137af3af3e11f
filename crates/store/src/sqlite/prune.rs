//! Leaving: what is past its retention, and what deletions left behind.

use restante_core::Timestamp;
use rusqlite::params;

use super::Fault;
use super::engine::Engine;
use super::read::event_expired;
use super::resend::attempts_kept_from;
use super::scan::{self, Range};
use crate::endpoint::Feed;

/// Pairs of the history index written ahead of a prune.
const FLUSH_PAIRS: usize = 2048;
/// How often the write-ahead log is emptied when something was erased: the pages that held it are zeroed in the
/// database, but the log keeps what they were until it is written over.
const WIPE_EVERY_MS: i64 = 3_600_000;

/// What the write-ahead log may still hold of what was erased.
#[derive(Debug)]
pub(super) struct Wipe {
    /// Something was erased since the log was last emptied, or a crash may have left something.
    pub(super) wanted: bool,
    wiped_at: i64,
    /// The log is to be emptied after this transaction.
    pub(super) due: bool,
}

impl Default for Wipe {
    fn default() -> Self {
        Self { wanted: true, wiped_at: 0, due: false }
    }
}

/// How often expired events are looked for from the oldest on. Those that were delivered late stay behind each
/// time, and must not be looked at again every minute.
const EVENT_PASS_EVERY_MS: i64 = 3_600_000;

/// One walk over the old events and emails of all workspaces.
#[derive(Debug, Default)]
pub(super) struct EventPass {
    begun_at: Option<i64>,
    /// Where the walk is: the feed and the last key looked at; `None`: it is over.
    at: Option<(i64, i64)>,
}

/// One look for all that is past its retention at one moment.
#[derive(Debug)]
pub(super) struct Round {
    now: Timestamp,
    /// The history index holds what there was when the round began.
    is_flushed: bool,
    /// Sources that may have something left, and how long each keeps it, in milliseconds.
    sources: Vec<(i64, i64)>,
}

impl Engine {
    /// Erases up to `most` expired messages and ends as many deliveries of deleted endpoints. Returns whether more
    /// is left.
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn prune(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let mut round = self.round.take().filter(|round| round.now == now).unwrap_or_else(|| Round {
            now,
            is_flushed: false,
            sources: self.config.sources.iter().map(|(row, source)| (*row, source.retention_ms)).collect(),
        });
        let more = self.prune_step(&mut round, most)?;
        self.round = Some(round).filter(|_| more);
        Ok(more)
    }

    /// One step of a round. It is short however much there is of what stays, for others wait.
    fn prune_step(&mut self, round: &mut Round, most: usize) -> Result<bool, Fault> {
        let now = round.now;
        let unswept = self.sweep(now, most)?;
        if !round.is_flushed {
            // A quiet server would keep its last pairs in memory for ever. Once in a round: few pairs are scattered ones.
            if self.history.flush(&self.conn, self.last_key, FLUSH_PAIRS)? {
                return Ok(true);
            }
            round.is_flushed = true;
        }
        if self.prune_sources(round, most)? {
            return Ok(true);
        }
        let more_events = self.prune_events(now, most)?;
        let attempts = self.prune_attempts(now, most)?;
        let keys = self.prune_keys(now, most)?;
        let seen = self.prune_seen(now, most)?;
        let tallies = self.prune_tally(now, most)?;
        self.wipe.wanted |= attempts + keys + seen > 0;
        let full = [attempts, keys, seen, tallies].into_iter().any(|count| count >= most);
        let more = full || unswept || more_events;
        if !more && self.wipe.wanted && now.millis() - self.wipe.wiped_at >= WIPE_EVERY_MS {
            self.wipe.due = true;
            self.wipe.wiped_at = now.millis();
        }
        Ok(more)
    }

    /// Takes the walk over the sources one step further: up to `most` messages are erased, or as many sources looked at.
    /// Returns whether the walk goes on.
    fn prune_sources(&mut self, round: &mut Round, most: usize) -> Result<bool, Fault> {
        let mut left = most;
        while let Some((source, retention_ms)) = round.sources.last().copied() {
            if left == 0 {
                return Ok(true);
            }
            let erased = self.prune_source(source, round.now.millis() - retention_ms, left)?;
            if erased < left {
                round.sources.pop();
            }
            left -= erased.max(1);
        }
        Ok(false)
    }

    /// Takes the walk over old events one step further: up to `most` are looked at, and erased if their last
    /// delivery ended long enough ago. Returns whether the walk goes on.
    fn prune_events(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let Some((feed, above)) = self.event_place(now) else { return Ok(false) };
        let cutoff = self.policy.events_cutoff(now);
        let below = Range::of_times(None, Some(Timestamp::from_millis(cutoff)), self.key_lead_ms).below;
        let range = Range { above, below, newest_first: false };
        let mut candidates = Vec::new();
        scan::indexed(&self.conn, feed, range, i64::MAX - 1, most, &mut candidates)?;
        for key in &candidates {
            if event_expired(&self.conn, *key, cutoff)? {
                self.erase_message(*key)?;
                self.history.forget(&self.conn, feed, *key)?;
            }
        }
        self.event_pass.at = match candidates.last() {
            Some(last) if candidates.len() == most => Some((feed, *last)),
            Some(_) | None => self.config.feed_behind(feed).map(|next| (next, -1)),
        };
        Ok(self.event_pass.at.is_some())
    }

    /// Where the walk over events goes on; `None` until the next one is due.
    fn event_place(&mut self, now: Timestamp) -> Option<(i64, i64)> {
        let pass = &self.event_pass;
        let due = pass.begun_at.is_none_or(|begun| now.millis() - begun >= EVENT_PASS_EVERY_MS);
        if pass.at.is_none() && due {
            let first = self.config.feed_behind(i64::MIN)?;
            self.event_pass = EventPass { begun_at: Some(now.millis()), at: Some((first, -1)) };
        }
        self.event_pass.at
    }

    /// Erases up to `most` attempts to webhooks that are past their time. Returns how many.
    fn prune_attempts(&self, now: Timestamp, most: usize) -> Result<usize, Fault> {
        let mut erased = 0;
        let webhooks = self.config.endpoints.iter().filter(|(_, entry)| entry.endpoint.feed == Feed::Events);
        for (webhook, _) in webhooks {
            if erased >= most {
                break;
            }
            erased += self
                .conn
                .prepare_cached(
                    "DELETE FROM attempt WHERE (delivery, number) IN (SELECT delivery, number FROM attempt \
                     WHERE webhook = ?1 AND started_at < ?2 ORDER BY started_at LIMIT ?3)",
                )?
                .execute(params![webhook, attempts_kept_from(now), scan::sql_limit(most - erased)])?;
        }
        Ok(erased)
    }

    /// Empties the write-ahead log if that is due. A reader that still needs it puts that off.
    pub(super) fn wipe_log(&mut self) {
        if !std::mem::take(&mut self.wipe.due) {
            return;
        }
        match self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)) {
            Ok(0) => self.wipe.wanted = false,
            Ok(_) => self.wipe.wiped_at = 0,
            Err(error) => tracing::warn!(error.message = %error, "the write-ahead log could not be emptied"),
        }
    }

    /// Erases messages of one source received at or before `cutoff`, oldest first.
    fn prune_source(&mut self, source: i64, cutoff: i64, most: usize) -> Result<usize, Fault> {
        let range = Range { above: -1, below: i64::MAX, newest_first: false };
        // What the index does not hold yet is younger than the shortest retention.
        let mut candidates = Vec::new();
        scan::indexed(&self.conn, source, range, i64::MAX - 1, most, &mut candidates)?;
        let mut erased = 0;
        for key in candidates {
            let received_at: i64 = self
                .conn
                .prepare_cached("SELECT coalesce(max(received_at), 0) FROM message WHERE key = ?1")?
                .query_row([key], |row| row.get(0))?;
            if received_at > cutoff {
                break;
            }
            self.erase_message(key)?;
            self.history.forget(&self.conn, source, key)?;
            erased += 1;
        }
        Ok(erased)
    }
}
