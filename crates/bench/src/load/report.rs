//! What the generator counts and reports.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::pace::Turn;
use crate::clock;
use crate::latency::{Latencies, Percentiles};

/// The result of one run of the generator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Requests begun.
    pub(crate) sent: u64,
    /// Requests answered with a 2xx.
    pub(crate) acknowledged: u64,
    /// Answers by status code.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Requests that broke off: the connection failed before the answer was complete.
    pub(crate) errors: u64,
    /// Requests without an answer when the run gave up.
    pub(crate) unanswered: u64,
    /// When the first request was due and when the last answer came, in microseconds of the steady clock.
    pub(crate) first_sent_us: u64,
    pub(crate) last_answer_us: u64,
    pub(crate) acks_per_second: f64,
    /// From the due time of a request to the end of its 2xx answer.
    pub(crate) ack: Percentiles,
}

/// Counts of one generator thread.
#[derive(Clone)]
pub(super) struct Tally {
    statuses: BTreeMap<u16, u64>,
    errors: u64,
    first_sent_us: u64,
    last_answer_us: u64,
    acks: Latencies,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            statuses: BTreeMap::new(),
            errors: 0,
            first_sent_us: u64::MAX,
            last_answer_us: 0,
            acks: Latencies::new(),
        }
    }

    /// Counts the answer to `turn`, status and latency in microseconds; `None` when it broke off.
    pub(super) fn record(&mut self, turn: &Turn, answer: Option<(StatusCode, u64)>) {
        self.first_sent_us = self.first_sent_us.min(turn.due_us);
        self.last_answer_us = clock::steady_us().max(self.last_answer_us);
        match answer {
            Some((status, latency_us)) => {
                *self.statuses.entry(status.as_u16()).or_default() += 1;
                if status.is_success() {
                    self.acks.record(latency_us);
                }
            }
            None => self.errors += 1,
        }
    }

    /// Requests that were answered or broke off.
    pub(super) fn settled(&self) -> u64 {
        self.statuses.values().sum::<u64>() + self.errors
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (&status, &count) in &other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.errors += other.errors;
        self.first_sent_us = self.first_sent_us.min(other.first_sent_us);
        self.last_answer_us = self.last_answer_us.max(other.last_answer_us);
        self.acks.merge(&other.acks);
    }

    pub(super) fn report(self, sent: u64) -> Report {
        let acknowledged =
            self.statuses.iter().filter(|(status, _)| (200..300).contains(*status)).map(|(_, n)| n).sum();
        Report {
            sent,
            acknowledged,
            errors: self.errors,
            unanswered: sent.saturating_sub(self.settled()),
            first_sent_us: self.first_sent_us.min(self.last_answer_us),
            last_answer_us: self.last_answer_us,
            acks_per_second: per_second(acknowledged, self.first_sent_us, self.last_answer_us),
            ack: self.acks.percentiles(),
            statuses: self.statuses,
        }
    }
}

impl Report {
    /// Both as one, for two generators that ran at the same time. Of percentiles the worse is taken.
    pub(crate) fn beside(mut self, other: Self) -> Self {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.first_sent_us = self.first_sent_us.min(other.first_sent_us);
        self.last_answer_us = self.last_answer_us.max(other.last_answer_us);
        self.acks_per_second = per_second(self.acknowledged, self.first_sent_us, self.last_answer_us);
        self.ack = self.ack.worse(other.ack);
        self
    }
}

/// `count` over the time between two moments in microseconds; 0 when no time passed.
#[expect(clippy::cast_precision_loss, reason = "counts and spans stay far below 2^53")]
pub(crate) fn per_second(count: u64, from_us: u64, to_us: u64) -> f64 {
    let span_us = to_us.saturating_sub(from_us);
    if span_us == 0 { 0.0 } else { count as f64 * 1e6 / span_us as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_2xx_answers_are_acknowledgements() {
        let mut tally = Tally::new();
        let turn = |n| Turn { n, due: clock::now(), due_us: 1_000_000 };
        tally.record(&turn(0), Some((StatusCode::OK, 10)));
        tally.record(&turn(1), Some((StatusCode::CREATED, 20)));
        tally.record(&turn(2), Some((StatusCode::SERVICE_UNAVAILABLE, 5)));
        tally.record(&turn(3), None);
        let report = tally.report(6);
        assert_eq!((report.sent, report.acknowledged, report.errors, report.unanswered), (6, 2, 1, 2));
        assert_eq!(report.statuses, BTreeMap::from([(200, 1), (201, 1), (503, 1)]));
        assert_eq!((report.ack.count, report.ack.p50_us, report.ack.max_us), (2, 10, 20));
        assert_eq!(report.first_sent_us, 1_000_000);
    }

    #[test]
    fn two_generators_count_as_one_over_both_their_times() {
        let one = |status, at_us, latency_us| {
            let mut tally = Tally::new();
            tally.record(&Turn { n: 0, due: clock::now(), due_us: at_us }, Some((status, latency_us)));
            let report = tally.report(1);
            Report { last_answer_us: at_us + 1_000_000, ..report }
        };
        let both = one(StatusCode::OK, 1_000_000, 10).beside(one(StatusCode::CREATED, 2_000_000, 30));
        assert_eq!((both.sent, both.acknowledged, both.errors, both.unanswered), (2, 2, 0, 0));
        assert_eq!((both.first_sent_us, both.last_answer_us), (1_000_000, 3_000_000));
        assert!((both.acks_per_second - 1.0).abs() < 1e-9, "two in two seconds");
        assert_eq!((both.ack.count, both.ack.p50_us), (2, 30), "the worse of the two");
    }

    #[test]
    fn a_rate_is_a_count_over_its_time() {
        assert!((per_second(500, 1_000_000, 3_000_000) - 250.0).abs() < 1e-9);
        assert_eq!(per_second(500, 5, 5), 0.0);
        assert_eq!(per_second(500, 9, 5), 0.0);
    }
}
