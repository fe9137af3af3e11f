//! The binary as a process, and a client of it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The admin key of every process.
const KEY: &str = "rst_live_0123456789abcdefghijklmnopqrstuv";
/// For a start.
const START_TIME: Duration = Duration::from_secs(30);

/// A running server. Dropping it kills it.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    data: PathBuf,
    child: Child,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Process {
    /// Starts a server on a free port and waits until it is ready.
    pub(crate) async fn start(data: &Path) -> Self {
        let port = free_address();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let process = Self { address: port, data: data.to_owned(), child: spawn(port, data), client };
        process.until_ready().await;
        process
    }

    /// kill -9, and a new process on the same data and port.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.kill();
        self.child = spawn(self.address, &self.data);
        self.until_ready().await;
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; gives how it ended.
    pub(crate) async fn terminate(&mut self) -> ExitStatus {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    async fn until_ready(&self) {
        let waiting = async {
            loop {
                if matches!(self.send(Method::GET, "/readyz", Bytes::new()).await, Some((StatusCode::OK, _)))
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(START_TIME, waiting).await.is_err() {
            let pid = self.child.id();
            let state = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            panic!("the server is not ready in time; its process:\n{state}");
        }
    }

    /// `None`: no answer came.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Bytes) -> Option<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("authorization", format!("Bearer {KEY}"));
        let response = self.client.request(request.body(Full::new(body)).unwrap()).await.ok()?;
        let status = response.status();
        Some((status, response.into_body().collect().await.ok()?.to_bytes()))
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
fn free_address() -> SocketAddr {
    let start = 20_000 + u16::try_from(std::process::id() % 12_000).unwrap();
    let mut ports = (start..32_000).chain(20_000..start);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    SocketAddr::from(([127, 0, 0, 1], ports.find(free).unwrap()))
}

fn spawn(address: SocketAddr, data: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_restante"))
        .args(["serve", "--dev", "--log", "error"])
        .arg("--data")
        .arg(data)
        .args(["--listen", &address.to_string()])
        .env("RESTANTE_ADMIN_KEY", KEY)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A file system that honours fsync: not the memory file system that /tmp may be.
pub(crate) fn data_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
