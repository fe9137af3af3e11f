//! Values that sources know, and the requests that first brought them.

use restante_core::Timestamp;
use restante_core::id::{Id, Key, RequestId, Tail};
use restante_core::intake::{Dedupe, Value};
use rusqlite::{OptionalExtension, params};

use super::Fault;
use super::accept::tail_column;
use super::engine::Engine;
use super::scan::sql_limit;

impl Engine {
    /// The request that first brought a value to a source, if the value is known still.
    pub(super) fn first_with(
        &self,
        source: i64,
        value: &Value,
        now: Timestamp,
    ) -> Result<Option<RequestId>, Fault> {
        let Some(dedupe) = self.dedupe_of(source) else { return Ok(None) };
        let forgotten_at = dedupe.forgotten_at(now, self.config.sources[&source].retention_ms);
        let found = self
            .conn
            .prepare_cached(
                "SELECT message, tail FROM seen WHERE source = ?1 AND value = ?2 AND received_at > ?3",
            )?
            .query_row(params![source, &value.as_bytes()[..], forgotten_at.millis()], |row| {
                let tail = Tail::from_bits(row.get::<_, i64>(1)?.unsigned_abs());
                Ok(Id::new(Key::from_value(row.get(0)?), tail))
            })
            .optional()?;
        Ok(found)
    }

    /// Makes a request the first that brought a value.
    pub(super) fn remember(
        &self,
        source: i64,
        value: &Value,
        first: RequestId,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let Some(dedupe) = self.dedupe_of(source) else { return Ok(()) };
        self.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO seen (source, value, message, tail, received_at, held_until) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                source,
                &value.as_bytes()[..],
                first.key().value(),
                tail_column(first.tail()),
                now.millis(),
                dedupe.held_until(now).millis(),
            ])?;
        Ok(())
    }

    /// Forgets up to `most` values whose time is up. Returns how many.
    pub(super) fn prune_seen(&self, now: Timestamp, most: usize) -> Result<usize, Fault> {
        let forgotten = self
            .conn
            .prepare_cached(
                "DELETE FROM seen WHERE (source, value) IN \
                 (SELECT source, value FROM seen WHERE held_until <= ?1 ORDER BY held_until LIMIT ?2)",
            )?
            .execute(params![now.millis(), sql_limit(most)])?;
        Ok(forgotten)
    }

    fn dedupe_of(&self, source: i64) -> Option<&Dedupe> {
        self.config.sources.get(&source)?.rules.as_ref()?.dedupe.as_ref()
    }
}
