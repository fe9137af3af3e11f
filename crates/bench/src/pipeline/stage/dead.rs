//! Healthy destinations beside thousands that are dead, each with a backlog.

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::latency::Percentiles;
use crate::pipeline::child::Load;
use crate::pipeline::flow::Shape;
use crate::pipeline::server::{Server, Source, free_address};
use crate::pipeline::{Bench, progress};

/// Dead destinations of one source: each of its requests is pending for all of them.
const PER_SOURCE: usize = 100;
/// Requests per second to all healthy destinations together.
const HEALTHY_PER_SECOND: f64 = 200.0;

#[derive(Serialize)]
pub(crate) struct Dead {
    /// In equal parts: never answer, refuse connections, answer 500.
    dead_destinations: usize,
    /// Deliveries that each of them had before the healthy ones got anything.
    pending_each: u64,
    healthy_destinations: usize,
    seconds: f64,
    /// From the due time of a request to its arrival at a healthy destination.
    pub(in crate::pipeline) healthy_arrival: Percentiles,
    healthy_ack: Percentiles,
    healthy_acknowledged: u64,
    healthy_duplicates: u64,
    pub(in crate::pipeline) healthy_lost: u64,
    /// Attempts meanwhile, as the destinations saw them that hang, and that answer 500.
    hung: u64,
    refused: u64,
    pub(in crate::pipeline) peak_bytes: u64,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<Dead> {
    let scale = bench.scale;
    let (dead, healthy) = (scale.dead_destinations, scale.healthy_destinations);
    progress(&format!("{healthy} healthy destinations beside {dead} dead ones"))?;
    bench.sink.reset().await?;
    let mut server = Server::start(bench).await?;
    let to_healthy = Shape { sources: healthy, destinations: 1 }.create(bench, &mut server).await?;
    let to_dead = graveyard(bench, &mut server, dead).await?;
    let requests = scale.dead_pending * to_dead.len() as u64;
    let (stored, _) = bench.store(&to_dead, requests).await?;

    let urls = to_healthy.iter().map(|source| source.intake.clone()).collect();
    let load = Load { rate: Some(HEALTHY_PER_SECOND), ..bench.full_load(urls, scale.dead_seconds) };
    bench.sink.reset().await?;
    let report = load.run().await?;
    let stats = bench.sink.wait_for(report.acknowledged).await?;
    let peak_bytes = server.memory()?.peak_bytes;
    server.discard().await?;
    progress(&format!(
        "  arrival p99 at the healthy ones {} µs, peak {} MB",
        stats.latency.p99_us,
        peak_bytes / 1_000_000
    ))?;
    Ok(Dead {
        dead_destinations: dead,
        pending_each: stored / to_dead.len() as u64,
        healthy_destinations: healthy,
        seconds: scale.dead_seconds,
        healthy_arrival: stats.latency,
        healthy_ack: report.ack,
        healthy_acknowledged: report.acknowledged,
        healthy_duplicates: stats.duplicates,
        healthy_lost: stats.lost(report.acknowledged, 1),
        hung: stats.hung,
        refused: stats.refused,
        peak_bytes,
    })
}

impl Dead {
    /// As many destinations with as much pending as the bar asks for.
    pub(in crate::pipeline) fn is_full_size(&self) -> bool {
        self.dead_destinations >= 10_000 && self.pending_each >= 100 && self.healthy_destinations >= 100
    }
}

/// Sources whose destinations are dead, at most [`PER_SOURCE`] each, with the default schedule.
async fn graveyard(bench: &Bench, server: &mut Server, dead: usize) -> Result<Vec<Source>> {
    let refusing = free_address()?;
    let mut sources = Vec::new();
    for index in 0..dead {
        if index % PER_SOURCE == 0 {
            sources.push(server.source(&format!("dead {index}"), &[]).await?);
        }
        let url = match index % 3 {
            0 => bench.sink.url(&format!("/hang/{index}")),
            1 => format!("http://{refusing}/{index}"),
            _ => bench.sink.url(&format!("/status/500/{index}")),
        };
        if let Some(source) = sources.last() {
            server
                .destination(source, &url, json!({ "schedule": { "kind": "quadratic", "attempts": 5 } }))
                .await?;
        }
    }
    Ok(sources)
}
