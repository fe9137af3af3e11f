//! Credits: balances, and the ledger whose sum they are.

use restante_core::Timestamp;
use restante_core::id::{Tail, WorkspaceId};

use super::Fault;
use super::codec::tail_column;
use super::config::workspace_row;
use super::tx::{Access, Tx};
use crate::Grant;
use crate::row::ChargeReason;

impl Tx {
    /// Charges a workspace. `false`: the balance does not cover it, and nothing changed. Costs nothing where nothing
    /// is counted, which nodes know from the configuration.
    pub(super) async fn charge(
        &mut self,
        workspace: i64,
        price: i64,
        reason: ChargeReason,
        now: Timestamp,
        tail: Tail,
        reference: String,
    ) -> Result<bool, Fault> {
        if !self.is_counted(workspace) {
            return Ok(true);
        }
        let pay = "UPDATE credit SET balance = balance - $2 WHERE workspace = $1 AND balance >= $2";
        if self.execute(pay, &[&workspace, &price]).await? == 0 {
            return Ok(false);
        }
        self.write_ledger(workspace, -price, reason, now, tail, reference).await?;
        Ok(true)
    }

    /// Whether a workspace has a balance. The amount in memory may be old.
    fn is_counted(&self, workspace: i64) -> bool {
        let state = self.node.state();
        state.config.workspaces.get(&workspace).is_some_and(|entry| entry.balance.is_some())
    }

    /// See [`crate::Store::grant`].
    pub(super) async fn grant(
        &mut self,
        workspace: WorkspaceId,
        grant: Grant,
        note: String,
        now: Timestamp,
    ) -> Result<Option<i64>, Fault> {
        if self.access == Access::Messages {
            return Err(Fault::NeedsConfiguration);
        }
        let Some(row) = workspace_row(self, workspace).await? else { return Ok(None) };
        let before = self.first("SELECT balance FROM credit WHERE workspace = $1", &[&row]).await?;
        let before: i64 = before.map_or(Ok(0), |row| row.try_get(0))?;
        let balance = match grant {
            Grant::Delta(delta) => Some(before.saturating_add(delta).max(0)),
            Grant::Unlimited => None,
        };
        self.write_balance(row, balance).await?;
        // What is written is what the balance changed by, so that the ledger's sum stays the balance.
        let delta = balance.unwrap_or(0) - before;
        let tail = Tail::from_bits(now.millis().unsigned_abs());
        self.write_ledger(row, delta, ChargeReason::Grant, now, tail, note).await?;
        Ok(balance)
    }

    async fn write_balance(&self, workspace: i64, balance: Option<i64>) -> Result<(), Fault> {
        match balance {
            Some(balance) => {
                let write = "INSERT INTO credit (workspace, balance) VALUES ($1, $2) \
                     ON CONFLICT (workspace) DO UPDATE SET balance = $2";
                self.execute(write, &[&workspace, &balance]).await?;
            }
            None => {
                self.execute("DELETE FROM credit WHERE workspace = $1", &[&workspace]).await?;
            }
        }
        // Nodes remember whether anything is counted.
        let tell = "UPDATE record SET epoch = $2 WHERE row = $1";
        self.execute(tell, &[&workspace, &self.epoch]).await?;
        Ok(())
    }

    async fn write_ledger(
        &mut self,
        workspace: i64,
        delta: i64,
        reason: ChargeReason,
        now: Timestamp,
        tail: Tail,
        reference: String,
    ) -> Result<(), Fault> {
        let key = self.take_keys(now, 1).await?;
        self.execute(
            "INSERT INTO ledger (workspace, key, tail, at, delta, reason, reference) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &[
                &workspace,
                &key.value(),
                &tail_column(tail),
                &now.millis(),
                &delta,
                &(reason as i16),
                &reference,
            ],
        )
        .await?;
        Ok(())
    }
}
