//! Customers' endpoints, subscribed to event types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::page::listings;
use super::word::words;
use super::{AttemptResult, Change, DeliveryState, Json, Schedule, Secret};
use crate::Timestamp;

words! {
    /// How a webhook is.
    WebhookStatus {
        /// It receives what it is subscribed to.
        Active = "active",
        /// It keeps failing, and receives everything nevertheless.
        Degraded = "degraded",
        /// It receives nothing, until somebody sets it active.
        Paused = "paused",
    }

    /// What the list of webhooks is sorted by.
    WebhookSort {
        /// When they were made.
        CreatedAt = "created_at",
        /// Their URLs.
        Url = "url",
    }

    /// In which direction a list is sorted.
    Order {
        /// The smallest, or oldest, first.
        Ascending = "asc",
        /// The greatest, or newest, first.
        Descending = "desc",
    }
}

/// A customer's endpoint, subscribed to event types.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Webhook {
    /// `webhook`.
    pub object: String,
    /// `whk_…`.
    pub id: String,
    /// Where to send.
    pub url: String,
    /// For people; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Always `None`.
    pub filter: Option<Json>,
    /// Types it is subscribed to: exact ones, `a.*` for all below `a`, or `*`.
    pub events: Vec<String>,
    /// How it is.
    pub status: WebhookStatus,
    /// When attempts are made.
    pub schedule: Schedule,
    /// Names of the static headers. Their values are never read back and `None`.
    pub headers: BTreeMap<String, Option<Secret>>,
    /// Attempts at the same time, 1 to 1,000.
    pub max_in_flight: u32,
    /// Attempts per second, 0.1 to 10,000; `None`: as many as there are.
    pub rate_per_second: Option<f64>,
    /// From name lookup to the end of the response head, 1 to 60.
    pub timeout_seconds: u32,
    /// Since when it has not delivered anything; `None` while it works.
    pub failing_since: Option<Timestamp>,
    /// Failed automatic attempts since then.
    pub consecutive_failures: u64,
    /// A failure at this time or later pauses it.
    pub pauses_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// What it signs with; `None` but in the answer that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
}

/// A new signing secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewSecret {
    /// Shown only here.
    pub secret: Secret,
}

/// What a test came to. That the receiver cannot be reached is a result too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WebhookTest {
    /// Whether the receiver took it.
    pub status: AttemptResult,
    /// What the receiver answered, if it did.
    pub response_status_code: Option<u16>,
    /// The beginning of the response's body, at most 1,024 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
    /// From name lookup to the end of the response.
    pub response_duration_ms: u64,
    /// Always `None`: what was sent is in `payload`.
    pub event_payload: Option<Json>,
    /// What was sent.
    pub payload: Option<Json>,
    /// Why nothing came back; `None` when something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A webhook to be made.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct NewWebhook {
    /// Where to send: https and public unless the operator allows more; at most 2,048 characters.
    pub url: String,
    /// Types it is subscribed to, 1 to 100: exact ones, `a.*` for all below `a`, or `*`.
    pub events: Vec<String>,
    /// At most 256 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `active` or `paused`; `active` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WebhookStatus>,
    /// When attempts are made; standard unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Static headers, at most 20.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// Attempts at the same time, 1 to 1,000; 64 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Attempts per second, 0.1 to 10,000; as many as there are unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// From name lookup to the end of the response head, 1 to 60; 15 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
}

impl NewWebhook {
    /// One that is subscribed to these types; the rest has its defaults.
    pub fn new<T: Into<String>>(url: impl Into<String>, events: impl IntoIterator<Item = T>) -> Self {
        let events = events.into_iter().map(Into::into).collect();
        Self { url: url.into(), events, ..Self::default() }
    }
}

/// What is to change in a webhook.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct WebhookChange {
    /// A new one starts without failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Types it is subscribed to, 1 to 100. Replaces all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    /// At most 256 characters; reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub description: Change<String>,
    /// `active` or `paused`. Pausing ends what is pending, and what comes meanwhile is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WebhookStatus>,
    /// Counts from the next failure; reset: standard.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub schedule: Change<Schedule>,
    /// Replaces all static headers; `None` for a value keeps the one that is set, and those of [`Webhook`] can be
    /// given back as they are. Reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub headers: Change<BTreeMap<String, Option<Secret>>>,
    /// Reset: 64.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub max_in_flight: Change<u32>,
    /// Reset: as many as there are.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub rate_per_second: Change<f64>,
    /// Reset: 15.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub timeout_seconds: Change<u32>,
}

/// What a test sends.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct TestWebhook {
    /// The first type the webhook is subscribed to exactly, unless given; else `webhook.test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
}

listings! {
    /// Which webhooks are wanted, in which order, and which page of them.
    ListWebhooks {
        /// With exactly this URL.
        url: Option<String>,
        /// By `created_at` unless given. Cursors of one order are none of another.
        sort: Option<WebhookSort>,
        /// Descending unless given.
        order: Option<Order>,
    }

    /// Which deliveries of a webhook are wanted, and which page of them.
    ListWebhookDeliveries {
        /// In this state.
        state: Option<DeliveryState>,
        /// Created at this time or later.
        since: Option<Timestamp>,
        /// Created at this time or earlier.
        until: Option<Timestamp>,
    }
}
