//! What a world needs to publish to webhooks and to look after them.

use std::time::Duration;

use data_encoding::BASE64;
use hyper::{Method, StatusCode};
use restante_core::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Answer, PATIENCE, World, id, time};
use crate::receiver::Seen;

/// What is published unless a test says otherwise.
const TYPE: &str = "order.paid";

/// So many attempts in all, without jitter.
pub(crate) fn waits(seconds: &[f64]) -> Value {
    json!({"schedule": {"kind": "custom", "waits_seconds": seconds}})
}

/// When an attempt ended.
pub(crate) fn ended(attempt: &Value) -> Timestamp {
    time(&attempt["started_at"]) + Duration::from_millis(attempt["duration_ms"].as_u64().unwrap())
}

/// A field of all items.
pub(crate) fn column<'a>(items: &'a Value, name: &str) -> Vec<&'a Value> {
    items.as_array().unwrap_or_else(|| panic!("no list: {items}")).iter().map(|item| &item[name]).collect()
}

impl World {
    /// A new webhook that wants everything, with further settings.
    pub(crate) async fn subscribe(&self, url: &str, settings: Value) -> Value {
        let mut body = json!({"url": url, "events": ["*"]});
        for (name, value) in settings.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        self.post("/v1/webhooks", body).await
    }

    /// Publishes an event; gives its id.
    pub(crate) async fn publish(&self) -> String {
        let answer = self.call(Method::POST, "/v1/events", json!({"type": TYPE, "data": {"n": 1}})).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.json);
        id(&answer.json)
    }

    /// Publishes so many events, as few calls as that takes; gives their ids.
    pub(crate) async fn publish_many(&self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < count {
            let events = vec![json!({"type": TYPE, "data": null}); (count - ids.len()).min(500)];
            let answer = self.post("/v1/events/batch", json!({"events": events})).await;
            ids.extend(answer["data"].as_array().unwrap().iter().map(id));
        }
        ids
    }

    /// Publishes with a key.
    pub(crate) async fn publish_keyed(&self, key: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.key);
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
        self.send(Method::POST, &self.url("/v1/events"), &headers, body.to_string()).await
    }

    /// An event's only delivery.
    pub(crate) async fn delivery(&self, event: &str) -> Value {
        self.get(&format!("/v1/events/{event}")).await["deliveries"][0].clone()
    }

    /// Waits until this holds of an event's only delivery; gives it.
    pub(crate) async fn until_delivery(&self, event: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/v1/events/{event}");
        self.until(&path, |shown| condition(&shown["deliveries"][0])).await["deliveries"][0].clone()
    }

    /// Waits until an event's only delivery is in this state.
    pub(crate) async fn until_state(&self, event: &str, state: &str) -> Value {
        self.until_delivery(event, |delivery| delivery["state"] == state).await
    }

    /// Waits until an event's only delivery has ended so many attempts.
    pub(crate) async fn until_tried(&self, event: &str, attempts: usize) -> Value {
        self.until_delivery(event, |delivery| {
            let made = delivery["attempts"].as_array().unwrap();
            made.len() == attempts && made.iter().all(|attempt| !attempt["result"].is_null())
        })
        .await
    }

    /// A webhook as it is now.
    pub(crate) async fn shown(&self, webhook: &Value) -> Value {
        self.get(&path(webhook)).await
    }

    pub(crate) async fn set(&self, webhook: &Value, change: Value) -> Value {
        self.patch(&path(webhook), change).await
    }

    /// A call below a webhook.
    pub(crate) async fn ask(&self, webhook: &Value, below: &str, body: Value) -> Answer {
        self.call(Method::POST, &format!("{}/{below}", path(webhook)), body).await
    }

    /// The attempts log, newest first.
    pub(crate) async fn log(&self, webhook: &Value) -> Value {
        self.get(&format!("{}/attempts?limit=100", path(webhook))).await["data"].clone()
    }

    /// What the owners were told, oldest first.
    pub(crate) async fn notices(&self) -> Vec<String> {
        let notices = self.get("/v1/notices?limit=100").await;
        let kinds = column(&notices["data"], "kind").into_iter().rev();
        kinds.map(|kind| kind.as_str().unwrap().to_owned()).collect()
    }

    /// The replays and recoveries of a webhook, oldest first.
    pub(crate) async fn replays(&self, webhook: &Value) -> Vec<Value> {
        let page = self.get(&format!("{}/replays?limit=100", path(webhook))).await;
        page["data"].as_array().unwrap().iter().rev().cloned().collect()
    }

    /// Starts a replay, which must be accepted.
    pub(crate) async fn replay(&self, webhook: &Value, window: Value) {
        let answer = self.ask(webhook, "replay", window).await;
        assert_eq!((answer.status, &answer.bytes[..]), (StatusCode::ACCEPTED, &b""[..]), "{}", answer.json);
    }

    /// How many events a replay would take.
    pub(crate) async fn count_replay(&self, webhook: &Value, window: Value) -> u64 {
        let answer = self.ask(webhook, "replay?dry_run=true", window).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.json);
        answer.json["events"].as_u64().unwrap()
    }

    /// Waits until a replay would take so many events.
    pub(crate) async fn until_counted(&self, webhook: &Value, events: u64) {
        let waiting = async {
            while self.count_replay(webhook, json!({})).await != events {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "not {events} in time");
    }

    /// Waits until so many attempts to a webhook have ended.
    pub(crate) async fn until_attempted(&self, webhook: &Value, attempts: usize) {
        let path = format!("{}/attempts?limit=100", path(webhook));
        let over = |page: &Value| {
            let ended = column(&page["data"], "status").into_iter().filter(|status| *status != "pending");
            ended.count() >= attempts
        };
        self.until(&path, over).await;
    }

    /// Waits until the latest replay or recovery is over; gives it.
    pub(crate) async fn until_over(&self, webhook: &Value) -> Value {
        let page = self
            .until(&format!("{}/replays?limit=1", path(webhook)), |page| {
                ["done", "ended"].contains(&page["data"][0]["state"].as_str().unwrap_or_default())
            })
            .await;
        page["data"][0].clone()
    }

    /// An event whose first attempt failed.
    pub(crate) async fn fail(&self) -> String {
        let event = self.publish().await;
        self.until_tried(&event, 1).await;
        event
    }

    pub(crate) fn now(&self) -> Timestamp {
        restante_server::clock::Clock::now(&*self.clock)
    }
}

/// Where a webhook is shown.
pub(crate) fn path(webhook: &Value) -> String {
    format!("/v1/webhooks/{}", id(webhook))
}

/// `v1,` and the signature that a receiver with this secret computes, by RFC 2104 and the rules of Standard Webhooks
/// alone: nothing of ours has a part in it.
pub(crate) fn signature_of(seen: &Seen, secret: &str) -> String {
    let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
    assert!(key.len() <= 64, "a longer key would be hashed first");
    let padded = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(&key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let head = format!("{}.{}.", seen.header("webhook-id"), seen.header("webhook-timestamp"));
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(head).chain_update(&seen.body);
    let mac = Sha256::new().chain_update(padded(0x5c)).chain_update(inner.finalize()).finalize();
    format!("v1,{}", BASE64.encode(&mac))
}
