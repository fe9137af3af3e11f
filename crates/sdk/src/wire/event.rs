//! What a workspace publishes to its webhooks.

use serde::{Deserialize, Deserializer, Serialize};

use super::page::listings;
use super::{Delivery, Json};
use crate::Timestamp;

/// An event to be published.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct PublishEvent {
    /// Lower-case segments with dots between them, such as `order.paid`; at most 128 characters.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Goes to receivers as it is written here, less white space. The event as receivers get it is at most 256 KiB.
    pub data: Json,
    /// When it happened; now unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

impl PublishEvent {
    /// An event that happens now.
    ///
    /// # Errors
    /// When `data` cannot be written as JSON, such as a map whose keys are no texts.
    pub fn new(event_type: impl Into<String>, data: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self { event_type: event_type.into(), data: Json::of(data)?, timestamp: None })
    }
}

/// A published event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// `event`.
    pub object: String,
    /// `whe_…`: the `webhook-id` of each attempt.
    pub id: String,
    /// Such as `order.paid`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it happened.
    pub timestamp: Timestamp,
    /// As it was published, less white space.
    pub data: Json,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// A count in lists; all of them in an answer about one event.
    pub deliveries: EventDeliveries,
}

/// The deliveries of an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum EventDeliveries {
    /// How many there are: in lists.
    Count(u64),
    /// They themselves, with attempts: in an answer about one event.
    All(Vec<Delivery>),
}

impl EventDeliveries {
    /// How many there are.
    pub fn count(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::All(all) => all.len() as u64,
        }
    }
}

impl<'de> Deserialize<'de> for EventDeliveries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let read = match json.as_str().starts_with('[') {
            true => json.read().map(Self::All),
            false => json.read().map(Self::Count),
        };
        read.map_err(serde::de::Error::custom)
    }
}

/// What a publishing call is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PublishedEvent {
    /// `whe_…`.
    pub id: String,
    /// Webhooks that are subscribed to it.
    pub deliveries: u64,
    /// Whether an earlier call with the same key published it.
    pub replayed: bool,
}

/// What a call that publishes several events is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PublishedBatch {
    /// In the order of the call.
    pub data: Vec<PublishedItem>,
    /// Whether an earlier call with the same key published them.
    pub replayed: bool,
}

/// One event of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PublishedItem {
    /// `whe_…`.
    pub id: String,
    /// Webhooks that are subscribed to it.
    pub deliveries: u64,
}

listings! {
    /// Which events are wanted, and which page of them.
    ListEvents {
        /// Of exactly this type.
        #[serde(rename = "type")]
        event_type: Option<String>,
        /// Accepted at this time or later.
        since: Option<Timestamp>,
        /// Accepted at this time or earlier.
        until: Option<Timestamp>,
    }
}
