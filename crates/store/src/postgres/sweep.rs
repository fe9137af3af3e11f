//! Many deliveries of one endpoint at once, and the end of what deletions and pauses left pending.

use restante_core::id::{Id, Key};
use restante_core::{Delivery, Timestamp};

use super::Fault;
use super::codec::{DELIVERY_COLUMNS, DELIVERY_TABLES, Stored, read_delivery};
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
        let floor = self.node.state().endpoint(endpoint)?.floor();
        self.look_up_due(&[endpoint], &[0], &[floor]).await?;
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

    /// Tells listeners about deliveries.
    pub(super) async fn tell_deliveries(&mut self, lives: &[(Stored, Delivery)]) -> Result<(), Fault> {
        if !self.node.is_watched() {
            return Ok(());
        }
        let messages = self.messages_of(lives.iter().map(|(stored, _)| stored)).await?;
        for (stored, _) in lives {
            if let Some((tail, _)) = messages.get(&stored.row.message) {
                let id = Id::new(Key::from_value(stored.row.key), *tail);
                self.tell(stored.row.endpoint, || Changed::Delivery(id));
            }
        }
        Ok(())
    }
}
