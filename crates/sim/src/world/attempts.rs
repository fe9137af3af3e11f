//! Attempts: from the moment a lane lets them begin to the settle.

use std::net::IpAddr;

use hyper::header::{HeaderName, HeaderValue};
use restante_core::endpoint::Receiver as Setting;
use restante_core::id::DeliveryId;
use restante_core::message::{Content, Received, target};
use restante_core::retry::{Jitter, Schedule};
use restante_core::{Attempt, FailureKind, Outcome, Timestamp};
use restante_server::channel::guard::{Rules, Verdict};
use restante_server::channel::http::forwardable;
use restante_store::{Finished, Parcel};

use super::answers::name;
use super::job::Job;
use super::{Event, World, note};
use crate::cast::places;
use crate::plant::Plant;
use crate::random::Random;
use crate::receiver::{Fate, Reply};
use crate::story::{Dialled, Origin, Sent, WEBHOOK_ID};

/// A worker takes up to so long between its lane's word and the connection.
const HOP_MS: u64 = 3;
/// So many of 100 attempts meet the result of the one before while they are on the wire.
const REPEATED_PERCENT: u64 = 10;

/// An attempt in the hands of a worker.
pub(super) struct Turn {
    pub(super) parcel: Parcel,
    pub(super) life: u32,
    /// A place among all endpoints.
    endpoint: usize,
    sent: Option<Sent>,
    /// Decides what happens to this attempt, and nothing else.
    random: Random,
    pub(super) started: Option<Started>,
}

/// An attempt on the wire.
pub(super) struct Started {
    at: Timestamp,
    version: u32,
    pub(super) dialled: usize,
    reply: Reply,
}

impl World {
    /// A worker takes the parcel that its lane let begin.
    pub(super) fn begin(&mut self, parcel: Parcel) -> u64 {
        let endpoint = self.endpoint_of(&parcel);
        let sent = on_the_wire(&parcel);
        let origin = sent.origin();
        let times = self.begun.entry((origin, endpoint)).or_default();
        *times += 1;
        let [first, second] = origin.map_or([u64::MAX, 0], Origin::numbers);
        let mut random = Random::keyed(&[self.seed, 3, first, second, endpoint as u64, *times]);
        let turn = self.turns_begun;
        self.turns_begun += 1;
        if let Some(node) = &mut self.node {
            *node.in_flight.entry(parcel.endpoint.id).or_default() += 1;
        }
        self.plan_in(random.below(HOP_MS + 1), Event::Dial(turn));
        let (life, sent) = (self.life, Some(sent));
        self.turns.insert(turn, Turn { parcel, life, endpoint, sent, random, started: None });
        turn
    }

    /// The place of a parcel's endpoint. One whose creation nobody was told of is met here first.
    fn endpoint_of(&mut self, parcel: &Parcel) -> usize {
        if let Some(known) = self.cast.find(parcel.endpoint.id) {
            return known;
        }
        let setting = parcel.endpoint.settings().receiver.clone();
        let (_, place) = places(setting.url()).expect("all endpoints have URLs of ours");
        let met = &mut self.cast.endpoints[place];
        met.id = Some(parcel.endpoint.id);
        let entry = met.setting.asked(self.clocks.now, Some(setting));
        met.setting.done(entry, self.clocks.now);
        place
    }

    pub(super) fn dial(&mut self, number: u64) {
        let (now, wall) = (self.clocks.now, self.wall());
        let Some(turn) = self.turns.get_mut(&number).filter(|turn| turn.started.is_none()) else { return };
        let settings = turn.parcel.endpoint.settings();
        // The plant sends what no lane has let begin.
        let withdrawn = self.plant != Some(Plant::SendBeforeCommit)
            && self.node.as_mut().is_some_and(|node| !node.lanes.dial(turn.parcel.lease));
        let held_back = settings.gone || turn.parcel.endpoint.holds_back().is_some();
        if withdrawn || held_back || turn.parcel.expires_at.is_some_and(|at| at <= wall) {
            return self.abandon(number, withdrawn);
        }
        let url = address(&turn.parcel, &settings.receiver);
        let (receiver, _) = places(&url).expect("all endpoints have URLs of ours");
        let behind = &self.cast.receivers[receiver];
        let fate = match judge(behind.address) {
            Verdict::Refused(_) if self.plant != Some(Plant::NoGuard) => {
                Fate::refused(FailureKind::RefusedAddress)
            }
            Verdict::Refused(_) | Verdict::Allowed => {
                Fate::of(behind.mood(now), settings.receiver.timeout(), &mut turn.random)
            }
        };
        let in_flight =
            self.node.as_ref().and_then(|node| node.in_flight.get(&turn.parcel.endpoint.id).copied());
        let dialled = self.story.dialled.len();
        note!(self, "dials {:?} of {}: {url}, {fate:?}", turn.parcel.lease, turn.parcel.message);
        self.story.dialled.push(Dialled {
            life: self.life,
            lease: turn.parcel.lease,
            message: turn.parcel.message,
            endpoint: turn.endpoint,
            receiver,
            url,
            sent: turn.sent.take().unwrap_or_else(|| on_the_wire(&turn.parcel)),
            started: now,
            in_flight: in_flight.unwrap_or(1) - 1,
            connected: fate.arrives_ms.is_some(),
            arrived: false,
            ended: None,
            settled: None,
        });
        let lease = turn.parcel.lease;
        // An attempt never starts before the end of the one before, even if the clock went back.
        let at = wall.max(turn.parcel.claimed_at);
        turn.started = Some(Started { at, version: settings.version, dialled, reply: fate.reply });
        self.tally.attempts += 1;
        if let Some(ms) = fate.arrives_ms {
            self.plan_in(ms, Event::Arrive(number));
        }
        self.plan_in(fate.takes_ms, Event::Answer(number));
        if self.plan.poisonings > 0 && self.story.dialled[dialled].sent.origin() == Some(Origin::Publish(0)) {
            self.plan.poisonings -= 1;
            self.plan_in(1, Event::Crash);
        }
        self.repeat_old_result(lease.delivery, number);
    }

    /// Brings the result of the attempt before once more, while this one is on the wire.
    fn repeat_old_result(&mut self, delivery: DeliveryId, number: u64) {
        let Some(finished) = self.reported.get(&delivery).filter(|_| self.faulty) else { return };
        if Random::keyed(&[self.seed, 9, number]).chance(REPEATED_PERCENT) {
            let finished = Box::new(finished.clone());
            self.plan_in(1, Event::LateSettle(finished));
        }
    }

    /// An attempt that may not begin any more is given back.
    /// `withdrawn`: whoever withdrew it gave its lease back.
    fn abandon(&mut self, number: u64, withdrawn: bool) {
        let Some(turn) = self.turns.remove(&number) else { return };
        let endpoint = turn.parcel.endpoint.id;
        note!(self, "does not dial {:?}", turn.parcel.lease);
        if !withdrawn {
            self.give_back(vec![turn.parcel.lease]);
        }
        if let Some(node) = &mut self.node {
            node.in_flight.entry(endpoint).and_modify(|count| *count -= 1);
            node.lanes.abandon(endpoint);
        }
        self.begin_next();
        self.after_begin();
    }

    pub(super) fn arrive(&mut self, number: u64) {
        let Some(started) = self.turns.get(&number).and_then(|turn| turn.started.as_ref()) else { return };
        self.story.dialled[started.dialled].arrived = true;
    }

    pub(super) fn answer(&mut self, number: u64) {
        let Some(turn) = self.turns.remove(&number) else { return };
        let Some(started) = &turn.started else { return };
        let outcome = started.reply.outcome(self.wall());
        self.story.dialled[started.dialled].ended = Some((self.clocks.now, started.reply.clone()));
        note!(self, "{:?} {}", turn.parcel.lease, name(&outcome));
        self.report(turn, outcome);
    }

    /// Hands an attempt's result to the settler, and lets the worker go on with the next.
    pub(super) fn report(&mut self, mut turn: Turn, outcome: Outcome) {
        let endpoint = turn.parcel.endpoint.id;
        let alive = turn.life == self.life;
        let Some((finished, dialled)) = self.finished(&mut turn, outcome.clone()) else { return };
        self.reported.insert(finished.lease.delivery, finished.clone());
        if !alive {
            let late_ms = turn.random.below(30_000);
            return self.plan_in(late_ms, Event::LateSettle(Box::new(finished)));
        }
        self.enqueue(Job::Settle { finished: Box::new(finished), dialled });
        if let Some(node) = &mut self.node {
            node.in_flight.entry(endpoint).and_modify(|count| *count -= 1);
            node.lanes.finish(endpoint, &outcome);
        }
        self.begin_next();
        self.after_begin();
    }

    fn finished(&self, turn: &mut Turn, outcome: Outcome) -> Option<(Finished, usize)> {
        let started = turn.started.as_ref()?;
        let took = self.clocks.now.monotonic() - self.story.dialled[started.dialled].started.monotonic();
        let lease = turn.parcel.lease;
        let mut attempt =
            Attempt { number: lease.attempt, outcome, started_at: started.at, ended_at: started.at + took };
        if self.plant == Some(Plant::RetryEarly) {
            let early = early_by(turn.parcel.endpoint.settings().receiver.schedule(), lease.attempt);
            attempt.started_at = attempt.started_at - early;
            attempt.ended_at = attempt.ended_at - early;
        }
        if let (Some(Plant::RetryAfterIgnored), Outcome::Failed(failure)) = (self.plant, &mut attempt.outcome)
        {
            failure.retry_after = None;
        }
        let jitter = Jitter::from_bits(turn.random.draw());
        Some((Finished { lease, attempt, endpoint_version: started.version, jitter }, started.dialled))
    }
}

/// What the operator allows: nothing but the public internet.
fn judge(address: IpAddr) -> Verdict {
    Rules::default().judge(address)
}

/// By how much a schedule that is one wait behind is too early after this attempt.
fn early_by(schedule: &Schedule, attempt: u32) -> std::time::Duration {
    let wait = schedule.wait_before(attempt + 1).unwrap_or_default();
    wait.saturating_sub(schedule.wait_before(attempt).unwrap_or_default())
}

/// Where an attempt goes.
fn address(parcel: &Parcel, setting: &Setting) -> String {
    match &parcel.content.message {
        Content::Request(received) => target(setting.url(), &received.path, received.query.as_deref()),
        Content::Event(_) | Content::Email(_) => setting.url().to_owned(),
    }
}

/// The request as it leaves.
fn on_the_wire(parcel: &Parcel) -> Sent {
    match &parcel.content.message {
        Content::Request(received) => forwarded(received),
        Content::Event(published) => Sent {
            method: "POST".into(),
            headers: vec![(WEBHOOK_ID.into(), parcel.message.to_string().into_bytes())],
            body: published.body.clone(),
        },
        Content::Email(mail) => Sent { method: String::new(), headers: Vec::new(), body: mail.mime.clone() },
    }
}

/// A request less what belongs to one hop.
fn forwarded(received: &Received) -> Sent {
    let lines = received.headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
    });
    let headers = forwardable(lines.collect()).into_iter();
    Sent {
        method: received.method.clone(),
        headers: headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect(),
        body: received.body.clone(),
    }
}
