//! What went through, how quickly, and what waits.

use serde::{Deserialize, Serialize};

use super::word::words;
use crate::Timestamp;

/// Of what statistics are wanted, and of how many hours. At most one of `source`, `destination` and `webhook`; without
/// them of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct WantedStats {
    /// The last hours, up to now: 1 to 168, of a part of the workspace 1 to 48; 1 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<u32>,
    /// Of the requests to this source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Of the deliveries to this destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Of the deliveries to this webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
}

/// What went through in some hours, and what waits now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// `stats`.
    pub object: String,
    /// The start of the first step.
    pub since: Timestamp,
    /// When this was read: within the last step.
    pub until: Timestamp,
    /// The length of a step.
    pub step_seconds: u32,
    /// One for each step, the oldest first.
    pub points: Vec<StatsPoint>,
    /// Of all steps together.
    pub totals: Figures,
    /// What is pending.
    pub backlog: Backlog,
}

/// What happened in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StatsPoint {
    /// The start of the step.
    pub at: Timestamp,
    /// What happened in it.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What happened in some time. Times are exact to a tenth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figures {
    /// Messages accepted; of a destination or webhook: deliveries made.
    pub accepted: u64,
    /// Deliveries that ended delivered.
    pub delivered: u64,
    /// Deliveries that ended failed.
    pub failed: u64,
    /// Attempts that ended, but for those that were lost.
    pub attempts: u64,
    /// Those of them that failed.
    pub attempts_failed: u64,
    /// From accept to delivered, of half of the deliveries at most; `None` when none was delivered.
    pub arrival_p50_ms: Option<u64>,
    /// The same of 95 %.
    pub arrival_p95_ms: Option<u64>,
    /// How long attempts took, of half of them at most; `None` when there was none, and of more than one endpoint.
    pub duration_p50_ms: Option<u64>,
    /// The same of 95 %.
    pub duration_p95_ms: Option<u64>,
}

/// What is pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Backlog {
    /// Pending deliveries.
    pub pending: u64,
    /// There are more: counting ended there.
    pub at_least: bool,
    /// When the first of them is due; `None` when nothing is pending.
    pub oldest_due_at: Option<Timestamp>,
}

words! {
    /// What an endpoint is.
    EndpointKind {
        /// A receiver of a source.
        Destination = "destination",
        /// An endpoint of a customer.
        Webhook = "webhook",
    }
}

/// Destinations and webhooks by how they do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EndpointStatsList {
    /// `list`.
    pub object: String,
    /// From then on attempts are counted.
    pub since: Timestamp,
    /// When this was read.
    pub until: Timestamp,
    /// Those with attempts or with something pending, the worst first.
    pub data: Vec<EndpointStats>,
}

/// How a destination or webhook does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EndpointStats {
    /// `dst_…` or `whk_…`.
    pub endpoint_id: String,
    /// Which of the two.
    pub kind: EndpointKind,
    /// Of a destination.
    pub source_id: Option<String>,
    /// Attempts that ended, but for those that were lost.
    pub attempts: u64,
    /// Those of them that failed.
    pub attempts_failed: u64,
    /// The share of those that did not, 0 to 1; `None` without attempts.
    pub success_rate: Option<f64>,
    /// How long attempts took, of half of them at most.
    pub duration_p50_ms: Option<u64>,
    /// The same of 95 %.
    pub duration_p95_ms: Option<u64>,
    /// What is pending.
    pub backlog: Backlog,
}
