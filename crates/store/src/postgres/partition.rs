//! Partitions: a day of messages, deliveries and attempts each, by the time in the key.
//!
//! They are made when the first key of a day is about to be written, and those of the next days ahead of time, so that
//! nobody waits for it. They are dropped whole when everything in them has expired.

use restante_core::Timestamp;
use restante_core::id::Key;

use super::Fault;
use super::node::{Node, lock};
use super::sql::Sql;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Days that have partitions ahead of the one that is written to.
const DAYS_AHEAD: i64 = 2;
/// Held while partitions are made or dropped: any number that nobody else takes.
pub(crate) const LOCK: i64 = 7_310_306_453;
/// The tables, and whether settles need room on their pages.
const TABLES: [(&str, bool); 3] = [("message", false), ("delivery", true), ("attempt", false)];

/// The day of a key, counted from 1970.
pub(crate) fn day_of(key: Key) -> i64 {
    key.at().millis().div_euclid(DAY_MS)
}

/// The first key of a day.
pub(crate) fn first_key(day: i64) -> i64 {
    Key::first_at(Timestamp::from_millis(day * DAY_MS)).value()
}

impl Node {
    /// Sees to it that there are partitions for keys from `first` on, for a day at least.
    pub(super) async fn prepare_partitions(&self, first: Key) -> Result<(), Fault> {
        let day = day_of(first);
        // A run of keys may reach into the next day.
        let missing: Vec<i64> = {
            let known = lock(&self.days);
            (day..=day + 1).filter(|day| !known.contains(day)).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        self.make_partitions(day).await
    }

    /// Makes the partitions of a day and of those after it that are not there yet.
    pub(super) async fn make_partitions(&self, day: i64) -> Result<(), Fault> {
        let sql = self.connection().await?;
        let made = async {
            sql.batch("BEGIN").await?;
            sql.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
            for day in day..=day + DAYS_AHEAD {
                make_day(&sql, day).await?;
            }
            sql.batch("COMMIT").await
        };
        let result: Result<(), Fault> = made.await;
        if let Err(fault) = result {
            sql.throw_away();
            return Err(fault);
        }
        lock(&self.days).extend(day..=day + DAYS_AHEAD);
        Ok(())
    }
}

pub(crate) async fn make_day(sql: &Sql, day: i64) -> Result<(), Fault> {
    for (table, settles) in TABLES {
        let name = format!("{table}_{day}");
        let there: bool = sql.one("SELECT to_regclass($1) IS NOT NULL", &[&name]).await?.try_get(0)?;
        if there {
            continue;
        }
        let room = if settles { ", fillfactor = 75" } else { "" };
        let (from, to) = (first_key(day), first_key(day + 1));
        // Attached, not made as a part: that would lock out everybody else who uses the table.
        sql.batch(&format!(
            "CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS) \
             WITH (autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.05, \
             autovacuum_vacuum_cost_delay = 0{room}); \
             ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({to})"
        ))
        .await?;
    }
    Ok(())
}

impl Node {
    /// Drops the oldest partitions in which everything has expired. Returns whether there may be more.
    pub(super) async fn drop_partitions(&self, today: i64, now: Timestamp) -> Result<bool, Fault> {
        let kept_ms = {
            let state = self.state();
            let sources = state.config.sources.values().map(|source| source.retention_ms).max();
            let events = i64::try_from(self.policy.event_retention.as_millis()).unwrap_or(i64::MAX);
            sources.unwrap_or(0).max(events)
        };
        let sql = self.connection().await?;
        let Some(oldest) = oldest_day(&sql).await? else { return Ok(false) };
        let expired_at = (oldest + 1).saturating_mul(DAY_MS).saturating_add(kept_ms);
        if oldest >= today || expired_at > now.millis() {
            return Ok(false);
        }
        // What is still there is an event that has not ended, or that ended lately; its day waits for it.
        let (from, to) = (first_key(oldest), first_key(oldest + 1));
        for (table, column) in [("message", "key"), ("delivery", "key"), ("attempt", "delivery")] {
            let statement =
                format!("SELECT EXISTS (SELECT FROM {table} WHERE {column} >= $1 AND {column} < $2)");
            if sql.one(&statement, &[&from, &to]).await?.try_get(0)? {
                return Ok(false);
            }
        }
        sql.batch("SET lock_timeout = '200ms'").await?;
        let dropped = drop_day(&sql, oldest).await;
        // The connection has another time limit now.
        sql.throw_away();
        dropped?;
        lock(&self.days).remove(&oldest);
        tracing::info!(partition.day = oldest, "a day that expired is dropped");
        Ok(true)
    }
}

/// The oldest day that has a partition.
async fn oldest_day(sql: &Sql) -> Result<Option<i64>, Fault> {
    let row = sql
        .first(
            "SELECT min(substring(relname FROM 9)::bigint) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid \
             WHERE inhparent = 'message'::regclass",
            &[],
        )
        .await?;
    Ok(row.map(|row| row.try_get::<_, Option<i64>>(0)).transpose()?.flatten())
}

async fn drop_day(sql: &Sql, day: i64) -> Result<(), Fault> {
    for (table, _) in TABLES {
        let name = format!("{table}_{day}");
        sql.batch(&format!("ALTER TABLE {table} DETACH PARTITION {name} CONCURRENTLY")).await?;
        sql.batch(&format!("DROP TABLE {name}")).await?;
    }
    Ok(())
}
