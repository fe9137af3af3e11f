//! What needs a transaction of its own: calls that are paid for or have a key, requests with a value that may be
//! known, results that concern more than their delivery, and whatever a batch could not decide.

use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::id::{Tail, WorkspaceId};
use restante_core::message::Content as Message;
use tokio::sync::oneshot;

use super::Fault;
use super::accept::PRICE;
use super::job::{self, Job};
use super::node::Node;
use super::tx::{Access, Tx};
use crate::intake::Arrival;
use crate::row::ChargeReason;
use crate::{Accepted, Content, Error, Finished, Judgement, KeyClaim, Published, Settled, Verdict};

/// Attempts settled in one transaction.
const SETTLE_MAX: usize = 256;

/// Does a job and answers it. On a fault the caller learns that there is no answer.
pub(super) async fn run(node: Arc<Node>, job: Job) {
    let slotless = job::slotless(&node, std::slice::from_ref(&job));
    if let Err(fault) = node.ask_once_for_slots(slotless).await {
        tracing::warn!(error.message = %fault, "slots cannot be asked for");
    }
    let result = match job {
        Job::Accept { token, content, judgement, now, tail, reply } => {
            let accepted = accept(&node, token, content, judgement, (now, tail)).await;
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
    judgement: Judgement,
    (now, tail): (Timestamp, Tail),
) -> Result<Accepted, Error> {
    node.write(Access::Messages, move |tx| {
        let (token, content, judgement) = (token.clone(), Arc::clone(&content), judgement.clone());
        Box::pin(async move { tx.accept(&token, &content, judgement, now, tail).await })
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

    /// Stores a request of a workspace whose credits are counted, or of which its source knows something.
    async fn accept(
        &mut self,
        token: &str,
        content: &Content,
        Judgement { by, verdict }: Judgement,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Accepted, Fault> {
        let found = {
            let state = self.node.state();
            let row = state.config.tokens.get(token).copied();
            row.and_then(|row| {
                let source = state.config.sources.get(&row)?;
                Some((row, source.workspace, source.answer.clone(), source.rules == by))
            })
        };
        let Some((source, workspace, answer, same_rules)) = found else {
            return Ok(Accepted::UnknownSource);
        };
        let Message::Request(received) = &content.message else {
            return Err(Fault::Damaged("a request that is none".into()));
        };
        if !same_rules {
            return Ok(Accepted::RulesChanged(Box::new(received.clone())));
        }
        let key = self.key_for(source, now).await?;
        let value = match verdict {
            Verdict::Taken => None,
            Verdict::Marked(value) => Some(value),
            Verdict::Rejected(because) => {
                let arrival = Arrival::Rejected(because);
                let id = self.store_message(source, received.clone(), now, (key, tail), arrival).await?;
                return Ok(Accepted::Rejected { id });
            }
        };
        // The balance is locked first: what is not paid for must not claim its value.
        let payable = self.covers(workspace, PRICE).await?;
        if let Some(value) = &value
            && let Some(first) = self.claim_value(source, value, (key, tail), now, payable).await?
        {
            let arrival = Arrival::Duplicate(first);
            let id = self.store_message(source, received.clone(), now, (key, tail), arrival).await?;
            return Ok(Accepted::Duplicate { id, answer });
        }
        if !payable {
            return Ok(Accepted::CreditsExhausted);
        }
        let id = self.store_message(source, received.clone(), now, (key, tail), Arrival::New).await?;
        self.charge(workspace, PRICE, ChargeReason::Request, now, tail, id.to_string()).await?;
        let crowded = self.is_crowded();
        Ok(Accepted::Fresh { id, answer, crowded })
    }

    /// Whether what was planned found a lane full that works well.
    pub(super) fn is_crowded(&self) -> bool {
        let state = self.node.state();
        self.staged.planned.iter().any(|(endpoint, _)| state.flows(*endpoint))
    }
}
