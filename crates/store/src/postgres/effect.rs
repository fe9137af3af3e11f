//! What a batch leaves behind in memory once it is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use restante_core::id::{Id, Key, WorkspaceId};
use restante_core::message::{Content as Message, MessageId};
use restante_core::{State as Stage, Timestamp};
use tokio::sync::oneshot;

use super::accept::Birth;
use super::codec::Stored;
use super::columns::Place;
use super::job::Job;
use super::node::{Node, lock};
use super::plan::{Plan, Share, Verdict, Written};
use super::state::State;
use crate::tally::Counted;
use crate::{Accepted, Change, Changed, Content, EventReceipt, Finished, Lease, Parcel, Published, Settled};

impl Plan {
    /// Makes real in memory what was stored, answers, and returns what takes a transaction of its own. `settled`: the
    /// deliveries whose settles took effect; `None`: that is not known.
    pub(super) fn take_effect(self, node: &Arc<Node>, jobs: Vec<Job>, settled: Option<&[i64]>) -> Vec<Job> {
        let watched = node.is_watched();
        let mut effect = Effect { watched, ..Effect::default() };
        let tenure = self.tenure;
        let mut state = node.state();
        let mut alone = Vec::new();
        let done: BTreeSet<i64> = settled.into_iter().flatten().copied().collect();
        self.built(&mut state);
        for (share, job) in self.shares.into_iter().zip(jobs) {
            match (share, job) {
                (Share::Request { written, answer }, Job::Accept { content, reply, .. }) => {
                    let (id, rejected) = (written.id, written.rejected);
                    let crowded = effect.message(&mut state, written, &content);
                    let MessageId::Request(id) = id else { continue };
                    let accepted = if rejected {
                        Accepted::Rejected { id }
                    } else {
                        Accepted::Fresh { id, answer, crowded }
                    };
                    effect.answers.push(Reply::Accepted(reply, accepted));
                }
                (Share::Events(written), Job::Publish { events, reply, .. }) => {
                    let (mut receipts, mut crowded) = (Vec::with_capacity(events.len()), false);
                    for (written, (content, _)) in written.into_iter().zip(events) {
                        let deliveries = u32::try_from(written.deliveries.len()).unwrap_or(u32::MAX);
                        if let MessageId::Event(id) = written.id {
                            receipts.push(EventReceipt { id, deliveries });
                        }
                        crowded |= effect.message(&mut state, written, &content);
                    }
                    effect
                        .answers
                        .push(Reply::Published(reply, Published::Fresh { events: receipts, crowded }));
                }
                (Share::Settle(verdicts), Job::Settle { finished, mut known, reply }) => {
                    for ((verdict, one), known) in verdicts.into_iter().zip(&finished).zip(&mut known) {
                        if known.is_none() {
                            *known = effect.settle(&mut state, verdict, one, &done);
                        }
                    }
                    if known.iter().all(Option::is_some) {
                        let settled = known.into_iter().flatten().collect();
                        effect.answers.push(Reply::Settled(reply, settled));
                    } else {
                        alone.push(Job::Settle { finished, known, reply });
                    }
                }
                (Share::Gone, Job::Accept { reply, .. }) => {
                    effect.answers.push(Reply::Accepted(reply, Accepted::UnknownSource));
                }
                (Share::RulesChanged, Job::Accept { content, reply, .. }) => {
                    let Message::Request(received) = &content.message else { continue };
                    let changed = Accepted::RulesChanged(Box::new(received.clone()));
                    effect.answers.push(Reply::Accepted(reply, changed));
                }
                (Share::Gone, Job::Publish { reply, .. }) => {
                    effect.answers.push(Reply::Published(reply, Published::NoWorkspace));
                }
                _ => {}
            }
        }
        node.tally.lock().count(&state.config, &effect.counted);
        let back = state.dispatch(effect.parcels, tenure);
        drop(state);
        node.give_back(back);
        if !effect.hints.is_empty() {
            lock(&node.hints).append(&mut effect.hints);
        }
        node.announce(effect.changes);
        node.wake();
        for answer in effect.answers {
            answer.send();
        }
        alone
    }
}

/// What a batch leaves behind.
#[derive(Default)]
struct Effect {
    watched: bool,
    parcels: Vec<Parcel>,
    changes: Vec<Change>,
    hints: BTreeSet<i64>,
    answers: Vec<Reply>,
    counted: Vec<Counted>,
}

enum Reply {
    Accepted(oneshot::Sender<Accepted>, Accepted),
    Published(oneshot::Sender<Published>, Published),
    Settled(oneshot::Sender<Vec<Settled>>, Vec<Settled>),
}

impl Reply {
    fn send(self) {
        // Whoever hung up does not want the answer.
        match self {
            Self::Accepted(reply, value) => drop(reply.send(value)),
            Self::Published(reply, value) => drop(reply.send(value)),
            Self::Settled(reply, value) => drop(reply.send(value)),
        }
    }
}

impl Effect {
    /// Returns whether a lane that works well had no room.
    fn message(&mut self, state: &mut State, written: Written, content: &Arc<Content>) -> bool {
        let (id, now) = (written.id, written.place.now);
        let mut crowded = false;
        let Place { workspace, feed, .. } = written.place;
        let source = matches!(id, MessageId::Request(_)).then_some(feed);
        if !written.rejected {
            self.counted.push(Counted::Accepted { workspace, source, at: now });
        }
        if self.watched {
            let what = match id {
                MessageId::Request(id) => Changed::Request(id),
                MessageId::Event(id) => Changed::Event(id),
                MessageId::Email(id) => Changed::Email(id),
            };
            self.changes.push(Change { workspace: written.workspace, what });
        }
        for (stored, birth, _) in written.deliveries {
            let endpoint = stored.row.endpoint;
            self.counted.push(Counted::Made { endpoint, at: now });
            match birth {
                Birth::Leased => {
                    self.lease(state, &stored, id, content, now, written.workspace);
                    state.hold(stored);
                }
                Birth::Due => {
                    crowded |= state.flows(endpoint);
                    state.agenda.plan(&mut state.config, endpoint, now.millis());
                    let slots = state.config.endpoints.get(&endpoint).map(|it| it.endpoint.slots());
                    if slots == Some(0) {
                        self.hints.insert(endpoint);
                    }
                }
                Birth::Skipped | Birth::Refused => {}
            }
        }
        crowded
    }

    fn lease(
        &mut self,
        state: &State,
        stored: &Stored,
        message: MessageId,
        content: &Arc<Content>,
        now: Timestamp,
        workspace: WorkspaceId,
    ) {
        let Ok(view) = state.view(stored.row.endpoint) else { return };
        let delivery = Id::new(Key::from_value(stored.row.key), message.tail());
        let expires_at = view.retention_ms.map(|kept| now.millis().saturating_add(kept));
        if self.watched {
            self.changes.push(Change { workspace, what: Changed::Delivery(delivery) });
        }
        self.parcels.push(Parcel {
            lease: Lease { delivery, attempt: 1 },
            message,
            endpoint: view.endpoint,
            content: Arc::clone(content),
            due_at: stored.row.life.attempt_due_at(now),
            claimed_at: now,
            mailbox: None,
            expires_at: expires_at.map(Timestamp::from_millis),
        });
    }

    /// `None`: it takes a transaction of its own.
    fn settle(
        &mut self,
        state: &mut State,
        verdict: Verdict,
        finished: &Finished,
        done: &BTreeSet<i64>,
    ) -> Option<Settled> {
        let judged = match verdict {
            Verdict::Lost => return Some(Settled::LeaseLost),
            Verdict::Alone => return None,
            Verdict::Judged(judged, _) => judged,
        };
        let (key, endpoint) = (judged.stored.row.key, judged.stored.row.endpoint);
        if !done.contains(&key) {
            return None;
        }
        state.let_go(key);
        self.counted.extend(Counted::attempt(endpoint, &judged.attempt));
        self.counted.extend(Counted::change(endpoint, key, &judged.stored.row.life, &judged.life));
        if judged.life.state == Stage::Pending {
            state.agenda.plan(&mut state.config, endpoint, judged.life.due_at.millis());
        }
        if self.watched
            && let Ok(entry) = state.endpoint(endpoint)
        {
            let workspace = entry.endpoint.workspace;
            self.changes.push(Change { workspace, what: Changed::Delivery(finished.lease.delivery) });
        }
        Some(Settled::Done(judged.life))
    }
}
