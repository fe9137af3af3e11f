//! Many deliveries that are due at one instant, all to one destination.

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::pipeline::server::Server;
use crate::pipeline::{Bench, progress};

/// How long the destination takes for an answer, in milliseconds.
const ANSWER_MS: u32 = 20;
/// The destination's `max_in_flight`: the default.
pub(in crate::pipeline) const LIMIT: u64 = 64;

#[derive(Serialize)]
pub(crate) struct Instant {
    /// Deliveries that became due at once.
    pub(in crate::pipeline) due: u64,
    limit: u64,
    /// Requests that the destination had open at once, before it had answered the first.
    pub(in crate::pipeline) first_wave: u64,
    /// The most it ever had open at once.
    pub(in crate::pipeline) open_max: u64,
    /// From the first arrival to the last.
    seconds: f64,
    duplicates: u64,
    pub(in crate::pipeline) lost: u64,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<Instant> {
    progress(&format!("{} deliveries due at one instant", bench.scale.instant_due))?;
    let mut server = Server::start(bench).await?;
    let source = server.source("instant", &[]).await?;
    let url = bench.sink.url(&format!("/slow/{ANSWER_MS}/d"));
    let more = json!({ "paused": true, "max_in_flight": LIMIT });
    let destination = server.destination(&source, &url, more).await?;
    let (due, _) = bench.store(&[source], bench.scale.instant_due).await?;
    bench.sink.reset().await?;
    server.resume(&destination).await?;
    let stats = bench.sink.wait_for(due).await?;
    server.discard().await?;
    progress(&format!("  first wave {}, at most {} at once", stats.first_wave, stats.open_max))?;
    Ok(Instant {
        due,
        limit: LIMIT,
        first_wave: stats.first_wave,
        open_max: stats.open_max,
        seconds: std::time::Duration::from_micros(stats.last_us - stats.first_us).as_secs_f64(),
        duplicates: stats.duplicates,
        lost: stats.lost(due, 1),
    })
}
