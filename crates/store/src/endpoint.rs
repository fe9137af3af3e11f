//! A destination or a webhook as it lives in a running node.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use restante_core::endpoint::{EndpointId, HeldBack, Receiver};
use restante_core::id::{Key, SourceId, WorkspaceId};
use restante_core::message;

use crate::Content;

/// One endpoint: its identity, its settings of the moment, and how many leases its lane can use.
///
/// There is one for each as long as the node runs, shared by all its parcels, so that a changed URL
/// counts from the next attempt's start.
#[derive(Debug)]
pub struct Endpoint {
    pub id: EndpointId,
    pub feed: Feed,
    pub workspace: WorkspaceId,
    settings: RwLock<Arc<Settings>>,
    leases_max: AtomicU32,
    slots: AtomicU32,
    seats: AtomicU32,
    floor: AtomicI64,
    takes_pending: AtomicBool,
    in_flight: AtomicU32,
    delivers: AtomicBool,
}

/// What the clients at this node can do for an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seating {
    pub(crate) seats: u32,
    /// The first key of what may be leased; 0: of all.
    pub(crate) floor: i64,
    pub(crate) takes_pending: bool,
}

impl Seating {
    /// Of an endpoint that needs no clients.
    pub(crate) const ANY: Self = Self { seats: u32::MAX, floor: 0, takes_pending: true };

    /// Whether less may be leased than before.
    pub(crate) fn is_narrower_than(self, before: Self) -> bool {
        before.seats > 0 && (self.seats < before.seats || self.floor > before.floor)
    }
}

/// Where an endpoint's messages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// From what this source receives.
    Source(SourceId),
    /// From the workspace's events.
    Events,
    /// From the workspace's emails.
    Mail,
}

/// The settings of an endpoint at one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub receiver: Receiver,
    pub version: u32,
    /// It was deleted: no attempt may start.
    pub gone: bool,
}

/// Leases a lane is given before it has shown what it can use.
const LEASES_MAX_START: u32 = 40;

impl Endpoint {
    pub fn new(id: EndpointId, feed: Feed, workspace: WorkspaceId, settings: Settings) -> Self {
        Self {
            id,
            feed,
            workspace,
            settings: RwLock::new(Arc::new(settings)),
            leases_max: AtomicU32::new(LEASES_MAX_START),
            slots: AtomicU32::new(u32::MAX),
            seats: AtomicU32::new(Seating::ANY.seats),
            floor: AtomicI64::new(Seating::ANY.floor),
            takes_pending: AtomicBool::new(Seating::ANY.takes_pending),
            in_flight: AtomicU32::new(0),
            delivers: AtomicBool::new(false),
        }
    }

    /// The settings of now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, settings: Arc<Settings>) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// How many deliveries the lane wants leased at once, running ones included.
    pub fn leases_max(&self) -> u32 {
        if self.slots() == 0 {
            return 0;
        }
        // One slow client of old must not hold what others could deliver.
        self.leases_max.load(Ordering::Relaxed).min(self.seats().saturating_mul(2))
    }

    /// How many attempts may be in flight here: of those that may be over all nodes, as many as clients here can make.
    pub fn slots(&self) -> u32 {
        self.shared_slots().min(self.seats())
    }

    /// How many attempts may be in flight here, of those that may be over all nodes.
    pub(crate) fn shared_slots(&self) -> u32 {
        self.slots.load(Ordering::Acquire)
    }

    /// How many attempts the clients here can make at the same time: none while nobody listens, any number for what is
    /// no `cli` destination.
    pub fn seats(&self) -> u32 {
        self.seats.load(Ordering::Acquire)
    }

    /// Its source's `deliver_pending_on_connect`.
    pub fn takes_pending(&self) -> bool {
        self.takes_pending.load(Ordering::Acquire)
    }

    /// Whether a delivery may be attempted here, as far as clients go.
    pub(crate) fn serves(&self, delivery: Key) -> bool {
        self.seats() > 0 && delivery.value() >= self.floor()
    }

    /// The first key of what the clients here may have; 0: they may have all.
    pub(crate) fn floor(&self) -> i64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Sets what the clients here can do for it; returns what it was.
    pub(crate) fn seat(&self, seating: Seating) -> Seating {
        Seating {
            seats: self.seats.swap(seating.seats, Ordering::AcqRel),
            floor: self.floor.swap(seating.floor, Ordering::AcqRel),
            takes_pending: self.takes_pending.swap(seating.takes_pending, Ordering::AcqRel),
        }
    }

    /// Why no attempt may begin here; `None`: they may.
    pub fn holds_back(&self) -> Option<HeldBack> {
        self.holds_back_with(&self.settings().receiver)
    }

    /// As [`Endpoint::holds_back`], with other settings.
    pub(crate) fn holds_back_with(&self, receiver: &Receiver) -> Option<HeldBack> {
        receiver.holds_back().filter(|why| *why != HeldBack::Client || self.seats() == 0)
    }

    pub(crate) fn set_slots(&self, slots: u32) {
        self.slots.store(slots, Ordering::Release);
    }

    /// Attempts in flight here.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Set by the dispatcher whenever an attempt begins or ends.
    pub fn set_in_flight(&self, attempts: u32) {
        self.in_flight.store(attempts, Ordering::Release);
    }

    /// Whether its receiver took something lately, and has shown no distress since.
    pub fn delivers(&self) -> bool {
        self.delivers.load(Ordering::Relaxed)
    }

    /// Set by the dispatcher with each outcome.
    pub fn set_delivers(&self, delivers: bool) {
        self.delivers.store(delivers, Ordering::Relaxed);
    }

    /// Set by the dispatcher as the lane learns what it can use.
    pub fn set_leases_max(&self, leases: u32) {
        self.leases_max.store(leases, Ordering::Relaxed);
    }
}

/// Bytes of content that parcels hold in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContentBytes(Arc<AtomicU64>);

/// One content's share of [`ContentBytes`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: u64,
    of: ContentBytes,
}

impl ContentBytes {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Wraps a content so that it counts.
    pub(crate) fn hold(&self, message: message::Content) -> Content {
        let block = |bytes: &Bytes| bytes.len() as u64;
        let headers = match &message {
            message::Content::Request(received) => block(received.headers.packed()),
            message::Content::Event(_) | message::Content::Email(_) => 0,
        };
        // What the structures around the bytes take, roughly.
        let bytes = block(message.body()) + headers + 512;
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Content { message, held: Held { bytes, of: self.clone() } }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Content {
    /// What it counts for.
    pub fn bytes(&self) -> u64 {
        self.held.bytes
    }
}
