//! Rates at full load, each between two runs of the raw ceiling.

use anyhow::Result;
use serde::Serialize;

use super::flow::{Flow, Shape};
use super::scale::Part;
use super::server::Server;
use super::statistics::{median, ratio};
use super::{Bench, progress};

const SOURCES_MANY: usize = 200;

/// All rates of a run; those not asked for are null.
#[derive(Default, Serialize)]
pub(crate) struct Rates {
    /// Every run of the raw ceiling in order, in requests per second.
    ceilings: Vec<f64>,
    ceiling_median: Option<f64>,
    /// Durable accepts per second of a source without destinations.
    pub(super) accepts: Option<Rate>,
    /// Deliveries per second of one source with one destination.
    pub(super) events1: Option<Rate>,
    /// Deliveries per second of one source with ten destinations.
    pub(super) events10: Option<Rate>,
    /// Deliveries per second of published events, signed, to one webhook.
    pub(super) webhooks1: Option<Rate>,
    /// Deliveries per second of published events, signed, to ten webhooks.
    pub(super) webhooks10: Option<Rate>,
    /// Deliveries per second of 200 sources with one destination each, on an empty store.
    pub(super) sources200_empty: Option<Rate>,
    /// The same on a store that holds `preloaded` messages of these sources.
    pub(super) sources200_loaded: Option<Rate>,
    /// Messages stored before, and the rate at which they were accepted.
    pub(super) preloaded: u64,
    preload_per_second: Option<f64>,
}

/// One rate over all rounds.
#[derive(Default, Serialize)]
pub(crate) struct Rate {
    per_second_median: Option<f64>,
    pub(super) ratio_median: Option<f64>,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
struct Round {
    per_second: f64,
    /// To the mean of the two ceilings beside it.
    ratio: f64,
    ceiling_before: f64,
    ceiling_after: f64,
    #[serde(flatten)]
    flow: Flow,
}

/// What a rate counts.
#[derive(Clone, Copy)]
enum Unit {
    Accepts,
    Deliveries,
}

/// Measures the wanted rates in interleaved rounds, the one on a full store last.
pub(super) async fn measure(bench: &Bench, wanted: &impl Fn(Part) -> bool) -> Result<Rates> {
    let mut rates = Rates::default();
    let parts =
        [Part::Ceiling, Part::Accepts, Part::Events1, Part::Events10, Part::Webhooks, Part::Sources200];
    if !parts.into_iter().any(wanted) {
        return Ok(rates);
    }
    for round in 1..=bench.scale.rounds {
        progress(&format!("rates, round {round} of {}", bench.scale.rounds))?;
        if wanted(Part::Ceiling) && rates.ceilings.len() < round {
            rates.ceiling(bench).await?;
        }
        if wanted(Part::Accepts) {
            let next = rates.fresh(bench, Shape { sources: 1, destinations: 0 }, Unit::Accepts).await?;
            rates.accepts.get_or_insert_default().add(next);
        }
        if wanted(Part::Events1) || wanted(Part::Webhooks) {
            let next = rates.fresh(bench, Shape { sources: 1, destinations: 1 }, Unit::Deliveries).await?;
            rates.events1.get_or_insert_default().add(next);
        }
        if wanted(Part::Webhooks) {
            let next = rates.published(bench, 1).await?;
            rates.webhooks1.get_or_insert_default().add(next);
        }
        if wanted(Part::Events10) || wanted(Part::Webhooks) {
            let next = rates.fresh(bench, Shape { sources: 1, destinations: 10 }, Unit::Deliveries).await?;
            rates.events10.get_or_insert_default().add(next);
        }
        if wanted(Part::Webhooks) {
            let next = rates.published(bench, 10).await?;
            rates.webhooks10.get_or_insert_default().add(next);
        }
        if wanted(Part::Sources200) {
            let shape = Shape { sources: SOURCES_MANY, destinations: 1 };
            let next = rates.fresh(bench, shape, Unit::Deliveries).await?;
            rates.sources200_empty.get_or_insert_default().add(next);
        }
    }
    if wanted(Part::Sources200) && bench.scale.preload > 0 {
        rates.loaded(bench).await?;
    }
    rates.ceiling_median = median(rates.ceilings.iter().copied());
    Ok(rates)
}

impl Rates {
    /// The most memory any server had, in bytes.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.flows().map(|flow| flow.peak_bytes).max().unwrap_or_default()
    }

    /// Deliveries lost over all rounds; `None` when nothing was measured.
    pub(super) fn lost(&self) -> Option<u64> {
        self.flows().map(|flow| flow.lost).reduce(|sum, lost| sum + lost)
    }

    fn flows(&self) -> impl Iterator<Item = &Flow> {
        let rates = [
            &self.accepts,
            &self.events1,
            &self.events10,
            &self.webhooks1,
            &self.webhooks10,
            &self.sources200_empty,
            &self.sources200_loaded,
        ];
        rates.into_iter().flatten().flat_map(|rate| rate.rounds.iter().map(|round| &round.flow))
    }

    async fn ceiling(&mut self, bench: &Bench) -> Result<f64> {
        let ceiling = bench.ceiling().await?;
        progress(&format!("  ceiling {ceiling:.0}/s"))?;
        self.ceilings.push(ceiling);
        Ok(ceiling)
    }

    /// One round of `shape` on an empty store.
    async fn fresh(&mut self, bench: &Bench, shape: Shape, unit: Unit) -> Result<Round> {
        let before = match self.ceilings.last() {
            Some(&neighbour) => neighbour,
            None => self.ceiling(bench).await?,
        };
        let mut server = Server::start(bench).await?;
        let sources = shape.create(bench, &mut server).await?;
        let flow = bench.flow(&server, &sources, shape.destinations).await?;
        // Its upkeep must not disturb the ceiling that follows.
        server.discard().await?;
        self.finish(bench, before, flow, unit, &format!("{}×{}", shape.sources, shape.destinations)).await
    }

    /// One round of events to `webhooks` webhooks on an empty store.
    async fn published(&mut self, bench: &Bench, webhooks: usize) -> Result<Round> {
        let before = match self.ceilings.last() {
            Some(&neighbour) => neighbour,
            None => self.ceiling(bench).await?,
        };
        let mut server = Server::start(bench).await?;
        for index in 0..webhooks {
            server.webhook(&bench.sink.url(&format!("/w/{index}"))).await?;
        }
        let flow = bench.events(&server, webhooks).await?;
        server.discard().await?;
        self.finish(bench, before, flow, Unit::Deliveries, &format!("events to {webhooks} webhooks")).await
    }

    /// All rounds on a store that was filled before.
    async fn loaded(&mut self, bench: &Bench) -> Result<()> {
        let mut server = Server::start(bench).await?;
        let sources = Shape { sources: SOURCES_MANY, destinations: 0 }.create(bench, &mut server).await?;
        progress(&format!("storing {} messages", bench.scale.preload))?;
        let (stored, per_second) = bench.store(&sources, bench.scale.preload).await?;
        (self.preloaded, self.preload_per_second) = (stored, Some(per_second));
        for (index, source) in sources.iter().enumerate() {
            server
                .destination(source, &bench.sink.url(&format!("/d/{index}/0")), serde_json::json!({}))
                .await?;
        }
        for _ in 0..bench.scale.rounds {
            let before = self.ceiling(bench).await?;
            let flow = bench.flow(&server, &sources, 1).await?;
            let round = self.finish(bench, before, flow, Unit::Deliveries, "200×1 on a full store").await?;
            self.sources200_loaded.get_or_insert_default().add(round);
        }
        server.discard().await
    }

    async fn finish(
        &mut self,
        bench: &Bench,
        before: f64,
        flow: Flow,
        unit: Unit,
        name: &str,
    ) -> Result<Round> {
        let after = self.ceiling(bench).await?;
        let per_second = match unit {
            Unit::Accepts => flow.acks_per_second,
            Unit::Deliveries => flow.deliveries_per_second,
        };
        let ratio = ratio(per_second, f64::midpoint(before, after));
        progress(&format!("  {name}: {per_second:.0}/s, ratio {ratio:.3}, lost {}", flow.lost))?;
        Ok(Round { per_second, ratio, ceiling_before: before, ceiling_after: after, flow })
    }
}

impl Rate {
    fn add(&mut self, round: Round) {
        self.rounds.push(round);
        self.per_second_median = median(self.rounds.iter().map(|round| round.per_second));
        self.ratio_median = median(self.rounds.iter().map(|round| round.ratio));
    }
}
