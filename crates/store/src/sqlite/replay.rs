//! What people do to stored messages: cancel, retry, replay, erase.

use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::delivery;
use restante_core::id::{DeliveryId, Id, Key, RequestId, Tail, WorkspaceId};
use restante_core::message::{Content, MessageId, Received};
use rusqlite::{OptionalExtension, params};

use super::Fault;
use super::accept::{Birth, NewDelivery, PRICE, Times};
use super::claim::{load_message, message_tail};
use super::codec::{self, DeliveryRow};
use super::engine::Engine;
use super::read::event_expired;
use super::{config, scan};
use crate::endpoint::Feed;
use crate::intake::Arrival;
use crate::row::ChargeReason;
use crate::{Cancelled, Changed, Lease, Replayed, Retried, Withdraw};

/// Deliveries that a pause ended and that one claim marks.
const SWEEP_MAX: usize = 512;

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
        let ended = entry.ended(&row, now);
        let life = match delivery::cancel(ended.as_ref().unwrap_or(&row.life), now) {
            Ok(life) => life,
            Err(conflict) => return Ok(Cancelled::Conflict(conflict.0)),
        };
        self.skip_items(&row, now)?;
        if life != row.life {
            self.write_delivery(&row, &life)?;
            if life.cancel_requested() {
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
        if matches!(self.endpoint(row.endpoint)?.endpoint.feed, Feed::Events | Feed::Mail) {
            return Ok(Retried::OfAnEvent);
        }
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
        let workspace = self.config.workspace_of(entry)?;
        if !self.can_pay(workspace, PRICE) {
            return Ok(Retried::CreditsExhausted);
        }
        let leased = self.may_be_born_leased(row.endpoint, now);
        let birth = if leased { Birth::Leased } else { Birth::Due };
        let Some(tail) = message_tail(&self.conn, row.message)? else { return Ok(Retried::NotFound) };
        let message = Key::from_value(row.message);
        let key = self.take_keys(now, 1)?;
        let endpoint = row.endpoint;
        self.insert_delivery(&NewDelivery {
            key,
            message,
            endpoint,
            now,
            due_at: now,
            birth,
            retry_of: Some(row.key),
        })?;
        let id = DeliveryId::new(key, tail);
        if leased && let Some(stored) = load_message(&self.conn, row.message)? {
            let content = Arc::new(self.agenda.content_bytes.hold(stored.content));
            let received_at = Timestamp::from_millis(stored.received_at);
            let lease = Lease { delivery: id, attempt: 1 };
            let times = Times { received_at, ..Times::all(now) };
            self.hand_over(endpoint, lease, stored.id, &content, None, times);
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
        let Some((feed, received)) = self.visible_request(workspace, id, now)? else {
            return Ok(Replayed::NotFound);
        };
        let source = &self.config.sources[&feed];
        if source.gone_at.is_some() {
            return Ok(Replayed::SourceDeleted);
        }
        let payer = source.workspace;
        if !self.can_pay(payer, PRICE) {
            return Ok(Replayed::CreditsExhausted);
        }
        let new = self.store_message(feed, received, now, tail, Arrival::Replay(id))?;
        self.charge(payer, PRICE, ChargeReason::Replay, now, tail, || new.to_string())?;
        Ok(Replayed::Fresh(new))
    }

    /// See [`crate::Store::erase`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn erase(&mut self, workspace: WorkspaceId, id: RequestId, now: Timestamp) -> Result<bool, Fault> {
        if self.visible_request(workspace, id, now)?.is_none() {
            return Ok(false);
        }
        self.erase_message(id.key().value())?;
        Ok(true)
    }

    /// Removes a message, its deliveries, their attempts and its places in the history index.
    pub(super) fn erase_message(&mut self, key: i64) -> Result<(), Fault> {
        let found: Option<(i64, i64)> = self
            .conn
            .prepare_cached("SELECT feed, fanout FROM message WHERE key = ?1")?
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((feed, fanout)) = found else { return Ok(()) };
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
            if feed < 0 {
                self.conn.prepare_cached("DELETE FROM recipient WHERE delivery = ?1")?.execute([delivery])?;
            }
            self.conn.prepare_cached("DELETE FROM delivery WHERE key = ?1")?.execute([delivery])?;
            self.history.forget(&self.conn, row.endpoint, delivery)?;
        }
        if feed < 0 {
            self.conn.prepare_cached("DELETE FROM email WHERE message = ?1")?.execute([key])?;
            self.conn.prepare_cached("DELETE FROM email_event WHERE email = ?1")?.execute([key])?;
        }
        self.conn.prepare_cached("DELETE FROM seen WHERE message = ?1")?.execute([key])?;
        self.conn.prepare_cached("DELETE FROM message WHERE key = ?1")?.execute([key])?;
        self.history.forget(&self.conn, feed, key)
    }

    /// A stored request of the workspace that has not expired: its source's row, and what it carries.
    fn visible_request(
        &self,
        workspace: WorkspaceId,
        id: RequestId,
        now: Timestamp,
    ) -> Result<Option<(i64, Received)>, Fault> {
        let Some(message) = load_message(&self.conn, id.key().value())? else { return Ok(None) };
        let Content::Request(received) = message.content else { return Ok(None) };
        let source = self.config.sources.get(&message.feed);
        let ours = source.is_some_and(|source| {
            self.config.workspaces.get(&source.workspace).is_some_and(|it| it.id == workspace)
                && message.received_at + source.retention_ms > now.millis()
        });
        Ok(Some((message.feed, received)).filter(|_| ours && message.id == MessageId::Request(id)))
    }

    /// A delivery of the workspace whose message has not expired.
    pub(super) fn visible_delivery(
        &self,
        workspace: WorkspaceId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<DeliveryRow>, Fault> {
        let Some(row) = self.delivery_row(id.key().value())? else { return Ok(None) };
        let endpoint = &self.endpoint(row.endpoint)?.endpoint;
        let ours =
            endpoint.workspace == workspace && message_tail(&self.conn, row.message)? == Some(id.tail());
        let expired = match endpoint.feed {
            Feed::Source(_) => self.is_expired(&row, now)?,
            Feed::Events | Feed::Mail => {
                event_expired(&self.conn, row.message, self.policy.events_cutoff(now))?
            }
        };
        Ok(Some(row).filter(|_| ours && !expired))
    }

    /// Ends up to `most` pending deliveries of deleted or paused endpoints. Returns whether more is left.
    pub(super) fn sweep(&mut self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let Some(endpoint) = self.unswept.first().copied() else { return Ok(false) };
        self.sweep_endpoint(endpoint, now, most)?;
        Ok(!self.unswept.is_empty())
    }

    /// Marks some of what pauses ended. A recovery waits for it.
    pub(super) fn sweep_pauses(&mut self, now: Timestamp) -> Result<(), Fault> {
        let paused = self.unswept.iter().find(|row| {
            let entry = self.config.endpoints.get(*row);
            entry.is_some_and(|entry| entry.gone.is_none() && entry.standing.cut.is_some())
        });
        let Some(endpoint) = paused.copied() else { return Ok(()) };
        self.sweep_endpoint(endpoint, now, SWEEP_MAX)
    }

    fn sweep_endpoint(&mut self, endpoint: i64, now: Timestamp, most: usize) -> Result<(), Fault> {
        let entry = self.endpoint(endpoint)?;
        let (gone, standing) = (entry.gone, entry.standing);
        let until = if gone.is_some() { i64::MAX } else { standing.cut.unwrap_or(-1) };
        let pending: Vec<i64> = {
            let mut statement = self.conn.prepare_cached(
                "SELECT key FROM delivery WHERE endpoint = ?1 AND state = 0 AND key <= ?2 LIMIT ?3",
            )?;
            let keys =
                statement.query_map(params![endpoint, until, scan::sql_limit(most)], |row| row.get(0))?;
            keys.collect::<Result<_, _>>()?
        };
        let last = pending.len() < most;
        for key in pending {
            let Some(row) = self.delivery_row(key)? else { continue };
            if let Some(life) = config::ended(gone, standing, &row, now) {
                self.write_delivery(&row, &life)?;
            }
        }
        // There is more to mark, or a recovery may begin.
        self.jobs.ready |= standing.cut.is_some();
        if last {
            self.unswept.remove(&endpoint);
            self.mend_cut(endpoint)?;
        }
        self.look_up_due(endpoint)
    }
}

/// Keys of all deliveries of a message: those it was accepted with, then manual retries.
pub(super) fn delivery_keys(
    conn: &rusqlite::Connection,
    message: i64,
    fanout: i64,
) -> Result<Vec<i64>, Fault> {
    let mut keys: Vec<i64> = (message + 1..=message + fanout).collect();
    let mut statement =
        conn.prepare_cached("SELECT key FROM delivery WHERE message = ?1 AND retry_of IS NOT NULL")?;
    let rows = statement.query_map([message], |row| row.get::<_, i64>(0))?;
    for key in rows {
        keys.push(key?);
    }
    keys.sort_unstable();
    Ok(keys)
}
