//! kill -9 under load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::process::{Home, Process, on_both_stores};
use crate::sink::{Seen, Sink};

const KILLS: usize = 20;
const SENDERS: u64 = 8;
const PATHS: [&str; 3] = ["/steady", "/flaky", "/other"];
/// For all deliveries to end after the last kill.
const DRAIN_TIME: Duration = Duration::from_secs(120);

struct Load {
    server: RwLock<Process>,
    intake: String,
    /// What was acknowledged: id → body.
    acknowledged: Mutex<HashMap<String, Bytes>>,
    sent: AtomicU64,
    stop: AtomicBool,
}

on_both_stores!(nothing_acknowledged_is_lost_when_the_server_is_killed_at_random_moments);

async fn nothing_acknowledged_is_lost_when_the_server_is_killed_at_random_moments(home: Home) {
    let sink = Sink::start().await;
    let server = Process::start(&home).await;
    let source = server.call(Method::POST, "/v1/sources", json!({"name": "load"})).await;
    let destinations = format!("/v1/sources/{}/destinations", source["id"].as_str().unwrap());
    for path in PATHS {
        let schedule =
            json!({"kind": "custom", "waits_seconds": [0.05, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.5, 0.5]});
        let url = format!("http://{}{path}", sink.address);
        // On PostgreSQL a killed node's leases end so long, and some, after it was seen last.
        let body = json!({"kind": "http", "url": url, "schedule": schedule, "idempotency_header": true,
            "timeout_seconds": 2});
        server.call(Method::POST, &destinations, body).await;
    }
    let load = Arc::new(Load {
        server: RwLock::new(server),
        intake: format!("/in/{}", source["token"].as_str().unwrap()),
        acknowledged: Mutex::default(),
        sent: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let senders: Vec<_> = (0..SENDERS).map(|_| tokio::spawn(Arc::clone(&load).send())).collect();

    let mut moment = u64::from(std::process::id());
    println!("seed {moment}");
    for _ in 0..KILLS {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_millis(50 + (moment >> 33) % 450)).await;
        // The senders' requests are cut in the middle: the kill does not wait for them.
        load.server.write().await.kill_and_restart().await;
    }
    load.stop.store(true, Ordering::Release);
    for sender in senders {
        sender.await.unwrap();
    }
    let acknowledged = load.acknowledged.lock().unwrap().clone();
    println!("{} acknowledged of {} sent", acknowledged.len(), load.sent.load(Ordering::Relaxed));
    assert!(acknowledged.len() > 200, "there was hardly any load");
    check(&*load.server.read().await, &sink, &acknowledged).await;
}

impl Load {
    async fn send(self: Arc<Self>) {
        while !self.stop.load(Ordering::Acquire) {
            let number = self.sent.fetch_add(1, Ordering::Relaxed);
            let body = Bytes::from(format!("{number}:{}", "\u{0}ÿ\r\n".repeat((number % 60) as usize)));
            let address = self.server.read().await.address;
            if let Some(id) = post(address, &self.intake, body.clone()).await {
                self.acknowledged.lock().unwrap().insert(id, body);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Sends one webhook on a connection of its own; gives the id if it was acknowledged.
async fn post(address: std::net::SocketAddr, path: &str, body: Bytes) -> Option<String> {
    use http_body_util::{BodyExt, Full};
    let stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.ok()?;
    tokio::spawn(connection);
    let request = hyper::Request::post(path).header("host", "load").body(Full::new(body)).ok()?;
    let response = sender.send_request(request).await.ok()?;
    let fine = response.status() == StatusCode::OK;
    let answer = response.into_body().collect().await.ok()?.to_bytes();
    let answer: Value = serde_json::from_slice(&answer).ok()?;
    answer["id"].as_str().filter(|_| fine).map(str::to_owned)
}

/// Every acknowledged request was delivered to every destination with its bytes, and no receiver saw more than is on
/// record.
async fn check(server: &Process, sink: &Sink, acknowledged: &HashMap<String, Bytes>) {
    let mut retried = 0;
    for (id, body) in acknowledged {
        let shown = until_ended(server, id).await;
        let key = shown["key"].as_str().unwrap();
        for (delivery, path) in shown["deliveries"].as_array().unwrap().iter().zip(PATHS) {
            assert_eq!(delivery["state"], "delivered", "{path}: {shown:#}");
            let attempts = delivery["attempts"].as_array().unwrap();
            let numbers: Vec<u64> =
                attempts.iter().map(|attempt| attempt["number"].as_u64().unwrap()).collect();
            assert_eq!(numbers, (1..=attempts.len() as u64).collect::<Vec<_>>(), "{shown:#}");
            retried += usize::from(attempts.len() > 1);
            let Seen { times, delivered, bodies } = sink.seen(path, key);
            assert!(delivered, "{path} never answered 200 to {id}");
            assert_eq!(bodies, std::slice::from_ref(body), "{path} saw other bytes");
            assert!(
                times <= attempts.len(),
                "{path} saw {times} requests, recorded are {}: {shown:#}",
                attempts.len()
            );
        }
    }
    assert!(retried > 0, "no delivery needed a second attempt");
}

async fn until_ended(server: &Process, id: &str) -> Value {
    let waiting = async {
        loop {
            let shown = server.call(Method::GET, &format!("/v1/requests/{id}"), Value::Null).await;
            if shown["state"] != "pending" {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DRAIN_TIME, waiting).await.unwrap()
}
