//! The API in process, on a real store.

mod classes;
mod compat;
mod config;
mod conventions;
mod dashboard;
mod description;
mod finding;
mod history;
mod lists;
mod live;
mod mail;
mod publishing;
mod rate_limits;
mod signing_in;
mod stats;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use restante_core::id::Tail;
use restante_core::message::{Headers, Received};
use restante_core::retry::Jitter;
use restante_core::{Attempt, Outcome, Timestamp};
use restante_store::sqlite::Sqlite;
use restante_store::{Accepted, Dispatch, Finished, Incoming, Judgement, Parcel, Policy, Store, Withdraw};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use super::{ApiState, first_key, router};
use crate::channel::ChannelConfig;
use crate::channel::guard::Rules;
use crate::clock::{Clock, ManualClock};
use crate::dashboard::Dashboard;
use crate::mail::records::{Lookup, LookupFault};
use crate::probe::Prober;
use crate::telemetry::Metrics;
use crate::tunnel::Hub;
use crate::vault::Vault;

/// When the tests' clock starts: 2026-11-29T23:19:41Z.
const START: Timestamp = Timestamp::from_millis(1_795_994_381_000);

/// A server's API, and the store behind it.
struct World {
    router: Router,
    state: ApiState,
    store: Arc<Sqlite>,
    clock: Arc<ManualClock>,
    /// The first admin key.
    admin: String,
    stop: watch::Sender<bool>,
    leased: Arc<Leased>,
    disk_full: Arc<Mutex<bool>>,
    zone: Arc<Zone>,
    _directory: tempfile::TempDir,
}

/// Takes leased deliveries and keeps them.
#[derive(Default)]
struct Leased(Mutex<Vec<Parcel>>);

impl Dispatch for Leased {
    fn dispatch(&self, parcels: Vec<Parcel>) {
        self.0.lock().unwrap().extend(parcels);
    }

    fn withdraw(&self, _: Withdraw) {}
}

/// The DNS: texts by name. A name with `Err` is one whose servers do not answer.
#[derive(Default)]
struct Zone(Mutex<BTreeMap<String, Result<Vec<String>, LookupFault>>>);

impl Zone {
    fn set(&self, name: &str, texts: Result<&[&str], &str>) {
        let texts = match texts {
            Ok(texts) => Ok(texts.iter().map(|text| (*text).to_owned()).collect()),
            Err(fault) => Err(LookupFault(fault.to_owned())),
        };
        self.0.lock().unwrap().insert(name.to_owned(), texts);
    }
}

#[async_trait]
impl Lookup for Zone {
    async fn txt(&self, name: &str) -> Result<Vec<String>, LookupFault> {
        self.0.lock().unwrap().get(name).cloned().unwrap_or_else(|| Ok(Vec::new()))
    }
}

/// What a call was answered.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {:?}", self.body))
    }

    /// The body of an answer with this status.
    #[track_caller]
    fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{:?}", self.body);
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The error of an answer with this status and code.
    #[track_caller]
    fn refused(self, status: u16, code: &str) -> Value {
        let error = self.expect(status)["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        error
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(Sqlite::open(directory.path(), Policy::default()).unwrap());
        let clock = Arc::new(ManualClock::new(START, 7));
        let admin = first_key(&*store, &*clock, None, Some("ops@a.example")).await.unwrap().unwrap();
        let (stop, stopping) = watch::channel(false);
        let disk_full = Arc::new(Mutex::new(false));
        let full = Arc::clone(&disk_full);
        let vault = Arc::new(Vault::new([7; 32]));
        let channel = ChannelConfig { rules: Rules::default(), extra_ca_file: None };
        let zone = Arc::<Zone>::default();
        let prober = Prober::new(&channel, Arc::clone(&vault), Arc::clone(&clock) as Arc<dyn Clock>);
        let state = ApiState {
            store: Arc::clone(&store) as Arc<dyn Store>,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            rules: Arc::new(Rules::default()),
            public_url: "https://hooks.example".into(),
            metrics: Arc::new(|vitals| format!("restante_up {}\n", u8::from(vitals.is_some()))),
            disk: Arc::new(move || if *full.lock().unwrap() { Err("disk full".into()) } else { Ok(()) }),
            stopping,
            last_used: Arc::default(),
            keys: Arc::default(),
            vault,
            prober: Arc::new(prober.unwrap()),
            health_limits: restante_core::health::Limits::default(),
            counters: Arc::new(Metrics::default()),
            tracer: None,
            transport: "capture",
            require_verified_domains: false,
            lookup: Arc::clone(&zone) as Arc<dyn Lookup>,
            tunnel: Hub::new(Arc::clone(&store) as Arc<dyn Store>, Arc::clone(&clock) as Arc<dyn Clock>),
            dashboard: Arc::new(Dashboard::new("https://hooks.example", &[])),
            connections: crate::door::connection_slots(),
            limits: Arc::default(),
        };
        let router = router(state.clone());
        let leased = Arc::default();
        Self { router, state, store, clock, admin, stop, leased, disk_full, zone, _directory: directory }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// A call with a key. A null body is no body.
    async fn call(&self, key: &str, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(path)
            .header("authorization", format!("Bearer {key}"))
            .body(body);
        self.send(request.unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call(&self.admin, "GET", path, Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(&self.admin, "POST", path, body).await
    }

    async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call(&self.admin, "PATCH", path, body).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.call(&self.admin, "DELETE", path, Value::Null).await
    }

    async fn source(&self, name: &str) -> Value {
        self.post("/v1/sources", json!({"name": name})).await.expect(201)
    }

    /// A source with a destination: the source, and the path of the destination.
    async fn source_with_destination(&self) -> (Value, String) {
        let source = self.source("orders").await;
        let path = format!("/v1/sources/{}/destinations", text(&source, "id"));
        let body = json!({"kind": "http", "url": "https://a.example/hook"});
        let destination = self.post(&path, body).await.expect(201);
        (source, format!("{path}/{}", text(&destination, "id")))
    }

    /// A key with these scopes.
    async fn key(&self, scopes: Value) -> String {
        let body = json!({"name": "k", "scopes": scopes});
        text(&self.post("/v1/keys", body).await.expect(201), "token")
    }

    /// The first key of another workspace.
    async fn stranger(&self) -> String {
        let workspace = self.post("/v1/workspaces", json!({"name": "other"})).await.expect(201);
        text(&workspace["key"], "token")
    }

    /// Stores a request to a source; its id.
    async fn receive(&self, source: &Value, body: &'static str) -> String {
        let headers: [(&str, &[u8]); 2] = [("Content-Type", b"application/json"), ("X-Raw", b"\xff")];
        let received = Received {
            method: "POST".into(),
            path: "/a/b".into(),
            query: Some("x=1".into()),
            headers: headers.into_iter().collect::<Headers>(),
            body: Bytes::from_static(body.as_bytes()),
            remote_address: "192.0.2.1".into(),
        };
        let tail = Tail::from_bits(self.clock.draw());
        let (token, judgement, now) = (text(source, "token"), Judgement::default(), self.clock.now());
        let accepted = self.store.accept(Incoming { token, received, judgement, now, tail }).await.unwrap();
        let Accepted::Fresh { id, .. } = accepted else { panic!("{accepted:?}") };
        id.to_string()
    }

    /// From now on deliveries are leased at birth.
    async fn attach(&self) {
        self.store.attach(Some(Arc::clone(&self.leased) as Arc<dyn Dispatch>)).await.unwrap();
    }

    /// Ends all attempts in flight with this outcome, a second after they began.
    async fn settle(&self, outcome: Outcome) {
        let parcels = std::mem::take(&mut *self.leased.0.lock().unwrap());
        let finished = parcels.into_iter().map(|parcel| Finished {
            lease: parcel.lease,
            attempt: Attempt {
                number: parcel.lease.attempt,
                outcome: outcome.clone(),
                started_at: parcel.claimed_at,
                ended_at: parcel.claimed_at + std::time::Duration::from_secs(1),
            },
            endpoint_version: parcel.endpoint.settings().version,
            jitter: Jitter::NONE,
        });
        self.store.settle(finished.collect()).await.unwrap();
    }
}

/// A text field.
#[track_caller]
fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

/// The same field of all items of a page.
fn column(page: &Value, name: &str) -> Vec<Value> {
    page["data"].as_array().unwrap().iter().map(|item| item[name].clone()).collect()
}
