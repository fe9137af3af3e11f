//! Latency well below full load, beside the time of an fdatasync.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::body::Post;
use crate::latency::Percentiles;
use crate::pipeline::child::Load;
use crate::pipeline::flow::Shape;
use crate::pipeline::server::{Server, Source};
use crate::pipeline::statistics::{float, median, ratio};
use crate::pipeline::{Bench, disk, progress};

/// Time for each measurement of the disk; one stands before, one after every round.
const DISK_FOR: Duration = Duration::from_secs(2);
/// Load before a round, in seconds.
const WARM_UP_SECONDS: f64 = 1.0;

/// Latencies over all rounds.
#[derive(Serialize)]
pub(crate) struct LatencyFigures {
    /// Median over the rounds: acknowledgement p50 of one connection over the fdatasync p50 of the same round, the source
    /// having one destination.
    pub(in crate::pipeline) one_connection_to_fdatasync: Option<f64>,
    /// The same of a source without destinations.
    one_connection_inbox_to_fdatasync: Option<f64>,
    /// Median over the rounds: acknowledgement p99 of one connection, the source having one destination, in
    /// microseconds.
    pub(in crate::pipeline) one_connection_ack_p99_us: Option<f64>,
    /// Median over the rounds: arrival p99 at 1,000 requests a second, in microseconds.
    pub(in crate::pipeline) arrival_p99_us_at_1000: Option<f64>,
    pub(in crate::pipeline) lost: u64,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
struct Round {
    fdatasync_before: Percentiles,
    fdatasync_after: Percentiles,
    at_100_per_second: Latency,
    at_1000_per_second: Latency,
    /// Closed loop, one connection, a source with one destination.
    one_connection: Latency,
    /// Closed loop, one connection, a source without destinations.
    one_connection_inbox: Latency,
}

#[derive(Serialize)]
struct Latency {
    /// From the due time of a request to its acknowledgement.
    ack: Percentiles,
    /// From the due time of a request to its arrival at the receiver.
    arrival: Percentiles,
    duplicates: u64,
    lost: u64,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<LatencyFigures> {
    let mut rounds = Vec::with_capacity(bench.scale.rounds);
    for number in 1..=bench.scale.rounds {
        progress(&format!("latency, round {number} of {}", bench.scale.rounds))?;
        rounds.push(round(bench).await?);
    }
    let to_disk = |latency: fn(&Round) -> &Latency| {
        let p50s = rounds.iter().map(|round| (latency(round).ack.p50(), round.fdatasync_p50_us()));
        median(p50s.filter_map(|(ack, disk)| Some(ratio(float(ack?), disk))))
    };
    Ok(LatencyFigures {
        one_connection_to_fdatasync: to_disk(|round| &round.one_connection),
        one_connection_inbox_to_fdatasync: to_disk(|round| &round.one_connection_inbox),
        one_connection_ack_p99_us: median(
            rounds.iter().filter_map(|round| round.one_connection.ack.p99().map(float)),
        ),
        arrival_p99_us_at_1000: median(
            rounds.iter().filter_map(|round| round.at_1000_per_second.arrival.p99().map(float)),
        ),
        lost: rounds.iter().map(Round::lost).sum(),
        rounds,
    })
}

async fn round(bench: &Bench) -> Result<Round> {
    let mut server = Server::start(bench).await?;
    let source = Shape { sources: 1, destinations: 1 }.create(bench, &mut server).await?.remove(0);
    let inbox = server.source("inbox", &[]).await?;
    let seconds = bench.scale.latency_seconds;
    load(bench, &source, 1, Some(200.0), 64, WARM_UP_SECONDS).await?;
    let round = Round {
        fdatasync_before: disk::fdatasync(bench.directory.path(), DISK_FOR).await?,
        at_100_per_second: load(bench, &source, 1, Some(100.0), bench.connections, seconds).await?,
        at_1000_per_second: load(bench, &source, 1, Some(1_000.0), bench.connections, seconds).await?,
        one_connection: load(bench, &source, 1, None, 1, seconds).await?,
        one_connection_inbox: load(bench, &inbox, 0, None, 1, seconds).await?,
        fdatasync_after: disk::fdatasync(bench.directory.path(), DISK_FOR).await?,
    };
    server.discard().await?;
    progress(&round.summary())?;
    Ok(round)
}

async fn load(
    bench: &Bench,
    source: &Source,
    destinations: u64,
    rate: Option<f64>,
    connections: usize,
    seconds: f64,
) -> Result<Latency> {
    let (urls, body_bytes) = (vec![source.intake.clone()], bench.body_bytes);
    bench.sink.reset().await?;
    let seconds = Some(seconds);
    let report =
        Load { urls, connections, body_bytes, seconds, count: None, rate, post: Post::Plain, key: None }
            .run()
            .await?;
    let stats = bench.sink.wait_for(report.acknowledged * destinations).await?;
    let lost = stats.lost(report.acknowledged, destinations);
    Ok(Latency { ack: report.ack, arrival: stats.latency, duplicates: stats.duplicates, lost })
}

impl Round {
    /// The mean of before and after, in microseconds.
    fn fdatasync_p50_us(&self) -> f64 {
        f64::midpoint(float(self.fdatasync_before.p50_us), float(self.fdatasync_after.p50_us))
    }

    fn lost(&self) -> u64 {
        self.at_100_per_second.lost + self.at_1000_per_second.lost + self.one_connection.lost
    }

    fn summary(&self) -> String {
        let (fast, one) = (&self.at_1000_per_second, &self.one_connection.ack);
        format!(
            "  1,000/s: ack p99 {} µs, arrival p99 {} µs; one connection: ack p50 {} µs, p99 {} µs; fdatasync p50 {:.0} µs",
            fast.ack.p99_us,
            fast.arrival.p99_us,
            one.p50_us,
            one.p99_us,
            self.fdatasync_p50_us()
        )
    }
}
