//! What needs a transaction of its own: calls that are paid for or have a key, results that concern more than their
//! delivery, and whatever a batch could not decide.

use std::sync::Arc;

use restante_core::id::{EventId, Tail, WorkspaceId};
use restante_core::message::{Content as Message, MessageId};
use restante_core::{Timestamp, limits};
use tokio::sync::oneshot;

use super::Fault;
use super::accept::{Birth, NewDelivery, PRICE};
use super::codec::{EVENT, int, small, tail_column};
use super::job::{self, Job};
use super::node::Node;
use super::tx::{Access, Tx};
use crate::receipts::{read_receipts, write_receipts};
use crate::row::ChargeReason;
use crate::{
    Accepted, Change, Changed, Content, Error, EventReceipt, Finished, KeyClaim, Published, Settled,
};

/// Attempts settled in one transaction.
const SETTLE_MAX: usize = 256;

/// Does a job and answers it. On a fault the caller learns that there is no answer.
pub(super) async fn run(node: Arc<Node>, job: Job) {
    let slotless = job::slotless(&node, std::slice::from_ref(&job));
    if let Err(fault) = node.ask_once_for_slots(slotless).await {
        tracing::warn!(error.message = %fault, "slots cannot be asked for");
    }
    let result = match job {
        Job::Accept { token, content, now, tail, reply } => {
            let accepted = accept(&node, token, content, now, tail).await;
            accepted.map(|accepted| drop(reply.send(accepted)))
        }
        Job::Publish { workspace, claim, now, events, reply } => {
            let published = publish(&node, workspace, claim, events, now).await;
            published.map(|published| drop(reply.send(published)))
        }
        Job::Settle { finished, known, reply } => settle(&node, finished, known, reply).await,
    };
    if let Err(error) = result {
        tracing::error!(error.message = %error, "a change was refused by the database");
    }
}

async fn accept(
    node: &Arc<Node>,
    token: String,
    content: Arc<Content>,
    now: Timestamp,
    tail: Tail,
) -> Result<Accepted, Error> {
    node.write(Access::Messages, move |tx| {
        let (token, content) = (token.clone(), Arc::clone(&content));
        Box::pin(async move { tx.accept(&token, &content, now, tail).await })
    })
    .await
}

async fn publish(
    node: &Arc<Node>,
    workspace: WorkspaceId,
    claim: Option<KeyClaim>,
    events: Vec<(Arc<Content>, Tail)>,
    now: Timestamp,
) -> Result<Published, Error> {
    let (claim, events) = (Arc::new(claim), Arc::new(events));
    node.write(Access::Messages, move |tx| {
        let (claim, events) = (Arc::clone(&claim), Arc::clone(&events));
        Box::pin(async move { tx.publish(workspace, claim.as_ref().as_ref(), &events, now).await })
    })
    .await
}

async fn settle(
    node: &Arc<Node>,
    finished: Vec<Finished>,
    mut known: Vec<Option<Settled>>,
    reply: oneshot::Sender<Vec<Settled>>,
) -> Result<(), Error> {
    // In the order of their keys, so that two of these do not wait for each other.
    let mut open: Vec<usize> = (0..finished.len()).filter(|index| known[*index].is_none()).collect();
    open.sort_by_key(|index| finished[*index].lease.delivery.key());
    for chunk in open.chunks(SETTLE_MAX) {
        let some: Arc<[Finished]> = chunk.iter().map(|index| finished[*index].clone()).collect();
        let settled = settle_some(node, some).await?;
        for (index, settled) in chunk.iter().zip(settled) {
            known[*index] = Some(settled);
        }
    }
    drop(reply.send(known.into_iter().flatten().collect()));
    Ok(())
}

async fn settle_some(node: &Arc<Node>, finished: Arc<[Finished]>) -> Result<Vec<Settled>, Error> {
    node.write(Access::Messages, move |tx| {
        let finished = Arc::clone(&finished);
        Box::pin(async move { tx.settle_held(&finished).await })
    })
    .await
}

impl Tx {
    /// Settles what this node holds.
    async fn settle_held(&mut self, finished: &[Finished]) -> Result<Vec<Settled>, Fault> {
        let held: Vec<Option<(i64, Finished)>> = {
            let state = self.node.state();
            let held = |one: &Finished| {
                let stored = state.leases.get(&one.lease.delivery.key().value())?;
                Some((stored.workspace, one.clone()))
            };
            finished.iter().map(held).collect()
        };
        let is_held: Vec<bool> = held.iter().map(Option::is_some).collect();
        let held: Vec<(i64, Finished)> = held.into_iter().flatten().collect();
        let me = self.me;
        let mut verdicts = self.settle_all(&held, me).await?.into_iter();
        let settled = is_held.into_iter().map(|is_held| {
            let verdict = if is_held { verdicts.next() } else { None };
            verdict.map_or(Settled::LeaseLost, Settled::from)
        });
        Ok(settled.collect())
    }

    /// Stores a request of a workspace whose credits are counted.
    async fn accept(
        &mut self,
        token: &str,
        content: &Content,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Accepted, Fault> {
        let found = {
            let state = self.node.state();
            let row = state.config.tokens.get(token).copied();
            row.and_then(|row| {
                let source = state.config.sources.get(&row)?;
                Some((row, source.workspace, source.answer.clone()))
            })
        };
        let Some((source, workspace, answer)) = found else { return Ok(Accepted::UnknownSource) };
        let Message::Request(received) = &content.message else {
            return Err(Fault::Damaged("a request that is none".into()));
        };
        let lock = "SELECT balance FROM credit WHERE workspace = $1 FOR UPDATE";
        let balance: Option<i64> =
            self.first(lock, &[&workspace]).await?.map(|row| row.try_get(0)).transpose()?;
        if balance.is_some_and(|balance| balance < PRICE) {
            return Ok(Accepted::CreditsExhausted);
        }
        let id = self.store_message(source, received.clone(), now, tail, None).await?;
        self.charge(workspace, PRICE, ChargeReason::Request, now, tail, id.to_string()).await?;
        let crowded = self.is_crowded();
        Ok(Accepted::Fresh { id, answer, crowded })
    }

    /// Whether what was planned found a lane full that works well.
    fn is_crowded(&self) -> bool {
        let state = self.node.state();
        self.staged.planned.iter().any(|(endpoint, _)| state.flows(*endpoint))
    }

    /// Stores events, or gives those that an earlier call with the key stored.
    async fn publish(
        &mut self,
        workspace: WorkspaceId,
        claim: Option<&KeyClaim>,
        events: &[(Arc<Content>, Tail)],
        now: Timestamp,
    ) -> Result<Published, Fault> {
        let row = self.node.state().config.workspace_rows.get(&workspace).copied();
        let Some(row) = row else { return Ok(Published::NoWorkspace) };
        let mut receipts = Vec::with_capacity(events.len());
        let mut routes = Vec::with_capacity(events.len());
        for (content, tail) in events {
            let Message::Event(event) = &content.message else {
                return Err(Fault::Damaged("an event that is none".into()));
            };
            let endpoints = self.node.state().config.subscribers(row, &event.event_type);
            let deliveries = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
            let key = self.take_keys(now, 1 + deliveries).await?;
            receipts.push(EventReceipt { id: EventId::new(key, *tail), deliveries });
            routes.push(endpoints);
        }
        if let Some(claim) = claim
            && let Some(known) = self.claim_key(row, claim, &receipts, now).await?
        {
            return Ok(known);
        }
        for (((content, _), receipt), endpoints) in events.iter().zip(&receipts).zip(&routes) {
            self.store_event(row, workspace, *receipt, content, endpoints, now).await?;
        }
        Ok(Published::Fresh { events: receipts, crowded: self.is_crowded() })
    }

    /// Claims a key for these events; gives what is to be answered if it is taken. Waits for a call that is claiming
    /// the same key.
    async fn claim_key(
        &self,
        workspace: i64,
        claim: &KeyClaim,
        receipts: &[EventReceipt],
        now: Timestamp,
    ) -> Result<Option<Published>, Fault> {
        let kept = self.node.policy.event_retention.max(limits::IDEMPOTENCY_KEPT_MIN);
        let (key, fingerprint) = (claim.key.as_str(), &claim.fingerprint.as_bytes()[..]);
        let fresh = self
            .execute(
                "INSERT INTO idempotency (workspace, key, fingerprint, events, held_until) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT DO NOTHING",
                &[&workspace, &key, &fingerprint, &write_receipts(receipts), &(now + kept).millis()],
            )
            .await?;
        if fresh == 1 {
            return Ok(None);
        }
        let statement = "SELECT fingerprint, events FROM idempotency WHERE workspace = $1 AND key = $2";
        let row = self.one(statement, &[&workspace, &key]).await?;
        if row.try_get::<_, Vec<u8>>(0)? != fingerprint {
            return Ok(Some(Published::KeyReused));
        }
        let damaged = || Fault::Damaged(format!("idempotency key {key}"));
        read_receipts(row.try_get(1)?).map(|events| Some(Published::Replayed(events))).ok_or_else(damaged)
    }

    async fn store_event(
        &mut self,
        workspace: i64,
        workspace_id: WorkspaceId,
        receipt: EventReceipt,
        content: &Arc<Content>,
        endpoints: &[i64],
        now: Timestamp,
    ) -> Result<(), Fault> {
        let Message::Event(event) = &content.message else { return Ok(()) };
        let id = receipt.id;
        self.execute(
            "INSERT INTO message (workspace, key, tail, feed, fanout, received_at, method, path, remote, headers, body, kind, \
             type) VALUES ($1, $2, $3, $1, $4, $5, '', '', '', '', $6, $7, $8)",
            &[
                &workspace,
                &id.key().value(),
                &tail_column(id.tail()),
                &int(receipt.deliveries),
                &now.millis(),
                &&event.body[..],
                &small(EVENT),
                &event.event_type.as_str(),
            ],
        )
        .await?;
        if self.node.is_watched() {
            self.staged.changes.push(Change { workspace: workspace_id, what: Changed::Event(id) });
        }
        for (index, endpoint) in (1..).zip(endpoints.iter().copied()) {
            let birth = self.birth(endpoint, now);
            let (key, message) = (id.key().plus(index), id.key());
            let new = NewDelivery { workspace, key, message, endpoint, now, birth, retry_of: None };
            let stored = self.insert_delivery(new).await?;
            if birth == Birth::Leased {
                self.hand_over(stored, MessageId::Event(id), content, now, now)?;
            }
        }
        Ok(())
    }
}
