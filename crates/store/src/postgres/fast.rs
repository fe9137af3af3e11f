//! What a batch does to memory: plans its rows before they are written, and takes effect when they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use restante_core::endpoint::{Answer, Receiver};
use restante_core::health::{Health, Run};
use restante_core::id::{EventId, Id, Key, RequestId, Tail, WorkspaceId};
use restante_core::message::{self, MessageId, Published as Event};
use restante_core::{Outcome, State as Stage, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::oneshot;

use super::Fault;
use super::accept::{Birth, NewDelivery};
use super::codec::Stored;
use super::columns::{Delivered, Deliveries, Healths, Messages, Place, Settled as SettledColumns, Waiting};
use super::node::{Node, lock};
use super::settle::{Judged, judge};
use super::state::State;
use super::tx::EndpointView;
use crate::endpoint::Feed;
use crate::{
    Accepted, Change, Changed, Content, EventReceipt, Finished, Incoming, KeyClaim, Lease, NewEvent, Parcel,
    Policy, Published, Publishing, Settled,
};

/// One caller's share of a batch. Dropped unanswered, it tells the caller that nothing was stored.
pub(super) enum Job {
    Accept {
        token: String,
        content: Arc<Content>,
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
        let Incoming { token, received, now, tail } = incoming;
        let content = Arc::new(node.content_bytes.hold(message::Content::Request(received)));
        Self::Accept { token, content, now, tail, reply }
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
/// what is paid for or has a key.
pub(super) fn sort(node: &Node, jobs: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
    let (mut plain, mut alone) = (Vec::with_capacity(jobs.len()), Vec::new());
    let state = node.state();
    for job in jobs {
        match job {
            Job::Accept { token, content, now, tail, reply } => {
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
                let job = Job::Accept { token, content, now, tail, reply };
                if counted { alone.push(job) } else { plain.push(job) }
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
            job @ Job::Settle { .. } => plain.push(job),
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
    let wanting = |row: &i64| {
        let entry = state.config.endpoints.get(row);
        entry.is_some_and(|it| it.endpoint.slots() == 0 && it.settings.receiver.holds_back().is_none())
    };
    found.into_iter().filter(wanting).collect()
}

/// Webhooks of which a failure is to be counted, in the order in which they are locked.
pub(super) fn failing(node: &Node, jobs: &[Job]) -> Vec<i64> {
    let state = node.state();
    let mut found = BTreeSet::new();
    for job in jobs {
        let Job::Settle { finished, .. } = job else { continue };
        for one in finished.iter().filter(|one| matches!(one.attempt.outcome, Outcome::Failed(_))) {
            let Some(stored) = state.held(one.lease) else { continue };
            let entry = state.config.endpoints.get(&stored.row.endpoint);
            if entry.is_some_and(|it| it.endpoint.feed == Feed::Events) {
                found.insert(stored.row.endpoint);
            }
        }
    }
    found.into_iter().collect()
}

/// What a batch is about to write.
pub(super) struct Plan {
    /// The node's number and what it believed when this was made.
    pub(super) node: i32,
    pub(super) epoch: i64,
    tenure: u64,
    /// Who may not dial leases nothing: others would take it over as lost, again and again.
    may_dial: bool,
    first_key: Option<Key>,
    key_lead: Option<i64>,
    shares: Vec<Share>,
    /// Webhooks whose failing run ends, if there is one.
    cleared: BTreeSet<i64>,
    /// How webhooks stand that fail in this batch: locked, and as the results so far make them.
    healths: FxHashMap<i64, Health>,
    turned: BTreeSet<i64>,
    /// Webhooks of which more than the run changes: their results are left to a transaction of its own.
    left: BTreeSet<i64>,
    /// Deliveries that it settles.
    judged: FxHashSet<i64>,
}

/// One job's share, in the order of the jobs.
enum Share {
    Request {
        written: Written,
        answer: Option<Arc<Answer>>,
    },
    Events(Vec<Written>),
    Settle(Vec<Verdict>),
    /// Its source or workspace is gone.
    Gone,
}

/// A message and its deliveries.
struct Written {
    place: Place,
    id: MessageId,
    workspace: WorkspaceId,
    deliveries: Vec<(Stored, Birth, i64)>,
}

enum Verdict {
    Judged(Box<Judged>, i64),
    /// Somebody else has it by now.
    Lost,
    /// It takes a transaction of its own.
    Alone,
}

/// See [`Plan`]. Room for what is leased is reserved.
pub(super) fn plan(node: &Node, jobs: &[Job], healths: FxHashMap<i64, Health>) -> Plan {
    let (policy, may_dial) = (node.policy, node.may_dial());
    let mut guard = node.state();
    let state = &mut *guard;
    let mut plan = Plan {
        node: state.node,
        epoch: state.epoch,
        tenure: state.tenure,
        may_dial,
        first_key: None,
        key_lead: None,
        shares: Vec::with_capacity(jobs.len()),
        cleared: BTreeSet::new(),
        healths,
        turned: BTreeSet::new(),
        left: BTreeSet::new(),
        judged: FxHashSet::default(),
    };
    for job in jobs {
        let share = match job {
            Job::Accept { token, now, tail, .. } => plan.request(state, token, *now, *tail),
            Job::Publish { workspace, now, events, .. } => plan.events(state, *workspace, events, *now),
            Job::Settle { finished, known, .. } => plan.settle(state, &policy, finished, known),
        };
        plan.shares.push(share);
    }
    if let Some(first) = plan.first_key {
        state.building.insert(first.value());
    }
    plan
}

impl Plan {
    fn take_keys(&mut self, state: &mut State, now: Timestamp, count: u32) -> Key {
        let key = state.take_keys(now, count);
        self.first_key = self.first_key.or(Some(key));
        self.key_lead = self.key_lead.max(state.new_key_lead(now));
        key
    }

    fn request(&mut self, state: &mut State, token: &str, now: Timestamp, tail: Tail) -> Share {
        let Some(row) = state.config.tokens.get(token).copied() else { return Share::Gone };
        let Some(source) = state.config.sources.get(&row) else { return Share::Gone };
        let Some(workspace) = state.config.workspaces.get(&source.workspace).map(|it| it.id) else {
            return Share::Gone;
        };
        let (answer, endpoints) = (source.answer.clone(), source.endpoints.clone());
        let feed = (source.workspace, row, workspace);
        let written = self
            .message(state, feed, &endpoints, now, tail, |key| MessageId::Request(RequestId::new(key, tail)));
        Share::Request { written, answer }
    }

    fn events(
        &mut self,
        state: &mut State,
        workspace: WorkspaceId,
        events: &[(Arc<Content>, Tail)],
        now: Timestamp,
    ) -> Share {
        let Some(row) = state.config.workspace_rows.get(&workspace).copied() else { return Share::Gone };
        let mut written = Vec::with_capacity(events.len());
        for (content, tail) in events {
            let message::Content::Event(event) = &content.message else { return Share::Gone };
            let endpoints = state.config.subscribers(row, &event.event_type);
            written.push(self.message(state, (row, row, workspace), &endpoints, now, *tail, |key| {
                MessageId::Event(EventId::new(key, *tail))
            }));
        }
        Share::Events(written)
    }

    /// `feed`: the rows of the workspace and of what the message came from, and the workspace's id.
    fn message(
        &mut self,
        state: &mut State,
        feed: (i64, i64, WorkspaceId),
        endpoints: &[i64],
        now: Timestamp,
        tail: Tail,
        id: impl FnOnce(Key) -> MessageId,
    ) -> Written {
        let fanout = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        let key = self.take_keys(state, now, 1 + fanout);
        let mut deliveries = Vec::with_capacity(endpoints.len());
        for (index, endpoint) in (1..).zip(endpoints.iter().copied()) {
            let Some(entry) = state.config.endpoints.get(&endpoint) else { continue };
            let (version, standing) = (entry.settings.version, entry.standing);
            let birth = if state.skips(endpoint) {
                Birth::Skipped
            } else if self.may_dial && state.may_be_born_leased(endpoint, now) {
                Birth::Leased
            } else {
                Birth::Due
            };
            if birth == Birth::Leased {
                state.reserve(endpoint);
            }
            let new = NewDelivery {
                workspace: feed.0,
                key: key.plus(index),
                message: key,
                endpoint,
                now,
                birth,
                retry_of: None,
            };
            let stored = new.stored(version, standing.behind_pause(now), state.node);
            deliveries.push((stored, birth, standing.pauses));
        }
        let place = Place { workspace: feed.0, key, tail, feed: feed.1, fanout, now };
        Written { place, id: id(key), workspace: feed.2, deliveries }
    }

    fn settle(
        &mut self,
        state: &State,
        policy: &Policy,
        finished: &[Finished],
        known: &[Option<Settled>],
    ) -> Share {
        let verdicts = finished.iter().zip(known).map(|(one, known)| {
            if known.is_some() { Verdict::Lost } else { self.verdict(state, policy, one) }
        });
        Share::Settle(verdicts.collect())
    }

    fn verdict(&mut self, state: &State, policy: &Policy, finished: &Finished) -> Verdict {
        let Some(stored) = state.held(finished.lease) else { return Verdict::Lost };
        if self.judged.contains(&stored.row.key) {
            return Verdict::Alone;
        }
        let Ok(view) = state.view(stored.row.endpoint) else { return Verdict::Alone };
        let watched = matches!(view.settings.receiver, Receiver::Webhook(_));
        let failed = matches!(finished.attempt.outcome, Outcome::Failed(_));
        let known = self.healths.get(&view.row).copied();
        let alone = (watched && failed && known.is_none())
            || self.left.contains(&view.row)
            || stored.row.job.is_some()
            || stored.row.life.back_to.is_some()
            || may_have_expired(stored, &view, finished.attempt.ended_at, state.key_lead_ms);
        if alone {
            return Verdict::Alone;
        }
        // An attempt that delivered ends whatever run there may be.
        let some_run =
            Health { run: Some(Run { since: Timestamp::default(), failures: 1 }), degraded: false };
        let health = known.unwrap_or(some_run);
        let judged = judge(stored, finished, &view, health, policy, false, state.key_lead_ms);
        match (&judged.health, known) {
            (Some(turn), _) if turn.pause || !turn.notices.is_empty() => {
                self.left.insert(view.row);
                return Verdict::Alone;
            }
            (Some(turn), Some(_)) => {
                self.healths.insert(view.row, turn.health);
                self.turned.insert(view.row);
            }
            (Some(_), None) => {
                self.cleared.insert(view.row);
            }
            (None, _) => {}
        }
        self.judged.insert(stored.row.key);
        Verdict::Judged(Box::new(judged), view.standing.pauses)
    }

    /// Sees to it that there is a place for what is written.
    pub(super) async fn prepare(&self, node: &Node) -> Result<(), Fault> {
        if let Some(lead) = self.key_lead {
            node.write_key_lead(lead).await?;
        }
        match self.first_key {
            Some(first) => node.prepare_partitions(first).await,
            None => Ok(()),
        }
    }

    pub(super) fn columns<'a>(&'a self, jobs: &'a [Job]) -> Columns<'a> {
        let mut columns = Columns { cleared: self.cleared.iter().copied().collect(), ..Columns::default() };
        for row in &self.turned {
            columns.healths.push(*row, self.healths.get(row).copied().unwrap_or_default());
        }
        for (share, job) in self.shares.iter().zip(jobs) {
            match (share, job) {
                (Share::Request { written, .. }, Job::Accept { content, .. }) => {
                    columns.push(written, content);
                }
                (Share::Events(written), Job::Publish { events, .. }) => {
                    for (written, (content, _)) in written.iter().zip(events) {
                        columns.push(written, content);
                    }
                }
                (Share::Settle(verdicts), _) => {
                    for verdict in verdicts {
                        if let Verdict::Judged(judged, pauses) = verdict {
                            columns.settle(judged, *pauses);
                        }
                    }
                }
                _ => {}
            }
        }
        columns
    }

    /// Gives back what was reserved: nothing was stored.
    pub(super) fn undo(self, node: &Node) {
        let mut state = node.state();
        self.built(&mut state);
        for share in self.shares {
            let written = match share {
                Share::Request { written, .. } => vec![written],
                Share::Events(written) => written,
                Share::Settle(_) | Share::Gone => Vec::new(),
            };
            for (stored, birth, _) in written.into_iter().flat_map(|it| it.deliveries) {
                if birth == Birth::Leased {
                    state.unreserve(stored.row.endpoint);
                }
            }
        }
    }

    fn built(&self, state: &mut State) {
        if let Some(first) = self.first_key {
            state.building.remove(&first.value());
        }
    }

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
                    let id = written.id;
                    let crowded = effect.message(&mut state, written, &content);
                    let MessageId::Request(id) = id else { continue };
                    effect.answers.push(Reply::Accepted(reply, Accepted::Fresh { id, answer, crowded }));
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
                (Share::Gone, Job::Publish { reply, .. }) => {
                    effect.answers.push(Reply::Published(reply, Published::NoWorkspace));
                }
                _ => {}
            }
        }
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
        if self.watched {
            let what = match id {
                MessageId::Request(id) => Changed::Request(id),
                MessageId::Event(id) => Changed::Event(id),
            };
            self.changes.push(Change { workspace: written.workspace, what });
        }
        for (stored, birth, _) in written.deliveries {
            let endpoint = stored.row.endpoint;
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
                Birth::Skipped => {}
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
            claimed_at: now,
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

/// The rows of a batch.
#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) messages: Messages<'a>,
    pub(super) deliveries: Deliveries,
    pub(super) work: Waiting,
    pub(super) skipped: Waiting,
    pub(super) delivered: Delivered,
    pub(super) settled: SettledColumns<'a>,
    pub(super) cleared: Vec<i64>,
    pub(super) healths: Healths,
}

impl<'a> Columns<'a> {
    fn push(&mut self, written: &Written, content: &'a Content) {
        self.messages.push(written.place, content);
        for (stored, birth, pauses) in &written.deliveries {
            self.deliveries.push(stored);
            match birth {
                Birth::Leased => {}
                Birth::Due => self.work.push(stored, *pauses),
                Birth::Skipped => self.skipped.push(stored, *pauses),
            }
        }
    }

    fn settle(&mut self, judged: &'a Judged, pauses: i64) {
        let plain = judged.record.is_none()
            && !judged.stored.row.claimed
            && judged.stored.row.life.ending.is_none()
            && judged.life.state == Stage::Delivered
            && (judged.life.attempts_made, judged.life.attempts_used) == (1, 1);
        if plain { self.delivered.push(judged) } else { self.settled.push(judged, pauses) }
    }
}

/// Whether a delivery's request may be past its retention; the row of the message knows.
fn may_have_expired(stored: &Stored, view: &EndpointView, now: Timestamp, key_lead_ms: i64) -> bool {
    let Some(retention_ms) = view.retention_ms else { return false };
    // The key tells when the request came at the latest, and at the earliest if the clock was at its worst.
    let key_at = Key::from_value(stored.row.message).at().millis();
    key_at - key_lead_ms + retention_ms <= now.millis()
}
