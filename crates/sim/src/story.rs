//! What the outside world knows: what publishers and people were told, and what receivers saw.

use std::collections::BTreeMap;

use restante_core::id::{DeliveryId, RequestId};
use restante_core::message::Received;
use restante_core::{Outcome, Timestamp};
use restante_store::{Lease, row};

use crate::receiver::Reply;
use crate::timeline::Moment;

/// All that the checker is given, besides who takes part and what the clocks said.
#[derive(Debug, Default)]
pub struct Story {
    pub publishes: Vec<Publish>,
    /// Requests that somebody was told of.
    pub requests: Vec<Known>,
    pub retries: Vec<Retry>,
    pub cancels: Vec<Order<DeliveryId>>,
    pub erasures: Vec<Order<RequestId>>,
    pub bulk_retries: usize,
    pub dialled: Vec<Dialled>,
    pub stale: Vec<Stale>,
    /// What nobody may ever be told: an error that was not injected, or something of another workspace.
    pub broken: Vec<String>,
}

/// A request on its way to a door.
#[derive(Debug)]
pub struct Publish {
    /// The place of the source among all, `None` for a token that nobody gave out.
    pub source: Option<usize>,
    pub received: Received,
    pub told: Told,
}

/// What a publisher was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// No answer came: it may be stored or not.
    Nothing,
    Accepted,
    Refused,
}

/// A request that somebody was told of.
#[derive(Clone, Debug)]
pub struct Known {
    pub id: RequestId,
    pub marker: u64,
    pub source: usize,
    /// The destinations there were when it was accepted, as places among all.
    pub destinations: Vec<usize>,
    pub received_at: Timestamp,
    pub told: Moment,
    pub replay_of: Option<RequestId>,
}

/// A manual retry.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    pub request: RequestId,
    pub of: DeliveryId,
    pub asked: Moment,
    /// The new delivery, once somebody was told.
    pub new: Option<DeliveryId>,
}

/// Something that ends work, and when it was asked for and told done.
#[derive(Clone, Copy, Debug)]
pub struct Order<T> {
    pub what: T,
    pub asked: Moment,
    pub told: Option<Moment>,
}

/// An attempt that a node started.
#[derive(Debug)]
pub struct Dialled {
    /// Which of the nodes there were.
    pub life: u32,
    pub lease: Lease,
    pub request: RequestId,
    /// A place among all destinations.
    pub destination: usize,
    pub receiver: usize,
    pub url: String,
    pub sent: Sent,
    pub started: Moment,
    /// Attempts of this destination that the node had in flight before.
    pub in_flight: usize,
    /// A connection was made.
    pub connected: bool,
    /// The receiver has the request.
    pub arrived: bool,
    /// When the node learned of the reply.
    pub ended: Option<(Moment, Reply)>,
    /// What the node was told of its settle.
    pub settled: Option<Outcome>,
}

/// A request as it stands on the wire.
#[derive(Debug, PartialEq, Eq)]
pub struct Sent {
    pub method: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: bytes::Bytes,
}

/// A settle or release with an old lease.
#[derive(Debug)]
pub struct Stale {
    pub at: Moment,
    pub lease: Lease,
    pub before: Option<row::Delivery>,
    pub after: Option<row::Delivery>,
}

/// What the read side says when all is over.
#[derive(Debug, Default)]
pub struct Reads {
    pub requests: BTreeMap<RequestId, Option<row::Request>>,
}

/// Name of the header by which a publisher knows its own requests again.
pub const MARKER: &str = "x-marker";

impl Sent {
    /// The number of the publish this came from.
    pub fn marker(&self) -> Option<u64> {
        let (_, value) = self.headers.iter().find(|(name, _)| name == MARKER)?;
        std::str::from_utf8(value).ok()?.parse().ok()
    }
}

impl Reads {
    /// All requests that can be seen.
    pub fn visible(&self) -> impl Iterator<Item = &row::Request> {
        self.requests.values().flatten()
    }

    /// All deliveries that can be seen.
    pub fn deliveries(&self) -> impl Iterator<Item = &row::Delivery> {
        self.visible().flat_map(|request| &request.deliveries)
    }
}
