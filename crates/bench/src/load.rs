//! The generator: POSTs over keep-alive connections, as fast as they go or at a fixed rate.

mod connection;
mod pace;
mod report;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::Uri;
use hyper::header::HeaderValue;
use tokio::task::JoinSet;

pub(crate) use self::report::{Report, per_second};

use self::connection::Connection;
use self::pace::Pace;
use self::report::Tally;
use crate::body::{self, Post};
use crate::limits;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to POST. Several take turns; they differ only in path and query.
    #[arg(required_unless_present = "urls_from")]
    urls: Vec<String>,

    /// A file with one URL a line, for more than fit on a command line.
    #[arg(long)]
    urls_from: Option<PathBuf>,

    /// Connections that send at the same time, all threads together.
    #[arg(long, default_value_t = 64)]
    connections: usize,

    /// Stop after this many seconds.
    #[arg(long)]
    seconds: Option<f64>,

    /// Stop after this many requests.
    #[arg(long)]
    count: Option<u64>,

    /// Open loop: requests per second, whether or not earlier ones were answered. Without it each connection sends its
    /// next request when it has the answer to the last.
    #[arg(long)]
    rate: Option<f64>,

    /// Size of each body, in bytes.
    #[arg(long, default_value_t = 512)]
    body_bytes: usize,

    /// What to POST.
    #[arg(long, value_enum, default_value_t = Post::Plain)]
    post: Post,

    /// API key to send along.
    #[arg(long)]
    key: Option<String>,

    /// Threads that drive the connections. An open loop always uses one.
    #[arg(long, default_value_t = 1)]
    threads: usize,

    /// Give up when nothing was answered for this long, in seconds.
    #[arg(long, default_value_t = 30.0)]
    stall_seconds: f64,
}

/// What one run of the generator does.
pub(crate) struct Plan {
    pub(crate) targets: Targets,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) body_bytes: usize,
    pub(crate) post: Post,
    /// The `Authorization` header of each request.
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) until: Until,
    /// Requests per second of an open loop; `None` is a closed loop.
    pub(crate) rate: Option<f64>,
    /// How long to wait without any answer.
    pub(crate) stall: Duration,
}

/// When a run sends no more: at the first limit reached.
#[derive(Clone, Copy)]
pub(crate) struct Until {
    pub(crate) after: Option<Duration>,
    pub(crate) count: Option<u64>,
}

/// The URLs of a run, on one host and port.
pub(crate) struct Targets {
    address: SocketAddr,
    host: HeaderValue,
    /// Path and query of each URL, in turn.
    paths: Arc<[Uri]>,
}

impl Args {
    /// # Errors
    /// The arguments contradict each other or a URL cannot be used.
    pub(crate) fn plan(self) -> Result<Plan> {
        let mut urls = self.urls;
        if let Some(file) = &self.urls_from {
            let lines =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            urls.extend(lines.lines().map(str::to_owned));
        }
        let until = Until { after: self.seconds.map(seconds).transpose()?, count: self.count };
        ensure!(
            until.after.is_some() || until.count.is_some(),
            "no end given\nhint: add --seconds or --count"
        );
        ensure!(self.connections > 0 && self.threads > 0, "connections and threads are at least 1");
        ensure!(
            self.rate.is_none_or(|rate| rate > 0.0 && rate <= 1e6),
            "--rate is above 0 and at most 1,000,000"
        );
        ensure!(self.body_bytes >= body::BODY_BYTES_MIN, "--body-bytes is at least {}", body::BODY_BYTES_MIN);
        Ok(Plan {
            targets: Targets::parse(&urls)?,
            connections: self.connections,
            threads: if self.rate.is_some() { 1 } else { self.threads.min(self.connections) },
            body_bytes: self.body_bytes,
            post: self.post,
            authorization: self.key.map(|key| HeaderValue::try_from(format!("Bearer {key}"))).transpose()?,
            until,
            rate: self.rate,
            stall: seconds(self.stall_seconds)?,
        })
    }
}

impl Targets {
    /// # Errors
    /// No URL, a URL that is not plain `http://host:port/…`, or URLs on several hosts.
    pub(crate) fn parse(urls: &[impl AsRef<str>]) -> Result<Self> {
        let mut authority = None;
        let mut paths = Vec::with_capacity(urls.len());
        for url in urls {
            let url = url.as_ref();
            let parts = url.parse::<Uri>().with_context(|| format!("not a URL: {url}"))?.into_parts();
            ensure!(
                parts.scheme.is_some_and(|scheme| scheme == hyper::http::uri::Scheme::HTTP),
                "{url}\nhint: only http:// URLs can be loaded"
            );
            let (Some(own), Some(path)) = (parts.authority, parts.path_and_query) else {
                bail!("{url} has no host")
            };
            let shared = authority.get_or_insert_with(|| own.clone());
            ensure!(*shared == own, "{url} is not on {shared}\nhint: run one generator for each host");
            paths.push(Uri::from(path));
        }
        let Some(authority) = authority else { bail!("no URL given") };
        let port = authority.port_u16().unwrap_or(80);
        let address = (authority.host(), port)
            .to_socket_addrs()
            .with_context(|| format!("cannot resolve {authority}"))?
            .next()
            .with_context(|| format!("{authority} has no address"))?;
        Ok(Self { address, host: HeaderValue::from_str(authority.as_str())?, paths: paths.into() })
    }
}

/// Runs `plan` to its end, on threads of its own.
///
/// # Errors
/// The target cannot be reached at the start. Failures later are counted in the report.
pub(crate) fn run(plan: &Plan) -> Result<Report> {
    limits::raise_open_files();
    let pace = Arc::new(Pace::new(plan));
    let tallies = thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|index| {
                let pace = Arc::clone(&pace);
                // The first threads take one connection more when they do not divide evenly.
                let connections = (plan.connections + plan.threads - 1 - index) / plan.threads;
                scope.spawn(move || run_thread(plan, connections, pace))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a generator thread does not panic"))
            .collect::<Result<Vec<_>>>()
    })?;
    let mut all = Tally::new();
    tallies.iter().for_each(|tally| all.merge(tally));
    Ok(all.report(pace.taken()))
}

fn run_thread(plan: &Plan, connections: usize, pace: Arc<Pace>) -> Result<Tally> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let tally = Arc::new(Mutex::new(Tally::new()));
        let mut open = Vec::with_capacity(connections);
        for _ in 0..connections {
            open.push(Connection::open(plan, Arc::clone(&pace), Arc::clone(&tally)).await?);
        }
        pace.start();
        let mut running = JoinSet::new();
        open.into_iter().for_each(|connection| drop(running.spawn(connection.run())));
        tokio::select! {
            _ = running.join_all() => {}
            () = stalled(&tally, plan.stall) => {}
        }
        Ok(tally.lock().unwrap_or_else(PoisonError::into_inner).clone())
    })
}

/// Ends when no request was answered or failed for `stall`.
async fn stalled(tally: &Mutex<Tally>, stall: Duration) {
    let mut seen = None;
    loop {
        let settled = Some(tally.lock().unwrap_or_else(PoisonError::into_inner).settled());
        if seen == settled {
            return;
        }
        seen = settled;
        tokio::time::sleep(stall).await;
    }
}

fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).with_context(|| format!("{seconds} is not a number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_share_one_host_and_keep_their_paths() {
        let targets = Targets::parse(&["http://127.0.0.1:9/in/a?x=1", "http://127.0.0.1:9/in/b"]).unwrap();
        assert_eq!(targets.address, "127.0.0.1:9".parse().unwrap());
        assert_eq!(*targets.paths, ["/in/a?x=1", "/in/b"]);
        assert_eq!(targets.host, "127.0.0.1:9");
    }

    #[test]
    fn unusable_targets_are_refused() {
        let none: [&str; 0] = [];
        assert!(Targets::parse(&none).is_err());
        assert!(Targets::parse(&["/in/a"]).is_err());
        assert!(Targets::parse(&["https://127.0.0.1/"]).is_err());
        assert!(Targets::parse(&["http://127.0.0.1:1/", "http://127.0.0.1:2/"]).is_err());
    }
}
