//! What a call of the client library costs beside a bare call of the HTTP client that it is built on.
//!
//! Each has one connection and makes one call after the other. Short slices of both take turns within one run, and which
//! comes first changes, so that what the machine does besides hits both alike.

mod answerer;
mod bare;
mod times;

use std::time::Duration;

use anyhow::Result;
use restante_sdk::Client;
use restante_sdk::wire::{Json, PublishEvent};
use serde::Serialize;

use self::bare::Bare;
use self::times::{Calls, Times};
use crate::body::{self, EVENT_TYPE};
use crate::clock;
use crate::pipeline::server::Server;
use crate::pipeline::statistics::median;
use crate::pipeline::{Bench, progress};

/// How long one of the two calls before it is the other's turn.
const SLICE: Duration = Duration::from_millis(50);

/// Pairs of a library call and a bare one that asks for the same.
#[derive(Serialize)]
pub(crate) struct Sdk {
    /// An event published to the server, which has it on disk before it answers.
    pub(in crate::pipeline) publish: Pair,
    /// A source read from the server.
    pub(in crate::pipeline) read: Pair,
    /// An event published to a receiver in this thread that answers at once: nothing hides what the library itself does.
    pub(in crate::pipeline) publish_at_once: Pair,
}

/// One pair over all rounds. An overhead is a share: 0.05 is 5 % more time than a bare call takes.
#[derive(Serialize)]
pub(crate) struct Pair {
    /// Median over the rounds, by the mean time of a call.
    overhead_median: Option<f64>,
    overhead_min: Option<f64>,
    /// Median over the rounds, by the median time of a call.
    pub(in crate::pipeline) p50_overhead_median: Option<f64>,
    p50_overhead_min: Option<f64>,
    /// Over all rounds.
    bare: Calls,
    sdk: Calls,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
struct Round {
    overhead: f64,
    p50_overhead: f64,
    bare: Calls,
    sdk: Calls,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<Sdk> {
    let data = String::from_utf8(body::write(0, 0, bench.body_bytes).to_vec())?;
    let event = PublishEvent { event_type: EVENT_TYPE.to_owned(), data: Json::parse(data)?, timestamp: None };
    let mut server = Server::start(bench).await?;
    let source = server.source("read", &[]).await?;

    let client = Client::new(&format!("http://{}", server.address), &server.admin_key)?;
    let bare = Bare::new(server.address, &server.admin_key)?;
    let publish = pair(
        bench,
        "publish",
        async || bare.publish(&event).await.map(drop),
        async || Ok(client.events().publish(&event).await.map(drop)?),
    );
    let publish = publish.await?;
    let read = pair(
        bench,
        "read",
        async || bare.source(&source.id).await.map(drop),
        async || Ok(client.sources().get(&source.id).await.map(drop)?),
    );
    let read = read.await?;

    let answerer = answerer::start().await?;
    let client = Client::new(&format!("http://{answerer}"), &server.admin_key)?;
    let bare = Bare::new(answerer, &server.admin_key)?;
    let publish_at_once = pair(
        bench,
        "publish, answered at once",
        async || bare.publish(&event).await.map(drop),
        async || Ok(client.events().publish(&event).await.map(drop)?),
    );
    let publish_at_once = publish_at_once.await?;
    server.discard().await?;
    Ok(Sdk { publish, read, publish_at_once })
}

/// Measures both calls of a pair in turns.
async fn pair(
    bench: &Bench,
    name: &str,
    bare: impl AsyncFn() -> Result<()>,
    sdk: impl AsyncFn() -> Result<()>,
) -> Result<Pair> {
    // Connections and caches are there before anything counts.
    slice(&bare, &mut Times::new()).await?;
    slice(&sdk, &mut Times::new()).await?;
    let (mut bare_all, mut sdk_all, mut rounds) = (Times::new(), Times::new(), Vec::new());
    for number in 0..bench.scale.rounds {
        let (mut bare_times, mut sdk_times) = (Times::new(), Times::new());
        let time = Duration::from_secs_f64(bench.scale.sdk_seconds);
        let start = clock::now();
        while clock::now().duration_since(start) < time {
            slice(&bare, &mut bare_times).await?;
            slice(&sdk, &mut sdk_times).await?;
            slice(&sdk, &mut sdk_times).await?;
            slice(&bare, &mut bare_times).await?;
        }
        let round = Round::of(&bare_times, &sdk_times);
        progress(&format!(
            "{name}, round {} of {}: bare {:.0}/s, library {:.0}/s, overhead {:.1} %, of the median {:.1} %",
            number + 1,
            bench.scale.rounds,
            round.bare.per_second,
            round.sdk.per_second,
            round.overhead * 100.0,
            round.p50_overhead * 100.0,
        ))?;
        rounds.push(round);
        bare_all.merge(&bare_times);
        sdk_all.merge(&sdk_times);
    }
    Ok(Pair::of(bare_all.calls(), sdk_all.calls(), rounds))
}

/// One call after the other for the time of a slice.
async fn slice(call: &impl AsyncFn() -> Result<()>, times: &mut Times) -> Result<()> {
    let start = clock::now();
    let mut before = start;
    while before.duration_since(start) < SLICE {
        call().await?;
        let after = clock::now();
        times.record(after.duration_since(before));
        before = after;
    }
    Ok(())
}

impl Pair {
    fn of(bare: Calls, sdk: Calls, rounds: Vec<Round>) -> Self {
        let overheads = || rounds.iter().map(|round| round.overhead);
        let p50_overheads = || rounds.iter().map(|round| round.p50_overhead);
        Self {
            overhead_median: median(overheads()),
            overhead_min: overheads().min_by(f64::total_cmp),
            p50_overhead_median: median(p50_overheads()),
            p50_overhead_min: p50_overheads().min_by(f64::total_cmp),
            bare,
            sdk,
            rounds,
        }
    }
}

impl Round {
    fn of(bare: &Times, sdk: &Times) -> Self {
        let (bare, sdk) = (bare.calls(), sdk.calls());
        Self {
            overhead: bare.per_second / sdk.per_second - 1.0,
            p50_overhead: sdk.p50_us / bare.p50_us - 1.0,
            bare,
            sdk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(each_us: u64, count: u64) -> Times {
        let mut times = Times::new();
        (0..count).for_each(|_| times.record(Duration::from_micros(each_us)));
        times
    }

    #[test]
    fn an_overhead_is_the_time_that_the_library_adds_as_a_share_of_a_bare_call() {
        let round = Round::of(&times(100, 40), &times(125, 32));
        assert!((round.overhead - 0.25).abs() < 1e-9, "{}", round.overhead);
        assert!((round.p50_overhead - 0.25).abs() < 0.002, "{}", round.p50_overhead);
    }

    #[test]
    fn a_pair_reports_the_middle_round_and_the_best() {
        let rounds = [110, 160, 120].map(|sdk| Round::of(&times(100, 9), &times(sdk, 9)));
        let pair = Pair::of(times(100, 27).calls(), times(130, 27).calls(), rounds.into());
        let near =
            |value: Option<f64>, wanted: f64| value.is_some_and(|value| (value - wanted).abs() < 0.002);
        assert!(near(pair.overhead_median, 0.2) && near(pair.overhead_min, 0.1));
        assert!(near(pair.p50_overhead_median, 0.2) && near(pair.p50_overhead_min, 0.1));
    }
}
