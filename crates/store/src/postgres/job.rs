//! What callers want of a batch.

use std::collections::BTreeSet;
use std::sync::Arc;

use restante_core::id::{Tail, WorkspaceId};
use restante_core::message::{self, Published as Event};
use restante_core::{Outcome, Timestamp};
use tokio::sync::oneshot;

use super::config::EndpointEntry;
use super::node::Node;
use super::state::State;
use crate::endpoint::Feed;
use crate::{
    Accepted, Content, Finished, Incoming, Judgement, KeyClaim, NewEvent, Published, Publishing, Settled,
    Verdict,
};

/// One caller's share of a batch. Dropped unanswered, it tells the caller that nothing was stored.
pub(super) enum Job {
    Accept {
        token: String,
        content: Arc<Content>,
        judgement: Judgement,
        now: Timestamp,
        tail: Tail,
        reply: oneshot::Sender<Accepted>,
    },
    Publish {
        workspace: WorkspaceId,
        claim: Option<KeyClaim>,
        now: Timestamp,
        events: Vec<(Arc<Content>, Tail)>,
        reply: oneshot::Sender<Published>,
    },
    Settle {
        finished: Vec<Finished>,
        /// What is known already of each.
        known: Vec<Option<Settled>>,
        reply: oneshot::Sender<Vec<Settled>>,
    },
}

impl Job {
    pub(super) fn accept(node: &Node, incoming: Incoming, reply: oneshot::Sender<Accepted>) -> Self {
        let Incoming { token, received, judgement, now, tail } = incoming;
        let content = Arc::new(node.content_bytes.hold(message::Content::Request(received)));
        Self::Accept { token, content, judgement, now, tail, reply }
    }

    pub(super) fn publish(node: &Node, publishing: Publishing, reply: oneshot::Sender<Published>) -> Self {
        let Publishing { workspace, events, claim, now } = publishing;
        let keep = |event: NewEvent| {
            let NewEvent { event_type, body, tail } = event;
            let content = message::Content::Event(Event { event_type, body });
            (Arc::new(node.content_bytes.hold(content)), tail)
        };
        let events = events.into_iter().map(keep).collect();
        Self::Publish { workspace, claim, now, events, reply }
    }

    pub(super) fn settle(finished: Vec<Finished>, reply: oneshot::Sender<Vec<Settled>>) -> Self {
        let known = vec![None; finished.len()];
        Self::Settle { finished, known, reply }
    }
}

/// Answers what needs no transaction; tells apart what belongs into a batch from what needs a transaction of its own:
/// what is paid for, has a key or a value that may be known, and what is told of emails.
pub(super) fn sort(node: &Node, jobs: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
    let (mut plain, mut alone) = (Vec::with_capacity(jobs.len()), Vec::new());
    let state = node.state();
    for job in jobs {
        match job {
            Job::Accept { token, content, judgement, now, tail, reply } => {
                let source = state.config.tokens.get(&token).and_then(|row| state.config.sources.get(row));
                let Some(source) = source else {
                    // A node that has lapsed may not have heard of it.
                    if node.may_dial() {
                        drop(reply.send(Accepted::UnknownSource));
                    }
                    continue;
                };
                let workspace = state.config.workspaces.get(&source.workspace);
                let counted = workspace.is_some_and(|it| it.balance.is_some());
                let simple = match judgement.verdict {
                    Verdict::Taken => !counted,
                    Verdict::Marked(_) => false,
                    // It is free, and may be one of very many.
                    Verdict::Rejected(_) => true,
                };
                let job = Job::Accept { token, content, judgement, now, tail, reply };
                if simple { plain.push(job) } else { alone.push(job) }
            }
            Job::Publish { workspace, claim, now, events, reply } => {
                if !state.config.workspace_rows.contains_key(&workspace) {
                    if node.may_dial() {
                        drop(reply.send(Published::NoWorkspace));
                    }
                    continue;
                }
                let keyed = claim.is_some();
                let job = Job::Publish { workspace, claim, now, events, reply };
                if keyed { alone.push(job) } else { plain.push(job) }
            }
            Job::Settle { finished, known, reply } => {
                let mail = finished.iter().all(|one| is_of(&state, one, Feed::Mail));
                let job = Job::Settle { finished, known, reply };
                if mail { alone.push(job) } else { plain.push(job) }
            }
        }
    }
    (plain, alone)
}

/// Endpoints that the jobs' messages go to and that this node has no slots of.
pub(super) fn slotless(node: &Node, jobs: &[Job]) -> Vec<i64> {
    let mut guard = node.state();
    let state = &mut *guard;
    let mut found = BTreeSet::new();
    for job in jobs {
        match job {
            Job::Accept { judgement, .. } if judgement.rejected().is_some() => {}
            Job::Accept { token, .. } => {
                let source = state.config.tokens.get(token).and_then(|row| state.config.sources.get(row));
                found.extend(source.into_iter().flat_map(|source| source.endpoints.iter().copied()));
            }
            Job::Publish { workspace, events, .. } => {
                let Some(row) = state.config.workspace_rows.get(workspace).copied() else { continue };
                for (content, _) in events {
                    if let message::Content::Event(event) = &content.message {
                        found.extend(state.config.subscribers(row, &event.event_type).iter().copied());
                    }
                }
            }
            Job::Settle { .. } => {}
        }
    }
    let wanting = |row: &i64| state.config.endpoints.get(row).is_some_and(EndpointEntry::wants_slots);
    found.into_iter().filter(wanting).collect()
}

/// Webhooks of which a failure is to be counted, in the order in which they are locked.
pub(super) fn failing(node: &Node, jobs: &[Job]) -> Vec<i64> {
    let state = node.state();
    let mut found = BTreeSet::new();
    for job in jobs {
        let Job::Settle { finished, .. } = job else { continue };
        for one in finished.iter().filter(|one| matches!(one.attempt.outcome, Outcome::Failed(_))) {
            if is_of(&state, one, Feed::Events)
                && let Some(stored) = state.held(one.lease)
            {
                found.insert(stored.row.endpoint);
            }
        }
    }
    found.into_iter().collect()
}

/// Whether this node holds what a result is of, and gets it from that feed.
fn is_of(state: &State, finished: &Finished, feed: Feed) -> bool {
    let stored = state.held(finished.lease);
    let entry = stored.and_then(|stored| state.config.endpoints.get(&stored.row.endpoint));
    entry.is_some_and(|entry| entry.endpoint.feed == feed)
}
