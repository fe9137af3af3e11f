//! Several nodes on one PostgreSQL: killed, frozen, cut off, stopped, told of changes.
//!
//! What publishers were told and what receivers saw is the judge, never the tables.

mod load;
mod on_postgres;
mod receiver;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Home, Process, data_directory};

/// Nodes of one database.
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Process>,
    /// Of the nodes, in their order.
    _homes: Vec<TempDir>,
}

impl Nodes {
    /// Starts a node for each URL of the same database.
    pub(crate) async fn start(urls: &[String]) -> Self {
        let homes: Vec<TempDir> = urls.iter().map(|_| data_directory()).collect();
        let mut nodes = Vec::new();
        for (url, home) in urls.iter().zip(&homes) {
            nodes.push(Process::start(&Home::on(url, home.path())).await);
        }
        Self { nodes, _homes: homes }
    }

    pub(crate) fn addresses(&self) -> Arc<[SocketAddr]> {
        self.nodes.iter().map(|node| node.address).collect()
    }

    /// Makes a source by the first node. Every node takes requests for it by its token.
    pub(crate) async fn source(&self) -> Source {
        let made = self.nodes[0].call(Method::POST, "/v1/sources", json!({"name": "load"})).await;
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        Source { path: format!("/v1/sources/{}", text("id")), intake: format!("/in/{}", text("token")) }
    }

    /// Makes a destination of a source by the first node. `more` is set besides.
    pub(crate) async fn destination(&self, source: &Source, url: &str, more: Value) -> String {
        let mut body = json!({"kind": "http", "url": url, "idempotency_header": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = format!("{}/destinations", source.path);
        let made = self.nodes[0].call(Method::POST, &path, body).await;
        format!("{path}/{}", made["id"].as_str().unwrap())
    }
}

pub(crate) struct Source {
    /// Of the resource.
    pub(crate) path: String,
    /// Where it takes requests.
    pub(crate) intake: String,
}

#[expect(clippy::disallowed_methods, reason = "the test's own clock judges the server's")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Looks again and again until it sees what it wants.
///
/// # Panics
/// The time is up; `what` says what was wanted.
pub(crate) async fn until<T>(what: &str, time: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(time, waiting).await {
        Ok(seen) => seen,
        Err(_) => panic!("not within {time:?}: {what}"),
    }
}

/// A sequence of numbers that looks random, shown by its seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new() -> Self {
        let seed = u64::from(std::process::id());
        println!("seed {seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// On a disk.
pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
