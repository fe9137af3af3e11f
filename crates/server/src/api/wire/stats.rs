//! The shapes of statistics.

use restante_core::Timestamp;
use restante_core::endpoint::EndpointId;
use restante_core::histogram::Histogram;
use restante_core::id::SourceId;
use restante_core::stats::Span;
use restante_store::stats::{self, Counts};
use serde::Serialize;
use utoipa::ToSchema;

/// What went through in some hours, and what waits now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stats {
    #[schema(example = "stats")]
    object: &'static str,
    /// The start of the first step.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When this was read: within the last step.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    /// The length of a step: 60, 600 or 3600.
    step_seconds: i64,
    /// One for each step, the oldest first.
    points: Vec<Point>,
    /// Of all steps together.
    totals: Figures,
    backlog: Backlog,
}

/// What happened in one step.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Point {
    /// The start of the step.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    #[serde(flatten)]
    figures: Figures,
}

/// What happened in some time. Times are exact to a tenth.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Figures {
    /// Messages accepted; of a destination or webhook: deliveries made.
    accepted: u64,
    /// Deliveries that ended `delivered`.
    delivered: u64,
    /// Deliveries that ended `failed`.
    failed: u64,
    /// Attempts that ended, but for those that were lost.
    attempts: u64,
    /// Those of them that failed.
    attempts_failed: u64,
    /// From accept to delivered, of half of the deliveries at most; null when none was delivered.
    arrival_p50_ms: Option<u64>,
    /// The same of 95 %.
    arrival_p95_ms: Option<u64>,
    /// How long attempts took, of half of them at most; null when there was none, and of more than one endpoint.
    duration_p50_ms: Option<u64>,
    /// The same of 95 %.
    duration_p95_ms: Option<u64>,
}

/// What is pending.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Backlog {
    /// Pending deliveries.
    pending: u64,
    /// There are more: counting ended there.
    at_least: bool,
    /// When the first of them is due; null when nothing is pending.
    #[schema(value_type = Option<String>, format = DateTime)]
    oldest_due_at: Option<Timestamp>,
}

/// Endpoints by how they do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndpointList {
    #[schema(example = "list")]
    object: &'static str,
    /// From then on attempts are counted.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When this was read.
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    /// The worst first.
    data: Vec<EndpointStats>,
}

/// How a destination or webhook does.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndpointStats {
    /// `dst_…` or `whk_…`.
    #[schema(value_type = String)]
    endpoint_id: String,
    /// `destination` or `webhook`.
    kind: &'static str,
    /// Of a destination.
    #[schema(value_type = Option<String>)]
    source_id: Option<SourceId>,
    /// Attempts that ended, but for those that were lost.
    attempts: u64,
    /// Those of them that failed.
    attempts_failed: u64,
    /// The share of those that did not, 0 to 1; null without attempts.
    success_rate: Option<f64>,
    /// How long attempts took, of half of them at most.
    duration_p50_ms: Option<u64>,
    /// The same of 95 %.
    duration_p95_ms: Option<u64>,
    backlog: Backlog,
}

impl Stats {
    pub(crate) fn new(span: &Span, now: Timestamp, stats: &stats::Stats) -> Self {
        let mut totals = Counts::default();
        stats.steps.iter().for_each(|step| totals.merge(step));
        let point = |(at, counts)| Point { at, figures: Figures::from(counts) };
        Self {
            object: "stats",
            since: span.since,
            until: now,
            step_seconds: span.step_ms / 1000,
            points: span.starts().zip(&stats.steps).map(point).collect(),
            totals: Figures::from(&totals),
            backlog: stats.backlog.into(),
        }
    }
}

impl From<&Counts> for Figures {
    fn from(counts: &Counts) -> Self {
        let (arrival_p50_ms, arrival_p95_ms) = quantiles(&counts.arrival);
        let (duration_p50_ms, duration_p95_ms) = quantiles(&counts.duration);
        Self {
            accepted: counts.accepted,
            delivered: counts.delivered,
            failed: counts.failed,
            attempts: counts.attempts,
            attempts_failed: counts.attempts_failed,
            arrival_p50_ms,
            arrival_p95_ms,
            duration_p50_ms,
            duration_p95_ms,
        }
    }
}

impl From<stats::Backlog> for Backlog {
    fn from(backlog: stats::Backlog) -> Self {
        let stats::Backlog { pending, at_least, oldest_due } = backlog;
        Self { pending, at_least, oldest_due_at: oldest_due }
    }
}

impl EndpointList {
    pub(crate) fn new(span: &Span, now: Timestamp, endpoints: &[stats::EndpointStats]) -> Self {
        let data = endpoints.iter().map(EndpointStats::from).collect();
        Self { object: "list", since: span.since, until: now, data }
    }
}

impl From<&stats::EndpointStats> for EndpointStats {
    fn from(stats: &stats::EndpointStats) -> Self {
        let Counts { attempts, attempts_failed, .. } = stats.counts;
        let (duration_p50_ms, duration_p95_ms) = quantiles(&stats.counts.duration);
        Self {
            endpoint_id: stats.id.to_string(),
            kind: match stats.id {
                EndpointId::Destination(_) => "destination",
                EndpointId::Webhook(_) => "webhook",
                EndpointId::Mailboxes(_) => "mailboxes",
            },
            source_id: stats.source,
            attempts,
            attempts_failed,
            success_rate: success_rate(attempts, attempts_failed),
            duration_p50_ms,
            duration_p95_ms,
            backlog: stats.backlog.into(),
        }
    }
}

/// To four digits behind the point.
#[expect(clippy::cast_precision_loss, reason = "ten thousand is small")]
fn success_rate(attempts: u64, failed: u64) -> Option<f64> {
    let succeeded = u128::from(attempts.saturating_sub(failed)) * 10_000;
    let share = succeeded.checked_div(u128::from(attempts))?;
    Some(share as f64 / 10_000.0)
}

fn quantiles(histogram: &Histogram) -> (Option<u64>, Option<u64>) {
    (histogram.percentile(50), histogram.percentile(95))
}

#[cfg(test)]
mod tests {
    use super::success_rate;

    #[test]
    fn a_rate_is_a_share_of_what_there_was() {
        let table =
            [(0, 0, None), (3, 0, Some(1.0)), (3, 1, Some(0.6666)), (3, 3, Some(0.0)), (8, 1, Some(0.875))];
        for (attempts, failed, rate) in table {
            assert_eq!(success_rate(attempts, failed), rate, "{failed} of {attempts}");
        }
    }
}
