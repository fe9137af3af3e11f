//! The generator and the receiver as processes of their own.
//!
//! Every process is killed when its owner is dropped, so an error or an interrupt leaves none behind.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use clap::ValueEnum as _;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::scale::STILL_MAX;
use crate::body::Post;
use crate::clock;
use crate::line::Line;
use crate::load::Report;
use crate::sink::Stats;

/// Pause between two looks at the receiver: its counts stop it for a moment.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A running receiver.
pub(super) struct Sink {
    pub(super) address: SocketAddr,
    /// Kills the process when dropped.
    _child: Child,
}

impl Sink {
    pub(super) async fn start() -> Result<Self> {
        #[derive(Deserialize)]
        struct Hello {
            listening: SocketAddr,
        }
        let mut command = Command::new(this_binary()?);
        command.arg("sink").stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the receiver")?;
        let output = child.stdout.take().context("the receiver has no output")?;
        let line = BufReader::new(output).lines().next_line().await?.context("the receiver ended at once")?;
        let hello: Hello =
            serde_json::from_str(&line).context("the receiver does not say where it listens")?;
        Ok(Self { address: hello.listening, _child: child })
    }

    /// The URL of a path of the receiver.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) async fn stats(&self) -> Result<Stats> {
        Ok(serde_json::from_slice(&self.get("/__stats").await?)?)
    }

    pub(super) async fn reset(&self) -> Result<()> {
        self.get("/__reset").await.map(drop)
    }

    /// The counts once `distinct` messages have arrived, or once nothing new arrived for [`STILL_MAX`].
    pub(super) async fn wait_for(&self, distinct: u64) -> Result<Stats> {
        let (mut arrivals, mut since) = (0, clock::now());
        loop {
            let stats = self.stats().await?;
            if stats.arrivals != arrivals {
                (arrivals, since) = (stats.arrivals, clock::now());
            }
            if stats.distinct >= distinct || clock::now().duration_since(since) >= STILL_MAX {
                return Ok(stats);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn get(&self, path: &str) -> Result<Bytes> {
        let request = Request::builder().uri(path).header("host", "sink").body(Full::default())?;
        let response = Line::new(self.address).send(request).await.context("the receiver does not answer")?;
        Ok(response.into_body().collect().await?.to_bytes())
    }
}

/// One run of the generator.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) urls: Vec<String>,
    pub(super) connections: usize,
    pub(super) body_bytes: usize,
    pub(super) seconds: Option<f64>,
    pub(super) count: Option<u64>,
    /// Requests per second of an open loop; `None` is a closed loop.
    pub(super) rate: Option<f64>,
    pub(super) post: Post,
    /// The API key to send along.
    pub(super) key: Option<String>,
}

impl Load {
    /// Runs a generator process to its end.
    ///
    /// # Errors
    /// It cannot reach its target. Requests that fail later are counted in the report.
    pub(super) async fn run(&self) -> Result<Report> {
        let list = tempfile::NamedTempFile::new()?;
        std::fs::write(list.path(), self.urls.join("\n"))?;
        let mut command = Command::new(this_binary()?);
        command.arg("load").arg("--urls-from").arg(list.path());
        command.args([
            "--connections",
            &self.connections.to_string(),
            "--body-bytes",
            &self.body_bytes.to_string(),
        ]);
        let options = [
            ("--seconds", self.seconds.map(|seconds| seconds.to_string())),
            ("--count", self.count.map(|count| count.to_string())),
            ("--rate", self.rate.map(|rate| rate.to_string())),
            ("--post", self.post.to_possible_value().map(|it| it.get_name().to_owned())),
            ("--key", self.key.clone()),
        ];
        for (name, value) in options {
            command.args(value.iter().flat_map(|value| [name, value]));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let output = command.spawn().context("cannot start the generator")?.wait_with_output().await?;
        ensure!(output.status.success(), "the generator failed: {}", output.status);
        serde_json::from_slice(&output.stdout).context("the generator's report cannot be read")
    }
}

fn this_binary() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this benchmark's own binary")
}
