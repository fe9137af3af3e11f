//! What is told of how much went through, and how quickly.

use std::cmp::Reverse;

use restante_core::Timestamp;
use restante_core::endpoint::EndpointId;
use restante_core::histogram::Histogram;
use restante_core::id::{DestinationId, SourceId, WebhookId};
use restante_core::stats::Breadth;

/// Endpoints that [`Store::endpoint_stats`](crate::Store::endpoint_stats) tells of, at most.
pub const ENDPOINTS_MAX: usize = 100;
/// Pending deliveries that one look counts, at most.
pub const BACKLOG_MAX: usize = 10_000;
/// The same for each endpoint, where all of them are looked at.
pub const ENDPOINT_BACKLOG_MAX: usize = 1_000;

/// What happened in some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were stored for callers; of an endpoint: deliveries that were made.
    pub accepted: u64,
    /// Deliveries that ended delivered.
    pub delivered: u64,
    /// Deliveries that ended failed.
    pub failed: u64,
    /// Attempts that ended, other than lost ones.
    pub attempts: u64,
    /// Those of them that failed.
    pub attempts_failed: u64,
    /// From the making of a delivery to its arrival.
    pub arrival: Histogram,
    /// How long attempts took. Kept of endpoints only.
    pub duration: Histogram,
}

impl Counts {
    pub fn merge(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.attempts += other.attempts;
        self.attempts_failed += other.attempts_failed;
        self.arrival.merge(&other.arrival);
        self.duration.merge(&other.duration);
    }
}

/// What is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Workspace,
    Source(SourceId),
    Destination(DestinationId),
    Webhook(WebhookId),
}

impl Scope {
    pub const fn breadth(self) -> Breadth {
        match self {
            Self::Workspace => Breadth::Workspace,
            Self::Source(_) | Self::Destination(_) | Self::Webhook(_) => Breadth::Part,
        }
    }
}

/// What waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Pending deliveries.
    pub pending: u64,
    /// There may be more: counting ended early.
    pub at_least: bool,
    /// When the first of them is due; with `at_least`, of those that were looked at.
    pub oldest_due: Option<Timestamp>,
}

impl Backlog {
    pub(crate) fn add(&mut self, other: Self) {
        self.pending += other.pending;
        self.at_least |= other.at_least;
        self.oldest_due = self.oldest_due.into_iter().chain(other.oldest_due).min();
    }

    /// As a look found it that ended when it had seen more than `most`: how many it saw, how many of those are not over,
    /// and when the first of these is due.
    pub(crate) fn of(seen: i64, pending: i64, oldest_due: Option<i64>, most: usize) -> Self {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        Self {
            pending: pending.unsigned_abs().min(most),
            at_least: seen.unsigned_abs() > most,
            oldest_due: oldest_due.map(Timestamp::from_millis),
        }
    }

    fn is_empty(&self) -> bool {
        self.pending == 0 && !self.at_least
    }
}

/// How a workspace or a part of it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// One for each step of the span.
    pub steps: Vec<Counts>,
    pub backlog: Backlog,
}

/// How an endpoint does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStats {
    pub id: EndpointId,
    /// Of a destination.
    pub source: Option<SourceId>,
    pub counts: Counts,
    pub backlog: Backlog,
}

/// The endpoints that do worst, the worst first: those with the larger share of failed attempts, then with more of
/// them. Without attempts and without anything pending there is nothing to tell.
pub(crate) fn worst(mut endpoints: Vec<EndpointStats>) -> Vec<EndpointStats> {
    endpoints.retain(|it| it.counts.attempts > 0 || !it.backlog.is_empty());
    let share = |counts: &Counts| {
        // Exact enough to put them in order, and the same everywhere.
        u128::from(counts.attempts_failed) * 1_000_000 / u128::from(counts.attempts.max(1))
    };
    endpoints.sort_by_cached_key(|it| {
        let failed = (share(&it.counts), it.counts.attempts_failed);
        (Reverse(failed), Reverse(it.backlog.pending), it.id.uuid())
    });
    endpoints.truncate(ENDPOINTS_MAX);
    endpoints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(id: u128, attempts: u64, attempts_failed: u64, pending: u64) -> EndpointStats {
        let counts = Counts { attempts, attempts_failed, ..Counts::default() };
        let backlog = Backlog { pending, ..Backlog::default() };
        let id = EndpointId::Webhook(WebhookId::from_uuid(id));
        EndpointStats { id, source: None, counts, backlog }
    }

    #[test]
    fn the_worst_endpoint_is_the_first() {
        let all = vec![
            stats(1, 100, 0, 0),
            stats(2, 0, 0, 0),
            stats(3, 100, 50, 0),
            stats(4, 2, 2, 0),
            stats(5, 20, 20, 0),
            stats(6, 0, 0, 9),
            stats(7, 4, 2, 0),
        ];
        let worst: Vec<u128> = worst(all).iter().map(|it| it.id.uuid()).collect();
        assert_eq!(worst, [5, 4, 3, 7, 6, 1]);
    }

    #[test]
    fn a_list_of_endpoints_has_an_end() {
        let many = (0..200).map(|id| stats(id, 1, u64::from(id == 150), 0)).collect();
        let worst = worst(many);
        assert_eq!((worst.len(), worst[0].id.uuid()), (ENDPOINTS_MAX, 150));
    }

    #[test]
    fn what_is_over_is_not_pending() {
        let oldest_due = Some(Timestamp::from_millis(20));
        assert_eq!(Backlog::of(3, 2, Some(20), 3), Backlog { pending: 2, at_least: false, oldest_due });
        assert_eq!(Backlog::of(4, 4, Some(20), 3), Backlog { pending: 3, at_least: true, oldest_due });
        assert_eq!(Backlog::of(1, 1, Some(20), 0), Backlog { pending: 0, at_least: true, oldest_due });
        assert_eq!(Backlog::of(0, 0, None, 3), Backlog::default());
    }
}
