//! Retries of many deliveries of one destination.

use serde::{Deserialize, Serialize};

use super::DeliveryState;
use super::word::words;
use crate::Timestamp;

words! {
    /// Where a bulk retry stands.
    BulkRetryState {
        /// It creates deliveries.
        Running = "running",
        /// All are created.
        Done = "done",
        /// It stopped early: the credits ran out, or the destination is gone.
        Ended = "ended",
    }
}

/// A retry of many deliveries, done in the background.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BulkRetry {
    /// `bulk_retry`.
    pub object: String,
    /// `rpl_…`.
    pub id: String,
    /// `dst_…`.
    pub destination_id: String,
    /// Where it stands.
    pub state: BulkRetryState,
    /// State of the deliveries it retries.
    pub delivery_state: DeliveryState,
    /// Deliveries that matched when it was asked for.
    pub total: u64,
    /// Deliveries created so far.
    pub created: u64,
    /// Deliveries created at this time or later.
    pub since: Timestamp,
    /// Deliveries created at this time or earlier.
    pub until: Timestamp,
    /// When it was asked for.
    pub created_at: Timestamp,
}

/// What a bulk retry would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BulkRetryPreview {
    /// Deliveries that would be created.
    pub deliveries: u64,
    /// What they would cost.
    pub credits: i64,
}

/// Which deliveries to retry: the latest of each request, created within both bounds.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct NewBulkRetry {
    /// Created at this time or later.
    pub since: Timestamp,
    /// Now unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// `failed`, `cancelled` or `delivered`; `failed` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
}

impl NewBulkRetry {
    /// What has failed of the deliveries created since then.
    pub fn since(since: Timestamp) -> Self {
        Self { since, ..Self::default() }
    }
}
