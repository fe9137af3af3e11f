//! What people do to stored messages: cancel, retry, replay, erase.

use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::delivery;
use restante_core::id::{DeliveryId, Id, Key, RequestId, Tail, WorkspaceId};
use rusqlite::{OptionalExtension, params};

use super::Fault;
use super::accept::{NewDelivery, PRICE, Times};
use super::claim::{MessageRow, load_message, message_tail};
use super::codec::{self, DeliveryRow};
use super::engine::Engine;
use super::scan;
use crate::row::ChargeReason;
use crate::{Cancelled, Changed, Lease, Replayed, Retried, Withdraw};

impl Engine {
    /// See [`crate::Store::cancel`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn cancel(
        &mut self,
        workspace: WorkspaceId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Cancelled, Fault> {
        let Some(row) = self.visible_delivery(workspace, id, now)? else { return Ok(Cancelled::NotFound) };
        let entry = self.endpoint(row.endpoint)?;
        let endpoint = entry.endpoint.id;
        let gone = entry.gone.and_then(|reason| delivery::abandon(&row.life, reason, now));
        let life = match gone.map_or_else(|| delivery::cancel(&row.life, now), Ok) {
            Ok(life) => life,
            Err(conflict) => return Ok(Cancelled::Conflict(conflict.0)),
        };
        if life != row.life {
            self.write_delivery(&row, &life)?;
            if life.cancel_requested {
                self.staged.withdrawals.push(Withdraw::Delivery { endpoint, delivery: id });
            }
            self.tell(row.endpoint, || Changed::Delivery(id));
        }
        Ok(Cancelled::Done)
    }

    /// See [`crate::Store::retry`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn retry(
        &mut self,
        workspace: WorkspaceId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Retried, Fault> {
        let Some(row) = self.visible_delivery(workspace, id, now)? else { return Ok(Retried::NotFound) };
        if let Err(conflict) = delivery::retryable(row.life.state)
            && self.endpoint(row.endpoint)?.gone.is_none()
        {
            return Ok(Retried::Conflict(conflict.0));
        }
        self.retry_row(&row, now)
    }

    /// Makes a new delivery of what `row` delivered, and charges for it.
    pub(super) fn retry_row(&mut self, row: &DeliveryRow, now: Timestamp) -> Result<Retried, Fault> {
        let entry = self.endpoint(row.endpoint)?;
        if entry.gone.is_some() {
            return Ok(Retried::DestinationDeleted);
        }
        let workspace = self.config.source_of(entry)?.workspace;
        if !self.can_pay(workspace, PRICE) {
            return Ok(Retried::CreditsExhausted);
        }
        let leased = self.may_be_born_leased(row.endpoint, now);
        let Some(tail) = message_tail(&self.conn, row.message)? else { return Ok(Retried::NotFound) };
        let message = Key::from_value(row.message);
        let key = self.take_keys(now, 1)?;
        let endpoint = row.endpoint;
        self.insert_delivery(&NewDelivery { key, message, endpoint, now, leased, retry_of: Some(row.key) })?;
        let id = DeliveryId::new(key, tail);
        if leased && let Some((stored, _)) = load_message(&self.conn, row.message)? {
            let content = Arc::new(self.content_bytes.hold(stored.received));
            let received_at = Timestamp::from_millis(stored.received_at);
            let lease = Lease { delivery: id, attempt: 1 };
            let times = Times { received_at, claimed_at: now };
            self.hand_over(endpoint, lease, RequestId::new(message, tail), &content, times);
        } else {
            self.tell(endpoint, || Changed::Delivery(id));
        }
        self.charge(workspace, PRICE, ChargeReason::Retry, now, tail, || id.to_string())?;
        Ok(Retried::Fresh(id))
    }

    /// See [`crate::Store::replay`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn replay(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Replayed, Fault> {
        let Some(message) = self.visible_message(workspace, id, now)? else { return Ok(Replayed::NotFound) };
        let source = &self.config.sources[&message.source];
        if source.gone_at.is_some() {
            return Ok(Replayed::SourceDeleted);
        }
        let payer = source.workspace;
        if !self.can_pay(payer, PRICE) {
            return Ok(Replayed::CreditsExhausted);
        }
        let new = self.store_message(message.source, message.received, now, tail, Some(id))?;
        self.charge(payer, PRICE, ChargeReason::Replay, now, tail, || new.to_string())?;
        Ok(Replayed::Fresh(new))
    }

    /// See [`crate::Store::erase`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn erase(&mut self, workspace: WorkspaceId, id: RequestId, now: Timestamp) -> Result<bool, Fault> {
        if self.visible_message(workspace, id, now)?.is_none() {
            return Ok(false);
        }
        self.erase_message(id.key().value())?;
        Ok(true)
    }

    /// Removes a message, its deliveries, their attempts and its places in the history index.
    pub(super) fn erase_message(&mut self, key: i64) -> Result<(), Fault> {
        let found: Option<(i64, i64)> = self
            .conn
            .prepare_cached("SELECT source, fanout FROM message WHERE key = ?1")?
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((source, fanout)) = found else { return Ok(()) };
        self.wipe.wanted = true;
        let tail = message_tail(&self.conn, key)?.unwrap_or(Tail::from_bits(0));
        for delivery in delivery_keys(&self.conn, key, fanout)? {
            let Some(row) = self.delivery_row(delivery)? else { continue };
            if codec::state_code(row.life.state) == codec::SENDING {
                let endpoint = self.endpoint(row.endpoint)?.endpoint.id;
                let id = Id::new(Key::from_value(delivery), tail);
                self.staged.withdrawals.push(Withdraw::Delivery { endpoint, delivery: id });
                self.end_lease(&row);
            }
            if row.life.attempts_made > 0 {
                self.conn.prepare_cached("DELETE FROM attempt WHERE delivery = ?1")?.execute([delivery])?;
            }
            self.conn.prepare_cached("DELETE FROM delivery WHERE key = ?1")?.execute([delivery])?;
            self.history.forget(&self.conn, row.endpoint, delivery)?;
        }
        self.conn.prepare_cached("DELETE FROM message WHERE key = ?1")?.execute([key])?;
        self.history.forget(&self.conn, source, key)
    }

    /// A stored message of the workspace that has not expired.
    fn visible_message(
        &self,
        workspace: WorkspaceId,
        id: RequestId,
        now: Timestamp,
    ) -> Result<Option<MessageRow>, Fault> {
        let Some((message, tail)) = load_message(&self.conn, id.key().value())? else { return Ok(None) };
        let source = self.config.sources.get(&message.source);
        let ours = source.is_some_and(|source| {
            self.config.workspaces.get(&source.workspace).is_some_and(|it| it.id == workspace)
                && message.received_at + source.retention_ms > now.millis()
        });
        Ok(Some(message).filter(|_| ours && tail == id.tail()))
    }

    /// A delivery of the workspace whose request has not expired.
    fn visible_delivery(
        &self,
        workspace: WorkspaceId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<DeliveryRow>, Fault> {
        let Some(row) = self.delivery_row(id.key().value())? else { return Ok(None) };
        let ours = self.endpoint(row.endpoint)?.endpoint.workspace == workspace
            && message_tail(&self.conn, row.message)? == Some(id.tail())
            && !self.is_expired(&row, now)?;
        Ok(Some(row).filter(|_| ours))
    }

    /// Ends up to `most` pending deliveries of deleted endpoints. Returns whether more is left.
    pub(super) fn sweep(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let Some(endpoint) = self.unswept.first().copied() else { return Ok(false) };
        let Some(reason) = self.endpoint(endpoint)?.gone else {
            return Err(Fault::Damaged(format!("endpoint {endpoint} is to be swept and not deleted")));
        };
        let pending: Vec<i64> = {
            let mut statement = self
                .conn
                .prepare_cached("SELECT key FROM delivery WHERE endpoint = ?1 AND state = 0 LIMIT ?2")?;
            let keys = statement.query_map(params![endpoint, scan::sql_limit(most)], |row| row.get(0))?;
            keys.collect::<Result<_, _>>()?
        };
        if pending.len() < most {
            self.unswept.remove(&endpoint);
        }
        for key in pending {
            let Some(row) = self.delivery_row(key)? else { continue };
            if let Some(life) = delivery::abandon(&row.life, reason, now) {
                self.write_delivery(&row, &life)?;
            }
        }
        self.look_up_due(endpoint)?;
        Ok(!self.unswept.is_empty())
    }
}

/// Keys of all deliveries of a message: those it was accepted with, then manual retries.
pub(super) fn delivery_keys(
    conn: &rusqlite::Connection,
    message: i64,
    fanout: i64,
) -> Result<Vec<i64>, Fault> {
    let mut keys: Vec<i64> = (message + 1..=message + fanout).collect();
    let mut statement = conn.prepare_cached(
        "SELECT key FROM delivery WHERE message = ?1 AND retry_of IS NOT NULL ORDER BY key",
    )?;
    let rows = statement.query_map([message], |row| row.get::<_, i64>(0))?;
    for key in rows {
        keys.push(key?);
    }
    Ok(keys)
}
