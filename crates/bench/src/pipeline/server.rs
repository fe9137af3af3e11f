//! The server under test as a process.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::machine::{ProcessMemory, processor_time};
use super::postgres::Database;
use super::{Bench, tail};
use crate::body::EVENT_TYPE;
use crate::clock;
use crate::line::Line;

/// How long a server may take until it is ready.
const READY_MAX: Duration = Duration::from_secs(120);
/// How long a server may take to stop: ten seconds by its promise, and some slack.
const STOP_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// What secrets are sealed with in a database of several nodes.
const SECRET_KEY: &str = "a-secret-key-of-the-benchmark";

/// A running server on a data directory; killed when dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// From the start of the process to its first ready answer.
    pub(super) ready_after: Duration,
    data: PathBuf,
    /// `None`: the embedded one, in `data`. Shared by the nodes that work on it.
    database: Option<Arc<Database>>,
    /// What this server has in its environment beside the others.
    settings: Vec<(&'static str, String)>,
    pub(super) admin_key: String,
    child: Child,
    line: Line,
}

/// What a server works on, while it does not run.
pub(super) struct Stopped {
    pub(super) data: PathBuf,
    pub(super) database: Option<Arc<Database>>,
    settings: Vec<(&'static str, String)>,
}

impl Stopped {
    /// An empty store.
    pub(super) async fn empty(bench: &Bench) -> Result<Self> {
        let database = match &bench.cluster {
            Some(cluster) => Some(cluster.database().await?),
            None => None,
        };
        Ok(Self { data: new_data(bench)?, database, settings: Vec::new() })
    }

    /// Starts a server on it.
    ///
    /// # Errors
    /// It did not become ready.
    pub(super) async fn start(self, bench: &Bench) -> Result<Server> {
        Server::start_on(bench, self.data, self.database, self.settings).await
    }
}

/// A source as the API gave it.
pub(super) struct Source {
    pub(super) id: String,
    /// Where to POST for this source.
    pub(super) intake: String,
    /// The same without the server's address.
    path: String,
}

impl Source {
    /// Where to POST for this source at another node.
    pub(super) fn intake_at(&self, server: &Server) -> String {
        format!("http://{}{}", server.address, self.path)
    }

    /// The same source where `server` is.
    pub(super) fn moved_to(&self, server: &Server) -> Self {
        Self { id: self.id.clone(), intake: self.intake_at(server), path: self.path.clone() }
    }
}

/// A destination as the API gave it: its own path below `/v1`.
pub(super) struct Destination(String);

impl Server {
    /// Starts a server on an empty store.
    pub(super) async fn start(bench: &Bench) -> Result<Self> {
        Self::start_with(bench, Vec::new()).await
    }

    /// The same with further variables in its environment. Those of the whole run come after them.
    pub(super) async fn start_with(bench: &Bench, settings: Vec<(&'static str, String)>) -> Result<Self> {
        Stopped { settings, ..Stopped::empty(bench).await? }.start(bench).await
    }

    /// Starts another node on the database of `self`.
    pub(super) async fn another(&self, bench: &Bench) -> Result<Self> {
        ensure!(self.database.is_some(), "only a database of its own takes several nodes");
        Self::start_on(bench, new_data(bench)?, self.database.clone(), self.settings.clone()).await
    }

    async fn start_on(
        bench: &Bench,
        data: PathBuf,
        database: Option<Arc<Database>>,
        settings: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let address = free_address()?;
        let log = data.with_extension("log");
        let mut command = Command::new(&bench.restante);
        // Settings of the surroundings must not change what is measured.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RESTANTE_"))
        {
            command.env_remove(name);
        }
        command.args(["serve", "--dev"]).current_dir(&data).env("RESTANTE_LISTEN", address.to_string());
        command.env("RESTANTE_DATA", &data).env("RESTANTE_ADMIN_KEY", &bench.admin_key);
        if let Some(database) = &database {
            command.env("RESTANTE_DATABASE_URL", database.url()).env("RESTANTE_SECRET_KEY", SECRET_KEY);
        }
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        command.envs(bench.server_env.iter().map(|(name, value)| (name, value)));
        let output = File::options().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
        let start = clock::now();
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", bench.restante.display()))?;
        let mut line = Line::new(address);
        if let Err(error) = wait_until_ready(&mut child, &mut line, start).await {
            bail!(
                "{error:#}; its output ends with:
{}",
                tail(&log)
            );
        }
        let ready_after = clock::now().duration_since(start);
        let admin_key = bench.admin_key.clone();
        Ok(Self { address, ready_after, data, database, settings, admin_key, child, line })
    }

    /// A new source with one `http` destination for each URL. A failed attempt is repeated after a second or so.
    pub(super) async fn source(&mut self, name: &str, urls: &[String]) -> Result<Source> {
        let created = self.call(Method::POST, "/v1/sources", &json!({ "name": name })).await?;
        let (id, token) = (text(&created, "id")?, text(&created, "token")?);
        let path = format!("/in/{token}");
        let source = Source { id, intake: format!("http://{}{path}", self.address), path };
        for url in urls {
            self.destination(&source, url, json!({})).await?;
        }
        Ok(source)
    }

    /// A new destination of `source`; `more` is merged into what the API is sent.
    pub(super) async fn destination(
        &mut self,
        source: &Source,
        url: &str,
        more: Value,
    ) -> Result<Destination> {
        let mut body = json!({
            "kind": "http",
            "url": url,
            "idempotency_header": true,
            "schedule": { "kind": "custom", "waits_seconds": [1, 1, 2, 4] },
        });
        if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
            body.extend(more);
        }
        let path = format!("/v1/sources/{}/destinations", source.id);
        let created = self.call(Method::POST, &path, &body).await?;
        Ok(Destination(format!("{path}/{}", text(&created, "id")?)))
    }

    /// A new webhook for the events of the benchmark. A failed attempt is repeated after a second or so.
    pub(super) async fn webhook(&mut self, url: &str) -> Result<()> {
        let body = json!({
            "url": url,
            "events": [EVENT_TYPE],
            "schedule": { "kind": "custom", "waits_seconds": [1, 1, 2, 4] },
        });
        self.call(Method::POST, "/v1/webhooks", &body).await.map(drop)
    }

    /// Lets a paused destination go on.
    pub(super) async fn resume(&mut self, destination: &Destination) -> Result<()> {
        self.call(Method::PATCH, &destination.0, &json!({ "paused": false })).await.map(drop)
    }

    /// Emails that were delivered, counted page by page: of so many the API gives no total.
    pub(super) async fn emails_sent(&mut self) -> Result<u64> {
        let (mut count, mut cursor) = (0, String::new());
        loop {
            let path = format!("/v1/emails?status=sent&limit=100{cursor}");
            let page = self.call(Method::GET, &path, &Value::Null).await?;
            count += page["data"].as_array().map_or(0, Vec::len) as u64;
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(count),
            }
        }
    }

    /// Memory of the process now.
    pub(super) fn memory(&self) -> Result<ProcessMemory> {
        self.child.id().and_then(ProcessMemory::of).context("the server ended by itself")
    }

    /// Processor time of the process until now, in steps of a hundredth of a second.
    pub(super) fn cpu(&self) -> Result<Duration> {
        self.child.id().and_then(processor_time).context("the server ended by itself")
    }

    /// Kills the server and removes its data, the database with its last node.
    pub(super) async fn discard(mut self) -> Result<()> {
        self.child.kill().await?;
        std::fs::remove_dir_all(&self.data)?;
        match self.database.and_then(Arc::into_inner) {
            Some(database) => database.discard().await,
            None => Ok(()),
        }
    }

    /// Stops the server in good order and starts it again on the same data.
    ///
    /// # Errors
    /// It did not stop in time, or did not become ready.
    pub(super) async fn restart(self, bench: &Bench) -> Result<Self> {
        let settings = self.settings.clone();
        self.restart_with(bench, settings).await
    }

    /// The same with other variables in its environment.
    pub(super) async fn restart_with(
        mut self,
        bench: &Bench,
        settings: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.context("the server ended by itself")?, Signal::TERM)?;
        timeout(STOP_MAX, self.child.wait()).await.context("the server did not stop on SIGTERM")??;
        Self::start_on(bench, self.data, self.database, settings).await
    }

    /// What a page or a program reads, whatever its status.
    pub(super) async fn get(&mut self, path: &str) -> Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", self.admin_key))
            .body(Full::default())?;
        exchange(&mut self.line, request).await
    }

    pub(super) async fn call(&mut self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", self.admin_key))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(serde_json::to_vec(body)?))?;
        let (status, answer) = exchange(&mut self.line, request).await?;
        ensure!(status.is_success(), "{method} {path} gave {status}: {}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).with_context(|| format!("the answer to {method} {path} is not JSON"))
    }
}

fn new_data(bench: &Bench) -> Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix("data-").tempdir_in(bench.directory.path())?.keep())
}

async fn wait_until_ready(child: &mut Child, line: &mut Line, start: Instant) -> Result<()> {
    while clock::now().duration_since(start) < READY_MAX {
        if let Some(status) = child.try_wait()? {
            bail!("the server ended at its start: {status}");
        }
        let request = Request::builder().uri("/readyz").header(HOST, "localhost").body(Full::default())?;
        if let Ok((StatusCode::OK, _)) = exchange(line, request).await {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
    bail!("the server was not ready after {READY_MAX:?}")
}

async fn exchange(line: &mut Line, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
    let response = line.send(request).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

/// A loopback address whose port was free a moment ago.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn text(resource: &Value, field: &str) -> Result<String> {
    resource[field].as_str().map(str::to_owned).with_context(|| format!("no {field} in {resource}"))
}
