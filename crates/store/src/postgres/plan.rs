//! What a batch is about to write: planned in memory before it is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use restante_core::endpoint::{Answer, Receiver};
use restante_core::health::{Health, Run};
use restante_core::id::{EventId, Key, RequestId, Tail, WorkspaceId};
use restante_core::message::{self, MessageId};
use restante_core::{Outcome, State as Stage, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Fault;
use super::accept::{Birth, Births, NewDelivery};
use super::codec::Stored;
use super::columns::{Delivered, Healths, Messages, Place, Settled as SettledColumns};
use super::job::Job;
use super::node::Node;
use super::settle::{Judged, judge};
use super::state::State;
use super::tx::EndpointView;
use crate::endpoint::Feed;
use crate::{Content, Finished, Judgement, Policy, Settled};

/// What a batch is about to write.
pub(super) struct Plan {
    /// The node's number and what it believed when this was made.
    pub(super) node: i32,
    pub(super) epoch: i64,
    pub(super) tenure: u64,
    /// Who may not dial leases nothing: others would take it over as lost, again and again.
    may_dial: bool,
    first_key: Option<Key>,
    key_lead: Option<i64>,
    pub(super) shares: Vec<Share>,
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
pub(super) enum Share {
    Request {
        written: Written,
        answer: Option<Arc<Answer>>,
    },
    Events(Vec<Written>),
    Settle(Vec<Verdict>),
    /// Its source or workspace is gone.
    Gone,
    /// Its source has other rules than it was judged by.
    RulesChanged,
}

/// A message and its deliveries.
pub(super) struct Written {
    pub(super) place: Place,
    pub(super) id: MessageId,
    pub(super) workspace: WorkspaceId,
    pub(super) deliveries: Vec<(Stored, Birth, i64)>,
    /// It is a request that is kept, and was not accepted.
    pub(super) rejected: bool,
}

pub(super) enum Verdict {
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
            Job::Accept { token, judgement, now, tail, .. } => {
                plan.request(state, token, judgement, *now, *tail)
            }
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

    fn request(
        &mut self,
        state: &mut State,
        token: &str,
        judgement: &Judgement,
        now: Timestamp,
        tail: Tail,
    ) -> Share {
        let Some(row) = state.config.tokens.get(token).copied() else { return Share::Gone };
        let Some(source) = state.config.sources.get(&row) else { return Share::Gone };
        let Some(workspace) = state.config.workspaces.get(&source.workspace).map(|it| it.id) else {
            return Share::Gone;
        };
        if source.rules != judgement.by {
            return Share::RulesChanged;
        }
        let rejected = judgement.rejected().is_some();
        let endpoints = if rejected { Vec::new() } else { source.endpoints.clone() };
        let answer = source.answer.clone();
        let feed = (source.workspace, row, workspace);
        let mut written = self
            .message(state, feed, &endpoints, now, tail, |key| MessageId::Request(RequestId::new(key, tail)));
        written.rejected = rejected;
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
                due_at: now,
                birth,
                retry_of: None,
            };
            let stored = new.stored(version, standing.behind_pause(now), state.node);
            deliveries.push((stored, birth, standing.pauses));
        }
        let place = Place { workspace: feed.0, key, tail, feed: feed.1, fanout, now };
        Written { place, id: id(key), workspace: feed.2, deliveries, rejected: false }
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
            || view.endpoint.feed == Feed::Mail
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
                (Share::Request { written, .. }, Job::Accept { content, judgement, .. }) => {
                    match judgement.rejected() {
                        Some(because) => columns.messages.push_rejected(written.place, content, because),
                        None => columns.push(written, content),
                    }
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
                Share::Settle(_) | Share::Gone | Share::RulesChanged => Vec::new(),
            };
            for (stored, birth, _) in written.into_iter().flat_map(|it| it.deliveries) {
                if birth == Birth::Leased {
                    state.unreserve(stored.row.endpoint);
                }
            }
        }
    }

    pub(super) fn built(&self, state: &mut State) {
        if let Some(first) = self.first_key {
            state.building.remove(&first.value());
        }
    }
}

/// The rows of a batch.
#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) messages: Messages<'a>,
    pub(super) births: Births,
    pub(super) delivered: Delivered,
    pub(super) settled: SettledColumns<'a>,
    pub(super) cleared: Vec<i64>,
    pub(super) healths: Healths,
}

impl<'a> Columns<'a> {
    fn push(&mut self, written: &Written, content: &'a Content) {
        self.messages.push(written.place, content);
        for (stored, birth, pauses) in &written.deliveries {
            self.births.push(stored, *birth, *pauses);
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
