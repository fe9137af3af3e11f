//! The index from a source to its messages and from an endpoint to its deliveries, written behind.
//!
//! Writing it with each message would dirty two scattered pages an event as soon as traffic is spread over many
//! sources. So new pairs wait in memory until there are enough of them, are sorted, and go to the table a few with
//! each transaction. Readers take the index up to the watermark and scan the tables behind it; after a crash the
//! waiting pairs are found again in the same way.

use std::sync::LazyLock;

use rusqlite::{Connection, params};

use super::Fault;

/// Pairs that make a run worth sorting.
const RUN_PAIRS: usize = 8192;
/// Pairs inserted by one statement: one of its own for each would cost more than the pair.
const INSERT_PAIRS: usize = 32;
/// Pairs written with a transaction that added none.
const STEP_PAIRS_MIN: usize = 64;

static INSERT_MANY: LazyLock<String> = LazyLock::new(|| {
    format!("INSERT OR IGNORE INTO history (scope, key) VALUES (?, ?){}", ", (?, ?)".repeat(INSERT_PAIRS - 1))
});

/// What the index does not hold yet.
#[derive(Debug, Default)]
pub(super) struct History {
    /// (scope, key), in the order of the keys.
    waiting: Vec<(i64, i64)>,
    /// Sorted backwards, so that the smallest pair is popped first.
    run: Vec<(i64, i64)>,
    /// All pairs with keys up to this are in the index once `run` is empty.
    run_until: i64,
    added: usize,
}

impl History {
    /// Finds the waiting pairs of a database that was just opened.
    pub(super) fn load(conn: &Connection) -> Result<Self, Fault> {
        let watermark = watermark(conn)?;
        let mut waiting = Vec::new();
        for sql in [
            "SELECT feed, key FROM message WHERE key > ?1",
            "SELECT endpoint, key FROM delivery WHERE key > ?1",
        ] {
            let mut statement = conn.prepare(sql)?;
            let rows = statement.query_map([watermark], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for pair in rows {
                waiting.push(pair?);
            }
        }
        waiting.sort_unstable_by_key(|(_, key)| *key);
        Ok(Self { waiting, ..Self::default() })
    }

    pub(super) fn add(&mut self, scope: i64, key: i64) {
        self.waiting.push((scope, key));
        self.added += 1;
    }

    /// All that waits.
    #[cfg(test)]
    pub(super) fn pairs(&self) -> Vec<(i64, i64)> {
        self.waiting.iter().chain(&self.run).copied().collect()
    }

    /// Takes out a pair whose row is gone, wherever it is.
    pub(super) fn forget(&mut self, conn: &Connection, scope: i64, key: i64) -> Result<(), Fault> {
        let waits = self.waiting.binary_search_by_key(&(key, scope), |(scope, key)| (*key, *scope));
        if let Ok(at) = waits {
            self.waiting.remove(at);
        }
        if let Ok(at) = self.run.binary_search_by(|pair| (scope, key).cmp(pair)) {
            self.run.remove(at);
        }
        // Whatever waits may be in the table as well: a crash cuts runs, and they are written again from the start.
        conn.prepare_cached("DELETE FROM history WHERE scope = ?1 AND key = ?2")?
            .execute(params![scope, key])?;
        Ok(())
    }

    /// Writes this transaction's share of the waiting pairs. `last_key` is the highest key handed out.
    pub(super) fn step(&mut self, conn: &Connection, last_key: i64) -> Result<(), Fault> {
        let share = (self.added * 2).max(STEP_PAIRS_MIN);
        self.added = 0;
        if self.run.is_empty() {
            if self.waiting.len() < RUN_PAIRS {
                return Ok(());
            }
            self.start_run(last_key);
        }
        self.write(conn, share)
    }

    /// Writes all that waits, up to `most` pairs. Returns whether more is left.
    pub(super) fn flush(&mut self, conn: &Connection, last_key: i64, most: usize) -> Result<bool, Fault> {
        if self.run.is_empty() {
            if self.waiting.is_empty() {
                return Ok(false);
            }
            self.start_run(last_key);
        }
        self.write(conn, most)?;
        Ok(!self.run.is_empty() || !self.waiting.is_empty())
    }

    fn start_run(&mut self, last_key: i64) {
        self.run = std::mem::take(&mut self.waiting);
        self.run.sort_unstable_by(|a, b| b.cmp(a));
        self.run_until = last_key;
    }

    fn write(&mut self, conn: &Connection, share: usize) -> Result<(), Fault> {
        // A run that was cut by a crash is written again from its start.
        let share = share.min(self.run.len());
        let mut insert = conn.prepare_cached(&INSERT_MANY)?;
        for _ in 0..share / INSERT_PAIRS {
            for index in 0..INSERT_PAIRS {
                let Some((scope, key)) = self.run.pop() else { break };
                insert.raw_bind_parameter(2 * index + 1, scope)?;
                insert.raw_bind_parameter(2 * index + 2, key)?;
            }
            insert.raw_execute()?;
        }
        let mut insert = conn.prepare_cached("INSERT OR IGNORE INTO history (scope, key) VALUES (?1, ?2)")?;
        for _ in 0..share % INSERT_PAIRS {
            let Some((scope, key)) = self.run.pop() else { break };
            insert.execute(params![scope, key])?;
        }
        if self.run.is_empty() {
            conn.prepare_cached(
                "INSERT OR REPLACE INTO meta (name, value) VALUES ('history_watermark', ?1)",
            )?
            .execute([self.run_until])?;
        }
        Ok(())
    }
}

/// Up to which key the index is complete.
pub(super) fn watermark(conn: &Connection) -> Result<i64, Fault> {
    super::meta(conn, "history_watermark").map(|value| value.unwrap_or(-1))
}

/// How far keys may be ahead of the time they were made at, in milliseconds.
pub(super) fn key_lead(conn: &Connection) -> Result<i64, Fault> {
    super::meta(conn, "key_lead_ms").map(|value| value.unwrap_or(0))
}
