//! Start of a server that finds many pending deliveries.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use tokio::time::sleep;

use crate::pipeline::server::Server;
use crate::pipeline::{Bench, progress};

const DESTINATIONS: u64 = 10;
/// Time after which the peak of a started server is read.
const WATCH: Duration = Duration::from_secs(5);

#[derive(Serialize)]
pub(crate) struct Start {
    /// Deliveries pending before the first start.
    pub(in crate::pipeline) pending: u64,
    /// All destinations paused: nothing can be sent.
    pub(in crate::pipeline) paused: Started,
    /// The same destinations resumed just before the stop: everything is due at once.
    pub(in crate::pipeline) due: Started,
    /// Once everything had arrived.
    delivered: u64,
    duplicates: u64,
    pub(in crate::pipeline) lost: u64,
}

#[derive(Serialize)]
pub(crate) struct Started {
    /// From the start of the process to its first ready answer.
    pub(in crate::pipeline) ready_seconds: f64,
    /// Resident when it was ready, in bytes.
    ready_bytes: u64,
    /// The most within a few seconds after, in bytes.
    pub(in crate::pipeline) peak_bytes: u64,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<Start> {
    progress("start: storing pending deliveries")?;
    bench.sink.reset().await?;
    let mut server = Server::start(bench).await?;
    let source = server.source("pending", &[]).await?;
    let mut destinations = Vec::new();
    for index in 0..DESTINATIONS {
        let url = bench.sink.url(&format!("/d/{index}"));
        destinations.push(server.destination(&source, &url, json!({ "paused": true })).await?);
    }
    let (stored, _) = bench.store(&[source], bench.scale.pending_requests).await?;

    let mut server = server.restart(bench).await?;
    let paused = watch(&server).await?;
    for destination in &destinations {
        server.resume(destination).await?;
    }
    let server = server.restart(bench).await?;
    let due = watch(&server).await?;
    let pending = stored * DESTINATIONS;
    let stats = bench.sink.wait_for(pending).await?;
    server.discard().await?;
    let lost = stats.lost(stored, DESTINATIONS);
    Ok(Start { pending, paused, due, delivered: stats.distinct, duplicates: stats.duplicates, lost })
}

async fn watch(server: &Server) -> Result<Started> {
    let ready_seconds = server.ready_after.as_secs_f64();
    let ready_bytes = server.memory()?.rss_bytes;
    sleep(WATCH).await;
    let peak_bytes = server.memory()?.peak_bytes;
    progress(&format!("  ready after {ready_seconds:.3} s, peak {} MB", peak_bytes / 1_000_000))?;
    Ok(Started { ready_seconds, ready_bytes, peak_bytes })
}
