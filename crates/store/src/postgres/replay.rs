//! What people do to stored messages: cancel, retry, replay, erase.

use std::sync::Arc;

use restante_core::id::{DeliveryId, Id, Key, RequestId, Tail, WorkspaceId};
use restante_core::message::{Content, MessageId, Received};
use restante_core::{State, Timestamp, delivery};
use rustc_hash::FxHashMap;

use super::Fault;
use super::accept::{Birth, NewDelivery, PRICE};
use super::codec::Stored;
use super::read::event_expired;
use super::tx::Tx;
use crate::endpoint::Feed;
use crate::intake::Arrival;
use crate::row::ChargeReason;
use crate::{Cancelled, Changed, Replayed, Retried};

/// A stored request, as far as a replay or an erasure needs it.
struct VisibleRequest {
    workspace: i64,
    /// The row of its source.
    source: i64,
    source_gone: bool,
    received: Received,
}

/// A message that nobody else erases, nor retries, until the transaction ends.
struct LockedMessage {
    key: i64,
    tail: Tail,
    fanout: i64,
}

impl Tx {
    /// See [`crate::Store::cancel`].
    pub(super) async fn cancel(
        &mut self,
        workspace: WorkspaceId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Cancelled, Fault> {
        let Some(seen) = self.visible_delivery(workspace, id, now).await? else {
            return Ok(Cancelled::NotFound);
        };
        let Some(stored) = self.lock_delivery(seen.workspace, seen.row.key).await? else {
            return Ok(Cancelled::NotFound);
        };
        let ended = self.endpoint(stored.row.endpoint)?.ended(&stored, now);
        let life = match delivery::cancel(ended.as_ref().unwrap_or(&stored.row.life), now) {
            Ok(life) => life,
            Err(conflict) => return Ok(Cancelled::Conflict(conflict.0)),
        };
        let changed = life != stored.row.life;
        if changed {
            self.write_delivery(&stored, &life).await?;
            self.tell(stored.row.endpoint, || Changed::Delivery(id));
        }
        // Whoever cancelled it before may still be waiting for the node that holds the lease: so must this caller.
        if life.cancel_requested() && (changed || stored.node != Some(self.me)) {
            self.withdraw(&stored, id).await?;
        }
        self.skip_items(&stored, now).await?;
        Ok(Cancelled::Done)
    }

    /// See [`crate::Store::retry`].
    pub(super) async fn retry(
        &mut self,
        workspace: WorkspaceId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Retried, Fault> {
        let Some(stored) = self.visible_delivery(workspace, id, now).await? else {
            return Ok(Retried::NotFound);
        };
        let view = self.endpoint(stored.row.endpoint)?;
        if matches!(view.endpoint.feed, Feed::Events | Feed::Mail) {
            return Ok(Retried::OfAnEvent);
        }
        if let Err(conflict) = delivery::retryable(stored.row.life.state)
            && view.gone.is_none()
        {
            return Ok(Retried::Conflict(conflict.0));
        }
        self.retry_row(&stored, now).await
    }

    /// Makes a new delivery of what `stored` delivered, and charges for it.
    pub(super) async fn retry_row(&mut self, stored: &Stored, now: Timestamp) -> Result<Retried, Fault> {
        let (workspace, endpoint) = (stored.workspace, stored.row.endpoint);
        if self.endpoint(endpoint)?.gone.is_some() {
            return Ok(Retried::DestinationDeleted);
        }
        // An erasure meanwhile would not know of the new delivery.
        let lock = "SELECT tail FROM message WHERE workspace = $1 AND key = $2 FOR SHARE";
        let Some(row) = self.first(lock, &[&workspace, &stored.row.message]).await? else {
            return Ok(Retried::NotFound);
        };
        let tail = Tail::from_bits(row.try_get::<_, i64>(0)?.unsigned_abs());
        let key = self.take_keys(now, 1).await?;
        let id = DeliveryId::new(key, tail);
        if !self.charge(workspace, PRICE, ChargeReason::Retry, now, tail, id.to_string()).await? {
            return Ok(Retried::CreditsExhausted);
        }
        let leased = self.node.state().may_be_born_leased(endpoint, now);
        let message = if leased { self.load_message(workspace, stored.row.message).await? } else { None };
        let birth = if message.is_some() { Birth::Leased } else { Birth::Due };
        let (message_key, retry_of) = (Key::from_value(stored.row.message), Some(stored.row.key));
        let new =
            NewDelivery { workspace, key, message: message_key, endpoint, now, due_at: now, birth, retry_of };
        let made = self.insert_delivery(&new).await?;
        match message {
            Some(message) => {
                let content = self.node.state().agenda.content_bytes.hold(message.content);
                let received_at = Timestamp::from_millis(message.received_at);
                self.hand_over(made, message.id, &Arc::new(content), None, received_at, now)?;
            }
            None => self.tell(endpoint, || Changed::Delivery(id)),
        }
        Ok(Retried::Fresh(id))
    }

    /// See [`crate::Store::replay`].
    pub(super) async fn replay(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Replayed, Fault> {
        let Some(request) = self.visible_request(workspace, id, now).await? else {
            return Ok(Replayed::NotFound);
        };
        if request.source_gone {
            return Ok(Replayed::SourceDeleted);
        }
        let payer = request.workspace;
        if !self.covers(payer, PRICE).await? {
            return Ok(Replayed::CreditsExhausted);
        }
        let key = self.key_for(request.source, now).await?;
        let arrival = Arrival::Replay(id);
        let new = self.store_message(request.source, request.received, now, (key, tail), arrival).await?;
        if !self.charge(payer, PRICE, ChargeReason::Replay, now, tail, new.to_string()).await? {
            return Err(Fault::Damaged(format!("the balance of workspace {payer} fell while it was locked")));
        }
        Ok(Replayed::Fresh(new))
    }

    /// Whether a workspace's balance, if it has one, covers a price. It stays so until the transaction ends.
    pub(super) async fn covers(&self, workspace: i64, price: i64) -> Result<bool, Fault> {
        let lock = "SELECT balance FROM credit WHERE workspace = $1 FOR UPDATE";
        let row = self.first(lock, &[&workspace]).await?;
        let balance: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
        Ok(balance.is_none_or(|balance| balance >= price))
    }

    /// See [`crate::Store::erase`].
    pub(super) async fn erase(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let Some(request) = self.visible_request(workspace, id, now).await? else { return Ok(false) };
        self.erase_message(request.workspace, id.key().value()).await
    }

    /// Removes a message, its deliveries and their attempts. `false`: it is gone already.
    pub(super) async fn erase_message(&mut self, workspace: i64, key: i64) -> Result<bool, Fault> {
        Ok(self.erase_messages(workspace, &[key]).await? > 0)
    }

    /// Removes messages of a workspace, their deliveries and their attempts. Returns how many messages there were.
    pub(super) async fn erase_messages(&mut self, workspace: i64, keys: &[i64]) -> Result<usize, Fault> {
        if keys.is_empty() {
            return Ok(0);
        }
        let messages = self.lock_messages(workspace, keys).await?;
        let deliveries = self.lock_deliveries_of(workspace, &messages).await?;
        let tails: FxHashMap<i64, Tail> = messages.iter().map(|it| (it.key, it.tail)).collect();
        let (mut gone, mut skipped) = (Vec::with_capacity(deliveries.len()), (Vec::new(), Vec::new()));
        for stored in &deliveries {
            let row = &stored.row;
            gone.push(row.key);
            if row.life.state == State::Skipped {
                skipped.0.push(row.endpoint);
                skipped.1.push(row.key);
            }
            if let (State::Sending, Some(tail)) = (row.life.state, tails.get(&row.message)) {
                self.call_back(stored, *tail).await?;
            }
        }
        if !skipped.0.is_empty() {
            let delete = "DELETE FROM skipped USING unnest($2::bigint[], $3::bigint[]) AS old (endpoint, key) \
                 WHERE skipped.workspace = $1 AND skipped.endpoint = old.endpoint AND skipped.key = old.key";
            self.execute(delete, &[&workspace, &skipped.0, &skipped.1]).await?;
        }
        let known: Vec<i64> = messages.iter().map(|it| it.key).collect();
        for (statement, keys) in [
            ("DELETE FROM recipient WHERE workspace = $1 AND delivery = ANY($2)", &gone),
            ("DELETE FROM email_event WHERE workspace = $1 AND email = ANY($2)", &known),
            ("DELETE FROM email WHERE workspace = $1 AND message = ANY($2)", &known),
            ("DELETE FROM attempt WHERE workspace = $1 AND delivery = ANY($2)", &gone),
            ("DELETE FROM work WHERE workspace = $1 AND key = ANY($2)", &gone),
            ("DELETE FROM delivery WHERE workspace = $1 AND key = ANY($2)", &gone),
            ("DELETE FROM seen WHERE workspace = $1 AND message = ANY($2)", &known),
            ("DELETE FROM message WHERE workspace = $1 AND key = ANY($2)", &known),
        ] {
            if !keys.is_empty() {
                self.execute(statement, &[&workspace, keys]).await?;
            }
        }
        Ok(messages.len())
    }

    /// Ends the lease of a delivery that is about to be erased.
    async fn call_back(&mut self, stored: &Stored, tail: Tail) -> Result<(), Fault> {
        self.withdraw(stored, Id::new(Key::from_value(stored.row.key), tail)).await?;
        if stored.node == Some(self.me) {
            self.staged.ended.push(stored.row.key);
        }
        self.forget_running(stored).await
    }

    async fn lock_messages(&self, workspace: i64, keys: &[i64]) -> Result<Vec<LockedMessage>, Fault> {
        let lock = "SELECT key, tail, fanout FROM message WHERE workspace = $1 AND key = ANY($2) \
             ORDER BY key FOR UPDATE";
        let rows = self.query(lock, &[&workspace, &keys]).await?;
        let read = |row: &tokio_postgres::Row| {
            Ok(LockedMessage {
                key: row.try_get(0)?,
                tail: Tail::from_bits(row.try_get::<_, i64>(1)?.unsigned_abs()),
                fanout: i64::from(row.try_get::<_, i32>(2)?),
            })
        };
        rows.iter().map(read).collect()
    }

    /// Locks all deliveries of locked messages: those they were accepted with, and manual retries.
    async fn lock_deliveries_of(
        &self,
        workspace: i64,
        messages: &[LockedMessage],
    ) -> Result<Vec<Stored>, Fault> {
        let mut keys: Vec<i64> = messages.iter().flat_map(|it| it.key + 1..=it.key + it.fanout).collect();
        let known: Vec<i64> = messages.iter().map(|it| it.key).collect();
        let retries =
            "SELECT key FROM delivery WHERE workspace = $1 AND message = ANY($2) AND retry_of IS NOT NULL";
        for row in self.query(retries, &[&workspace, &known]).await? {
            keys.push(row.try_get(0)?);
        }
        self.lock_deliveries(workspace, &keys).await
    }

    /// Locks messages, and then all deliveries of them, in the order of their keys.
    pub(super) async fn hold_deliveries_of(
        &self,
        workspace: i64,
        messages: &[i64],
    ) -> Result<Vec<Stored>, Fault> {
        let messages = self.lock_messages(workspace, messages).await?;
        self.lock_deliveries_of(workspace, &messages).await
    }

    /// A stored request of the workspace that has not expired.
    async fn visible_request(
        &self,
        workspace: WorkspaceId,
        id: RequestId,
        now: Timestamp,
    ) -> Result<Option<VisibleRequest>, Fault> {
        let Some(owner) = self.row_of(workspace) else { return Ok(None) };
        let Some(message) = self.load_message(owner, id.key().value()).await? else { return Ok(None) };
        let (Content::Request(received), MessageId::Request(known)) = (message.content, message.id) else {
            return Ok(None);
        };
        let state = self.node.state();
        let Some(source) = state.config.sources.get(&message.feed) else { return Ok(None) };
        let expired = message.received_at + source.retention_ms <= now.millis();
        let (source, source_gone) = (message.feed, source.gone_at.is_some());
        let found = VisibleRequest { workspace: owner, source, source_gone, received };
        Ok(Some(found).filter(|_| known == id && !expired))
    }

    /// A delivery of the workspace whose message has not expired. It is not locked.
    pub(super) async fn visible_delivery(
        &self,
        workspace: WorkspaceId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<Stored>, Fault> {
        let Some(owner) = self.row_of(workspace) else { return Ok(None) };
        let Some(stored) = self.delivery_row(owner, id.key().value()).await? else { return Ok(None) };
        if self.message_tail(owner, stored.row.message).await? != Some(id.tail()) {
            return Ok(None);
        }
        let expired = match self.endpoint(stored.row.endpoint)?.endpoint.feed {
            Feed::Source(_) => self.is_expired(&stored, now).await?,
            Feed::Events | Feed::Mail => {
                event_expired(self, owner, stored.row.message, self.node.policy.events_cutoff(now)).await?
            }
        };
        Ok(Some(stored).filter(|_| !expired))
    }

    pub(super) fn row_of(&self, workspace: WorkspaceId) -> Option<i64> {
        self.node.state().config.workspace_rows.get(&workspace).copied()
    }

    /// Whether a delivery's request is past its retention.
    pub(super) async fn is_expired(&self, stored: &Stored, now: Timestamp) -> Result<bool, Fault> {
        let Some(retention_ms) = self.endpoint(stored.row.endpoint)?.retention_ms else {
            // An event does not expire while one of its deliveries has not ended.
            return Ok(false);
        };
        // The key tells when the request came at the latest, and at the earliest if the clock was at its worst: only
        // an old key needs the row.
        let key_at = Key::from_value(stored.row.message).at().millis();
        let key_lead_ms = self.node.state().key_lead_ms;
        if key_at - key_lead_ms + retention_ms > now.millis() {
            return Ok(false);
        }
        let statement = "SELECT received_at FROM message WHERE workspace = $1 AND key = $2";
        let row = self.first(statement, &[&stored.workspace, &stored.row.message]).await?;
        let received_at: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
        Ok(received_at.is_none_or(|at| at + retention_ms <= now.millis()))
    }
}
