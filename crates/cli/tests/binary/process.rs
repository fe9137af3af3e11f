//! The binary as a process, and a client of it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use restante_store::testbed::Cluster;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The admin key of every process.
pub(crate) const KEY: &str = "rst_live_0123456789abcdefghijklmnopqrstuv";
/// What secrets are encrypted with by every node of a database.
pub(crate) const SECRET_KEY: &str = "the-same-secret-key-on-every-node";
/// For a start.
const START_TIME: Duration = Duration::from_secs(30);

/// What a server finds again when it is started anew. Each node of a database has one of its own.
#[derive(Clone)]
pub(crate) struct Home {
    data: PathBuf,
    /// `None`: all is in the data directory.
    database: Option<String>,
    /// Further settings, as the environment has them.
    settings: Vec<(&'static str, String)>,
    /// What it says: from which level on.
    level: &'static str,
    /// Where that goes; `None`: to whoever runs the test.
    heard: Option<PathBuf>,
}

impl From<&Path> for Home {
    fn from(data: &Path) -> Self {
        Self { data: data.to_owned(), database: None, settings: Vec::new(), level: "error", heard: None }
    }
}

impl From<&Home> for Home {
    fn from(home: &Self) -> Self {
        home.clone()
    }
}

impl Home {
    /// A node of a database.
    pub(crate) fn on(database: &str, data: &Path) -> Self {
        Self { database: Some(database.to_owned()), ..Self::from(data) }
    }

    /// The data directory, if all is in it.
    pub(crate) fn embedded(&self) -> Option<&Path> {
        self.database.is_none().then_some(&*self.data)
    }

    /// With all that it says from a level on in one file.
    pub(crate) fn heard(mut self, level: &'static str, file: &Path) -> Self {
        (self.level, self.heard) = (level, Some(file.to_owned()));
        self
    }

    /// With a setting, such as `RESTANTE_SMTP_URL`.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.settings.push((name, value.into()));
        self
    }
}

/// Runs each promise, an `async fn(Home)`, on the embedded database.
macro_rules! on_sqlite {
    ($($promise:ident),+ $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    let data = crate::process::data_directory();
                    super::$promise(data.path().into()).await;
                }
            )+
        }
    };
}
pub(crate) use on_sqlite;

/// Runs each promise, an `async fn(Home)`, on the embedded database and on a PostgreSQL.
macro_rules! on_both_stores {
    ($($promise:ident),+ $(,)?) => {
        crate::process::on_sqlite!($($promise),+);

        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    let cluster = crate::process::cluster().await;
                    let data = crate::process::data_directory();
                    let database = cluster.database().await;
                    super::$promise(crate::process::Home::on(&database, data.path())).await;
                }
            )+
        }
    };
}
pub(crate) use on_both_stores;

/// A running server. Dropping it kills it.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    home: Home,
    child: Child,
    caller: Caller,
}

/// Somebody who calls a server, also one that is killed meanwhile.
#[derive(Clone)]
pub(crate) struct Caller {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Caller {
    /// `None`: no answer came.
    pub(crate) async fn ask(
        &self,
        call: (Method, &str),
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Option<(StatusCode, Bytes)> {
        let (status, _, body) = self.ask_whole(call, headers, body).await?;
        Some((status, body))
    }

    /// With the answer's headers.
    pub(crate) async fn ask_whole(
        &self,
        (method, path): (Method, &str),
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Option<(StatusCode, HeaderMap, Bytes)> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Full::new(body)).unwrap()).await.ok()?;
        let (status, headers) = (response.status(), response.headers().clone());
        Some((status, headers, response.into_body().collect().await.ok()?.to_bytes()))
    }
}

impl Process {
    /// Starts a server on a free port and waits until it is ready.
    pub(crate) async fn start(home: impl Into<Home>) -> Self {
        let (address, home) = (free_address(), home.into());
        let caller = Caller { address, client: Client::builder(TokioExecutor::new()).build_http() };
        let mut process = Self { address, child: spawn(address, &home), home, caller };
        process.until_ready().await;
        process
    }

    /// kill -9, and a new process on the same data and port.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.kill();
        self.restart().await;
    }

    /// A new process in the place of one that ended.
    pub(crate) async fn restart(&mut self) {
        self.child = spawn(self.address, &self.home);
        self.until_ready().await;
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; gives how it ended.
    pub(crate) async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// SIGSTOP: it stands still until [`Process::thaw`].
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    async fn until_ready(&mut self) {
        let waiting = async {
            loop {
                if matches!(self.send(Method::GET, "/readyz", Bytes::new()).await, Some((StatusCode::OK, _)))
                {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(START_TIME, waiting).await.is_err() {
            let pid = self.child.id();
            let state = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            panic!("the server is not ready in time; its process:\n{state}");
        }
        // It might have been another one that answered.
        assert_eq!(self.child.try_wait().unwrap(), None, "the server has ended");
    }

    /// `None`: no answer came.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Bytes) -> Option<(StatusCode, Bytes)> {
        self.caller.ask((method, path), &[("authorization", &format!("Bearer {KEY}"))], body).await
    }

    pub(crate) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// A call of the API that must succeed.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Value) -> Value {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let (status, answer) = self.send(method, path, bytes).await.unwrap();
        assert!(status.is_success(), "{path}: {status} {answer:?}");
        serde_json::from_slice(&answer).unwrap_or(Value::Null)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that stays free while its server is down: the system takes ports for outgoing connections from 32768 on,
/// and a client that keeps calling a dead port from that range may end up connected to itself.
///
/// Tests that run at the same time begin far apart: a port must also stay free while a server is down.
fn free_address() -> SocketAddr {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let places = std::process::id().wrapping_mul(7919).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
    let start = 20_000 + u16::try_from(places % 12_000).unwrap();
    let mut ports = (start..32_000).chain(20_000..start);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    SocketAddr::from(([127, 0, 0, 1], ports.find(free).unwrap()))
}

fn spawn(address: SocketAddr, home: &Home) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command
        .args(["serve", "--dev", "--log", home.level])
        .arg("--data")
        .arg(&home.data)
        .args(["--listen", &address.to_string()])
        .env("RESTANTE_ADMIN_KEY", KEY)
        .envs(home.settings.iter().map(|(name, value)| (name, value)));
    if let Some(database) = &home.database {
        command.env("RESTANTE_DATABASE_URL", database).env("RESTANTE_SECRET_KEY", SECRET_KEY);
    }
    let Some(file) = &home.heard else { return command.stdout(Stdio::null()).spawn().unwrap() };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap()
}

/// The PostgreSQL that the tests of a run share. It must be kept while its databases are used.
pub(crate) async fn cluster() -> Cluster {
    Cluster::shared(Path::new(env!("CARGO_TARGET_TMPDIR"))).await
}

/// A file system that honours fsync: not the memory file system that /tmp may be.
pub(crate) fn data_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
