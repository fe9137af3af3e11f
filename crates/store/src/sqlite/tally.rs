//! What was counted, written down and erased in time.

use restante_core::Timestamp;
use rusqlite::params;

use super::engine::Engine;
use super::scan::sql_limit;
use super::{Fault, meta, set_meta};
use crate::tally::Row;

/// The highest series that was given.
const SERIES: &str = "tally_series";

impl Engine {
    /// Writes up to `most` rows of the round that has begun. Returns whether there are more.
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub(super) fn roll_up(&mut self, most: usize) -> Result<bool, Fault> {
        let known = meta(&self.conn, SERIES)?.unwrap_or(0);
        let (rows, last) = {
            let mut tally = self.tally.lock();
            // After a rollback the table knows less than memory.
            let series = known.max(tally.last_series) + 1;
            (tally.take(series, most), tally.last_series)
        };
        if last > known {
            set_meta(&self.conn, SERIES, last)?;
        }
        for row in &rows {
            self.write_tally(row)?;
        }
        let more = rows.len() == most;
        self.staged.tallied.extend(rows);
        Ok(more)
    }

    fn write_tally(&self, row: &Row) -> Result<(), Fault> {
        let [accepted, delivered, failed, attempts, attempts_failed] = row.counts.numbers();
        self.conn
            .prepare_cached(
                "INSERT INTO tally (workspace, scope, step, at, series, kept_until, accepted, delivered, failed, attempts, \
                 attempts_failed, arrival, duration) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
                 ON CONFLICT DO UPDATE SET accepted = ?7, delivered = ?8, failed = ?9, attempts = ?10, \
                 attempts_failed = ?11, arrival = ?12, duration = ?13",
            )?
            .execute(params![
                row.workspace,
                row.scope(),
                row.step(),
                row.at(),
                row.series,
                row.kept_until,
                accepted,
                delivered,
                failed,
                attempts,
                attempts_failed,
                row.counts.arrival.encode(),
                row.counts.duration.encode(),
            ])?;
        Ok(())
    }

    /// Erases up to `most` rows that are past their time. Returns how many.
    pub(super) fn prune_tally(&self, now: Timestamp, most: usize) -> Result<usize, Fault> {
        let erased = self
            .conn
            .prepare_cached(
                "DELETE FROM tally WHERE (workspace, scope, step, at, series) IN \
                 (SELECT workspace, scope, step, at, series FROM tally WHERE kept_until <= ?1 LIMIT ?2)",
            )?
            .execute(params![now.millis(), sql_limit(most)])?;
        Ok(erased)
    }
}
