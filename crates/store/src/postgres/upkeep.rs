//! What has to be done now and then: erase what expired, finish what deletions left, make and drop partitions, leave.

use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::id::Key;

use super::Fault;
use super::node::Node;
use super::partition::day_of;
use super::tx::Access;
use crate::Error;

impl Node {
    /// See [`crate::Store::prune`].
    pub(super) async fn prune(self: &Arc<Self>, now: Timestamp, most: usize) -> Result<bool, Error> {
        let today = day_of(Key::first_at(now));
        self.prepare_partitions(Key::first_at(now)).await?;
        let mut more = self.drop_partitions(today, now).await?;
        let messages = Access::Messages;
        more |= self.write(messages, move |tx| Box::pin(tx.prune_requests(now, most))).await?;
        more |= self.write(messages, move |tx| Box::pin(tx.prune_events(now, most))).await?;
        more |= self.write(messages, move |tx| Box::pin(tx.prune_attempts(now, most))).await?;
        more |= self.write(messages, move |tx| Box::pin(tx.prune_keys(now, most))).await?;
        more |= self.write(messages, move |tx| Box::pin(tx.prune_seen(now, most))).await?;
        more |= self.prune_tally(now, most).await?;
        let unswept = self.state().unswept.first().copied();
        if let Some(endpoint) = unswept {
            self.sweep(endpoint, now, most).await?;
            more |= !self.state().unswept.is_empty();
        }
        Ok(more)
    }

    /// Gives up the node's place, if nothing is leased to it.
    pub(super) async fn leave(&self) -> Result<(), Fault> {
        self.closing.send_replace(true);
        let (me, left, last_key) = {
            let state = self.state();
            (state.node, state.leases.len(), state.last_key)
        };
        if left > 0 {
            return Err(Fault::NoConnection(format!("{left} deliveries are still leased")));
        }
        let sql = self.connection().await?;
        for table in ["slots", "withdrawal", "mark"] {
            sql.execute(&format!("DELETE FROM {table} WHERE node = $1"), &[&me]).await?;
        }
        let last = "UPDATE meta SET value = greatest(value, $1) WHERE name = 'last_key'";
        sql.execute(last, &[&last_key]).await?;
        sql.execute("DELETE FROM node WHERE id = $1", &[&me]).await?;
        Ok(())
    }
}
