//! A node: the real engine and the real lanes, and the loops of the dispatcher around them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use restante_core::Timestamp;
use restante_core::endpoint::EndpointId;
use restante_server::dispatcher::lanes::Lanes;
use restante_store::sqlite::engine::Engine;
use restante_store::{Dispatch, Lease, Parcel, Policy, Withdraw};

use super::job::Job;
use super::{Event, World, note};
use crate::plant::Plant;

/// How soon a timer notices that the wall clock was set.
const LOOK_EVERY_MS: u64 = 500;

/// See the module.
pub(super) struct Node {
    pub(super) engine: Engine,
    pub(super) outbox: Arc<Outbox>,
    pub(super) lanes: Lanes,
    /// What waits for the next commit.
    pub(super) jobs: Vec<Job>,
    pub(super) committing: bool,
    pub(super) stopping: bool,
    /// Attempts on the wire, by endpoint.
    pub(super) in_flight: BTreeMap<EndpointId, usize>,
    claim: ClaimLoop,
    pace_token: u64,
}

/// The loop that claims what is due.
#[derive(Default)]
struct ClaimLoop {
    token: u64,
    /// Until when it sleeps.
    until: Option<Timestamp>,
    running: bool,
    notified: bool,
}

/// What the engine handed over after a commit, in order.
#[derive(Default)]
pub(super) struct Outbox(Mutex<Vec<Handed>>);

pub(super) enum Handed {
    Parcels(Vec<Parcel>),
    Withdraw(Withdraw),
    Widen(EndpointId),
}

impl Dispatch for Outbox {
    fn dispatch(&self, parcels: Vec<Parcel>) {
        self.lock().push(Handed::Parcels(parcels));
    }

    fn withdraw(&self, what: Withdraw) {
        self.lock().push(Handed::Withdraw(what));
    }

    fn widen(&self, endpoint: EndpointId) {
        self.lock().push(Handed::Widen(endpoint));
    }
}

impl Outbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Handed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Vec<Handed> {
        std::mem::take(&mut *self.lock())
    }
}

impl Node {
    /// Opens the database. Nothing is leased before [`Node::attach`].
    pub(super) fn open(directory: &Path, in_flight_max: u32, policy: Policy) -> Self {
        let engine = Engine::open_unsynced(&directory.join("sim.db"), policy).expect("the database opens");
        Self {
            engine,
            outbox: Arc::default(),
            lanes: Lanes::new(in_flight_max),
            jobs: Vec::new(),
            committing: false,
            stopping: false,
            in_flight: BTreeMap::new(),
            claim: ClaimLoop::default(),
            pace_token: 0,
        }
    }

    pub(super) fn attach(&mut self) {
        self.engine.attach(Some(Arc::clone(&self.outbox) as _));
    }
}

/// A directory in memory if there is one: nobody pulls this plug.
pub(super) fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a temporary directory can be made")
}

impl World {
    /// Takes what the latest commit handed over to the lanes, as the dispatcher does.
    pub(super) fn follow_outbox(&mut self) {
        let Some(node) = &self.node else { return };
        for handed in node.outbox.take() {
            match handed {
                Handed::Parcels(parcels) => self.take_in(parcels),
                // The plant: only what deletions and pauses withdraw is withdrawn.
                Handed::Withdraw(Withdraw::Delivery { .. })
                    if self.plant == Some(Plant::CancelLeavesQueue) => {}
                Handed::Withdraw(what) => {
                    let leases = self.node.as_mut().map(|node| node.lanes.withdraw(what)).unwrap_or_default();
                    self.give_back(leases);
                }
                Handed::Widen(endpoint) => {
                    if let Some(node) = &mut self.node {
                        node.lanes.widen(endpoint);
                    }
                    while self.begin_next() {}
                    self.after_begin();
                }
            }
        }
        let wake = self.node.as_mut().is_some_and(|node| node.engine.should_wake());
        if wake {
            self.notify_claim();
        }
    }

    fn take_in(&mut self, parcels: Vec<Parcel>) {
        let monotonic = self.clocks.now.monotonic();
        let Some(node) = &mut self.node else { return };
        if node.stopping {
            let leases = parcels.iter().map(|parcel| parcel.lease).collect();
            return self.give_back(leases);
        }
        for parcel in parcels {
            node.lanes.push(parcel, monotonic);
        }
        while self.begin_next() {}
        self.after_begin();
    }

    /// Begins the attempt whose turn it is, if one may begin.
    pub(super) fn begin_next(&mut self) -> bool {
        let (wall, monotonic) = (self.wall(), self.clocks.now.monotonic());
        let parcel = self.node.as_mut().and_then(|node| node.lanes.next(wall, monotonic));
        let begun = parcel.is_some();
        if let Some(parcel) = parcel {
            self.begin(parcel);
        }
        begun
    }

    /// Gives back what waited for too long, and minds lanes that wait for their rate.
    pub(super) fn after_begin(&mut self) {
        let Some(node) = &mut self.node else { return };
        let expired = node.lanes.take_expired();
        if node.lanes.next_paced().is_some() {
            node.pace_token += 1;
            let token = node.pace_token;
            self.plan_pace(token);
        }
        self.give_back(expired);
    }

    pub(super) fn give_back(&mut self, mut leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        // Lanes lie in a hash map; the trace must not depend on its order.
        leases.sort_by_key(|lease| lease.delivery);
        note!(self, "gives back {leases:?}");
        let now = self.wall();
        self.enqueue(Job::Release { leases, now });
    }

    fn plan_pace(&mut self, token: u64) {
        let Some(at) = self.node.as_ref().and_then(|node| node.lanes.next_paced()) else { return };
        let ms = self.until(at);
        self.plan_in(ms, Event::Pace { life: self.life, token });
    }

    /// The timer of the lanes that wait for their rate ran out, or looked at the clock.
    pub(super) fn pace_timer(&mut self, token: u64) {
        if self.node.as_ref().is_some_and(|node| node.pace_token == token) {
            while self.begin_next() {}
            self.after_begin();
        }
    }

    /// Milliseconds until the wall clock should say `at`.
    fn until(&self, at: Timestamp) -> u64 {
        u64::try_from(at.since(self.wall()).as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn claim_now(&mut self) {
        let now = self.wall();
        let Some(node) = &mut self.node else { return };
        if node.stopping || node.claim.running {
            return;
        }
        node.claim.running = true;
        node.claim.notified = false;
        node.claim.token += 1;
        self.enqueue(Job::Claim { now });
    }

    fn notify_claim(&mut self) {
        let Some(node) = &mut self.node else { return };
        node.claim.notified = true;
        self.claim_now();
    }

    /// What the loop does after a claim: goes on, or sleeps until the next due time.
    pub(super) fn claimed(&mut self, count: usize, next_due: Option<Timestamp>) {
        let wall = self.wall();
        let Some(node) = &mut self.node else { return };
        node.claim.running = false;
        if count > 0 || node.claim.notified {
            return self.claim_now();
        }
        node.claim.until = next_due.map(|due| due.max(wall + std::time::Duration::from_millis(1)));
        self.plan_claim();
    }

    /// The claim could not be made: it is tried again after a pause.
    pub(super) fn claim_refused(&mut self, pause_ms: u64) {
        let wall = self.wall();
        let Some(node) = &mut self.node else { return };
        node.claim.running = false;
        node.claim.until = Some(wall);
        node.claim.token += 1;
        let token = node.claim.token;
        self.plan_in(pause_ms, Event::Claim { life: self.life, token });
    }

    fn plan_claim(&mut self) {
        let Some(node) = &mut self.node else { return };
        node.claim.token += 1;
        let (token, until) = (node.claim.token, node.claim.until);
        if let Some(until) = until {
            let ms = self.until(until);
            self.plan_in(ms, Event::Claim { life: self.life, token });
        }
    }

    pub(super) fn claim_timer(&mut self, token: u64) {
        let wall = self.wall();
        let Some(node) = &self.node else { return };
        if node.claim.token != token {
            return;
        }
        match node.claim.until {
            Some(until) if until > wall => self.plan_claim(),
            _ => self.claim_now(),
        }
    }

    /// Lets the timers look at a wall clock that was set.
    pub(super) fn look_at_clock(&mut self) {
        let late_ms = self.random.below(LOOK_EVERY_MS + 1);
        let Some(node) = &self.node else { return };
        let (claim, pace) = (node.claim.token, node.pace_token);
        self.plan_in(late_ms, Event::Claim { life: self.life, token: claim });
        self.plan_in(late_ms, Event::Pace { life: self.life, token: pace });
    }
}
