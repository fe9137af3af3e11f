//! How long and how much a run measures.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// The parts of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Part {
    /// Generator straight to receiver.
    Ceiling,
    /// Durable accepts of a source without destinations.
    Accepts,
    /// One source with one destination.
    Events1,
    /// One source with ten destinations.
    Events10,
    /// Events published to one webhook and to ten, beside the same for destinations.
    Webhooks,
    /// 200 sources with one destination each, on an empty store and on a full one.
    Sources200,
    /// Latency at fixed rates and with one connection, beside the time of an fdatasync.
    Latency,
    /// Server memory, idle and at full load.
    Memory,
    /// Start with many pending deliveries.
    Start,
    /// Healthy destinations beside hanging ones.
    Hanging,
    /// Healthy destinations beside thousands that are dead.
    Dead,
    /// Many deliveries that are due at one instant.
    Instant,
    /// What an event costs beside millions of stored ones, and arrivals while they are erased.
    Large,
    /// Honest senders beside hostile clients.
    Hostile,
    /// Emails to Postfix's `smtp-sink`, beside its `smtp-source`.
    Mail,
    /// Calls of the client library, beside bare calls of the HTTP client that it is built on.
    Sdk,
    /// One node and two on one database. Only with PostgreSQL.
    Nodes,
    /// Claims at the store itself, among many due rows. Only with PostgreSQL.
    Claims,
}

#[derive(clap::Args, Default)]
#[group(id = "scale")]
pub(crate) struct Args {
    /// Rounds of every rate and latency; the median counts [default: 3, quick: 1].
    #[arg(long)]
    rounds: Option<usize>,

    /// Load of each rate, in seconds [default: 8, quick: 2].
    #[arg(long)]
    seconds: Option<f64>,

    /// Each run of the raw ceiling, in seconds [default: 3, quick: 1].
    #[arg(long)]
    ceiling_seconds: Option<f64>,

    /// Load of each latency, in seconds [default: 10, quick: 2].
    #[arg(long)]
    latency_seconds: Option<f64>,

    /// Messages stored before 200 sources are measured again; 0 leaves that out [default: 3000000, quick: 0].
    #[arg(long)]
    preload: Option<u64>,

    /// Requests stored before a start; each leaves ten pending deliveries [default: 100000, quick: 2000].
    #[arg(long)]
    pending_requests: Option<u64>,

    /// Load of the part with hanging destinations, in seconds [default: 60, quick: 5].
    #[arg(long)]
    hanging_seconds: Option<f64>,

    /// Destinations that hang [default: 1000, quick: 50].
    #[arg(long)]
    hanging_destinations: Option<usize>,

    /// Healthy destinations beside them [default: 100, quick: 10].
    #[arg(long)]
    healthy_destinations: Option<usize>,

    /// Destinations that are dead, in three ways [default: 10000, quick: 30].
    #[arg(long)]
    dead_destinations: Option<usize>,

    /// Deliveries pending for each of them [default: 100, quick: 5].
    #[arg(long)]
    dead_pending: Option<u64>,

    /// Load of the healthy destinations beside them, in seconds [default: 60, quick: 2].
    #[arg(long)]
    dead_seconds: Option<f64>,

    /// Deliveries that are due at one instant [default: 10000, quick: 300].
    #[arg(long)]
    instant_due: Option<u64>,

    /// Messages in the large store [default: 10000000, quick: 2000].
    #[arg(long)]
    large: Option<u64>,

    /// Each pair of a library call and a bare one, in seconds per round [default: 8, quick: 1].
    #[arg(long)]
    sdk_seconds: Option<f64>,

    /// Due deliveries among which claims are measured [default: 1000000, quick: 40000].
    #[arg(long)]
    claim_rows: Option<u64>,

    /// Endpoints over which they are spread; all but a hundredth are full in one part [default: 10000, quick: 400].
    #[arg(long)]
    claim_endpoints: Option<u64>,

    /// Claims of each part, in seconds [default: 20, quick: 3].
    #[arg(long)]
    claim_seconds: Option<f64>,

    /// How long a snapshot has been held when claims are measured beside it, in seconds [default: 30, quick: 5].
    #[arg(long)]
    held_seconds: Option<f64>,
}

/// The sizes of a run, settled.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Scale {
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    pub(super) ceiling_seconds: f64,
    pub(super) latency_seconds: f64,
    pub(super) preload: u64,
    pub(super) pending_requests: u64,
    pub(super) hanging_seconds: f64,
    pub(super) hanging_destinations: usize,
    pub(super) healthy_destinations: usize,
    pub(super) dead_destinations: usize,
    pub(super) dead_pending: u64,
    pub(super) dead_seconds: f64,
    pub(super) instant_due: u64,
    pub(super) large: u64,
    pub(super) sdk_seconds: f64,
    pub(super) claim_rows: u64,
    pub(super) claim_endpoints: u64,
    pub(super) claim_seconds: f64,
    pub(super) held_seconds: f64,
}

/// How long deliveries may stand still before what is missing counts as lost: longer than any retry wait of a run.
pub(super) const STILL_MAX: Duration = Duration::from_secs(10);

impl Args {
    pub(super) fn scale(&self, quick: bool) -> Scale {
        let pick = |given: Option<f64>, full, short| given.unwrap_or(if quick { short } else { full });
        let count =
            |given: Option<usize>, full, short| given.unwrap_or(if quick { short } else { full }).max(1);
        let messages = |given: Option<u64>, full, short| given.unwrap_or(if quick { short } else { full });
        Scale {
            rounds: count(self.rounds, 3, 1),
            seconds: pick(self.seconds, 8.0, 2.0),
            ceiling_seconds: pick(self.ceiling_seconds, 3.0, 1.0),
            latency_seconds: pick(self.latency_seconds, 10.0, 2.0),
            preload: messages(self.preload, 3_000_000, 0),
            pending_requests: messages(self.pending_requests, 100_000, 2_000),
            hanging_seconds: pick(self.hanging_seconds, 60.0, 5.0),
            hanging_destinations: count(self.hanging_destinations, 1_000, 50),
            healthy_destinations: count(self.healthy_destinations, 100, 10),
            dead_destinations: count(self.dead_destinations, 10_000, 30),
            dead_pending: messages(self.dead_pending, 100, 5),
            dead_seconds: pick(self.dead_seconds, 60.0, 2.0),
            instant_due: messages(self.instant_due, 10_000, 300),
            large: messages(self.large, 10_000_000, 2_000),
            sdk_seconds: pick(self.sdk_seconds, 8.0, 1.0),
            claim_rows: messages(self.claim_rows, 1_000_000, 40_000).max(1),
            claim_endpoints: messages(self.claim_endpoints, 10_000, 400).max(100),
            claim_seconds: pick(self.claim_seconds, 20.0, 3.0),
            held_seconds: pick(self.held_seconds, 30.0, 5.0),
        }
    }
}
