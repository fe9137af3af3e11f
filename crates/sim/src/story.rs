//! What the outside world knows: what publishers and people were told, and what receivers saw.

pub mod outbound;

use std::collections::BTreeMap;

use restante_core::endpoint::EndpointId;
use restante_core::id::{DeliveryId, EventId, RequestId};
use restante_core::message::{MessageId, Received};
use restante_core::{Outcome, State, Timestamp};
use restante_store::record::{NoticeKind, ReplayJob};
use restante_store::{Lease, row};

use crate::receiver::Reply;
use crate::timeline::Moment;
use outbound::{Call, Content, KnownEvent, Resend, Taken};

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
    pub contents: Vec<Content>,
    pub calls: Vec<Call>,
    pub events: Vec<KnownEvent>,
    pub resends: Vec<Resend>,
    pub taken: Vec<(Moment, Taken)>,
    pub sightings: Vec<Sighting>,
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
    /// The new delivery, once somebody was told, and when.
    pub new: Option<DeliveryId>,
    pub told: Option<Moment>,
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
    pub message: MessageId,
    /// A place among all endpoints.
    pub endpoint: usize,
    pub receiver: usize,
    pub url: String,
    pub sent: Sent,
    pub started: Moment,
    /// Attempts of this endpoint that the node had in flight before.
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

/// A delivery of an event as somebody saw it.
#[derive(Debug)]
pub struct Sighting {
    /// How much the store had taken by then.
    pub taken: usize,
    pub delivery: DeliveryId,
    pub state: State,
}

/// What the read side says when all is over.
#[derive(Debug, Default)]
pub struct Reads {
    pub requests: BTreeMap<RequestId, Option<row::Request>>,
    /// `None`: it cannot be seen any more, nor could it when it was last looked for.
    pub events: BTreeMap<EventId, Option<row::Event>>,
    /// Those of `events` that were seen before they were gone.
    pub gone: Vec<EventId>,
    /// Of each webhook, oldest first.
    pub notices: BTreeMap<EndpointId, Vec<(NoticeKind, Timestamp)>>,
    /// By their ids.
    pub replays: BTreeMap<u128, ReplayJob>,
}

/// Name of the header by which a publisher knows its own requests again.
pub const MARKER: &str = "x-marker";
/// Name of the header by which a receiver knows an event again.
pub const WEBHOOK_ID: &str = "webhook-id";

/// What a request came from, as its bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The place of a publish.
    Publish(u64),
    /// The place of a content, and that of an event in it.
    Content(u64, u64),
}

impl Origin {
    /// Numbers by which streams of randomness tell origins apart.
    pub fn numbers(self) -> [u64; 2] {
        match self {
            Self::Publish(place) => [place, 0],
            Self::Content(place, item) => [place, item + 1],
        }
    }
}

impl Sent {
    pub fn origin(&self) -> Option<Origin> {
        match self.header(MARKER) {
            Some(value) => Some(Origin::Publish(std::str::from_utf8(value).ok()?.parse().ok()?)),
            None => outbound::origin(&self.body),
        }
    }

    /// The value of the first header of this name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.headers.iter().find(|(known, _)| known == name)?;
        Some(value)
    }
}

impl Reads {
    /// Keeps an event as it is shown in the end, or as it was before it was gone.
    pub fn keep_event(&mut self, id: EventId, shown: Option<row::Event>) {
        let kept = self.events.entry(id).or_default();
        match shown {
            Some(shown) => *kept = Some(shown),
            None => self.gone.push(id),
        }
    }

    /// All requests that can be seen.
    pub fn visible(&self) -> impl Iterator<Item = &row::Request> {
        self.requests.values().flatten()
    }

    /// All events that can be seen, or could be shortly before they were gone.
    pub fn visible_events(&self) -> impl Iterator<Item = &row::Event> {
        self.events.values().flatten()
    }

    /// All deliveries that can be seen.
    pub fn deliveries(&self) -> impl Iterator<Item = &row::Delivery> {
        let events = self.visible_events().flat_map(|event| &event.deliveries);
        self.visible().flat_map(|request| &request.deliveries).chain(events)
    }
}
