//! Honest senders beside a thousand hostile ones.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::body::Post;
use crate::latency::Percentiles;
use crate::pipeline::child::Load;
use crate::pipeline::server::Server;
use crate::pipeline::statistics::{float, ratio};
use crate::pipeline::{Bench, progress};

/// Hostile clients at the same time.
const CLIENTS: usize = 1_000;
/// Kinds of them: slow heads, silence, slow bodies, endless chunks, too much, two hosts, bare line feeds, two lengths.
const KINDS: usize = 8;
/// Within this each of them must be closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);
/// Honest requests a second.
const HONEST_PER_SECOND: f64 = 500.0;
/// Honest load before, and for as long as most hostile clients are there, in seconds.
const HONEST_SECONDS: f64 = 25.0;

#[derive(Serialize)]
pub(crate) struct Hostile {
    /// Acknowledgements of honest senders before.
    alone: Percentiles,
    /// The same while the hostile clients are there.
    beside: Percentiles,
    /// p99 beside over p99 alone.
    pub(in crate::pipeline) p99_ratio: Option<f64>,
    /// By how much resident memory grew at most, in bytes.
    pub(in crate::pipeline) growth_bytes: u64,
    /// Clients that were not closed in time.
    pub(in crate::pipeline) not_closed: usize,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<Hostile> {
    progress(&format!("honest senders beside {CLIENTS} hostile clients"))?;
    let mut server = Server::start(bench).await?;
    let source = server.source("s", &[]).await?;
    let honest = || Load {
        urls: vec![source.intake.clone()],
        connections: bench.connections,
        body_bytes: bench.body_bytes,
        seconds: Some(HONEST_SECONDS),
        count: None,
        rate: Some(HONEST_PER_SECOND),
        post: Post::Plain,
        key: None,
    };
    honest().run().await?;
    let alone = honest().run().await?;
    let before = server.memory()?.rss_bytes;

    let path = intake_path(&source.intake)?;
    let mut clients = JoinSet::new();
    for index in 0..CLIENTS {
        let (address, path) = (server.address, path.clone());
        clients
            .spawn(async move { timeout(CLOSED_WITHIN, play(index % KINDS, address, &path)).await.is_ok() });
    }
    let beside = honest().run().await?;
    let mut highest = server.memory()?.rss_bytes;
    let mut not_closed = 0;
    while let Some(closed) = clients.join_next().await {
        not_closed += usize::from(!closed?);
        highest = highest.max(server.memory()?.rss_bytes);
    }
    ensure!(beside.acknowledged == beside.sent, "an honest request was not acknowledged");
    server.discard().await?;
    let p99 = |percentiles: &Percentiles| percentiles.p99().map(float);
    let p99_ratio = p99(&beside.ack).zip(p99(&alone.ack)).map(|(beside, alone)| ratio(beside, alone));
    progress(&format!(
        "  acknowledgement p99 {:?} µs alone, {:?} µs beside; {not_closed} not closed in time",
        p99(&alone.ack),
        p99(&beside.ack)
    ))?;
    Ok(Hostile {
        alone: alone.ack,
        beside: beside.ack,
        p99_ratio,
        growth_bytes: highest.saturating_sub(before),
        not_closed,
    })
}

fn intake_path(url: &str) -> Result<String> {
    let path = url.find("/in/").map(|at| url[at..].to_owned());
    path.ok_or_else(|| anyhow::anyhow!("{url} is no intake URL"))
}

/// Plays one kind of hostile client until the server closes the connection.
async fn play(kind: usize, address: SocketAddr, path: &str) {
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    let post = format!("POST {path} HTTP/1.1\r\nHost: a\r\n");
    let (start, drip): (String, &[u8]) = match kind {
        0 => (format!("{post}X-Slow: "), b"x"),
        1 => (String::new(), b""),
        2 => (format!("{post}Content-Length: 5000000\r\n\r\n"), b"x"),
        3 => (format!("{post}Transfer-Encoding: chunked\r\n\r\n"), b"1\r\nx\r\n"),
        4 => (format!("{post}Content-Length: 99999999\r\n\r\n"), &[b'x'; 1024]),
        5 => (format!("{post}Host: b\r\nContent-Length: 1\r\n\r\nx"), b""),
        6 => (format!("POST {path} HTTP/1.1\nHost: a\nContent-Length: 1\n\nx"), b""),
        _ => (format!("{post}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"), b""),
    };
    if stream.write_all(start.as_bytes()).await.is_err() {
        return;
    }
    let mut answer = [0; 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut answer) => if !matches!(read, Ok(1..)) { return },
            () = sleep(Duration::from_secs(1)) => if stream.write_all(drip).await.is_err() { return },
        }
    }
}
