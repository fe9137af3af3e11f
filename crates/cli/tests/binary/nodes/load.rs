//! Senders to all nodes, and the judgement of what became of what was acknowledged.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::patience::until;
use crate::process::{KEY, Process};
use crate::receiver::Receiver;

/// For an answer: a node that is frozen or cut off gives none.
const ANSWER_TIME: Duration = Duration::from_secs(3);
/// For all that was acknowledged to end when the faults are over: the longest lease and what comes after it.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// Sends one request on a connection of its own. `None`: no answer came.
pub(crate) async fn send(
    node: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Option<(StatusCode, Value)> {
    let mut request = Request::builder().method(method).uri(path).header("host", "load");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body)).unwrap();
    let answered = async {
        let stream = TcpStream::connect(node).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await.ok()?;
        let status = response.status();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    };
    tokio::time::timeout(ANSWER_TIME, answered).await.ok()?
}

/// Hands a request to a source; gives the id if it was acknowledged.
pub(crate) async fn post(node: SocketAddr, intake: &str, body: Bytes) -> Option<String> {
    let (status, answer) = send(node, Method::POST, intake, &[], body).await?;
    (status == StatusCode::OK).then(|| answer["id"].as_str().unwrap().to_owned())
}

/// Publishes an event with a key.
pub(crate) async fn publish(node: SocketAddr, key: &str, body: Bytes) -> Option<(StatusCode, Value)> {
    let authorization = format!("Bearer {KEY}");
    let headers = [("authorization", authorization.as_str()), ("idempotency-key", key)];
    send(node, Method::POST, "/v1/events", &headers, body).await
}

/// Senders that go on until they are stopped.
pub(crate) struct Load {
    shared: Arc<Shared>,
    senders: Vec<JoinHandle<()>>,
}

struct Shared {
    nodes: Vec<SocketAddr>,
    intake: String,
    /// What was acknowledged: id → body.
    acknowledged: Mutex<HashMap<String, Bytes>>,
    sent: AtomicUsize,
    stop: AtomicBool,
}

impl Load {
    /// Starts senders that each send to the nodes in turn, with a pause after each.
    pub(crate) fn start(nodes: &[Process], intake: &str, senders: usize, pause: Duration) -> Self {
        let shared = Arc::new(Shared {
            nodes: nodes.iter().map(|node| node.address).collect(),
            intake: intake.to_owned(),
            acknowledged: Mutex::default(),
            sent: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let senders = (0..senders).map(|_| tokio::spawn(Arc::clone(&shared).send(pause))).collect();
        Self { shared, senders }
    }

    /// How many were acknowledged so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.shared.acknowledged.lock().unwrap().len()
    }

    /// Stops the senders and gives what was acknowledged: id → body.
    pub(crate) async fn stop(self) -> HashMap<String, Bytes> {
        self.shared.stop.store(true, Ordering::Release);
        for sender in self.senders {
            sender.await.unwrap();
        }
        let acknowledged = self.shared.acknowledged.lock().unwrap().clone();
        println!("{} acknowledged of {} sent", acknowledged.len(), self.shared.sent.load(Ordering::Relaxed));
        acknowledged
    }
}

impl Shared {
    async fn send(self: Arc<Self>, pause: Duration) {
        while !self.stop.load(Ordering::Acquire) {
            let number = self.sent.fetch_add(1, Ordering::Relaxed);
            let body = Bytes::from(format!("{number}:{}", "\u{0}ÿ\r\n".repeat(number % 60)));
            let node = self.nodes[number % self.nodes.len()];
            if let Some(id) = post(node, &self.intake, body.clone()).await {
                self.acknowledged.lock().unwrap().insert(id, body);
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// A request as it is shown when nothing of it is pending any more.
pub(crate) async fn until_ended(node: &Process, id: &str) -> Value {
    let shown = Mutex::new(Value::Null);
    let look = async || {
        let now = node.call(Method::GET, &format!("/v1/requests/{id}"), Value::Null).await;
        *shown.lock().unwrap() = now;
        Some(shown.lock().unwrap().clone()).filter(|shown| shown["state"] != "pending")
    };
    match tokio::time::timeout(DRAIN_TIME, until("all ended", DRAIN_TIME * 2, look)).await {
        Ok(shown) => shown,
        Err(_) => panic!("still pending: {:#}", shown.lock().unwrap()),
    }
}

/// What the attempts of deliveries came to.
#[derive(Default, Debug)]
pub(crate) struct Counts {
    pub(crate) attempts: usize,
    pub(crate) lost: usize,
    pub(crate) visits: usize,
}

/// Every acknowledged request was delivered to every destination with its bytes, the paths in the order of the
/// destinations; attempts are numbered without a gap, the last one delivered and none before it did; and no receiver
/// saw more requests than there are attempts.
pub(crate) async fn judge(
    node: &Process,
    receiver: &Receiver,
    paths: &[&str],
    acknowledged: &HashMap<String, Bytes>,
) -> Counts {
    let mut counts = Counts::default();
    let mut keys = HashMap::new();
    for (id, body) in acknowledged {
        let shown = until_ended(node, id).await;
        let key = shown["key"].as_str().unwrap().to_owned();
        let deliveries = shown["deliveries"].as_array().unwrap();
        assert_eq!(deliveries.len(), paths.len(), "{shown:#}");
        for (delivery, path) in deliveries.iter().zip(paths) {
            assert_eq!(delivery["state"], "delivered", "{path}: {shown:#}");
            let attempts = delivery["attempts"].as_array().unwrap();
            for (index, attempt) in attempts.iter().enumerate() {
                assert_eq!(attempt["number"], index + 1, "{path}: {shown:#}");
                let delivered = attempt["result"] == "delivered";
                assert_eq!(delivered, index + 1 == attempts.len(), "{path}: {shown:#}");
                counts.lost += usize::from(attempt["error_kind"] == "lost");
            }
            let times = receiver.times(path, &key);
            assert!(times <= attempts.len(), "{path} saw {times} requests: {shown:#}");
            counts.attempts += attempts.len();
            counts.visits += times;
        }
        keys.insert(key, body);
    }
    for path in paths {
        let mut delivered = HashMap::new();
        for visit in receiver.visits(path) {
            // What was stored and not acknowledged is nobody's.
            let Some(body) = keys.get(&visit.identity) else { continue };
            if visit.delivered {
                assert_eq!(&visit.body, *body, "{path} saw other bytes");
                delivered.insert(visit.identity, ());
            }
        }
        assert_eq!(delivered.len(), keys.len(), "{path} never answered 200 to some");
    }
    println!("{counts:?}");
    counts
}
