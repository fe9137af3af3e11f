//! Healthy destinations beside ones that never answer.

use anyhow::Result;
use serde::Serialize;

use crate::latency::Percentiles;
use crate::pipeline::child::Load;
use crate::pipeline::server::Server;
use crate::pipeline::{Bench, progress};

/// Deliveries per second to all hanging destinations together, and as many to all healthy ones.
const PER_SECOND: f64 = 100.0;

#[derive(Serialize)]
pub(crate) struct Hanging {
    hanging_destinations: usize,
    healthy_destinations: usize,
    seconds: f64,
    /// From the due time of a request to its arrival at a healthy destination.
    pub(in crate::pipeline) healthy_arrival: Percentiles,
    healthy_ack: Percentiles,
    healthy_acknowledged: u64,
    healthy_duplicates: u64,
    pub(in crate::pipeline) healthy_lost: u64,
    hanging_acknowledged: u64,
    /// Requests that reached a hanging destination.
    hanging_arrived: u64,
    peak_bytes: u64,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<Hanging> {
    let (hanging, healthy) = (bench.scale.hanging_destinations, bench.scale.healthy_destinations);
    progress(&format!("{healthy} healthy destinations beside {hanging} that hang"))?;
    let mut server = Server::start(bench).await?;
    let to_hanging = load(bench, sources(bench, &mut server, "hang", hanging).await?);
    let to_healthy = load(bench, sources(bench, &mut server, "d", healthy).await?);
    bench.sink.reset().await?;
    let (hanging_report, report) = tokio::try_join!(to_hanging.run(), to_healthy.run())?;
    let stats = bench.sink.wait_for(report.acknowledged).await?;
    let peak_bytes = server.memory()?.peak_bytes;
    server.discard().await?;
    progress(&format!("  arrival p99 at the healthy ones {} µs", stats.latency.p99_us))?;
    Ok(Hanging {
        hanging_destinations: hanging,
        healthy_destinations: healthy,
        seconds: bench.scale.hanging_seconds,
        healthy_arrival: stats.latency,
        healthy_ack: report.ack,
        healthy_acknowledged: report.acknowledged,
        healthy_duplicates: stats.duplicates,
        healthy_lost: stats.lost(report.acknowledged, 1),
        hanging_acknowledged: hanging_report.acknowledged,
        hanging_arrived: stats.hung,
        peak_bytes,
    })
}

impl Hanging {
    /// As many destinations, and as long, as the bar asks for.
    pub(in crate::pipeline) fn is_full_size(&self) -> bool {
        self.hanging_destinations >= 1_000 && self.healthy_destinations >= 100 && self.seconds >= 60.0
    }
}

/// The intake URLs of `count` new sources with one destination each, at `/{kind}/…` of the receiver.
async fn sources(bench: &Bench, server: &mut Server, kind: &str, count: usize) -> Result<Vec<String>> {
    let mut intakes = Vec::with_capacity(count);
    for index in 0..count {
        let url = bench.sink.url(&format!("/{kind}/{index}"));
        intakes.push(server.source(&format!("{kind} {index}"), &[url]).await?.intake);
    }
    Ok(intakes)
}

fn load(bench: &Bench, urls: Vec<String>) -> Load {
    let mut load = bench.full_load(urls, bench.scale.hanging_seconds);
    load.rate = Some(PER_SECOND);
    load
}
