//! The benchmark: the release binary between a generator and a receiver, each a process of its own.
//!
//! Machines drift by a fifth within an hour, so every rate is measured between two runs of the raw ceiling (generator
//! straight to receiver) and reported as a ratio to their mean; rounds interleave the figures; the median counts.

mod bars;
mod child;
mod disk;
mod flow;
mod machine;
pub(crate) mod pages;
mod postfix;
mod postgres;
mod rates;
mod scale;
mod server;
mod stage;
mod statistics;

use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use self::bars::Bar;
use self::child::Sink;
use self::machine::Machine;
use self::postfix::Programs;
use self::postgres::{Cluster, Facts};
use self::rates::Rates;
use self::scale::{Part, Scale};
use self::stage::claims::Claims;
use self::stage::dead::Dead;
use self::stage::hanging::Hanging;
use self::stage::hostile::Hostile;
use self::stage::instant::Instant;
use self::stage::large::Large;
use self::stage::latency::LatencyFigures;
use self::stage::mail::Mail;
use self::stage::memory::Memory;
use self::stage::nodes::Nodes;
use self::stage::sdk::Sdk;
use self::stage::start::Start;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The binary to measure, built with the release profile.
    #[arg(long, default_value = "target/release/restante")]
    restante: PathBuf,

    /// Directory on a real disk under which each server gets a data directory of its own.
    #[arg(long, default_value = "target/bench-data")]
    data_root: PathBuf,

    /// Measure the store for many nodes, on a PostgreSQL that is started below the data root from the installed
    /// binaries.
    #[arg(long)]
    postgres: bool,

    /// A further setting of that PostgreSQL, as name=value.
    #[arg(long, requires = "postgres")]
    postgres_setting: Vec<String>,

    /// Measure only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,

    /// Short durations, few rounds and nothing stored beforehand: shows that the benchmark works, not how fast the server is.
    #[arg(long)]
    quick: bool,

    #[command(flatten)]
    scale: scale::Args,

    /// Connections of the generator at full load.
    #[arg(long, default_value_t = 64)]
    connections: usize,

    /// Size of each body, in bytes.
    #[arg(long, default_value_t = 512)]
    body_bytes: usize,

    /// Admin key the servers are started with.
    #[arg(long, default_value = "rst_live_0123456789abcdefghjkmnpqrstvwxyz")]
    admin_key: String,

    /// A further variable in the environment of the servers, as NAME=VALUE.
    #[arg(long, value_parser = parse_variable)]
    server_env: Vec<(String, String)>,
}

/// Everything one run of the benchmark found; parts that were not asked for are null.
#[derive(Serialize)]
pub(crate) struct Document {
    quick: bool,
    machine: Machine,
    /// Null: the embedded database was measured.
    postgres: Option<Facts>,
    server_env: Vec<(String, String)>,
    scale: Scale,
    connections: usize,
    body_bytes: usize,
    #[serde(flatten)]
    figures: Figures,
    bars: Vec<Bar>,
}

#[derive(Default, Serialize)]
struct Figures {
    rates: Rates,
    latency: Option<LatencyFigures>,
    memory: Option<Memory>,
    start: Option<Start>,
    hanging: Option<Hanging>,
    dead: Option<Dead>,
    instant: Option<Instant>,
    hostile: Option<Hostile>,
    mail: Option<Mail>,
    sdk: Option<Sdk>,
    large: Option<Large>,
    nodes: Option<Nodes>,
    claims: Option<Claims>,
    /// Acknowledged deliveries that never arrived, over all parts; null when no part delivers.
    lost: Option<u64>,
}

/// What the parts of one run share.
struct Bench {
    restante: PathBuf,
    /// Holds all data directories; removed at the end.
    directory: TempDir,
    /// `None`: servers have the embedded database.
    cluster: Option<Cluster>,
    sink: Sink,
    /// `None`: emails are not measured.
    postfix: Option<Programs>,
    scale: Scale,
    connections: usize,
    body_bytes: usize,
    admin_key: String,
    server_env: Vec<(String, String)>,
}

/// Runs the benchmark; SIGINT and SIGTERM end it and every process it started.
///
/// # Errors
/// The binary is missing, a process did not start or answer, or the run was interrupted.
pub(crate) fn run(args: Args) -> Result<Document> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            document = measure(args) => document,
            _ = interrupt.recv() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        }
    })
}

async fn measure(args: Args) -> Result<Document> {
    let of_postgres = |part: &&Part| matches!(part, Part::Nodes | Part::Claims);
    if let Some(part) = args.only.iter().find(of_postgres).filter(|_| !args.postgres) {
        bail!("{part:?} can be measured only with --postgres");
    }
    let restante = binary(&args.restante)?;
    // What is missing shows before the first part and not after an hour.
    let with_mail = args.only.is_empty() || args.only.contains(&Part::Mail);
    let postfix = if with_mail { Some(Programs::find()?) } else { None };
    std::fs::create_dir_all(&args.data_root).with_context(|| {
        format!("cannot create {}\nhint: choose another --data-root", args.data_root.display())
    })?;
    let data_root = args.data_root.canonicalize()?;
    let machine = Machine::read(&data_root);
    if machine.filesystem == "tmpfs" {
        progress("the data root is in memory: no commit reaches a disk, the figures mean nothing")?;
    }
    let cluster = match args.postgres {
        true => Some(Cluster::start(&data_root, &args.postgres_setting).await?),
        false => None,
    };
    let bench = Bench {
        restante,
        directory: tempfile::Builder::new().prefix("run-").tempdir_in(&data_root)?,
        cluster,
        sink: Sink::start().await?,
        postfix,
        scale: args.scale.scale(args.quick),
        connections: args.connections,
        body_bytes: args.body_bytes,
        admin_key: args.admin_key,
        server_env: args.server_env,
    };
    let figures = figures(&bench, &args.only).await?;
    let postgres = bench.cluster.as_ref().map(Cluster::facts);
    let bars = if args.postgres { bars::judge_postgres(&figures) } else { bars::judge(&figures) };
    let Bench { scale, connections, body_bytes, server_env, .. } = bench;
    let quick = args.quick;
    Ok(Document { quick, machine, postgres, server_env, scale, connections, body_bytes, figures, bars })
}

async fn figures(bench: &Bench, only: &[Part]) -> Result<Figures> {
    let wanted = |part: Part| only.is_empty() || only.contains(&part);
    let mut figures = Figures { rates: rates::measure(bench, &wanted).await?, ..Figures::default() };
    if wanted(Part::Latency) {
        figures.latency = Some(stage::latency::measure(bench).await?);
    }
    if wanted(Part::Memory) {
        figures.memory = Some(stage::memory::measure(bench, figures.rates.peak_bytes()).await?);
    }
    if wanted(Part::Start) {
        figures.start = Some(stage::start::measure(bench).await?);
    }
    if wanted(Part::Hanging) {
        figures.hanging = Some(stage::hanging::measure(bench).await?);
    }
    if wanted(Part::Dead) {
        figures.dead = Some(stage::dead::measure(bench).await?);
    }
    if wanted(Part::Instant) {
        figures.instant = Some(stage::instant::measure(bench).await?);
    }
    if wanted(Part::Hostile) {
        figures.hostile = Some(stage::hostile::measure(bench).await?);
    }
    if let Some(programs) = &bench.postfix {
        figures.mail = Some(stage::mail::measure(bench, programs).await?);
    }
    if wanted(Part::Sdk) {
        figures.sdk = Some(stage::sdk::measure(bench).await?);
    }
    // On the embedded database: what fills the other one would have to believe in another time, too.
    if wanted(Part::Large) && bench.cluster.is_none() {
        figures.large = Some(stage::large::measure(bench).await?);
    }
    if wanted(Part::Nodes) && bench.cluster.is_some() {
        figures.nodes = Some(stage::nodes::measure(bench).await?);
    }
    if let Some(cluster) = bench.cluster.as_ref().filter(|_| wanted(Part::Claims)) {
        figures.claims = Some(stage::claims::measure(bench, cluster).await?);
    }
    let lost = [
        figures.rates.lost(),
        figures.latency.as_ref().map(|latency| latency.lost),
        figures.memory.as_ref().map(|memory| memory.lost),
        figures.start.as_ref().map(|start| start.lost),
        figures.hanging.as_ref().map(|hanging| hanging.healthy_lost),
        figures.dead.as_ref().map(|dead| dead.healthy_lost),
        figures.instant.as_ref().map(|instant| instant.lost),
        figures.large.as_ref().map(|large| large.lost),
        figures.mail.as_ref().map(|mail| mail.lost),
        figures.nodes.as_ref().map(|nodes| nodes.lost),
    ];
    figures.lost = lost.into_iter().flatten().reduce(|sum, lost| sum + lost);
    Ok(figures)
}

fn binary(path: &Path) -> Result<PathBuf> {
    ensure!(
        path.is_file(),
        "{} is missing\nhint: cargo build --release -p restante, or name it with --restante",
        path.display()
    );
    Ok(path.canonicalize()?)
}

fn parse_variable(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("not of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Tells a person at the terminal what is being measured.
fn progress(line: &str) -> Result<()> {
    Ok(writeln!(stderr(), "{line}")?)
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
