//! What each page of the dashboard reads before it can be seen, timed on a store that is full.
//!
//! The server is the release binary, and the calls are made one after the other over one connection: their sum is more
//! than a browser, which makes them side by side, waits for the server.

mod seed;
mod visits;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use serde::Serialize;

use self::seed::{Found, Seeded};
use self::visits::Visit;
use super::child::Sink;
use super::machine::Machine;
use super::postgres::{Cluster, Facts};
use super::scale;
use super::server::Server;
use super::statistics::float;
use super::{Bench, binary, progress};
use crate::clock;
use crate::latency::Latencies;

/// A page's calls may take the server so long, by the 95th percentile, in milliseconds.
const BAR_MS: f64 = 300.0;
/// Rounds before those that count: statements are prepared and what is read often is in memory.
const WARM_UP_ROUNDS: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The binary to measure, built with the release profile.
    #[arg(long, default_value = "target/release/restante")]
    restante: PathBuf,

    /// Directory on a real disk under which the server gets a data directory.
    #[arg(long, default_value = "target/bench-data")]
    data_root: PathBuf,

    /// Measure on a PostgreSQL that is started below the data root from the installed binaries.
    #[arg(long)]
    postgres: bool,

    /// Stored requests; a tenth as many events and a fiftieth as many emails come besides.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,

    /// How often each page is read.
    #[arg(long, default_value_t = 50)]
    rounds: usize,

    /// Admin key the server is started with.
    #[arg(long, default_value = "rst_live_0123456789abcdefghjkmnpqrstvwxyz")]
    admin_key: String,
}

#[derive(Serialize)]
pub(crate) struct Document {
    machine: Machine,
    /// Null: the embedded database was measured.
    postgres: Option<Facts>,
    rounds: usize,
    stored: Seeded,
    /// The slowest first.
    pages: Vec<Timed>,
    bar_ms: f64,
    /// Whether every page met the bar.
    met: bool,
}

/// The time that a page's calls took, in milliseconds.
#[derive(Serialize)]
struct Timed {
    page: String,
    p50_ms: f64,
    p95_ms: f64,
    max_ms: f64,
    met: bool,
    /// Calls that this server does not know; they are not counted.
    missing: Vec<String>,
    /// The one that took longest, by its median.
    slowest: String,
    slowest_p50_ms: f64,
    /// Items that the slowest call gave, if it is a list.
    slowest_items: Option<usize>,
}

/// Seeds a store, reads every page of it, and gives the times.
///
/// # Errors
/// The binary is missing, or a process did not start or answer.
pub(crate) fn run(args: Args) -> Result<Document> {
    // The store writes in this process while it is seeded.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: Args) -> Result<Document> {
    let restante = binary(&args.restante)?;
    std::fs::create_dir_all(&args.data_root)
        .with_context(|| format!("cannot create {}", args.data_root.display()))?;
    let data_root = args.data_root.canonicalize()?;
    let cluster = if args.postgres { Some(Cluster::start(&data_root, &[]).await?) } else { None };
    let bench = Bench {
        restante,
        directory: tempfile::Builder::new().prefix("pages-").tempdir_in(&data_root)?,
        cluster,
        sink: Sink::start().await?,
        postfix: None,
        scale: scale::Args::default().scale(true),
        connections: 1,
        body_bytes: 512,
        admin_key: args.admin_key,
        server_env: Vec::new(),
    };
    let (mut server, stored, found) = seed::store(&bench, args.requests).await?;
    let mut pages = Vec::new();
    for visit in visits::all(&found) {
        pages.push(time(&mut server, &visit, args.rounds).await?);
    }
    pages.sort_by(|one, other| other.p95_ms.total_cmp(&one.p95_ms));
    server.discard().await?;
    let met = pages.iter().all(|page| page.met);
    let postgres = bench.cluster.as_ref().map(Cluster::facts);
    let machine = Machine::read(&data_root);
    Ok(Document { machine, postgres, rounds: args.rounds, stored, pages, bar_ms: BAR_MS, met })
}

async fn time(server: &mut Server, visit: &Visit, rounds: usize) -> Result<Timed> {
    let (mut sums, mut missing) = (Latencies::new(), Vec::new());
    let mut calls: Vec<Latencies> = visit.calls.iter().map(|_| Latencies::new()).collect();
    let mut items = vec![None; visit.calls.len()];
    for round in 0..WARM_UP_ROUNDS + rounds {
        let mut sum_us = 0;
        for (index, call) in visit.calls.iter().enumerate() {
            let begun = clock::now();
            let (status, body) = server.get(call).await?;
            let took_us = clock::micros_since(begun);
            if status == StatusCode::NOT_FOUND {
                if round == 0 {
                    missing.push(call.clone());
                }
                continue;
            }
            ensure!(status.is_success(), "{call} gave {status}: {}", String::from_utf8_lossy(&body));
            if round == 0 {
                items[index] = serde_json::from_slice::<serde_json::Value>(&body)
                    .ok()
                    .and_then(|it| Some(it["data"].as_array()?.len()));
            }
            if round >= WARM_UP_ROUNDS {
                calls[index].record(took_us);
                sum_us += took_us;
            }
        }
        if round >= WARM_UP_ROUNDS {
            sums.record(sum_us);
        }
    }
    let ms = |us: u64| float(us) / 1e3;
    let slowest =
        (0..calls.len()).max_by_key(|index| calls[*index].at(0.5)).context("a page reads nothing")?;
    let timed = Timed {
        page: visit.page.clone(),
        p50_ms: ms(sums.at(0.5)),
        p95_ms: ms(sums.at(0.95)),
        max_ms: ms(sums.at(1.0)),
        met: ms(sums.at(0.95)) <= BAR_MS,
        missing,
        slowest: visit.calls[slowest].clone(),
        slowest_p50_ms: ms(calls[slowest].at(0.5)),
        slowest_items: items[slowest],
    };
    progress(&format!(
        "  {:<52} p50 {:>8.1} ms, p95 {:>8.1} ms, max {:>8.1} ms",
        timed.page, timed.p50_ms, timed.p95_ms, timed.max_ms
    ))?;
    Ok(timed)
}
