//! What sources received.

use serde::{Deserialize, Serialize};

use super::Delivery;
use super::page::listings;
use super::word::words;
use crate::Timestamp;

words! {
    /// What a request's deliveries sum up to.
    RequestState {
        /// At least one is not over.
        Pending = "pending",
        /// All are delivered.
        Delivered = "delivered",
        /// At least one failed, and none is pending.
        Failed = "failed",
        /// At least one is cancelled, and the others are delivered.
        Cancelled = "cancelled",
        /// There are none.
        None = "none",
    }
}

/// A received request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Request {
    /// `request`.
    pub object: String,
    /// `req_…`.
    pub id: String,
    /// `src_…`.
    pub source_id: String,
    /// As received.
    pub method: String,
    /// What followed the token in the path.
    pub path: String,
    /// Without the question mark.
    pub query: Option<String>,
    /// Name and value of each line, as received. What is not UTF-8 is read as Latin-1. `None` in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<(String, String)>>,
    /// Size of the body as received.
    pub body_bytes: u64,
    /// What the header of that name says.
    pub content_type: Option<String>,
    /// An IP address.
    pub remote_address: String,
    /// When it was stored.
    pub received_at: Timestamp,
    /// What receivers can tell repeats by, a UUID: the same for all attempts and retries, another after a replay.
    pub key: String,
    /// The first request that this one repeats, `req_…`; it may be gone. A repeat is not delivered.
    pub duplicate_of: Option<String>,
    /// Whether its signature was wrong. What is rejected is not delivered.
    pub rejected: bool,
    /// What was wrong with its signature, for people.
    pub rejected_because: Option<String>,
    /// The request that this one is a copy of, `req_…`.
    pub replay_of: Option<String>,
    /// From then on it is gone.
    pub expires_at: Timestamp,
    /// What its deliveries sum up to.
    pub state: RequestState,
    /// Those of one destination side by side, with attempts. `None` in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<Vec<Delivery>>,
}

listings! {
    /// Which requests are wanted, and which page of them.
    ListRequests {
        /// Of this source, `src_…`.
        source: Option<String>,
        /// Received at this time or later.
        since: Option<Timestamp>,
        /// Received at this time or earlier.
        until: Option<Timestamp>,
        /// Whose deliveries sum up to this.
        state: Option<RequestState>,
        /// With this method, exactly.
        method: Option<String>,
        /// With this in the path.
        path: Option<String>,
        /// With this in the body. Searches the last 24 hours, or a span of at most 7 days given by `since` and `until`.
        text: Option<String>,
    }
}
