//! Which command-line clients are connected to this node, and which deliveries are theirs.
//!
//! Memory only: nobody listens when a store is opened.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use restante_core::Timestamp;
use restante_core::endpoint::{EndpointId, HeldBack};
use restante_core::id::{Key, SourceId};
use rustc_hash::FxHashMap;

use crate::endpoint::{Endpoint, Seating};
use crate::row;

/// A client is told of within this time. Deliveries made meanwhile are its own.
const LISTEN_TIME: Duration = Duration::from_secs(1);

/// The command-line clients of a source that are connected to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// When the one that is connected longest has connected.
    pub since: Timestamp,
    /// How many attempts they can make at the same time, together.
    pub seats: u32,
}

/// The latest key that was handed out at this node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastKey {
    pub(crate) key: i64,
    /// It was ahead of the clock when it was handed out.
    pub(crate) led: bool,
}

impl LastKey {
    /// Whether keys run ahead of the clock, which went back.
    fn is_ahead_of(self, since: Timestamp) -> bool {
        self.led || Key::from_value(self.key).at() > since + LISTEN_TIME
    }
}

/// By source, its clients at this node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clients(FxHashMap<SourceId, Heard>);

#[derive(Debug, Clone, Copy)]
struct Heard {
    listening: Listening,
    /// Deliveries made since have this key or a higher one.
    floor: i64,
}

impl Clients {
    /// Takes over who listens to a source.
    pub(crate) fn set(&mut self, source: SourceId, listening: Option<Listening>, last: LastKey) {
        let Some(listening) = listening.filter(|it| it.seats > 0) else {
            self.0.remove(&source);
            return;
        };
        let told = Key::first_at(listening.since).value();
        let floor = match self.0.get(&source) {
            Some(known) if known.listening.since == listening.since => known.floor,
            // Whoever connected later gets no more than who connected first.
            Some(known) => told.max(known.floor),
            // The clock went back: times say nothing, but what was made by now was made before.
            None if last.is_ahead_of(listening.since) => last.key + 1,
            None => told,
        };
        self.0.insert(source, Heard { listening, floor });
    }

    /// What a `cli` destination of a source may have. `takes_pending`: the source's `deliver_pending_on_connect`.
    pub(crate) fn seating(&self, source: SourceId, takes_pending: bool) -> Seating {
        let heard = self.0.get(&source);
        Seating {
            seats: heard.map_or(0, |heard| heard.listening.seats),
            floor: heard.filter(|_| !takes_pending).map_or(0, |heard| heard.floor),
            takes_pending,
        }
    }
}

/// The `cli` destinations that have a client at this node, for whoever reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served(Arc<RwLock<FxHashMap<EndpointId, Arc<Endpoint>>>>);

impl Served {
    pub(crate) fn set(&self, endpoint: &Arc<Endpoint>, served: bool) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if served {
            all.insert(endpoint.id, Arc::clone(endpoint));
        } else {
            all.remove(&endpoint.id);
        }
    }

    /// Shows that a delivery does not wait for a client: one is there that may have it.
    pub(crate) fn show(&self, delivery: &mut row::Delivery) {
        if delivery.held_back != Some(HeldBack::Client) {
            return;
        }
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if all.get(&delivery.endpoint).is_some_and(|it| it.serves(delivery.id.key())) {
            delivery.held_back = None;
        }
    }
}
