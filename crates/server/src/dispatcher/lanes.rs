//! Lanes: what waits for an attempt, whose turn it is, and how much may be in flight.
//!
//! Plain data without clock, lock or task. The dispatcher puts a mutex around it; the simulator drives it directly.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use restante_core::endpoint::EndpointId;
use restante_core::id::WorkspaceId;
use restante_core::limits::LEASE_MARGIN;
use restante_core::pacing::{InFlightLimit, Rate};
use restante_core::shares::Shares;
use restante_core::{Outcome, Timestamp};
use restante_store::{Endpoint, Lease, Parcel, Withdraw};
use rustc_hash::FxHashMap;

/// A parcel that waited for longer than this is given back: its lease would no longer cover an attempt.
const WAIT_MAX: Duration = LEASE_MARGIN.saturating_sub(Duration::from_secs(2));
/// Leases a lane may hold beyond what it has in flight, before it has shown what it can use.
const AHEAD_START: u32 = 32;
/// The most leases ahead of a lane that works well.
const AHEAD_MAX: u32 = 256;

/// All lanes of one runtime thread.
#[derive(Debug)]
pub struct Lanes {
    lanes: FxHashMap<EndpointId, Lane>,
    /// Workspaces that have ready lanes, in the order of their turns.
    turns: VecDeque<WorkspaceId>,
    /// The ready lanes of each, in the order of theirs.
    ready: FxHashMap<WorkspaceId, VecDeque<EndpointId>>,
    /// Lanes that wait for their rate: (until when, which).
    paced: BTreeSet<(Timestamp, EndpointId)>,
    /// When it was last looked whose time has come.
    woken_at: Timestamp,
    in_flight: u32,
    in_flight_max: u32,
    /// Lanes that have nothing in flight and get nothing, until others have less.
    parked: VecDeque<EndpointId>,
    /// Attempts whose turn has come and that have not dialled yet.
    undialled: FxHashMap<Lease, EndpointId>,
    /// Leases to be given back.
    expired: Vec<Lease>,
    /// A lane that waits for its rate can use more leases since it has more in flight.
    widened: bool,
}

#[derive(Debug)]
struct Lane {
    endpoint: Arc<Endpoint>,
    /// Parcels and since when they wait, by the monotonic clock.
    queue: VecDeque<(Parcel, Duration)>,
    in_flight: u32,
    limit: InFlightLimit,
    rate: Option<(f64, Rate)>,
    ahead: u32,
    place: Place,
}

/// Where a lane stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing waits, or nothing more may be in flight.
    Idle,
    /// In the row of its workspace.
    Ready,
    /// Waits for its rate until then.
    Paced(Timestamp),
    /// Waits until others have less in flight.
    Parked,
}

impl Lanes {
    /// `in_flight_max`: attempts in flight over all lanes.
    pub fn new(in_flight_max: u32) -> Self {
        Self {
            lanes: FxHashMap::default(),
            turns: VecDeque::new(),
            ready: FxHashMap::default(),
            paced: BTreeSet::new(),
            woken_at: Timestamp::default(),
            in_flight: 0,
            in_flight_max,
            parked: VecDeque::new(),
            undialled: FxHashMap::default(),
            expired: Vec::new(),
            widened: false,
        }
    }

    /// Takes a leased delivery in.
    pub fn push(&mut self, parcel: Parcel, monotonic: Duration) {
        let id = parcel.endpoint.id;
        let lane = self.lanes.entry(id).or_insert_with(|| Lane::new(Arc::clone(&parcel.endpoint)));
        lane.queue.push_back((parcel, monotonic));
        self.make_ready(id);
    }

    /// Begins the next attempt, if one may begin. The caller makes it and reports to [`Lanes::finish`].
    pub fn next(&mut self, now: Timestamp, monotonic: Duration) -> Option<Parcel> {
        self.wake_paced(now);
        while self.in_flight < self.in_flight_max {
            let workspace = self.turns.pop_front()?;
            let Some(row) = self.ready.get_mut(&workspace) else { continue };
            let Some(id) = row.pop_front() else {
                self.ready.remove(&workspace);
                continue;
            };
            if row.is_empty() {
                self.ready.remove(&workspace);
            } else {
                self.turns.push_back(workspace);
            }
            if let Some(parcel) = self.begin(id, now, monotonic) {
                return Some(parcel);
            }
        }
        None
    }

    /// Lets a ready lane begin; it has just left its row.
    fn begin(&mut self, id: EndpointId, now: Timestamp, monotonic: Duration) -> Option<Parcel> {
        let shares = Shares::of(self.in_flight_max);
        let lane = self.lanes.get_mut(&id)?;
        lane.place = Place::Idle;
        while lane.queue.front().is_some_and(|(_, since)| monotonic.saturating_sub(*since) > WAIT_MAX) {
            self.expired.extend(lane.queue.pop_front().map(|(parcel, _)| parcel.lease));
        }
        lane.limit.set_max(lane.endpoint.settings().receiver.max_in_flight());
        let limit = lane.limit.get().min(lane.endpoint.slots());
        if lane.queue.is_empty() || lane.in_flight >= limit {
            return None;
        }
        if lane.in_flight >= shares.of_lane(self.in_flight, lane.limit.delivers()) {
            // The end of one of its own attempts is when it may have another.
            if lane.in_flight == 0 {
                lane.place = Place::Parked;
                self.parked.push_back(id);
            }
            return None;
        }
        if let Err(at) = lane.take_rate(now) {
            lane.place = Place::Paced(at);
            self.paced.insert((at, id));
            return None;
        }
        let (parcel, _) = lane.queue.pop_front()?;
        lane.set_in_flight(lane.in_flight + 1);
        self.in_flight += 1;
        self.widened |= lane.rate.is_some() && lane.announce();
        self.undialled.insert(parcel.lease, id);
        self.make_ready(id);
        Some(parcel)
    }

    /// Says that an attempt whose turn came goes on the wire now. `false`: it was withdrawn meanwhile and must not;
    /// report it to [`Lanes::abandon`].
    pub fn dial(&mut self, lease: Lease) -> bool {
        self.undialled.remove(&lease).is_some()
    }

    /// Takes note of a finished attempt.
    pub fn finish(&mut self, id: EndpointId, outcome: &Outcome) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.set_in_flight(lane.in_flight.saturating_sub(1));
            lane.learn(outcome);
            self.settle_lane(id);
        }
        self.call_parked();
    }

    /// Takes note of how long an attempt took that delivered; [`Lanes::finish`] comes after it.
    pub fn note(&mut self, id: EndpointId, took: Duration) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.limit.note(took);
        }
    }

    /// Takes note of an attempt that was begun here and never dialled.
    pub fn abandon(&mut self, id: EndpointId) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.set_in_flight(lane.in_flight.saturating_sub(1));
            self.settle_lane(id);
        }
        self.call_parked();
    }

    /// Lets the lane go on that was parked first, if it may begin now.
    fn call_parked(&mut self) {
        if Shares::of(self.in_flight_max).of_lane(self.in_flight, false) == 0 {
            return;
        }
        let Some(id) = self.parked.pop_front() else { return };
        if let Some(lane) = self.lanes.get_mut(&id).filter(|lane| lane.place == Place::Parked) {
            lane.place = Place::Idle;
        }
        self.make_ready(id);
    }

    /// Takes out what has not dialled. The leases are to be given back.
    pub fn withdraw(&mut self, what: Withdraw) -> Vec<Lease> {
        let (id, only) = match what {
            Withdraw::Endpoint(endpoint) => (endpoint, None),
            Withdraw::Delivery { endpoint, delivery } => (endpoint, Some(delivery)),
            Withdraw::All => return self.withdraw_all(),
        };
        let mut withdrawn = Vec::new();
        self.undialled.retain(|lease, endpoint| {
            let stays = *endpoint != id || only.is_some_and(|delivery| lease.delivery != delivery);
            if !stays {
                withdrawn.push(*lease);
            }
            stays
        });
        let Some(lane) = self.lanes.get_mut(&id) else { return withdrawn };
        lane.queue.retain(|(parcel, _)| {
            let stays = only.is_some_and(|delivery| parcel.lease.delivery != delivery);
            if !stays {
                withdrawn.push(parcel.lease);
            }
            stays
        });
        self.settle_lane(id);
        withdrawn
    }

    /// Looks at a lane again that may have more in flight than before.
    pub fn widen(&mut self, id: EndpointId) {
        self.make_ready(id);
    }

    /// Takes out all that has not dialled.
    pub fn withdraw_all(&mut self) -> Vec<Lease> {
        let mut withdrawn: Vec<Lease> = std::mem::take(&mut self.expired);
        withdrawn.extend(self.undialled.drain().map(|(lease, _)| lease));
        for lane in self.lanes.values_mut() {
            withdrawn.extend(lane.queue.drain(..).map(|(parcel, _)| parcel.lease));
        }
        withdrawn
    }

    /// Leases that waited for too long and are to be given back.
    pub fn take_expired(&mut self) -> Vec<Lease> {
        std::mem::take(&mut self.expired)
    }

    /// Whether the store may lease more to a lane than when this was last asked: it is to look again.
    pub fn take_widened(&mut self) -> bool {
        std::mem::take(&mut self.widened)
    }

    /// When a lane that waits for its rate may begin; `None` when none waits.
    pub fn next_paced(&self) -> Option<Timestamp> {
        self.paced.first().map(|(at, _)| *at)
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// What waits in all lanes.
    pub fn waiting(&self) -> usize {
        self.lanes.values().map(|lane| lane.queue.len()).sum()
    }

    fn wake_paced(&mut self, now: Timestamp) {
        // What a lane waits for is void when the clock went back: its rate names a new time.
        let went_back = now < self.woken_at;
        self.woken_at = now;
        while let Some((at, id)) = self.paced.first().copied() {
            if at > now && !went_back {
                break;
            }
            self.paced.pop_first();
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.place = Place::Idle;
            }
            self.make_ready(id);
        }
    }

    /// Puts a lane that can begin into the row of its workspace.
    fn make_ready(&mut self, id: EndpointId) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if lane.place != Place::Idle || lane.queue.is_empty() || lane.in_flight >= lane.limit.get() {
            return;
        }
        lane.place = Place::Ready;
        let workspace = lane.endpoint.workspace;
        let row = self.ready.entry(workspace).or_default();
        if row.is_empty() {
            self.turns.push_back(workspace);
        }
        row.push_back(id);
    }

    /// Makes a lane ready again after an attempt, or forgets it when it has nothing to remember.
    fn settle_lane(&mut self, id: EndpointId) {
        self.make_ready(id);
        let Some(lane) = self.lanes.get(&id) else { return };
        // A lane of a deleted endpoint will not be asked again.
        if lane.queue.is_empty() && lane.in_flight == 0 && lane.endpoint.settings().gone {
            if let Place::Paced(at) = lane.place {
                self.paced.remove(&(at, id));
            }
            self.lanes.remove(&id);
        }
    }
}

impl Lane {
    fn new(endpoint: Arc<Endpoint>) -> Self {
        let max = endpoint.settings().receiver.max_in_flight();
        let lane = Self {
            endpoint,
            queue: VecDeque::new(),
            in_flight: 0,
            limit: InFlightLimit::new(max),
            rate: None,
            ahead: AHEAD_START,
            place: Place::Idle,
        };
        lane.announce();
        lane
    }

    fn set_in_flight(&mut self, attempts: u32) {
        self.in_flight = attempts;
        self.endpoint.set_in_flight(attempts);
    }

    /// Begins at the lane's rate, or says when.
    fn take_rate(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        let settings = self.endpoint.settings();
        let Some(per_second) = settings.receiver.rate_per_second() else {
            self.rate = None;
            return Ok(());
        };
        let (known, rate) = self.rate.get_or_insert_with(|| (per_second, Rate::new(per_second)));
        #[expect(clippy::float_cmp, reason = "a setting either changed or did not")]
        if *known != per_second {
            *known = per_second;
            rate.set(per_second);
        }
        rate.begin(now)
    }

    fn learn(&mut self, outcome: &Outcome) {
        let limit = self.limit.get();
        self.limit.learn(outcome, !self.queue.is_empty());
        let shrunk = self.limit.get() < limit;
        match outcome {
            Outcome::Delivered { .. } => self.ahead = (self.ahead + 4).min(AHEAD_MAX),
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_) | Outcome::Lost
                if shrunk || self.limit.get() == 1 =>
            {
                self.ahead = (self.ahead / 2).max(1);
            }
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_) | Outcome::Lost => {}
        }
        self.announce();
    }

    /// Tells the store how many leases the lane can use; says whether it is more than before.
    fn announce(&self) -> bool {
        let wanted = self.limit.get() + self.ahead;
        let per_second = self.endpoint.settings().receiver.rate_per_second();
        // What a slow lane cannot begin within a second or two would only wait here. What it has in flight does not
        // count: attempts that hang must not slow down those behind them.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0.2 to 20,000")]
        let by_rate = per_second.map_or(u32::MAX, |rate| (rate * 2.0).ceil() as u32);
        let leases = wanted.min(self.in_flight.saturating_add(by_rate)).max(1);
        self.endpoint.set_delivers(self.limit.delivers());
        let widened = leases > self.endpoint.leases_max();
        self.endpoint.set_leases_max(leases);
        widened
    }
}
