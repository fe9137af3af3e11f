//! Many deliveries of one endpoint at once, and the end of what deletions and pauses left pending.

use restante_core::id::{Id, Key, Tail};
use restante_core::{Delivery, State, Timestamp};
use rustc_hash::FxHashMap;

use super::Fault;
use super::codec::{DELIVERY_COLUMNS, DELIVERY_TABLES, Stored, read_delivery, small, state_code};
use super::config::{ended, standing};
use super::sql::sql_limit;
use super::tx::{Access, Tx};
use crate::Changed;

impl Tx {
    /// Ends up to `most` pending deliveries of a deleted or paused endpoint. Returns whether more is left.
    pub(super) async fn sweep(&mut self, endpoint: i64, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let view = self.endpoint(endpoint)?;
        // Another node may have marked all of it already: the table knows.
        let standing = standing(self, endpoint).await?;
        let until = if view.gone.is_some() { i64::MAX } else { standing.cut.unwrap_or(-1) };
        let statement = "SELECT key FROM work WHERE endpoint = $1 AND node IS NULL AND pauses <= $2 LIMIT $3";
        let rows = self.query(statement, &[&endpoint, &until, &sql_limit(most)]).await?;
        let keys = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        let mut marked = Vec::with_capacity(keys.len());
        for stored in self.lock_deliveries(view.workspace, &keys).await? {
            if let Some(life) = ended(view.gone, standing, &stored.row, now) {
                marked.push((stored, life));
            }
        }
        self.write_lives(&marked).await?;
        // There is more to mark, or a recovery may begin.
        self.staged.replays_ready |= standing.cut.is_some();
        let more = keys.len() == most;
        if !more {
            self.staged.unswept.push((endpoint, false));
            self.mend_cut(endpoint, standing.cut).await?;
        }
        self.look_up_due(endpoint).await?;
        Ok(more)
    }

    /// All that the last pause ended is marked.
    ///
    /// Where the configuration stays as it is, so does the epoch: nodes that remember the cut do no harm, for what
    /// is planned since has higher marks.
    async fn mend_cut(&self, endpoint: i64, cut: Option<i64>) -> Result<(), Fault> {
        if cut.is_none() {
            return Ok(());
        }
        let epoch = (self.access == Access::Configuration).then_some(self.epoch);
        let statement =
            "UPDATE health SET cut = NULL, epoch = coalesce($3, epoch) WHERE endpoint = $1 AND cut = $2";
        self.execute(statement, &[&endpoint, &cut, &epoch]).await?;
        Ok(())
    }

    /// Those of some deliveries that are there, in the order of their keys. Nobody else changes them until the
    /// transaction ends.
    pub(super) async fn lock_deliveries(&self, workspace: i64, keys: &[i64]) -> Result<Vec<Stored>, Fault> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let lock = "SELECT key FROM delivery WHERE workspace = $1 AND key = ANY($2) ORDER BY key FOR UPDATE";
        self.execute(lock, &[&workspace, &keys]).await?;
        // Read behind the lock: what it waited for has changed the rows of `work` too.
        self.deliveries(workspace, keys).await
    }

    /// Those of some deliveries that are there, in the order of their keys. They are not locked.
    pub(super) async fn deliveries(&self, workspace: i64, keys: &[i64]) -> Result<Vec<Stored>, Fault> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let statement = format!(
            "SELECT {DELIVERY_COLUMNS} FROM {DELIVERY_TABLES} \
             WHERE delivery.workspace = $1 AND delivery.key = ANY($2) ORDER BY delivery.key"
        );
        self.query(&statement, &[&workspace, &keys]).await?.iter().map(read_delivery).collect()
    }

    /// Writes what rules made of locked deliveries of one endpoint, with the jobs of their rows, as
    /// [`Tx::write_delivery`] does. None of them is in flight, before or after.
    pub(super) async fn write_lives(&mut self, lives: &[(Stored, Delivery)]) -> Result<(), Fault> {
        let Some((first, _)) = lives.first() else { return Ok(()) };
        let (workspace, endpoint) = (first.workspace, first.row.endpoint);
        debug_assert!(lives.iter().all(|(stored, life)| {
            stored.row.endpoint == endpoint
                && stored.row.life.state != State::Sending
                && life.state != State::Sending
                && life.ending.is_none()
                && life.back_to.is_none()
        }));
        let keys: Vec<i64> = lives.iter().map(|(stored, _)| stored.row.key).collect();
        let states: Vec<i16> = lives.iter().map(|(_, life)| small(state_code(life.state))).collect();
        let dues: Vec<i64> = lives.iter().map(|(_, life)| life.due_at.millis()).collect();
        let ends: Vec<Option<i64>> =
            lives.iter().map(|(_, life)| life.ended_at.map(Timestamp::millis)).collect();
        let jobs: Vec<Option<i64>> = lives.iter().map(|(stored, _)| stored.row.job).collect();
        self.execute(
            "UPDATE delivery SET state = new.state, ending = 0, back_to = NULL, due_at = new.due_at, \
             ended_at = new.ended_at, job = new.job \
             FROM unnest($2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[]) \
             AS new (key, state, due_at, ended_at, job) \
             WHERE delivery.workspace = $1 AND delivery.key = new.key AND delivery.key = ANY($2)",
            &[&workspace, &keys, &states, &dues, &ends, &jobs],
        )
        .await?;
        self.write_works(workspace, endpoint, lives).await?;
        self.write_skippeds(workspace, endpoint, lives).await
    }

    async fn write_works(
        &mut self,
        workspace: i64,
        endpoint: i64,
        lives: &[(Stored, Delivery)],
    ) -> Result<(), Fault> {
        let over = keys_where(lives, |_, after| after != State::Pending);
        if !over.is_empty() {
            let delete = "DELETE FROM work WHERE workspace = $1 AND key = ANY($2)";
            self.execute(delete, &[&workspace, &over]).await?;
        }
        let pending = lives.iter().filter(|(_, life)| life.state == State::Pending);
        let (keys, dues): (Vec<i64>, Vec<i64>) =
            pending.map(|(stored, life)| (stored.row.key, life.due_at.millis())).unzip();
        let Some(earliest) = dues.iter().min().copied() else { return Ok(()) };
        let pauses = self.endpoint(endpoint)?.standing.pauses;
        self.execute(
            "INSERT INTO work (workspace, key, endpoint, due_at, pauses) SELECT $1, new.key, $2, new.due_at, $3 \
             FROM unnest($4::bigint[], $5::bigint[]) AS new (key, due_at) \
             ON CONFLICT (workspace, key) DO UPDATE SET due_at = excluded.due_at, pauses = excluded.pauses, node = NULL",
            &[&workspace, &endpoint, &pauses, &keys, &dues],
        )
        .await?;
        self.staged.planned.push((endpoint, earliest));
        Ok(())
    }

    async fn write_skippeds(
        &self,
        workspace: i64,
        endpoint: i64,
        lives: &[(Stored, Delivery)],
    ) -> Result<(), Fault> {
        let new = keys_where(lives, |before, after| before != State::Skipped && after == State::Skipped);
        let insert = "INSERT INTO skipped (workspace, endpoint, key) SELECT $1, $2, unnest($3::bigint[]) \
             ON CONFLICT DO NOTHING";
        let old = keys_where(lives, |before, after| before == State::Skipped && after != State::Skipped);
        let delete = "DELETE FROM skipped WHERE workspace = $1 AND endpoint = $2 AND key = ANY($3)";
        for (statement, keys) in [(insert, new), (delete, old)] {
            if !keys.is_empty() {
                self.execute(statement, &[&workspace, &endpoint, &keys]).await?;
            }
        }
        Ok(())
    }

    /// Tells listeners about deliveries of one endpoint.
    pub(super) async fn tell_deliveries(&mut self, lives: &[(Stored, Delivery)]) -> Result<(), Fault> {
        let Some((first, _)) = lives.first().filter(|_| self.node.is_watched()) else { return Ok(()) };
        let messages: Vec<i64> = lives.iter().map(|(stored, _)| stored.row.message).collect();
        let statement = "SELECT key, tail FROM message WHERE workspace = $1 AND key = ANY($2)";
        let mut tails: FxHashMap<i64, Tail> = FxHashMap::default();
        for row in self.query(statement, &[&first.workspace, &messages]).await? {
            tails.insert(row.try_get(0)?, Tail::from_bits(row.try_get::<_, i64>(1)?.unsigned_abs()));
        }
        for (stored, _) in lives {
            if let Some(tail) = tails.get(&stored.row.message) {
                let id = Id::new(Key::from_value(stored.row.key), *tail);
                self.tell(stored.row.endpoint, || Changed::Delivery(id));
            }
        }
        Ok(())
    }
}

/// Keys of the deliveries whose states, before and after, are wanted.
fn keys_where(lives: &[(Stored, Delivery)], wanted: impl Fn(State, State) -> bool) -> Vec<i64> {
    let kept = lives.iter().filter(|(stored, life)| wanted(stored.row.life.state, life.state));
    kept.map(|(stored, _)| stored.row.key).collect()
}
