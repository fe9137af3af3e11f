//! What goes wrong, and what brings the node back.

use restante_core::endpoint::{EndpointId, Receiver as Setting, Source as SourceSetting};
use restante_core::{Outcome, Timestamp};
use restante_store::record::Kind;
use restante_store::sqlite::Fault;
use restante_store::sqlite::engine::Engine;

use super::job::Job;
use super::node::Node;
use super::{Event, World, note};
use crate::cast::Source;
use crate::plan::SHORT_RETENTION;
use crate::plant::Plant;

/// Leases settled in one transaction when a node takes over: few, so that crashes come in between.
const TAKE_OVER_CHUNK: usize = 3;
/// How long attempts on the wire may go on when a node stops, and how long results may take to be recorded.
const DRAIN_MS: u64 = 8_000;
const SETTLE_MS: u64 = 1_000;
/// How often what expired is looked for, while the world is busy and after.
const PRUNE_EVERY_MS: (u64, u64) = (60_000, 3_600_000);
/// How often all events are looked at where they are not kept for long.
const READ_EVENTS_EVERY_MS: u64 = 1_800_000;

impl World {
    /// The node dies: what it had in memory is gone. What is on the wire may arrive or not, and what it would have
    /// reported may come late.
    pub(super) fn crash(&mut self, when: &str) {
        if !self.faulty || self.node.is_none() {
            return;
        }
        note!(self, "the node dies {when}");
        self.tally.crashes += 1;
        let mut node = self.node.take().expect("it was there");
        let queued = node.lanes.withdraw_all();
        drop(node);
        self.life += 1;
        self.cut_clients();
        if let Some(lease) = queued.into_iter().min_by_key(|lease| lease.delivery) {
            let late_ms = self.random.below(40_000);
            self.plan_in(late_ms, Event::LateRelease(lease));
        }
        let dead: Vec<u64> = self.turns.keys().copied().collect();
        for number in dead {
            let lives_on = self.random.chance(50);
            if self.turns[&number].started.is_none() || !lives_on {
                self.cut(number);
            }
        }
        let down_ms = self.random.pick(&[1, 200, 20_000]);
        self.plan_in(down_ms, Event::Start);
    }

    /// The connection is gone; what was sent may have arrived.
    fn cut(&mut self, number: u64) {
        if self.random.chance(50) {
            self.arrive_if_connected(number);
        }
        self.turns.remove(&number);
    }

    fn arrive_if_connected(&mut self, number: u64) {
        let started = self.turns.get(&number).and_then(|turn| turn.started.as_ref());
        if started.is_some_and(|started| self.story.dialled[started.dialled].connected) {
            self.arrive(number);
        }
    }

    pub(super) fn start(&mut self) {
        if self.node.is_some() {
            return;
        }
        let mut node = Node::open(self.directory.path(), self.plan.in_flight_max, self.plan.policy);
        let now = self.wall();
        // The plant: leases of the dead stay.
        while self.plant != Some(Plant::NoTakeOver) {
            let taken = node.engine.transaction(|engine| take_over(engine, now)).expect("taking over works");
            note!(self, "takes over {taken}");
            if taken < TAKE_OVER_CHUNK {
                break;
            }
            if self.faulty && self.random.chance(15) {
                note!(self, "the node dies while it takes over");
                self.life += 1;
                return self.plan_in(100, Event::Start);
            }
        }
        node.attach();
        self.node = Some(node);
        self.spoil_start();
        self.read_settings();
        self.claim_now();
        self.prune();
        for id in self.bulk_retries.clone() {
            self.plan_in(500, Event::Bulk { life: self.life, id });
        }
    }

    /// Reads what became of changes whose answers got lost.
    fn read_settings(&mut self) {
        let Some(node) = &self.node else { return };
        for place in 0..self.cast.endpoints.len() {
            let workspace = self.cast.workspace_of(place);
            let endpoint = &mut self.cast.endpoints[place];
            let Some(id) = endpoint.id else { continue };
            let raw = |kind| node.engine.record(kind, workspace, id.uuid()).expect("reads work");
            let read = "a record can be read";
            let setting = match id {
                EndpointId::Destination(_) => raw(Kind::Destination)
                    .map(|raw| Setting::Destination(serde_json::from_str(&raw.body).expect(read))),
                EndpointId::Webhook(_) => raw(Kind::Webhook)
                    .map(|raw| Setting::Webhook(serde_json::from_str(&raw.body).expect(read))),
                // Nobody in this world sends emails.
                EndpointId::Mailboxes(_) => continue,
            };
            let entry = endpoint.setting.asked(self.clocks.now, setting);
            endpoint.setting.done(entry, self.clocks.now);
        }
        for source in 0..self.cast.sources.len() {
            let Source { workspace, id, .. } = &self.cast.sources[source];
            let workspace = self.cast.workspaces[*workspace];
            let raw = node.engine.record(Kind::Source, workspace, id.uuid()).expect("reads work");
            let Some(raw) = raw else { continue };
            let setting: SourceSetting = serde_json::from_str(&raw.body).expect("a record can be read");
            let takes_pending = &mut self.cast.sources[source].takes_pending;
            // What the plant wrote is not what was asked for.
            if self.plant != Some(Plant::PendingAlways) {
                let entry = takes_pending.asked(self.clocks.now, setting.deliver_pending_on_connect);
                takes_pending.done(entry, self.clocks.now);
            }
        }
        for place in 0..self.cast.endpoints.len() {
            self.look_at(place);
        }
    }

    /// The node is asked to stop: gives back what has not dialled, waits for what is on the wire.
    pub(super) fn stop(&mut self) {
        let Some(node) = &mut self.node else { return };
        if node.stopping || !self.faulty {
            return;
        }
        note!(self, "the node stops");
        node.stopping = true;
        node.engine.attach(None);
        let leases = node.lanes.withdraw_all();
        self.give_back(leases);
        self.plan_in(DRAIN_MS, Event::Abort { life: self.life });
    }

    /// Time is up for what is on the wire: it is lost.
    pub(super) fn abort(&mut self) {
        let numbers: Vec<u64> = self.turns.keys().copied().collect();
        for number in numbers {
            if self.turns[&number].life != self.life || self.turns[&number].started.is_none() {
                continue;
            }
            if self.random.chance(50) {
                self.arrive_if_connected(number);
            }
            let turn = self.turns.remove(&number).expect("it was there");
            note!(self, "gives up {:?}", turn.parcel.lease);
            self.report(turn, Outcome::Lost);
        }
        self.plan_in(SETTLE_MS, Event::Shut { life: self.life });
    }

    pub(super) fn shut(&mut self) {
        note!(self, "the node has stopped");
        self.node = None;
        self.life += 1;
        self.cut_clients();
        self.plan_in(1_000, Event::Start);
    }

    pub(super) fn jump(&mut self) {
        if !self.faulty {
            return;
        }
        let by_ms = self.random.pick(&[1_500, 40_000, 900_000, 7_200_000]);
        let by_ms = if self.random.chance(50) { by_ms } else { -by_ms };
        self.clocks.jump(by_ms);
        note!(self, "the wall clock jumps by {by_ms} ms to {}", self.wall());
        self.look_at_clock();
    }

    pub(super) fn prune(&mut self) {
        // Once nothing else is left to happen nothing is left to wait for.
        let is_over = self.healed.is_some() && self.timeline.is_empty();
        let now = self.wall();
        self.enqueue(Job::Prune { now });
        let short = self.plan.policy.event_retention == SHORT_RETENTION;
        if short && self.clocks.now.since(self.events_read) >= READ_EVENTS_EVERY_MS {
            self.events_read = self.clocks.now;
            self.read_events();
        }
        if !is_over {
            let ms = if self.faulty { PRUNE_EVERY_MS.0 } else { PRUNE_EVERY_MS.1 };
            self.plan_in(ms, Event::Prune { life: self.life });
        }
    }
}

fn take_over(engine: &mut Engine, now: Timestamp) -> Result<usize, Fault> {
    engine.take_over(now, TAKE_OVER_CHUNK)
}
