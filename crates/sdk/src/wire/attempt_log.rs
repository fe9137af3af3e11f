//! The log of a webhook's attempts.

use serde::{Deserialize, Serialize};

use super::word::words;
use super::{AttemptError, Trigger};
use crate::Timestamp;

words! {
    /// How an attempt stands.
    AttemptStatus {
        /// It is in flight.
        Pending = "pending",
        /// The receiver took it.
        Delivered = "delivered",
        /// It did not.
        Failed = "failed",
    }
}

/// A page of a webhook's attempts as it is answered, newest first. The client reads it as a [`Page`](super::Page).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptLog {
    /// The attempts.
    pub data: Vec<LoggedAttempt>,
    /// Give this as `cursor` for older ones; `None`: there are none.
    pub next_cursor: Option<String>,
}

/// One attempt in the log of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggedAttempt {
    /// `att_…`.
    pub id: String,
    /// `whe_…`.
    pub event_id: String,
    /// That of the event.
    pub event_type: String,
    /// `dlv_…`.
    pub delivery_id: String,
    /// From 1.
    pub number: u32,
    /// What made it: the schedule or a replay.
    pub trigger: Trigger,
    /// How it stands.
    pub status: AttemptStatus,
    /// Where it was sent.
    pub url: String,
    /// What the receiver answered, if it did.
    pub response_status_code: Option<u16>,
    /// 0 while it is in flight.
    pub response_duration_ms: u64,
    /// `None` unless it failed.
    pub error_kind: Option<AttemptError>,
    /// Why it failed, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// When it began.
    pub attempted_at: Timestamp,
}

/// Which attempts of a webhook are wanted, and which page of them. They are kept for three days.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ListAttempts {
    /// Begun before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
    /// Begun after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// Which stand so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AttemptStatus>,
    /// Items on a page, 1 to 100; 50 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Begin behind the page that gave this `next_cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
