//! What nodes that died or froze left behind: their leases are settled as lost once they have ended.

use std::sync::Arc;
use std::time::Duration;

use restante_core::id::{Id, Key};
use restante_core::limits::{LEASE_MARGIN, TIMEOUT_SECONDS};
use restante_core::retry::Jitter;
use restante_core::{Attempt, Outcome, Timestamp};

use super::Fault;
use super::codec::{DELIVERY_COLUMNS, DELIVERY_TABLES, Stored, read_delivery};
use super::node::Node;
use super::settle::Verdict;
use super::sql::Sql;
use super::tx::{Access, Tx};
use crate::{Error, Finished, Lease};

/// Leases settled in one transaction.
const CHUNK: usize = 200;

/// A node that has not been seen for as long as a lease has its margin.
struct Lapsed {
    node: i32,
    floor: i64,
    last_key: i64,
    unseen: Duration,
}

impl Node {
    /// See [`crate::Store::take_over`].
    pub(super) async fn take_over(self: &Arc<Self>, now: Timestamp) -> Result<usize, Error> {
        let mut total = 0;
        for lapsed in self.lapsed().await? {
            total += self.take_over_from(&lapsed, now).await?;
        }
        Ok(total)
    }

    /// Leases of lapsed nodes that nobody has taken over yet.
    pub(super) async fn orphans(&self) -> Result<u64, Fault> {
        let mut count = 0;
        for lapsed in self.lapsed().await? {
            count += self.leases_of(&lapsed).await?.len() as u64;
        }
        Ok(count)
    }

    async fn lapsed(&self) -> Result<Vec<Lapsed>, Fault> {
        let me = self.state().node;
        let sql = self.connection().await?;
        let rows = sql
            .query(
                "SELECT id, floor, last_key, extract(epoch FROM clock_timestamp() - seen_at)::float8 FROM node \
                 WHERE id <> $1 AND seen_at < clock_timestamp() - interval '15 seconds' ORDER BY id",
                &[&me],
            )
            .await?;
        let read = |row: &tokio_postgres::Row| {
            let unseen = Duration::try_from_secs_f64(row.try_get(3)?).unwrap_or_default();
            Ok(Lapsed { node: row.try_get(0)?, floor: row.try_get(1)?, last_key: row.try_get(2)?, unseen })
        };
        rows.iter().map(read).collect()
    }

    async fn take_over_from(self: &Arc<Self>, lapsed: &Lapsed, now: Timestamp) -> Result<usize, Error> {
        let mut total = 0;
        let leases = self.leases_of(lapsed).await?;
        let (ended, left): (Vec<_>, Vec<_>) = leases.into_iter().partition(|it| self.has_ended(it, lapsed));
        for chunk in ended.chunks(CHUNK) {
            let chunk: Arc<[Stored]> = chunk.into();
            let node = lapsed.node;
            total += self.lose_all_of(node, chunk, now).await?;
        }
        self.free_slots(lapsed, &left).await?;
        let longest = Duration::from_secs(u64::from(*TIMEOUT_SECONDS.end()));
        if left.is_empty() && lapsed.unseen > longest + LEASE_MARGIN {
            self.bury(lapsed).await?;
        }
        Ok(total)
    }

    /// Whether a lapsed node's lease has ended: what it dialled has ended too.
    fn has_ended(&self, stored: &Stored, lapsed: &Lapsed) -> bool {
        let state = self.state();
        let timeout = state.endpoint(stored.row.endpoint).ok().and_then(|entry| {
            // With other settings the attempt may have had another timeout.
            let known = stored.row.endpoint_version == Some(entry.settings.version);
            known.then(|| entry.settings.receiver.timeout())
        });
        let longest = Duration::from_secs(u64::from(*TIMEOUT_SECONDS.end()));
        lapsed.unseen > timeout.unwrap_or(longest) + LEASE_MARGIN
    }

    async fn leases_of(&self, lapsed: &Lapsed) -> Result<Vec<Stored>, Fault> {
        leases_of(&self.connection().await?, lapsed).await
    }

    async fn lose_all_of(
        self: &Arc<Self>,
        node: i32,
        leases: Arc<[Stored]>,
        now: Timestamp,
    ) -> Result<usize, Error> {
        let access = Access::Messages;
        self.write(access, move |tx| {
            let leases = Arc::clone(&leases);
            Box::pin(async move {
                // A node that is back gives back what it held itself; what it has leased since is its own.
                let still = "SELECT 1 FROM node WHERE id = $1 \
                     AND seen_at < clock_timestamp() - interval '15 seconds' FOR UPDATE";
                if tx.first(still, &[&node]).await?.is_none() {
                    return Ok(0);
                }
                tx.lose(&leases, node, now).await
            })
        })
        .await
    }

    /// Slots of a lapsed node are free when the attempts that had them have ended: `left` are its leases that have not.
    async fn free_slots(self: &Arc<Self>, lapsed: &Lapsed, left: &[Stored]) -> Result<(), Fault> {
        let sql = self.connection().await?;
        let rows = sql.query("SELECT endpoint FROM slots WHERE node = $1", &[&lapsed.node]).await?;
        let mut free: Vec<i64> = Vec::new();
        let longest = Duration::from_secs(u64::from(*TIMEOUT_SECONDS.end()));
        {
            let state = self.state();
            for row in rows {
                let endpoint: i64 = row.try_get(0)?;
                // What was dialled with an earlier, longer timeout is among `left`.
                let least = state.endpoint(endpoint).map_or(longest, |entry| {
                    let receiver = &entry.settings.receiver;
                    // The next attempt elsewhere is no sooner after the last one here than the rate allows.
                    let rate = receiver.rate_per_second();
                    let pace = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
                    receiver.timeout().max(pace)
                });
                let held = left.iter().any(|stored| stored.row.endpoint == endpoint);
                if !held && lapsed.unseen > least + LEASE_MARGIN {
                    free.push(endpoint);
                }
            }
        }
        sql.execute(
            "DELETE FROM slots WHERE node = $1 AND endpoint = ANY($2) AND EXISTS (SELECT FROM node WHERE id = $1 \
             AND seen_at < clock_timestamp() - interval '15 seconds')",
            &[&lapsed.node, &free],
        )
        .await?;
        Ok(())
    }

    /// Removes a node that has nothing left. Its transactions fail from then on.
    async fn bury(&self, lapsed: &Lapsed) -> Result<(), Fault> {
        let (node, last_key) = (lapsed.node, lapsed.last_key);
        let sql = self.connection().await?;
        let buried = async {
            sql.batch("BEGIN; SELECT pg_advisory_xact_lock(7310306451)").await?;
            let gone = sql
                .execute(
                    "DELETE FROM node WHERE id = $1 AND seen_at < clock_timestamp() - interval '75 seconds'",
                    &[&node],
                )
                .await?;
            if gone == 1 {
                let last = "UPDATE meta SET value = greatest(value, (SELECT coalesce(max(key), 0) FROM delivery \
                     WHERE key >= $1)) WHERE name = 'last_key'";
                sql.execute(last, &[&last_key]).await?;
                // Nothing of it may be left that nobody looks for any more.
                if !leases_of(&sql, lapsed).await?.is_empty() {
                    return sql.batch("ROLLBACK").await;
                }
                for table in ["mark", "slots", "withdrawal"] {
                    sql.execute(&format!("DELETE FROM {table} WHERE node = $1"), &[&node]).await?;
                }
            }
            sql.batch("COMMIT").await
        };
        let result: Result<(), Fault> = buried.await;
        if result.is_err() {
            sql.throw_away();
        }
        result
    }
}

/// What is leased to a lapsed node, at birth or by a claim.
async fn leases_of(sql: &Sql, lapsed: &Lapsed) -> Result<Vec<Stored>, Fault> {
    let born = format!(
        "SELECT {DELIVERY_COLUMNS} FROM {DELIVERY_TABLES} \
         WHERE delivery.key >= $2 AND delivery.state = 1 AND delivery.node = $1 AND NOT delivery.claimed"
    );
    let claimed = format!(
        "SELECT {DELIVERY_COLUMNS} FROM work JOIN delivery ON delivery.workspace = work.workspace \
         AND delivery.key = work.key WHERE work.node = $1 AND delivery.state = 1 AND delivery.node = $1"
    );
    let mut found = Vec::new();
    for row in sql.query(&born, &[&lapsed.node, &lapsed.floor]).await? {
        found.push(read_delivery(&row)?);
    }
    for row in sql.query(&claimed, &[&lapsed.node]).await? {
        found.push(read_delivery(&row)?);
    }
    found.sort_by_key(|stored| stored.row.key);
    Ok(found)
}

impl Tx {
    /// Settles leases of a lapsed node as lost, as far as they are still there. Returns how many.
    async fn lose(&mut self, seen: &[Stored], node: i32, now: Timestamp) -> Result<usize, Fault> {
        let messages = self.messages_of(seen.iter()).await?;
        let mut finished = Vec::with_capacity(seen.len());
        for stored in seen {
            let Some((tail, _)) = messages.get(&stored.row.message) else { continue };
            let delivery = Id::new(Key::from_value(stored.row.key), *tail);
            let number = stored.row.life.attempts_made;
            let started_at = Timestamp::from_millis(stored.row.started_at.unwrap_or(now.millis()));
            let ended_at = now.max(started_at);
            let one = Finished {
                lease: Lease { delivery, attempt: number },
                attempt: Attempt { number, outcome: Outcome::Lost, started_at, ended_at },
                endpoint_version: stored.row.endpoint_version.unwrap_or(1),
                jitter: Jitter::NONE,
            };
            finished.push((stored.workspace, one));
        }
        let verdicts = self.settle_all(&finished, node).await?;
        Ok(verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Recorded(_))).count())
    }
}
