//! Many events through a receiver that is down for half a minute.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::process::{Home, Process, on_both_stores};

const WEBHOOKS: usize = 10;
const EVENTS: usize = 10_000;
const BATCH: usize = 500;
const OUTAGE: Duration = Duration::from_secs(30);
/// In all more than the outage, also when the first attempt is made at its very beginning.
const WAITS_SECONDS: [u64; 9] = [1, 2, 4, 8, 8, 8, 8, 8, 8];
/// Times are kept in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);
/// For all to be delivered after the outage.
const DRAIN_TIME: Duration = Duration::from_secs(240);

/// One request as the receiver saw it.
struct Arrival {
    began: Instant,
    answered: Instant,
    delivered: bool,
}

/// By webhook, then by `webhook-id`: the body, and each request.
type Seen = HashMap<String, HashMap<String, (Bytes, Vec<Arrival>)>>;

#[derive(Clone)]
struct Receiver {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    down_until: Instant,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Self { address, seen: Arc::default(), down_until: now() + OUTAGE };
        let shared = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let receiver = shared.clone();
                let service = service_fn(move |request| {
                    let receiver = receiver.clone();
                    async move { Ok::<_, Infallible>(receiver.answer(request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        receiver
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let began = now();
        let webhook = request.uri().path().to_owned();
        let id = request.headers()["webhook-id"].to_str().unwrap().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let delivered = began >= self.down_until;
        let mut seen = self.seen();
        let (known, arrivals) =
            seen.entry(webhook).or_default().entry(id).or_insert((body.clone(), Vec::new()));
        assert_eq!(*known, body, "an attempt carried other bytes than the one before");
        arrivals.push(Arrival { began, answered: now(), delivered });
        let mut response = Response::new(Full::default());
        if !delivered {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delivered(&self) -> usize {
        let seen = self.seen();
        let all = seen.values().flat_map(HashMap::values);
        all.filter(|(_, arrivals)| arrivals.iter().any(|arrival| arrival.delivered)).count()
    }
}

#[expect(clippy::disallowed_methods, reason = "the receiver's own clock judges the server's")]
fn now() -> Instant {
    Instant::now()
}

on_both_stores!(all_events_get_through_an_outage_of_their_receiver_and_the_log_says_what_it_saw);

async fn all_events_get_through_an_outage_of_their_receiver_and_the_log_says_what_it_saw(home: Home) {
    let server = Process::start(&home).await;
    let receiver = Receiver::start().await;
    let mut webhooks = Vec::new();
    for index in 0..WEBHOOKS {
        let body = json!({
            "url": format!("http://{}/{index}", receiver.address),
            "events": ["load.*"],
            "schedule": {"kind": "custom", "waits_seconds": WAITS_SECONDS},
        });
        let webhook = server.call(Method::POST, "/v1/webhooks", body).await;
        webhooks.push(webhook["id"].as_str().unwrap().to_owned());
    }
    let mut events = Vec::new();
    for batch in 0..EVENTS / BATCH {
        let event = |n| json!({"type": "load.sent", "data": {"n": batch * BATCH + n}});
        let call = json!({"events": (0..BATCH).map(event).collect::<Vec<_>>()});
        let published = server.call(Method::POST, "/v1/events/batch", call).await;
        for event in published["data"].as_array().unwrap() {
            assert_eq!(event["deliveries"], WEBHOOKS);
            events.push(event["id"].as_str().unwrap().to_owned());
        }
    }
    let waiting = async {
        while receiver.delivered() < WEBHOOKS * EVENTS {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let drained = tokio::time::timeout(DRAIN_TIME, waiting).await;
    assert!(drained.is_ok(), "only {} of {} arrived", receiver.delivered(), WEBHOOKS * EVENTS);

    let mut retried = 0;
    for (index, webhook) in webhooks.iter().enumerate() {
        let log = attempts(&server, webhook).await;
        let seen = receiver.seen();
        let seen = &seen[&format!("/{index}")];
        assert_eq!(seen.len(), EVENTS, "webhook {index} saw other ids than those of the events");
        assert!(events.iter().all(|event| seen.contains_key(event)));
        let mut counted: HashMap<&str, (usize, usize)> = HashMap::new();
        for attempt in &log {
            let (delivered, failed) = counted.entry(attempt["event_id"].as_str().unwrap()).or_default();
            match attempt["status"].as_str().unwrap() {
                "delivered" => *delivered += 1,
                _ => *failed += 1,
            }
        }
        for (event, (_, arrivals)) in seen {
            let delivered = arrivals.iter().filter(|arrival| arrival.delivered).count();
            assert_eq!(counted[event.as_str()], (delivered, arrivals.len() - delivered), "{event}");
            assert_eq!(delivered, 1, "{event} was delivered more than once although nothing was lost");
            for (pair, wait) in arrivals.windows(2).zip(WAITS_SECONDS) {
                let waited = pair[1].began.duration_since(pair[0].answered);
                assert!(waited + ROUNDING >= Duration::from_secs(wait), "{event}: {waited:?} of {wait} s");
                retried += 1;
            }
        }
    }
    // How many there are is a matter of the machine; that there are many is what the test is about.
    assert!(retried > EVENTS / 10, "the outage was hardly felt: {retried} retries");
}

/// The whole log of a webhook, read by its pages.
async fn attempts(server: &Process, webhook: &str) -> Vec<Value> {
    let (mut log, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/webhooks/{webhook}/attempts?limit=100{cursor}");
        let page = server.call(Method::GET, &path, Value::Null).await;
        log.extend(page["data"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return log,
        }
    }
}
