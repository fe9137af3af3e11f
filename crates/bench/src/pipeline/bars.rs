//! The bars: what the figures must reach.

use serde::Serialize;

use super::Figures;
use super::rates::Rate;
use super::stage::claims::{Claiming, Claims};
use super::stage::dead::Dead;
use super::stage::instant;
use super::stage::large::Large;
use super::stage::nodes::{Compared, Nodes};
use super::stage::sdk::{Pair, Sdk};
use super::statistics::float;

/// One bar and how a run did.
#[derive(Debug, Serialize)]
pub(crate) struct Bar {
    name: &'static str,
    /// What the run reached; null when that part was not measured.
    value: Option<f64>,
    bound: Bound,
    target: f64,
    unit: &'static str,
    /// Null when that part was not measured, or not at the size that the bar is about.
    met: Option<bool>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Bound {
    AtLeast,
    AtMost,
}

/// Messages that make a store full, and deliveries that make many pending.
const PRELOADED_MIN: u64 = 3_000_000;
const PENDING_MIN: u64 = 1_000_000;
const INSTANT_MIN: u64 = 10_000;
const LARGE_MIN: u64 = 10_000_000;

pub(super) fn judge(figures: &Figures) -> Vec<Bar> {
    let rates = &figures.rates;
    let ratio = |rate: &Option<Rate>| rate.as_ref().and_then(|rate| rate.ratio_median);
    let beside = |one: &Option<Rate>, other: &Option<Rate>| Some(ratio(one)? / ratio(other)?);
    let (latency, memory) = (figures.latency.as_ref(), figures.memory.as_ref());
    let (start, hanging) = (figures.start.as_ref(), figures.hanging.as_ref());
    let ready = |start: &super::Start| start.paused.ready_seconds.max(start.due.ready_seconds);
    let start_peak = |start: &super::Start| float(start.paused.peak_bytes.max(start.due.peak_bytes));
    let many_pending = start.is_some_and(|start| start.pending >= PENDING_MIN);
    let preloaded = rates.preloaded >= PRELOADED_MIN;
    let mut bars = vec![
        at_least("durable accepts", ratio(&rates.accepts), 0.50, "of the ceiling"),
        at_least("events to one destination", ratio(&rates.events1), 0.30, "of the ceiling"),
        at_least("deliveries to ten destinations", ratio(&rates.events10), 0.65, "of the ceiling"),
        at_least(
            "events to one webhook",
            beside(&rates.webhooks1, &rates.events1),
            0.9,
            "of that to destinations",
        ),
        at_least(
            "events to ten webhooks",
            beside(&rates.webhooks10, &rates.events10),
            0.9,
            "of that to destinations",
        ),
        at_least(
            "events of 200 sources on a full store",
            ratio(&rates.sources200_loaded),
            0.25,
            "of the ceiling",
        )
        .only_if(preloaded),
        at_least(
            "events of 200 sources on a full store beside an empty one",
            beside(&rates.sources200_loaded, &rates.sources200_empty),
            0.9,
            "of those on an empty store",
        )
        .only_if(preloaded),
        at_most(
            "acknowledgement p50 of one connection",
            latency.and_then(|latency| latency.one_connection_to_fdatasync),
            2.0,
            "fdatasync p50",
        ),
        at_most(
            "arrival p99 at 1,000 events per second",
            latency.and_then(|latency| latency.arrival_p99_us_at_1000).map(|us| us / 1e3),
            5.0,
            "ms",
        ),
        at_most("memory at full load", memory.map(|memory| float(memory.peak_bytes) / 1e6), 100.0, "MB"),
        at_most("memory idle", memory.map(|memory| float(memory.idle_bytes) / 1e6), 30.0, "MB"),
        at_most("start with pending deliveries", start.map(ready), 2.0, "s").only_if(many_pending),
        at_most(
            "memory after a start with pending deliveries",
            start.map(|start| start_peak(start) / 1e6),
            150.0,
            "MB",
        )
        .only_if(many_pending),
        at_most(
            "arrival p99 beside hanging destinations",
            hanging.and_then(|hanging| hanging.healthy_arrival.p99()).map(|us| float(us) / 1e3),
            20.0,
            "ms",
        )
        .only_if(hanging.is_some_and(super::Hanging::is_full_size)),
        at_most(
            "acknowledgement p99 beside hostile clients",
            figures.hostile.as_ref().and_then(|hostile| hostile.p99_ratio),
            2.0,
            "of that without them",
        ),
        at_most(
            "memory that hostile clients cost",
            figures.hostile.as_ref().map(|hostile| float(hostile.growth_bytes) / 1e6),
            20.0,
            "MB",
        ),
        at_most(
            "hostile clients not closed within 30 s",
            figures.hostile.as_ref().map(|hostile| float(hostile.not_closed as u64)),
            0.0,
            "clients",
        ),
        library(figures, "library call that publishes", |sdk| &sdk.publish),
        library(figures, "library call that reads", |sdk| &sdk.read),
        library(figures, "library call that is answered at once", |sdk| &sdk.publish_at_once),
        at_most("acknowledged and lost", figures.lost.map(float), 0.0, "deliveries"),
    ];
    bars.extend(near_the_limit(figures));
    bars
}

/// What must hold however much is dead, due or stored.
fn near_the_limit(figures: &Figures) -> [Bar; 6] {
    let (dead, crowd) = (figures.dead.as_ref(), figures.instant.as_ref());
    let is_graveyard = dead.is_some_and(Dead::is_full_size);
    let is_crowd = crowd.is_some_and(|crowd| crowd.due >= INSTANT_MIN);
    let large = figures.large.as_ref();
    let is_large = large.is_some_and(|large| large.stored >= LARGE_MIN);
    let still_erasing = large.is_some_and(|large| large.still_erasing);
    let arrival_ms = dead.and_then(|dead| dead.healthy_arrival.p99()).map(|us| float(us) / 1e3);
    [
        at_most("arrival p99 beside dead destinations", arrival_ms, 1e3, "ms").only_if(is_graveyard),
        at_most(
            "memory beside dead destinations",
            dead.map(|dead| float(dead.peak_bytes) / 1e6),
            300.0,
            "MB",
        )
        .only_if(is_graveyard),
        at_most(
            "attempts at once of deliveries due at one instant",
            crowd.map(|crowd| float(crowd.open_max)),
            float(instant::LIMIT),
            "attempts",
        )
        .only_if(is_crowd),
        at_most(
            "attempts at once before the first answer",
            crowd.map(|crowd| float(crowd.first_wave)),
            float(instant::LIMIT / 2),
            "attempts",
        )
        .only_if(is_crowd),
        at_most(
            "cost of an event beside a large store",
            large.and_then(Large::cost_ratio),
            1.1,
            "of that beside little",
        )
        .only_if(is_large),
        at_most(
            "arrival p99 while a large store is erased",
            large.and_then(Large::erasing_ratio),
            2.0,
            "of that while it is kept",
        )
        .only_if(is_large && still_erasing),
    ]
}

/// By the median call: the mean of a few microseconds tells more about what else the machine did.
fn library(figures: &Figures, name: &'static str, pair: fn(&Sdk) -> &Pair) -> Bar {
    let overhead = figures.sdk.as_ref().and_then(|sdk| pair(sdk).p50_overhead_median);
    at_most(name, overhead.map(|share| share * 1e2), 5.0, "% more than a bare call")
}

/// Due deliveries and endpoints that the bars of claims are about.
const CLAIM_ROWS_MIN: u64 = 1_000_000;
const CLAIM_ENDPOINTS_MIN: u64 = 10_000;
const HELD_SECONDS_MIN: f64 = 30.0;

/// The bars of the store for many nodes.
pub(super) fn judge_postgres(figures: &Figures) -> Vec<Bar> {
    let rates = &figures.rates;
    let ratio = |rate: &Option<Rate>| rate.as_ref().and_then(|rate| rate.ratio_median);
    let claims = figures.claims.as_ref();
    let p99_ms = |part: fn(&Claims) -> &Claiming| {
        claims.and_then(|claims| part(claims).latency.p99()).map(|us| float(us) / 1e3)
    };
    let is_large =
        claims.is_some_and(|claims| claims.rows >= CLAIM_ROWS_MIN && claims.endpoints >= CLAIM_ENDPOINTS_MIN);
    let is_long = claims.is_some_and(|claims| claims.held_seconds >= HELD_SECONDS_MIN);
    // Differences of less than 5 % are noise.
    let beside = |name, shape: fn(&Nodes) -> &Compared| {
        at_least(name, figures.nodes.as_ref().and_then(|it| shape(it).ratio_median), 0.95, "of that of one")
    };
    vec![
        at_least("durable accepts", ratio(&rates.accepts), 0.20, "of the ceiling"),
        at_least("events to one destination", ratio(&rates.events1), 0.12, "of the ceiling"),
        at_least("deliveries to ten destinations", ratio(&rates.events10), 0.30, "of the ceiling"),
        at_most(
            "acknowledgement p99 of one connection",
            figures.latency.as_ref().and_then(|it| it.one_connection_ack_p99_us).map(|us| us / 1e3),
            3.0,
            "ms",
        ),
        beside("durable accepts of two nodes", |nodes| &nodes.accepts),
        beside("events to one destination of two nodes", |nodes| &nodes.events1),
        beside("deliveries to ten destinations of two nodes", |nodes| &nodes.events10),
        at_most("claim p99 among many due rows", p99_ms(|it| &it.due), 10.0, "ms").only_if(is_large),
        at_most("claim p99 beside a held snapshot", p99_ms(|it| &it.held), 10.0, "ms")
            .only_if(is_large && is_long),
        at_most("claim p99 with full lanes", p99_ms(|it| &it.saturated), 10.0, "ms").only_if(is_large),
        at_most("acknowledged and lost", figures.lost.map(float), 0.0, "deliveries"),
    ]
}

impl Bar {
    /// Judges only a run of the size that the bar is about; the value is reported in any case.
    fn only_if(self, full_size: bool) -> Self {
        Self { met: self.met.filter(|_| full_size), ..self }
    }
}

fn at_least(name: &'static str, value: Option<f64>, target: f64, unit: &'static str) -> Bar {
    Bar { name, value, bound: Bound::AtLeast, target, unit, met: value.map(|value| value >= target) }
}

fn at_most(name: &'static str, value: Option<f64>, target: f64, unit: &'static str) -> Bar {
    Bar { name, value, bound: Bound::AtMost, target, unit, met: value.map(|value| value <= target) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_up_to_and_including_its_target() {
        assert_eq!(at_least("x", Some(0.35), 0.35, "").met, Some(true));
        assert_eq!(at_least("x", Some(0.3499), 0.35, "").met, Some(false));
        assert_eq!(at_most("x", Some(2.0), 2.0, "s").met, Some(true));
        assert_eq!(at_most("x", Some(2.01), 2.0, "s").met, Some(false));
    }

    #[test]
    fn a_smaller_run_is_reported_and_not_judged() {
        let bar = at_most("x", Some(1.0), 2.0, "s").only_if(false);
        assert_eq!((bar.value, bar.met), (Some(1.0), None));
    }

    #[test]
    fn a_bar_that_was_not_measured_is_neither_met_nor_missed() {
        let bars = judge(&Figures::default());
        assert_eq!(bars.len(), 27);
        assert!(bars.iter().all(|bar| bar.value.is_none() && bar.met.is_none()), "{bars:?}");
        let bars = judge_postgres(&Figures::default());
        assert_eq!(bars.len(), 11);
        assert!(bars.iter().all(|bar| bar.value.is_none() && bar.met.is_none()), "{bars:?}");
    }
}
