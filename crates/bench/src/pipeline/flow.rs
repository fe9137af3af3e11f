//! One load on a server, from the first request to the last arrival.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::Bench;
use super::child::Load;
use super::server::{Server, Source};
use super::statistics::float;
use crate::body::Post;
use crate::latency::Percentiles;
use crate::load::{Report, per_second};
use crate::sink::Stats;

/// Load before each measurement, in seconds: connections, lanes and caches are then as in a running server.
pub(super) const WARM_UP_SECONDS: f64 = 1.0;

/// The same for several nodes: they share out what each may have in flight once a second.
const SHARE_OUT_SECONDS: f64 = 3.0;

/// How many sources, and how many destinations each has.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) sources: usize,
    pub(super) destinations: usize,
}

/// What went through a server under closed-loop load.
#[derive(Clone, Serialize)]
pub(crate) struct Flow {
    pub(super) sent: u64,
    pub(super) acknowledged: u64,
    /// Requests with another answer than a 2xx, or none.
    pub(super) refused: u64,
    pub(super) acks_per_second: f64,
    pub(super) ack: Percentiles,
    /// Messages that arrived, each counted once for each destination.
    pub(super) delivered: u64,
    pub(super) duplicates: u64,
    /// Acknowledged and never arrived, the warm-up included.
    pub(super) lost: u64,
    /// Deliveries over the time from the first request to the last arrival.
    pub(super) deliveries_per_second: f64,
    /// From the last acknowledgement to the last arrival.
    pub(super) drain_seconds: f64,
    /// The most memory the server had until then, in bytes.
    pub(super) peak_bytes: u64,
    /// Processor time of the server for one message that was acknowledged, with all its deliveries, in microseconds.
    pub(super) cpu_us_per_message: f64,
}

impl Shape {
    /// Creates the sources and their destinations, each at a path of its own at the receiver.
    pub(super) async fn create(self, bench: &Bench, server: &mut Server) -> Result<Vec<Source>> {
        let mut sources = Vec::with_capacity(self.sources);
        for index in 0..self.sources {
            let urls: Vec<_> =
                (0..self.destinations).map(|k| bench.sink.url(&format!("/d/{index}/{k}"))).collect();
            sources.push(server.source(&format!("source {index}"), &urls).await?);
        }
        Ok(sources)
    }
}

impl Bench {
    /// A closed loop on all connections, at these URLs in turn.
    pub(super) fn full_load(&self, urls: Vec<String>, seconds: f64) -> Load {
        let (connections, body_bytes) = (self.connections, self.body_bytes);
        let seconds = Some(seconds);
        Load { urls, connections, body_bytes, seconds, count: None, rate: None, post: Post::Plain, key: None }
    }

    /// The same of calls to the API at this URL.
    pub(super) fn calls(&self, url: String, post: Post, seconds: f64) -> Load {
        Load { post, key: Some(self.admin_key.clone()), ..self.full_load(vec![url], seconds) }
    }

    /// Requests per second from the generator straight to the receiver.
    pub(super) async fn ceiling(&self) -> Result<f64> {
        self.sink.reset().await?;
        let report =
            self.full_load(vec![self.sink.url("/ceiling")], self.scale.ceiling_seconds).run().await?;
        Ok(report.acks_per_second)
    }

    /// Warms `server` up, loads `sources` for the scale's seconds and waits until everything has arrived.
    pub(super) async fn flow(
        &self,
        server: &Server,
        sources: &[Source],
        destinations: usize,
    ) -> Result<Flow> {
        let urls: Vec<_> = sources.iter().map(|source| source.intake.clone()).collect();
        self.flow_of(server, self.full_load(urls, self.scale.seconds), destinations).await
    }

    /// The same with events that are published to `webhooks` webhooks.
    pub(super) async fn events(&self, server: &Server, webhooks: usize) -> Result<Flow> {
        let url = format!("http://{}/v1/events", server.address);
        self.flow_of(server, self.calls(url, Post::Event, self.scale.seconds), webhooks).await
    }

    /// The same as [`Bench::flow`] with two generators, each with half the connections and one of `nodes`. One node
    /// gets both.
    pub(super) async fn flow_over(
        &self,
        nodes: [&Server; 2],
        connections: usize,
        sources: &[Source],
        destinations: usize,
    ) -> Result<Flow> {
        let seconds = SHARE_OUT_SECONDS.min(self.scale.seconds);
        let over = |seconds| self.flow_over_once(nodes, connections, sources, destinations, seconds);
        let warm_up = over(seconds).await?;
        let mut flow = over(self.scale.seconds).await?;
        flow.lost += warm_up.lost;
        Ok(flow)
    }

    async fn flow_over_once(
        &self,
        nodes: [&Server; 2],
        connections: usize,
        sources: &[Source],
        destinations: usize,
        seconds: f64,
    ) -> Result<Flow> {
        self.sink.reset().await?;
        let [one, other] = nodes.map(|node| {
            let urls = sources.iter().map(|source| source.intake_at(node)).collect();
            Load { connections: connections.div_ceil(2), ..self.full_load(urls, seconds) }
        });
        let before = nodes[0].cpu()? + nodes[1].cpu()?;
        let (one, other) = tokio::try_join!(one.run(), other.run())?;
        let report = one.beside(other);
        let stats = self.sink.wait_for(report.acknowledged * destinations as u64).await?;
        let [one, other] = [nodes[0].memory()?, nodes[1].memory()?];
        let cpu = (nodes[0].cpu()? + nodes[1].cpu()?).saturating_sub(before);
        Ok(Flow::new(&report, &stats, destinations, one.peak_bytes.max(other.peak_bytes), cpu))
    }

    async fn flow_of(&self, server: &Server, load: Load, receivers: usize) -> Result<Flow> {
        let seconds = Some(WARM_UP_SECONDS.min(self.scale.seconds));
        let warm_up = self.flow_once(server, &Load { seconds, ..load.clone() }, receivers).await?;
        let mut flow = self.flow_once(server, &load, receivers).await?;
        flow.lost += warm_up.lost;
        Ok(flow)
    }

    /// Has at least `count` messages accepted, by `sources` in turn; gives how many, and how many a second.
    ///
    /// # Errors
    /// Nothing is accepted any more.
    pub(super) async fn store(&self, sources: &[Source], count: u64) -> Result<(u64, f64)> {
        let mut load = self.full_load(sources.iter().map(|source| source.intake.clone()).collect(), 0.0);
        load.seconds = None;
        let (mut stored, mut rates) = (0, Vec::new());
        while stored < count {
            load.count = Some(count - stored);
            let report = load.run().await?;
            ensure!(
                report.acknowledged > 0,
                "the server accepts nothing after {stored} messages: {report:?}"
            );
            stored += report.acknowledged;
            rates.push(report.acks_per_second);
        }
        // Later runs only make up for what the first was refused.
        Ok((stored, rates.first().copied().unwrap_or_default()))
    }

    async fn flow_once(&self, server: &Server, load: &Load, destinations: usize) -> Result<Flow> {
        self.sink.reset().await?;
        let before = server.cpu()?;
        let report = load.run().await?;
        let stats = self.sink.wait_for(report.acknowledged * destinations as u64).await?;
        let cpu = server.cpu()?.saturating_sub(before);
        Ok(Flow::new(&report, &stats, destinations, server.memory()?.peak_bytes, cpu))
    }
}

impl Flow {
    fn new(report: &Report, stats: &Stats, destinations: usize, peak_bytes: u64, cpu: Duration) -> Self {
        Self {
            sent: report.sent,
            acknowledged: report.acknowledged,
            refused: report.sent - report.acknowledged,
            acks_per_second: report.acks_per_second,
            ack: report.ack,
            delivered: stats.distinct,
            duplicates: stats.duplicates,
            lost: stats.lost(report.acknowledged, destinations as u64),
            deliveries_per_second: per_second(stats.distinct, report.first_sent_us, stats.last_us),
            drain_seconds: Duration::from_micros(stats.last_us.saturating_sub(report.last_answer_us))
                .as_secs_f64(),
            peak_bytes,
            cpu_us_per_message: cpu_us_per_message(cpu, report),
        }
    }
}

pub(super) fn cpu_us_per_message(cpu: Duration, report: &Report) -> f64 {
    cpu.as_secs_f64() * 1e6 / float(report.acknowledged.max(1))
}
