//! Publishing one at a time: events of calls that have a key, and what is told about emails. What comes in masses is
//! written by `batch.rs`.

use std::sync::Arc;

use restante_core::id::{EventId, Tail, WorkspaceId};
use restante_core::message::{Content as Message, MessageId};
use restante_core::{Timestamp, limits};

use super::Fault;
use super::accept::{Birth, Births, NewDelivery};
use super::columns::{Messages, Place};
use super::sql::Sql;
use super::tx::Tx;
use crate::receipts::{read_receipts, write_receipts};
use crate::tally::Counted;
use crate::{Change, Changed, Content, EventReceipt, KeyClaim, Published};

/// An event that is about to be stored.
pub(super) struct Routed {
    workspace: i64,
    pub(super) receipt: EventReceipt,
    content: Arc<Content>,
    endpoints: Arc<[i64]>,
    now: Timestamp,
}

impl Tx {
    /// Stores events, or gives those that an earlier call with the key stored.
    pub(super) async fn publish(
        &mut self,
        workspace: WorkspaceId,
        claim: Option<&KeyClaim>,
        events: &[(Arc<Content>, Tail)],
        now: Timestamp,
    ) -> Result<Published, Fault> {
        let Some(row) = self.row_of(workspace) else { return Ok(Published::NoWorkspace) };
        let mut routed = Vec::with_capacity(events.len());
        for (content, tail) in events {
            routed.push(self.route(row, Arc::clone(content), *tail, now).await?);
        }
        let receipts: Vec<EventReceipt> = routed.iter().map(|it| it.receipt).collect();
        if let Some(claim) = claim {
            let kept = self.node.policy.event_retention.max(limits::IDEMPOTENCY_KEPT_MIN);
            let answer = write_receipts(&receipts);
            let held = self.claim_key(row, claim.key.as_str(), claim, &answer, now + kept).await?;
            if let Some((same, answer)) = held {
                let damaged = || Fault::Damaged(format!("idempotency key {}", claim.key.as_str()));
                let replayed = || read_receipts(&answer).map(Published::Replayed).ok_or_else(damaged);
                return if same { replayed() } else { Ok(Published::KeyReused) };
            }
        }
        self.store_events(&routed).await?;
        let accepted = Counted::Accepted { workspace: row, source: None, at: now };
        self.staged.counted.extend(routed.iter().map(|_| accepted));
        Ok(Published::Fresh { events: receipts, crowded: self.is_crowded() })
    }

    /// Claims a key for what a call is answered; gives what is held if it is taken, see [`held`]. Waits for a call that
    /// is claiming the same key. `key`: as it is kept.
    pub(super) async fn claim_key(
        &self,
        workspace: i64,
        key: &str,
        claim: &KeyClaim,
        answer: &[u8],
        until: Timestamp,
    ) -> Result<Option<(bool, Vec<u8>)>, Fault> {
        let insert = "INSERT INTO idempotency (workspace, key, fingerprint, events, held_until) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        let fingerprint = &claim.fingerprint.as_bytes()[..];
        if self.execute(insert, &[&workspace, &key, &fingerprint, &answer, &until.millis()]).await? == 1 {
            return Ok(None);
        }
        let held = held(self, workspace, key, claim).await?;
        held.map(Some)
            .ok_or_else(|| Fault::Damaged(format!("idempotency key {key} is neither free nor held")))
    }

    /// Finds out which webhooks an event goes to, and makes the keys for it.
    pub(super) async fn route(
        &mut self,
        workspace: i64,
        content: Arc<Content>,
        tail: Tail,
        now: Timestamp,
    ) -> Result<Routed, Fault> {
        let Message::Event(event) = &content.message else {
            return Err(Fault::Damaged("an event that is none".into()));
        };
        let endpoints = self.node.state().config.subscribers(workspace, &event.event_type);
        let deliveries = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        let key = self.take_keys(now, 1 + deliveries).await?;
        let receipt = EventReceipt { id: EventId::new(key, tail), deliveries };
        Ok(Routed { workspace, receipt, content, endpoints, now })
    }

    /// Stores events with a delivery for each of their webhooks, all at once.
    pub(super) async fn store_events(&mut self, events: &[Routed]) -> Result<(), Fault> {
        if events.is_empty() {
            return Ok(());
        }
        let (mut messages, mut births) = (Messages::default(), Births::default());
        for event in events {
            let Routed { workspace, receipt: EventReceipt { id, deliveries }, now, .. } = *event;
            let (key, tail) = (id.key(), id.tail());
            let place = Place { workspace, key, tail, feed: workspace, fanout: deliveries, now };
            messages.push(place, &event.content);
            self.tell_workspace(workspace, Changed::Event(id));
            for (index, endpoint) in (1..).zip(event.endpoints.iter().copied()) {
                let birth = self.birth(endpoint, now);
                let (key, message) = (key.plus(index), key);
                let new = NewDelivery {
                    workspace,
                    key,
                    message,
                    endpoint,
                    now,
                    due_at: now,
                    birth,
                    retry_of: None,
                };
                let stored = self.begin_delivery(&new, &mut births)?;
                if birth == Birth::Leased {
                    self.hand_over(stored, MessageId::Event(id), &event.content, None, now, now)?;
                }
            }
        }
        self.execute(Messages::INSERT, &messages.params()).await?;
        self.write_births(&births).await
    }

    /// Tells listeners of the live stream about a new message of a workspace, if there are any.
    pub(super) fn tell_workspace(&mut self, workspace: i64, what: Changed) {
        if !self.node.is_watched() {
            return;
        }
        let id = self.node.state().config.workspaces.get(&workspace).map(|entry| entry.id);
        self.staged.changes.extend(id.map(|workspace| Change { workspace, what }));
    }
}

/// What a key that is held stands for: whether the same was asked for, and what was answered.
pub(super) async fn held(
    sql: &Sql,
    workspace: i64,
    key: &str,
    claim: &KeyClaim,
) -> Result<Option<(bool, Vec<u8>)>, Fault> {
    let statement = "SELECT fingerprint, events FROM idempotency WHERE workspace = $1 AND key = $2";
    let Some(row) = sql.first(statement, &[&workspace, &key]).await? else { return Ok(None) };
    let same = row.try_get::<_, &[u8]>(0)? == &claim.fingerprint.as_bytes()[..];
    Ok(Some((same, row.try_get(1)?)))
}
