//! Several nodes on one PostgreSQL: killed, frozen, cut off, stopped, told of changes.
//!
//! What publishers were told and what receivers saw is the judge, never the tables.

mod load;
mod on_postgres;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

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

/// On a disk.
pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
