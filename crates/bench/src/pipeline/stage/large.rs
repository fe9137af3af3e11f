//! What a large store costs: each event beside millions of stored ones, and arrivals while all of them are erased.
//!
//! Nothing can expire within a benchmark, so the store is filled by a server whose time of day is [`PAST`]: once it is
//! started again with the true one, all that it holds has expired.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Serialize;
use tokio::time::sleep;

use crate::latency::Percentiles;
use crate::pipeline::child::Load;
use crate::pipeline::flow::Shape;
use crate::pipeline::server::{Server, Source};
use crate::pipeline::statistics::median;
use crate::pipeline::{Bench, progress};

/// The time of day of the server that fills the store, as `libfaketime` understands it: longer ago than the default
/// retention.
const PAST: &str = "-40d";
/// Sources, each with one destination, that events go through; as many others hold what is stored.
const SOURCES: usize = 200;
/// Messages in the small store.
const SMALL: u64 = 10_000;
/// Requests per second whose arrival is timed.
const PER_SECOND: f64 = 1_000.0;
/// A server that uses more of a core than this, without load, is still erasing: it does so gently, and an idle one uses
/// less than a tenth of this.
const BUSY: f64 = 0.01;
const BUSY_FOR: std::time::Duration = std::time::Duration::from_secs(4);

#[derive(Serialize)]
pub(crate) struct Large {
    pub(in crate::pipeline) stored: u64,
    stored_per_second: f64,
    /// Processor time of the server for one event through a source to its destination, in microseconds: beside
    /// [`SMALL`] messages, and beside all. Medians over the rounds.
    small_cpu_us: Option<f64>,
    large_cpu_us: Option<f64>,
    /// Events per second at full load, likewise.
    small_per_second: Option<f64>,
    large_per_second: Option<f64>,
    /// From the due time of a request to its arrival, at a fixed rate: beside all that is stored, and while it is erased.
    kept_arrival: Percentiles,
    erasing_arrival: Percentiles,
    /// Whether there was something left to erase when the load was over.
    pub(in crate::pipeline) still_erasing: bool,
    pub(in crate::pipeline) lost: u64,
}

/// Rounds at one size.
struct Rounds {
    cpu_us: Option<f64>,
    per_second: Option<f64>,
    lost: u64,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<Large> {
    progress("a large store")?;
    let past = vec![
        ("LD_PRELOAD", libfaketime()?.display().to_string()),
        ("FAKETIME", PAST.to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let mut server = Server::start_with(bench, past).await?;
    let live = Shape { sources: SOURCES, destinations: 1 }.create(bench, &mut server).await?;
    let mut inboxes = Vec::with_capacity(SOURCES);
    for index in 0..SOURCES {
        inboxes.push(server.source(&format!("inbox {index}"), &[]).await?);
    }
    bench.store(&inboxes, SMALL).await?;
    let small = rounds(bench, &server, &live).await?;
    let (stored, stored_per_second) = bench.store(&inboxes, bench.scale.large).await?;
    let large = rounds(bench, &server, &live).await?;
    let kept = arrivals(bench, &live).await?;

    let server = server.restart_with(bench, Vec::new()).await?;
    let live: Vec<Source> = live.iter().map(|source| source.moved_to(&server)).collect();
    let erasing = arrivals(bench, &live).await?;
    let before = server.cpu()?;
    sleep(BUSY_FOR).await;
    let still_erasing = (server.cpu()? - before).as_secs_f64() > BUSY * BUSY_FOR.as_secs_f64();
    server.discard().await?;
    progress(&format!(
        "  one event {:.1} µs beside {SMALL}, {:.1} µs beside {stored}; arrival p99 {} µs, while erasing {} µs",
        small.cpu_us.unwrap_or_default(),
        large.cpu_us.unwrap_or_default(),
        kept.0.p99_us,
        erasing.0.p99_us
    ))?;
    Ok(Large {
        stored,
        stored_per_second,
        small_cpu_us: small.cpu_us,
        large_cpu_us: large.cpu_us,
        small_per_second: small.per_second,
        large_per_second: large.per_second,
        kept_arrival: kept.0,
        erasing_arrival: erasing.0,
        still_erasing,
        lost: small.lost + large.lost + kept.1 + erasing.1,
    })
}

impl Large {
    /// What an event costs beside all that is stored, to what it costs beside little.
    pub(in crate::pipeline) fn cost_ratio(&self) -> Option<f64> {
        Some(self.large_cpu_us? / self.small_cpu_us?)
    }

    /// Arrival p99 while all is erased, to that while it is kept.
    pub(in crate::pipeline) fn erasing_ratio(&self) -> Option<f64> {
        let [erasing, kept] = [self.erasing_arrival.p99()?, self.kept_arrival.p99()?];
        Some(crate::pipeline::statistics::float(erasing) / crate::pipeline::statistics::float(kept))
    }
}

async fn rounds(bench: &Bench, server: &Server, live: &[Source]) -> Result<Rounds> {
    let (mut cpu_us, mut per_second, mut lost) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.scale.rounds {
        let flow = bench.flow(server, live, 1).await?;
        cpu_us.push(flow.cpu_us_per_message);
        per_second.push(flow.deliveries_per_second);
        lost += flow.lost;
    }
    Ok(Rounds { cpu_us: median(cpu_us), per_second: median(per_second), lost })
}

/// When requests arrive at a fixed rate, and how many do not.
async fn arrivals(bench: &Bench, live: &[Source]) -> Result<(Percentiles, u64)> {
    let urls = live.iter().map(|source| source.intake.clone()).collect();
    let load = Load { rate: Some(PER_SECOND), ..bench.full_load(urls, bench.scale.latency_seconds) };
    bench.sink.reset().await?;
    let report = load.run().await?;
    let stats = bench.sink.wait_for(report.acknowledged).await?;
    Ok((stats.latency, stats.lost(report.acknowledged, 1)))
}

fn libfaketime() -> Result<PathBuf> {
    let known = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/local/lib"];
    let paths = known.iter().map(|folder| PathBuf::from(format!("{folder}/faketime/libfaketime.so.1")));
    let found = paths.into_iter().find(|path| path.is_file());
    found.context("libfaketime is missing\nhint: apt-get install faketime")
}
