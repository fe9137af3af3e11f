//! A server in this process, on a real socket and a real data directory, under a clock that the test moves.

pub(crate) mod outbound;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use restante_core::Timestamp;
use restante_server::Server;
use restante_server::clock::ManualClock;
use restante_server::config::Config;
use restante_store::sqlite::Sqlite;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;

/// When every test begins: noon, so that a day can pass without a change of date being special.
pub(crate) const START: &str = "2026-03-02T12:00:00.000Z";
/// The admin key of every test.
pub(crate) const KEY: &str = "rst_live_0123456789abcdefghijklmnopqrstuv";
/// For a condition that only needs the server to do what it is about to do.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<Sqlite>,
    pub(crate) config: Config,
    pub(crate) client: Client<HttpConnector, Full<Bytes>>,
    pub(crate) key: String,
    directory: TempDir,
}

/// An answer, its body read as JSON where it is JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    pub(crate) json: Value,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(adjust: impl FnOnce(&mut Config)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config {
            data: directory.path().to_owned(),
            admin_key: Some(KEY.to_owned()),
            ..Config::default()
        };
        config.listen.set_port(0);
        config.loosen_for_development();
        adjust(&mut config);
        let clock = Arc::new(ManualClock::new(Timestamp::parse(START).unwrap(), 7));
        let (server, store) = serve(&config, &clock).await;
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { server, clock, store, config, client, key: KEY.to_owned(), directory }
    }

    /// Stops the server as SIGTERM does and starts it again on the same data directory.
    pub(crate) async fn restart(self) -> Self {
        let Self { server, clock, store, config, client, key, directory } = self;
        server.stop().await;
        store.close();
        drop(store);
        let (server, store) = serve(&config, &clock).await;
        Self { server, clock, store, config, client, key, directory }
    }

    /// Stops the server; the data directory goes with the world.
    pub(crate) async fn stop(self) {
        self.server.stop().await;
        self.store.close();
        drop(self.directory);
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address)
    }

    /// Any request, with exactly these headers.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status: parts.status, headers: parts.headers, bytes, json }
    }

    /// A call of the API. `Value::Null` sends no body.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Value) -> Answer {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.send(method, &self.url(path), &headers, bytes).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.call(Method::GET, path, Value::Null).await;
        assert_eq!(answer.status, StatusCode::OK, "GET {path}: {}", answer.json);
        answer.json
    }

    /// A POST that must succeed.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.call(Method::POST, path, body).await;
        assert!(answer.status.is_success(), "POST {path}: {} {}", answer.status, answer.json);
        answer.json
    }

    /// A PATCH that must succeed.
    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        let answer = self.call(Method::PATCH, path, body).await;
        assert_eq!(answer.status, StatusCode::OK, "PATCH {path}: {}", answer.json);
        answer.json
    }

    /// A DELETE that must succeed.
    pub(crate) async fn delete(&self, path: &str) {
        let answer = self.call(Method::DELETE, path, Value::Null).await;
        assert!(answer.status.is_success(), "DELETE {path}: {} {}", answer.status, answer.json);
    }

    /// A new source with this name.
    pub(crate) async fn source(&self, name: &str) -> Value {
        self.post("/v1/sources", json!({"name": name})).await
    }

    /// A new http destination of a source, with further settings.
    pub(crate) async fn destination(&self, source: &Value, url: &str, settings: Value) -> Value {
        let mut body = json!({"kind": "http", "url": url});
        for (name, value) in settings.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        self.post(&format!("/v1/sources/{}/destinations", id(source)), body).await
    }

    /// Sends a webhook to a source; gives the request's id.
    pub(crate) async fn webhook(&self, source: &Value, body: impl Into<Bytes>) -> String {
        let answer = self.send(Method::POST, source["url"].as_str().unwrap(), &[], body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.json);
        id(&answer.json)
    }

    /// Asks for `path` until `condition` holds of the answer.
    pub(crate) async fn until(&self, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let shown = self.get(path).await;
                if condition(&shown) {
                    return shown;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(shown) => shown,
            Err(_) => panic!("{path} does not become what is expected: {:#}", self.get(path).await),
        }
    }

    /// Waits until all deliveries of a request have the given state; gives the request.
    pub(crate) async fn until_all(&self, request: &str, state: &str) -> Value {
        self.until(&format!("/v1/requests/{request}"), |shown| {
            let deliveries = shown["deliveries"].as_array().unwrap();
            !deliveries.is_empty() && deliveries.iter().all(|delivery| delivery["state"] == state)
        })
        .await
    }

    /// Waits until a request's only delivery has ended `attempts` attempts; gives the delivery.
    pub(crate) async fn until_attempts(&self, request: &str, attempts: usize) -> Value {
        let shown = self
            .until(&format!("/v1/requests/{request}"), |shown| {
                let made = shown["deliveries"][0]["attempts"].as_array().unwrap();
                made.len() == attempts && made.iter().all(|attempt| !attempt["result"].is_null())
            })
            .await;
        shown["deliveries"][0].clone()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

async fn serve(config: &Config, clock: &Arc<ManualClock>) -> (Server, Arc<Sqlite>) {
    let store = Arc::new(Sqlite::open(&config.data, config.policy()).unwrap());
    let server =
        Server::start(config, Arc::clone(&store) as _, Arc::clone(clock) as _, &[Handle::current()]).await;
    (server.unwrap(), store)
}

pub(crate) fn id(resource: &Value) -> String {
    resource["id"].as_str().unwrap_or_else(|| panic!("no id: {resource}")).to_owned()
}

pub(crate) fn time(value: &Value) -> Timestamp {
    Timestamp::parse(value.as_str().unwrap_or_else(|| panic!("no time: {value}"))).unwrap()
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "not in time: {what}");
}
