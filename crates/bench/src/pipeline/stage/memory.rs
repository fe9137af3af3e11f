//! Server memory, idle and at full load.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tokio::time::sleep;

use crate::pipeline::server::Server;
use crate::pipeline::{Bench, progress};

/// Rest after the start, so that what it allocated only for starting is gone or shows.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
pub(crate) struct Memory {
    /// Resident shortly after a start on an empty store, in bytes.
    pub(in crate::pipeline) idle_bytes: u64,
    /// The most of any server of the run at full load, in bytes.
    pub(in crate::pipeline) peak_bytes: u64,
    /// The most with one destination and then ten in one server, in bytes.
    peak_here_bytes: u64,
    /// Resident right after that load, in bytes.
    after_load_bytes: u64,
    pub(in crate::pipeline) lost: u64,
}

/// Measures one server; `peak_before_bytes` is the most of the servers before it.
pub(in crate::pipeline) async fn measure(bench: &Bench, peak_before_bytes: u64) -> Result<Memory> {
    progress("memory")?;
    let mut server = Server::start(bench).await?;
    sleep(SETTLE).await;
    let idle_bytes = server.memory()?.rss_bytes;
    let mut lost = 0;
    for destinations in [1, 10] {
        let urls: Vec<_> = (0..destinations).map(|k| bench.sink.url(&format!("/d/{k}"))).collect();
        let source = server.source(&format!("to {destinations}"), &urls).await?;
        lost += bench.flow(&server, &[source], destinations).await?.lost;
    }
    let loaded = server.memory()?;
    server.discard().await?;
    Ok(Memory {
        idle_bytes,
        peak_bytes: loaded.peak_bytes.max(peak_before_bytes),
        peak_here_bytes: loaded.peak_bytes,
        after_load_bytes: loaded.rss_bytes,
        lost,
    })
}
