//! Times of calls, finely enough to tell two clients apart.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::pipeline::statistics::{float, ratio};

/// The longest time kept apart, in nanoseconds: a minute. Longer ones count as this.
const TIME_NS_MAX: u64 = 60_000_000_000;

/// Times as they are counted, with three significant digits.
pub(super) struct Times {
    histogram: Histogram<u64>,
    sum: Duration,
}

/// Calls that were made one after the other.
#[derive(Serialize)]
pub(super) struct Calls {
    pub(super) count: u64,
    pub(super) per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

impl Times {
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, TIME_NS_MAX, 3).expect("the bounds are valid");
        Self { histogram, sum: Duration::ZERO }
    }

    pub(super) fn record(&mut self, time: Duration) {
        self.histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.sum += time;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
        self.sum += other.sum;
    }

    pub(super) fn calls(&self) -> Calls {
        let count = self.histogram.len();
        let quantile_us = |quantile| float(self.histogram.value_at_quantile(quantile)) / 1e3;
        Calls {
            count,
            per_second: ratio(float(count), self.sum.as_secs_f64()),
            p50_us: quantile_us(0.5),
            p99_us: quantile_us(0.99),
        }
    }
}
