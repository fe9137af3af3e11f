//! The server as others see it, and all that is set up on it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::diary::Diary;
use super::ledger::Ledger;
use super::plan::Plan;
use crate::patience::until;
use crate::process::{Caller, KEY, Process};
use crate::receiver::Receiver;

/// For an answer.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// For leases to be given back and results to be stored when nothing is on its way.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Sources by name, with the paths of their destinations, which say what the receivers do: `stalls` hangs at times and is
/// tried once; `paused` and `changing` are what the operator does.
const SOURCES: [(&str, &[&str]); 3] = [
    ("shop", &["/steady", "/moody", "/stalls"]),
    ("billing", &["/paused", "/changing"]),
    ("laptop", &["/laptop", "/beside"]),
];
/// The source that knows repeats of a sender's own number.
const DEDUPING: usize = 1;
/// Webhooks, with what they are told.
const WEBHOOKS: [(&str, &str); 4] =
    [("/hook", "soak.*"), ("/hook-moody", "soak.*"), ("/hook-paused", "soak.*"), ("/all", "*")];

pub(super) struct Endpoint {
    pub(super) id: String,
    /// In the API.
    pub(super) resource: String,
    /// At the receiver.
    pub(super) path: &'static str,
}

pub(super) struct Source {
    pub(super) intake: String,
    pub(super) destinations: Vec<Endpoint>,
    pub(super) dedupes: bool,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) diary: Diary,
    pub(super) ledger: Ledger,
    pub(super) receiver: Receiver,
    pub(super) sources: Vec<Source>,
    pub(super) webhooks: Vec<Endpoint>,
    pub(super) next: AtomicU64,
    caller: Caller,
    stopped: AtomicBool,
    /// Of the server, which may be down.
    pub(super) pid: AtomicU32,
    /// Odd: the server is not to be reached, for a reason. Each change adds one.
    pub(super) downs: AtomicU64,
}

impl World {
    pub(super) async fn open(server: &Process, plan: Plan) -> Self {
        let receiver = Receiver::start().await;
        let mut sources = Vec::new();
        for (index, (name, paths)) in SOURCES.into_iter().enumerate() {
            sources.push(source(server, &receiver, name, paths, index == DEDUPING).await);
        }
        let mut webhooks = Vec::new();
        for (path, events) in WEBHOOKS {
            let mut body = terms(path);
            body["url"] = receiver.url(path).into();
            body["events"] = json!([events]);
            webhooks.push(endpoint(server, "/v1/webhooks", path, body).await);
        }
        Self {
            plan,
            diary: Diary::begin(),
            ledger: Ledger::default(),
            receiver,
            sources,
            webhooks,
            next: AtomicU64::new(0),
            caller: server.caller(),
            stopped: AtomicBool::new(false),
            pid: AtomicU32::new(server.pid()),
            downs: AtomicU64::new(0),
        }
    }

    /// A number that nobody else has.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Also when something is wrong: what comes later would only hide it.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) || self.diary.is_faulty()
    }

    pub(super) fn is_down(&self) -> bool {
        self.downs.load(Ordering::Acquire) % 2 == 1
    }

    /// `None`: no answer came. A 5xx other than a 503 is a fault.
    pub(super) async fn ask(
        &self,
        call: (Method, &str),
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Option<(StatusCode, Value)> {
        let (status, answer) = self.ask_bytes(call, headers, body).await?;
        Some((status, serde_json::from_slice(&answer).unwrap_or(Value::Null)))
    }

    /// With an answer of any kind.
    pub(super) async fn ask_bytes(
        &self,
        (method, path): (Method, &str),
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Option<(StatusCode, Bytes)> {
        let authorization = format!("Bearer {KEY}");
        let mut all = vec![("authorization", authorization.as_str())];
        all.extend_from_slice(headers);
        let answered = self.caller.ask((method, path), &all, body);
        let (status, answer) = tokio::time::timeout(ANSWER_TIME, answered).await.ok()??;
        if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            self.diary.fault(None, format!("{path}: {status} {answer:?}"));
        }
        Some((status, answer))
    }

    /// What is shown now; `None`: the server is not to be reached, or it is not there.
    pub(super) async fn get(&self, path: &str) -> Option<Value> {
        let (status, shown) = self.ask((Method::GET, path), &[], Bytes::new()).await?;
        (status == StatusCode::OK).then_some(shown)
    }

    /// A call that may be made again, made as often as it takes.
    pub(super) async fn set(&self, resource: &str, change: &Value) {
        loop {
            match self.ask((Method::PATCH, resource), &[], Bytes::from(change.to_string())).await {
                Some((StatusCode::OK, _)) => return,
                None | Some((StatusCode::SERVICE_UNAVAILABLE, _)) => moment().await,
                Some(other) => return self.diary.fault(None, format!("{resource} {change}: {other:?}")),
            }
        }
    }

    pub(super) fn destination(&self, path: &str) -> &Endpoint {
        let mut all = self.sources.iter().flat_map(|source| &source.destinations);
        all.find(|it| it.path == path).unwrap()
    }

    pub(super) fn webhook(&self, path: &str) -> &Endpoint {
        self.webhooks.iter().find(|it| it.path == path).unwrap()
    }

    /// When nothing is on its way, nothing is held.
    pub(super) async fn check_idle(&self, server: &Process) {
        const HELD: [&str; 4] = [
            "restante_leases",
            "restante_attempts_unsettled",
            "restante_attempts_in_flight",
            "restante_oldest_due_seconds",
        ];
        let page = async || {
            let (_, page) = server.send(Method::GET, "/metrics", Bytes::new()).await?;
            Some(String::from_utf8(page.to_vec()).unwrap())
        };
        let idle = async || {
            let page = page().await?;
            HELD.iter().all(|name| sample(&page, name) == Some(0.0)).then_some(())
        };
        if tokio::time::timeout(IDLE_TIME, until("idle", IDLE_TIME * 2, idle)).await.is_err() {
            let page = page().await.unwrap();
            let held: Vec<_> = HELD.iter().map(|name| (name, sample(&page, name))).collect();
            self.diary.fault(None, format!("all has ended, and there is {held:?}"));
        }
    }
}

/// Before something is tried again.
pub(super) async fn moment() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// A value without labels on the page of metrics.
pub(super) fn sample(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok()
}

async fn source(
    server: &Process,
    receiver: &Receiver,
    name: &str,
    paths: &[&'static str],
    dedupes: bool,
) -> Source {
    let dedupe = if dedupes { json!({"header": "x-number", "hours": 24}) } else { Value::Null };
    let made = server.call(Method::POST, "/v1/sources", json!({"name": name, "dedupe": dedupe})).await;
    let list = format!("/v1/sources/{}/destinations", made["id"].as_str().unwrap());
    let mut destinations = Vec::new();
    for path in paths {
        let mut body = terms(path);
        body["kind"] = if *path == "/laptop" { "cli" } else { "http" }.into();
        body["url"] = receiver.url(path).into();
        body["idempotency_header"] = true.into();
        destinations.push(endpoint(server, &list, path, body).await);
    }
    Source { intake: format!("/in/{}", made["token"].as_str().unwrap()), destinations, dedupes }
}

async fn endpoint(server: &Process, list: &str, path: &'static str, body: Value) -> Endpoint {
    let made = server.call(Method::POST, list, body).await;
    let id = made["id"].as_str().unwrap().to_owned();
    Endpoint { resource: format!("{list}/{id}"), id, path }
}

/// Schedule and timeout of an endpoint. On PostgreSQL a killed node's leases end so long, and some, after it was seen.
fn terms(path: &str) -> Value {
    if path == "/stalls" {
        return json!({"attempts": 1, "timeout_seconds": 1});
    }
    let waits = [0.1, 0.2, 0.2, 0.3, 0.5, 0.5, 1.0, 1.0, 1.0];
    json!({"schedule": {"kind": "custom", "waits_seconds": waits}, "timeout_seconds": 5})
}
