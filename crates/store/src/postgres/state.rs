//! What a node has in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use restante_core::endpoint::EndpointId;
use restante_core::id::{Key, KeyMaker};
use restante_core::{State as Stage, Timestamp};
use rustc_hash::FxHashMap;

use super::Fault;
use super::codec::Stored;
use super::config::{Config, EndpointEntry};
use super::node::monotonic_ms;
use super::tx::EndpointView;
use crate::agenda::{Agenda, Room};
use crate::endpoint::Feed;
use crate::{Dispatch, Lease, Parcel, Withdraw};

/// How long it is remembered that a delivery is not to be dialled which is not known here yet.
const WITHDRAWN_KEPT_MS: u64 = 180_000;

/// See the module. Endpoints, sources and workspaces are named by their rows.
pub(super) struct State {
    /// The node's number; another one after it was gone.
    pub(super) node: i32,
    /// Counts lapses: what was leased before one is not dialled after it.
    pub(super) tenure: u64,
    /// Which configuration this is.
    pub(super) epoch: i64,
    pub(super) config: Config,
    pub(super) agenda: Agenda,
    pub(super) keys: KeyMaker,
    /// The highest key handed out.
    pub(super) last_key: i64,
    /// How far keys ever ran ahead of the clock, as far as the database knows.
    pub(super) key_lead_ms: i64,
    /// The latest key ran ahead of this node's clock.
    pub(super) keys_lead: bool,
    /// What is leased to this node, by key.
    pub(super) leases: FxHashMap<i64, Stored>,
    /// Those of them that have no row in `work`.
    pub(super) born: BTreeSet<i64>,
    pub(super) replays: Replays,
    /// Deleted or paused endpoints that may still have pending rows that are over.
    pub(super) unswept: BTreeSet<i64>,
    /// Deliveries that must not be dialled although they were not known here when that was said.
    withdrawn: FxHashMap<i64, u64>,
    /// First keys of transactions under way.
    pub(super) building: BTreeSet<i64>,
    /// Behind which endpoint the next poll starts.
    polled: i64,
    pub(super) dispatch: Option<Arc<dyn Dispatch>>,
}

/// Which endpoints have open replays, and whose turn it is. A hint: the table `open_job` knows.
#[derive(Debug, Default)]
pub(super) struct Replays {
    pub(super) open: BTreeSet<i64>,
    /// Something may be begun: the dispatcher is to ask.
    pub(super) ready: bool,
    /// One had no room because the node as a whole has none.
    pub(super) squeezed: bool,
    /// Behind which endpoint the next step starts.
    pub(super) turn: i64,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            node: 0,
            tenure: 0,
            epoch: -1,
            config: Config::default(),
            agenda: Agenda::new(),
            keys: KeyMaker::after(None),
            last_key: 0,
            key_lead_ms: 0,
            keys_lead: false,
            leases: FxHashMap::default(),
            born: BTreeSet::new(),
            replays: Replays { ready: true, ..Replays::default() },
            unswept: BTreeSet::new(),
            withdrawn: FxHashMap::default(),
            building: BTreeSet::new(),
            polled: 0,
            dispatch: None,
        }
    }

    pub(super) fn endpoint(&self, row: i64) -> Result<&EndpointEntry, Fault> {
        self.config.endpoints.get(&row).ok_or_else(|| Fault::Damaged(format!("no endpoint {row}")))
    }

    /// An endpoint as a transaction sees it that checks the epoch.
    pub(super) fn view(&self, row: i64) -> Result<EndpointView, Fault> {
        EndpointView::of(row, self.endpoint(row)?, self)
    }

    pub(super) fn room(&self, endpoint: i64) -> Room {
        self.agenda.room(&self.config, endpoint)
    }

    pub(super) fn may_be_born_leased(&self, endpoint: i64, now: Timestamp) -> bool {
        let replays = self.replays.open.contains(&endpoint);
        self.agenda.may_be_born_leased(&self.config, endpoint, now, replays)
    }

    pub(super) fn flows(&self, endpoint: i64) -> bool {
        self.agenda.flows(&self.config, endpoint)
    }

    /// Whether a new delivery to an endpoint is skipped: it is a paused webhook.
    pub(super) fn skips(&self, endpoint: i64) -> bool {
        let entry = self.config.endpoints.get(&endpoint);
        entry.is_some_and(|it| it.endpoint.feed == Feed::Events && it.settings.receiver.is_paused())
    }

    /// The first of `count` consecutive new keys.
    pub(super) fn take_keys(&mut self, now: Timestamp, count: u32) -> Key {
        let first = self.keys.take(now, count);
        self.last_key = first.value() + i64::from(count) - 1;
        self.keys_lead = first.at() > now;
        first
    }

    /// How far the latest key ran ahead of `now`, in milliseconds, if that is more than the database knows. Rounded
    /// up to a power of two, so that it grows seldom.
    pub(super) fn new_key_lead(&self, now: Timestamp) -> Option<i64> {
        let lead = Key::from_value(self.last_key).at().millis().saturating_sub(now.millis());
        let rounded = lead.max(1).unsigned_abs().next_power_of_two();
        (lead > self.key_lead_ms).then(|| i64::try_from(rounded).unwrap_or(i64::MAX))
    }

    /// Makes room for a lease that is about to be written.
    pub(super) fn reserve(&mut self, endpoint: i64) {
        self.agenda.count_lease(&mut self.config, endpoint);
    }

    /// Gives the room back.
    pub(super) fn unreserve(&mut self, endpoint: i64) {
        self.agenda.end_lease(&mut self.config, endpoint);
    }

    /// Takes note of a lease that was written and has its room.
    pub(super) fn hold(&mut self, stored: Stored) {
        debug_assert_eq!(stored.row.life.state, Stage::Sending);
        if !stored.row.claimed {
            self.born.insert(stored.row.key);
        }
        self.leases.insert(stored.row.key, stored);
    }

    /// Takes note of a lease that ended, whatever the way.
    pub(super) fn let_go(&mut self, key: i64) {
        let Some(stored) = self.leases.remove(&key) else { return };
        self.born.remove(&key);
        self.agenda.end_lease(&mut self.config, stored.row.endpoint);
        self.replays.ready |= self.replays.open.contains(&stored.row.endpoint);
    }

    /// A lease that is held here, as far as this node knows.
    pub(super) fn held(&self, lease: Lease) -> Option<&Stored> {
        let stored = self.leases.get(&lease.delivery.key().value())?;
        (stored.row.life.attempts_made == lease.attempt).then_some(stored)
    }

    /// Hands parcels over whose leases are durable. Gives those back that were withdrawn meanwhile, leased in another
    /// tenure, or for clients that have gone.
    pub(super) fn dispatch(&mut self, parcels: Vec<Parcel>, tenure: u64) -> Vec<Parcel> {
        let Some(dispatch) = self.dispatch.as_ref().filter(|_| tenure == self.tenure) else { return parcels };
        let known = &self.withdrawn;
        let is_over = |parcel: &Parcel| {
            let key = parcel.lease.delivery.key();
            known.contains_key(&key.value()) || !parcel.endpoint.serves(key)
        };
        let (withdrawn, kept): (Vec<_>, Vec<_>) = parcels.into_iter().partition(is_over);
        if !kept.is_empty() {
            dispatch.dispatch(kept);
        }
        withdrawn
    }

    /// No delivery with a smaller key is leased here since birth, nor will one be that is being written now.
    pub(super) fn floor(&self) -> i64 {
        let begun = self.born.first().into_iter().chain(self.building.first()).min();
        begun.copied().unwrap_or(self.last_key + 1)
    }

    /// Endpoints that may be sent to and that this node has no slots of, the newest first; not many.
    pub(super) fn slotless(&self) -> Vec<i64> {
        let wanting = self.config.endpoints.iter().filter(|(_, entry)| entry.wants_slots());
        let mut rows: Vec<i64> = wanting.map(|(row, _)| *row).collect();
        rows.sort_unstable_by(|a, b| b.cmp(a));
        rows.truncate(8);
        rows
    }

    /// Up to `most` endpoints, from behind those that this gave last.
    pub(super) fn next_to_poll(&mut self, most: usize) -> Vec<i64> {
        let mut rows: Vec<i64> = self.config.endpoints.keys().copied().collect();
        rows.sort_unstable();
        let behind = rows.partition_point(|row| *row <= self.polled);
        rows.rotate_left(behind);
        rows.truncate(most);
        self.polled = rows.last().copied().unwrap_or(0);
        rows
    }

    /// Takes back what has not dialled. A delivery that is not known yet will not be dialled when it comes.
    pub(super) fn withdraw(&mut self, what: Withdraw) {
        if let Withdraw::Delivery { delivery, .. } = what {
            let key = delivery.key().value();
            if !self.leases.contains_key(&key) {
                let now = monotonic_ms();
                self.withdrawn.retain(|_, since| now.saturating_sub(*since) < WITHDRAWN_KEPT_MS);
                self.withdrawn.insert(key, now);
            }
        }
        if let Some(dispatch) = &self.dispatch {
            dispatch.withdraw(what);
        }
    }

    /// The id of an endpoint, for the dispatcher.
    pub(super) fn endpoint_id(&self, row: i64) -> Option<EndpointId> {
        self.config.endpoints.get(&row).map(|entry| entry.endpoint.id)
    }

    /// The node has lapsed: what has not dialled is given back, and slots are asked for anew.
    pub(super) fn lapse(&mut self) {
        self.tenure += 1;
        for entry in self.config.endpoints.values() {
            entry.endpoint.set_slots(0);
        }
        self.withdraw(Withdraw::All);
    }

    /// Everything that was leased here is another's by now.
    pub(super) fn lose_all(&mut self) {
        self.lapse();
        let keys: Vec<i64> = self.leases.keys().copied().collect();
        for key in keys {
            self.let_go(key);
        }
    }
}
