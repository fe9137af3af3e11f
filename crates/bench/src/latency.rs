//! Latencies: a histogram while counting, a few percentiles to report.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency kept apart, in microseconds: ten minutes. Longer ones count as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Latencies as they are counted, with three significant digits.
#[derive(Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are valid"))
    }

    pub(crate) fn record(&mut self, latency_us: u64) {
        self.0.saturating_record(latency_us);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// The latency in microseconds that this share of all did not exceed; 0 when there are none.
    pub(crate) fn at(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles {
            count: self.0.len(),
            p50_us: self.0.value_at_quantile(0.5),
            p99_us: self.0.value_at_quantile(0.99),
            max_us: self.0.max(),
        }
    }
}

impl Percentiles {
    /// The median in microseconds; `None` without latencies.
    pub(crate) fn p50(&self) -> Option<u64> {
        (self.count > 0).then_some(self.p50_us)
    }

    /// An upper bound of both together.
    pub(crate) fn worse(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            p50_us: self.p50_us.max(other.p50_us),
            p99_us: self.p99_us.max(other.p99_us),
            max_us: self.max_us.max(other.max_us),
        }
    }

    /// The 99th percentile in microseconds; `None` without latencies.
    pub(crate) fn p99(&self) -> Option<u64> {
        (self.count > 0).then_some(self.p99_us)
    }
}

/// What is reported of many latencies; all in microseconds, all 0 when `count` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) max_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_name_the_value_at_their_rank() {
        let mut latencies = Latencies::new();
        for latency_us in 1..=1000 {
            latencies.record(latency_us);
        }
        assert_eq!(
            latencies.percentiles(),
            Percentiles { count: 1000, p50_us: 500, p99_us: 990, max_us: 1000 }
        );
    }

    #[test]
    fn merged_latencies_count_as_one() {
        let (mut left, mut right) = (Latencies::new(), Latencies::new());
        left.record(10);
        right.record(30);
        right.record(30);
        left.merge(&right);
        assert_eq!(left.percentiles(), Percentiles { count: 3, p50_us: 30, p99_us: 30, max_us: 30 });
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        let none = Latencies::new().percentiles();
        assert_eq!(none, Percentiles::default());
        assert_eq!((none.p50(), none.p99()), (None, None), "no latency is not a short one");
    }
}
