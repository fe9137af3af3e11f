//! Any sequence of operations keeps what must always hold.

mod check;
mod op;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use restante_core::endpoint::EndpointId;
use restante_core::health::Limits;
use restante_core::id::{DeliveryId, RequestId, WebhookId};
use restante_core::{Outcome, State, Timestamp};

use op::{Ends, Op, op};

use super::{Rig, finished};
use crate::endpoint::Feed;
use crate::record::{Kind, Raw};
use crate::sqlite::codec::{DELIVERY_COLUMNS, DeliveryRow, read_delivery};
use crate::sqlite::engine::Engine;
use crate::sqlite::{Fault, codec};
use crate::{Accepted, Grant, Parcel, Policy, Published, Settled, Window};

/// What a sequence runs on, and what its dispatcher holds.
struct Run {
    rig: Rig,
    sources: Vec<Raw>,
    destinations: Vec<Raw>,
    webhooks: Vec<Raw>,
    requests: Vec<RequestId>,
    deliveries: Vec<DeliveryId>,
    held: Vec<Parcel>,
    /// The number of the latest attempt that left and was not taken back.
    begun: HashMap<DeliveryId, u32>,
    /// How each delivery stood when it was last looked at.
    ends: HashMap<i64, State>,
    /// The latest time at which something was pruned.
    pruned_at: Timestamp,
    /// Whether transactions fail at their end.
    fails: bool,
}

impl Run {
    fn new() -> Self {
        // A webhook is degraded by its third failure in a row, and paused by the next after an hour.
        let paused_after = Duration::from_secs(3600);
        let health = Limits { degraded_failures: 3, degraded_after: Duration::ZERO, paused_after };
        let event_retention = Duration::from_secs(5 * 24 * 3600);
        let mut rig = Rig::with(Policy { health, event_retention, ..Policy::default() });
        let webhooks = vec![rig.webhook(), rig.webhook()];
        let sources = vec![rig.source("a"), rig.source("b")];
        let mut destinations = Vec::new();
        for source in [&sources[0], &sources[0], &sources[1]] {
            destinations.push(rig.destination(source));
        }
        let (requests, deliveries, held) = (Vec::new(), Vec::new(), Vec::new());
        let (begun, ends, pruned_at) = (HashMap::new(), HashMap::new(), Timestamp::from_millis(0));
        let fails = false;
        Self {
            rig,
            sources,
            destinations,
            webhooks,
            requests,
            deliveries,
            held,
            begun,
            ends,
            pruned_at,
            fails,
        }
    }

    /// One transaction, that fails at its end if this is to fail.
    fn run<T>(&mut self, work: impl FnOnce(&mut Engine) -> Result<T, Fault>) -> Option<T> {
        let fails = self.fails;
        let done = self.rig.engine.transaction(|engine| {
            let value = work(engine)?;
            if fails { Err(Fault::Io("planted".into())) } else { Ok(value) }
        });
        match done {
            Ok(value) => Some(value),
            Err(Fault::Io(_)) if fails => None,
            Err(fault) => panic!("{fault}"),
        }
    }

    fn apply(&mut self, op: Op) {
        let (now, workspace) = (self.rig.now, self.rig.workspace);
        match op {
            Op::Accept(source) => {
                let incoming = self.rig.incoming(["a", "b"][source], b"hello");
                if let Some(Accepted::Fresh { id, .. }) = self.run(|engine| engine.accept(incoming)) {
                    self.requests.push(id);
                }
            }
            Op::Claim(most) => {
                let claimed = self.run(|engine| engine.claim(now, most));
                assert!(claimed.is_none_or(|claimed| claimed.count <= most));
            }
            Op::Settle(lease, ends) => self.settle(lease, ends),
            Op::Release(lease) => self.release(lease),
            Op::Cancel(delivery) => {
                self.with(
                    delivery,
                    |it| &it.deliveries,
                    |engine, id| engine.cancel(workspace, id, now).map(drop),
                );
            }
            Op::Retry(delivery) => {
                self.with(
                    delivery,
                    |it| &it.deliveries,
                    |engine, id| engine.retry(workspace, id, now).map(drop),
                );
            }
            Op::Replay(request) => {
                let tail = self.rig.tail();
                self.with(
                    request,
                    |it| &it.requests,
                    |engine, id| engine.replay(workspace, id, now, tail).map(drop),
                );
            }
            Op::Erase(request) => {
                self.with(
                    request,
                    |it| &it.requests,
                    |engine, id| engine.erase(workspace, id, now).map(drop),
                );
            }
            Op::Pause(destination, paused) => self.pause(destination, paused),
            Op::Narrow(endpoint, leases) => self.narrow(endpoint, leases),
            Op::DeleteDestination(destination) => self.delete_destination(destination),
            Op::NewDestination(source) => self.destinations.push(self.rig.destination(&self.sources[source])),
            Op::Publish(count) => self.publish(count),
            Op::PauseWebhook(webhook, paused) => {
                self.change_webhook(webhook, |it| it.paused = paused);
            }
            Op::MoveWebhook(webhook, host) => {
                self.change_webhook(webhook, |it| it.url = format!("https://{host}.example"));
            }
            Op::DeleteWebhook(webhook) => self.delete_webhook(webhook),
            Op::NewWebhook => self.webhooks.push(self.rig.webhook()),
            Op::ReplayWebhook(webhook, hours) => {
                let (window, tail) = (self.last_hours(hours), self.rig.tail());
                self.with_webhook(webhook, |engine, id| {
                    engine.replay_webhook(workspace, id, window, now, tail).map(drop)
                });
            }
            Op::ReplayDelivery(webhook, delivery) => {
                let (Some(delivery), tail) = (pick(&self.deliveries, delivery).copied(), self.rig.tail())
                else {
                    return;
                };
                self.with_webhook(webhook, |engine, id| {
                    engine.replay_delivery(workspace, id, delivery, now, tail).map(drop)
                });
            }
            Op::Recover(webhook, hours) => {
                let (window, tail) = (hours.map(|hours| self.last_hours(hours)), self.rig.tail());
                self.with_webhook(webhook, |engine, id| {
                    engine.recover(workspace, id, window, now, tail).map(drop)
                });
            }
            Op::Prune(most) => {
                self.pruned_at = self.pruned_at.max(now);
                self.run(|engine| engine.prune(now, most));
            }
            Op::Grant(delta) => {
                self.run(|engine| engine.grant(workspace, Grant::Delta(delta), String::new(), now));
            }
            Op::Attach(attached) => {
                let tray = Arc::clone(&self.rig.tray);
                self.rig.engine.attach(attached.then_some(tray as _));
            }
            Op::Crash => self.crash(),
            Op::Fails(op) => {
                self.fails = true;
                let before = self.rig.engine.agenda.leased;
                self.apply(*op);
                self.fails = false;
                assert_eq!(self.rig.engine.agenda.leased, before);
            }
            Op::Clock(millis) => self.rig.now = Timestamp::from_millis(self.rig.now.millis() + millis),
        }
    }

    /// Does something to one of some ids, if there are any.
    fn with<I: Copy>(
        &mut self,
        index: usize,
        of: impl Fn(&Self) -> &Vec<I>,
        work: impl FnOnce(&mut Engine, I) -> Result<(), Fault>,
    ) {
        if let Some(id) = pick(of(self), index).copied() {
            self.run(|engine| work(engine, id));
        }
    }

    /// Does something to one of the webhooks, if there are any.
    fn with_webhook(&mut self, index: usize, work: impl FnOnce(&mut Engine, WebhookId) -> Result<(), Fault>) {
        if let Some(id) = pick(&self.webhooks, index).map(super::id) {
            self.run(|engine| work(engine, id));
        }
    }

    fn last_hours(&self, hours: u64) -> Window {
        let now = self.rig.now;
        Window { since: now - Duration::from_secs(hours * 3600), until: now }
    }

    fn publish(&mut self, count: usize) {
        let publishing = self.rig.publishing(count);
        let published = self.run(|engine| engine.publish(publishing));
        let Some(Published::Fresh { events, .. }) = published else { return };
        for event in events {
            let deliveries = 1..=i64::from(event.deliveries);
            let id = |offset| DeliveryId::new(event.id.key().plus(offset), event.id.tail());
            self.deliveries.extend(deliveries.map(id));
        }
    }

    fn change_webhook(&mut self, index: usize, change: impl FnOnce(&mut restante_core::endpoint::Webhook)) {
        if !self.webhooks.is_empty() {
            let place = index % self.webhooks.len();
            self.rig.change_webhook(&mut self.webhooks[place], change);
        }
    }

    fn delete_webhook(&mut self, index: usize) {
        let (now, workspace) = (self.rig.now, self.rig.workspace);
        let Some(raw) = pick(&self.webhooks, index).cloned() else { return };
        if self.run(|engine| engine.delete(Kind::Webhook, workspace, raw.uuid, now)) == Some(true) {
            self.webhooks.retain(|it| it.uuid != raw.uuid);
        }
    }

    fn release(&mut self, lease: usize) {
        let Some(parcel) = pick(&self.held, lease).cloned() else { return };
        let now = self.rig.now;
        if self.run(|engine| engine.release(&[parcel.lease], now)).is_some() {
            self.held.retain(|it| it.lease != parcel.lease);
            // Its number is free again.
            self.begun.insert(parcel.lease.delivery, parcel.lease.attempt - 1);
        }
    }

    fn narrow(&mut self, endpoint: usize, leases: u32) {
        let destinations = self.destinations.iter().map(|raw| EndpointId::Destination(super::id(raw)));
        let webhooks = self.webhooks.iter().map(|raw| EndpointId::Webhook(super::id(raw)));
        let ids: Vec<_> = destinations.chain(webhooks).collect();
        let Some(id) = pick(&ids, endpoint) else { return };
        let mut entries = self.rig.engine.config.endpoints.values();
        entries.find(|it| it.endpoint.id == *id).unwrap().endpoint.set_leases_max(leases);
    }

    fn pause(&mut self, destination: usize, paused: bool) {
        if self.destinations.is_empty() {
            return;
        }
        let place = destination % self.destinations.len();
        self.rig.change_destination(&mut self.destinations[place], |it| it.paused = paused);
    }

    fn delete_destination(&mut self, destination: usize) {
        let (now, workspace) = (self.rig.now, self.rig.workspace);
        let Some(raw) = pick(&self.destinations, destination).cloned() else { return };
        if self.run(|engine| engine.delete(Kind::Destination, workspace, raw.uuid, now)) == Some(true) {
            self.destinations.retain(|it| it.uuid != raw.uuid);
        }
    }

    fn settle(&mut self, lease: usize, ends: Ends) {
        let Some(parcel) = pick(&self.held, lease).cloned() else { return };
        let report = finished(&parcel, ends.outcome(), self.rig.now);
        let Some(settled) = self.run(|engine| engine.settle(&report)) else { return };
        self.held.retain(|it| it.lease != parcel.lease);
        if let Settled::Done(life) = settled {
            assert_eq!(life.attempts_made, parcel.lease.attempt);
        }
        let again = self.rig.run(|engine| engine.settle(&report));
        assert_eq!(again, Settled::LeaseLost, "a settle counts once");
    }

    fn crash(&mut self) {
        self.rig.crash();
        let (now, dead) = (self.rig.now, std::mem::take(&mut self.held));
        while self.rig.run(|engine| engine.take_over(now, 3)) > 0 {}
        assert_eq!(self.rig.engine.agenda.leased, 0);
        for parcel in dead {
            let report = finished(&parcel, Outcome::of_status(200, None), now);
            assert_eq!(self.rig.run(|engine| engine.settle(&report)), Settled::LeaseLost);
        }
    }

    /// Takes in what was dispatched: each lease is new, and numbers have no gaps.
    fn take_in(&mut self) {
        for parcel in self.rig.tray.take() {
            let rows = rows(&self.rig);
            self.held.retain(|it| it.lease.delivery != parcel.lease.delivery || is_leased(&rows, it));
            let twice = self.held.iter().any(|it| it.lease.delivery == parcel.lease.delivery);
            assert!(!twice, "leased twice: {:?}", parcel.lease);
            let before = self.begun.insert(parcel.lease.delivery, parcel.lease.attempt).unwrap_or(0);
            assert_eq!(parcel.lease.attempt, before + 1, "{:?}", parcel.lease);
            let settings = parcel.endpoint.settings();
            let stopped =
                settings.gone || (parcel.endpoint.feed == Feed::Events && settings.receiver.is_paused());
            assert!(!stopped, "it began after its endpoint was stopped: {:?}", parcel.lease);
            if !self.deliveries.contains(&parcel.lease.delivery) {
                self.deliveries.push(parcel.lease.delivery);
            }
            self.held.push(parcel);
        }
    }

    /// Lets everything come to its end: whatever may begin does.
    fn drain(&mut self) {
        self.apply(Op::Attach(true));
        for _ in 0..200 {
            self.take_in();
            for parcel in std::mem::take(&mut self.held) {
                self.rig.settle(&parcel, Outcome::of_status(200, None));
            }
            let now = self.rig.now;
            let claimed = self.rig.run(|engine| engine.claim(now, 1000));
            match claimed.next_due {
                _ if claimed.count > 0 => {}
                _ if self.rig.engine.should_wake() => {}
                Some(due) => self.rig.now = due.max(now + Duration::from_millis(1)),
                None => break,
            }
        }
        self.check();
        for (_, job) in self.jobs() {
            assert!(job.state.is_over(), "it was never ended: {job:?}");
        }
        let engine = &self.rig.engine;
        for row in rows(&self.rig).values().filter(|row| !row.life.state.is_final()) {
            let entry = &engine.config.endpoints[&row.endpoint];
            let held_back = entry.gone.is_some() || entry.settings.receiver.is_paused();
            assert!(held_back, "it was never sent: {row:?}");
        }
    }
}

fn pick<T>(of: &[T], index: usize) -> Option<&T> {
    if of.is_empty() { None } else { of.get(index % of.len()) }
}

fn rows(rig: &Rig) -> BTreeMap<i64, DeliveryRow> {
    let mut statement = rig.engine.conn.prepare(&format!("SELECT {DELIVERY_COLUMNS} FROM delivery")).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next().unwrap() {
        let row = read_delivery(row).unwrap();
        found.insert(row.key, row);
    }
    found
}

fn is_leased(rows: &BTreeMap<i64, DeliveryRow>, parcel: &Parcel) -> bool {
    rows.get(&parcel.lease.delivery.key().value()).is_some_and(|row| {
        codec::state_code(row.life.state) == codec::SENDING && row.life.attempts_made == parcel.lease.attempt
    })
}

/// The numbers of all attempts that are recorded of a delivery, the running one and the compact one included.
fn recorded(rig: &Rig, row: &DeliveryRow) -> Vec<u32> {
    let mut statement = rig
        .engine
        .conn
        .prepare_cached("SELECT number FROM attempt WHERE delivery = ?1 ORDER BY number")
        .unwrap();
    let numbers = statement.query_map([row.key], |row| row.get(0)).unwrap();
    let mut numbers: Vec<u32> = numbers.collect::<Result<_, _>>().unwrap();
    if row.started_at.is_some() {
        numbers.push(row.life.attempts_made);
    }
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_is_lost_or_doubled(ops in proptest::collection::vec(op(), 1..80)) {
        let mut run = Run::new();
        for op in ops {
            run.apply(op);
            run.take_in();
            run.check();
        }
        run.drain();
    }
}
