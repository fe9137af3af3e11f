//! What webhooks are told about emails.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::receiver::Receiver;
use super::{Client, email, relaying};
use crate::clients::{root, tool};
use crate::process::{Home, on_both_stores};

/// For all deliveries to arrive.
const ARRIVAL_TIME: Duration = Duration::from_secs(30);

on_both_stores!(webhooks_are_told_what_becomes_of_an_email_and_the_published_client_reads_it);

/// A receiver of webhooks that keeps `headers` and `body` of each.
#[derive(Clone)]
pub(super) struct Hook {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hook = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let shared = hook.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let hook = shared.clone();
                let service = service_fn(move |request| {
                    let hook = hook.clone();
                    async move { Ok::<_, Infallible>(hook.keep(request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        hook
    }

    async fn keep(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let headers: BTreeMap<_, _> = request
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        self.seen.lock().unwrap().push(json!({"headers": headers, "body": body}));
        Response::new(Full::default())
    }

    /// What came, once it is so much.
    pub(super) async fn seen(&self, count: usize) -> Vec<Value> {
        let waiting = async {
            while self.seen.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let arrived = tokio::time::timeout(ARRIVAL_TIME, waiting).await;
        let seen = self.seen.lock().unwrap().clone();
        assert!(arrived.is_ok(), "{} of {count} came: {seen:#?}", seen.len());
        seen
    }
}

/// What the published client makes of each delivery: `tests/clients/bird_unwrap.py`.
fn unwrapped(deliveries: &[Value], secret: &str) -> Vec<Value> {
    let mut child = Command::new(tool("clients/bin/python"))
        .arg(root().join("tests/clients/bird_unwrap.py"))
        .arg(secret)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = deliveries.iter().map(|delivery| format!("{delivery}\n")).collect();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the client refuses a delivery");
    writer.join().unwrap().unwrap();
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `deferred` → `EventEmailDeferred`.
fn model(told: &str) -> String {
    format!("EventEmail{}{}", told[..1].to_uppercase(), &told[1..])
}

async fn webhooks_are_told_what_becomes_of_an_email_and_the_published_client_reads_it(home: Home) {
    let (receiver, hook) = (Receiver::start(), Hook::start().await);
    let server = relaying(home, &receiver).await;
    let client = Client::from(&server);
    let webhook = json!({"url": format!("http://{}/", hook.address), "events": ["email.*"]});
    let webhook = server.call(Method::POST, "/v1/webhooks", webhook).await;

    let mut delivered = email("Ännchen <later-once@mail.test>");
    delivered["tags"] = json!({"kind": "welcome", "shop": "7"});
    delivered["metadata"] = json!({"order": {"id": 1.50}});
    let delivered = client.send(&delivered).await;
    let bounced = client.send(&email("no@mail.test")).await;
    client.ended(&bounced).await;
    let rejected = client.send(&email("no@mail.test")).await;
    let uncertain = client.send(&email("drop-after@mail.test")).await;
    let given_up = client.send(&email("later@mail.test")).await;
    let mut later = email("ok@mail.test");
    // The same hands of the clock, an hour further west.
    let now = client.get(&format!("/v1/emails/{delivered}")).await.1["created_at"].clone();
    later["scheduled_at"] = json!(now.as_str().unwrap().replace('Z', "-01:00"));
    let cancelled = client.send(&later).await;
    server.call(Method::POST, &format!("/v1/emails/{cancelled}/cancel"), Value::Null).await;

    let expected: [(&String, &[&str]); 6] = [
        (&delivered, &["accepted", "processed", "deferred", "delivered"]),
        (&bounced, &["accepted", "processed", "bounced"]),
        (&rejected, &["accepted", "rejected"]),
        (&uncertain, &["accepted", "processed", "bounced"]),
        (&given_up, &["accepted", "processed", "deferred", "deferred", "deferred", "rejected"]),
        (&cancelled, &["accepted", "scheduled", "canceled"]),
    ];
    let mut events = Vec::new();
    for (id, told) in expected {
        client.ended(id).await;
        assert_eq!(client.told(id).await, told);
        let (_, shown) = client.get(&format!("/v1/emails/{id}/events")).await;
        events.extend(shown["data"].as_array().unwrap().iter().cloned());
    }

    let deliveries = hook.seen(events.len()).await;
    let read = unwrapped(&deliveries, webhook["secret"].as_str().unwrap());
    assert_eq!((deliveries.len(), read.len()), (events.len(), events.len()));
    for event in &events {
        let is_its = |(delivery, _): &(&Value, &Value)| delivery["headers"]["webhook-id"] == event["id"];
        let (delivery, read) = deliveries.iter().zip(&read).find(is_its).unwrap();
        let body: Value = serde_json::from_str(delivery["body"].as_str().unwrap()).unwrap();
        assert_eq!(
            body,
            json!({"type": event["type"], "timestamp": event["created_at"], "data": event["data"]})
        );
        let told = event["type"].as_str().unwrap().strip_prefix("email.").unwrap();
        // Not the class for what it does not know.
        assert_eq!(read["model"], model(told), "{read:#}");
    }
    check_story(&delivered, &events);
    let data = |id: &String, name: &str| {
        let is_it = |it: &&Value| it["type"] == name && it["data"]["email_id"] == **id;
        events.iter().find(is_it).unwrap()["data"].clone()
    };
    assert_eq!(data(&bounced, "email.bounced")["bounce_type"], "hard");
    assert_eq!(data(&bounced, "email.bounced")["bounce_code"], "550");
    assert_eq!(data(&uncertain, "email.bounced")["bounce_type"], "undetermined");
    assert_eq!(data(&rejected, "email.rejected")["rejection_reason"], "recipient_suppressed");
    assert_eq!(data(&given_up, "email.rejected")["rejection_reason"], "transmission_failed");
}

/// The story of the email that arrived: its times rise, and each part names it as the call did.
fn check_story(id: &str, events: &[Value]) {
    let story: Vec<_> = events.iter().filter(|it| it["data"]["email_id"] == id).collect();
    let times: Vec<_> = story.iter().map(|it| it["created_at"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    for event in story {
        let data = &event["data"];
        assert_eq!(data["recipient"], "later-once@mail.test");
        assert_eq!(data["recipient_role"], "to");
        let tags = json!([{"name": "kind", "value": "welcome"}, {"name": "shop", "value": "7"}]);
        assert_eq!(data["tags"], tags);
        assert_eq!(data["metadata"], json!({"order": {"id": 1.50}}));
        assert!(data.get("broadcast_id").is_some_and(Value::is_null), "{data:#}");
    }
}
