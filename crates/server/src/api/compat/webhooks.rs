//! Webhooks as the client sees them: with more in one answer than ours has, so that several calls make one.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::casing::{camel, fields};
use super::{Answer, Ours};

/// A call about webhooks that is more than another spelling.
pub(in crate::api) enum WebhookCall {
    Create,
    List,
    Get(String),
    Update(String),
    Delete(String),
    Rotate(String),
    Test(String),
    Deliveries(String),
    Delivery(String, String),
    Replay(String, String),
}

impl WebhookCall {
    /// `segments`: behind `/webhooks`.
    pub(super) fn find(method: &Method, segments: &[&str]) -> Option<Self> {
        let own = |text: &&str| (*text).to_owned();
        Some(match (method.as_str(), segments) {
            ("POST", []) => Self::Create,
            ("GET", []) => Self::List,
            ("GET", [id]) => Self::Get(own(id)),
            ("PATCH", [id]) => Self::Update(own(id)),
            ("DELETE", [id]) => Self::Delete(own(id)),
            ("POST", [id, "rotate-secret"]) => Self::Rotate(own(id)),
            ("POST", [id, "test"]) => Self::Test(own(id)),
            ("GET", [id, "deliveries"]) => Self::Deliveries(own(id)),
            ("GET", [id, "deliveries", delivery]) => Self::Delivery(own(id), own(delivery)),
            ("POST", [id, "deliveries", delivery, "replay"]) => Self::Replay(own(id), own(delivery)),
            _ => return None,
        })
    }
}

/// # Errors
/// The answer to whichever call of ours failed, in the client's shape.
pub(super) async fn answer(
    ours: &Ours,
    call: WebhookCall,
    sent: Value,
    query: &str,
) -> Result<Answer, Answer> {
    match call {
        WebhookCall::Create => create(ours, sent).await,
        WebhookCall::List => {
            let answer =
                ours.call(Method::GET, &format!("/v1/webhooks{query}"), Value::Null).await.checked()?;
            Ok(answer.map(|page| camel(listed(page, webhook))))
        }
        WebhookCall::Get(id) => Ok(get(ours, &id).await?.map(|it| camel(webhook(&it)))),
        WebhookCall::Update(id) => {
            let answer = ours.call(Method::PATCH, &path(&id), input(sent)).await.checked()?;
            Ok(answer.map(|it| camel(webhook(&it))))
        }
        WebhookCall::Delete(id) => {
            let answer = ours.call(Method::DELETE, &path(&id), Value::Null).await.checked()?;
            let body = json!({"object": "webhook", "id": id, "deleted": true});
            Ok(Answer { status: StatusCode::OK, ..answer.map(|_| body) })
        }
        WebhookCall::Rotate(id) => {
            let rotated = ours.call(Method::POST, &format!("{}/rotate-secret", path(&id)), Value::Null).await;
            let secret = rotated.checked()?.body["secret"].clone();
            Ok(get(ours, &id).await?.map(|it| camel(with_secret(&it, secret))))
        }
        WebhookCall::Test(id) => {
            let answer = ours.call(Method::POST, &format!("{}/test", path(&id)), sent).await.checked()?;
            Ok(answer.map(|it| camel(tested(&id, &it))))
        }
        WebhookCall::Deliveries(id) => deliveries(ours, &id, query).await,
        WebhookCall::Delivery(id, delivery) => delivery_detail(ours, &id, &delivery).await,
        WebhookCall::Replay(id, delivery) => replay(ours, &id, &delivery).await,
    }
}

fn path(id: &str) -> String {
    format!("/v1/webhooks/{id}")
}

async fn get(ours: &Ours, id: &str) -> Result<Answer, Answer> {
    ours.call(Method::GET, &path(id), Value::Null).await.checked()
}

async fn create(ours: &Ours, sent: Value) -> Result<Answer, Answer> {
    let mut sent = fields(input(sent));
    // Ours are made active.
    let status = sent.remove("status").filter(|status| status == "paused");
    let made = ours.call(Method::POST, "/v1/webhooks", Value::Object(sent)).await.checked()?;
    let secret = made.body["secret"].clone();
    if status.is_none() {
        return Ok(made.map(|it| camel(with_secret(&it, secret))));
    }
    let id = made.body["id"].as_str().unwrap_or_default().to_owned();
    let paused = ours.call(Method::PATCH, &path(&id), json!({"status": "paused"})).await.checked()?;
    Ok(Answer { status: made.status, ..paused.map(|it| camel(with_secret(&it, secret))) })
}

/// A call's body with our names: `event_types` are our `events`, `enabled` our `status`.
fn input(sent: Value) -> Value {
    let mut sent = fields(sent);
    if let Some(events) = sent.remove("event_types") {
        sent.insert("events".into(), events);
    }
    if let Some(enabled) = sent.remove("enabled") {
        sent.insert("status".into(), if enabled == false { "paused" } else { "active" }.into());
    }
    for list in ["address_allowlist", "domain_allowlist"] {
        // There are none: naming none is no wish, naming some is one we do not know.
        if sent.get(list).is_some_and(|it| it.as_array().is_some_and(Vec::is_empty)) {
            sent.remove(list);
        }
    }
    Value::Object(sent)
}

fn webhook(ours: &Value) -> Value {
    let paused = ours["status"] == "paused";
    json!({
        "object": "webhook",
        "id": ours["id"],
        "url": ours["url"],
        "description": ours.get("description").cloned().unwrap_or_default(),
        "event_types": ours["events"],
        "enabled": !paused,
        "disabled_at": if paused { ours["updated_at"].clone() } else { Value::Null },
        "disabled_reason": if paused { "paused".into() } else { Value::Null },
        "consecutive_failures": ours["consecutive_failures"],
        "address_allowlist": [],
        "domain_allowlist": [],
        // Not kept apart from the attempts.
        "last_delivery_at": null,
        "created_at": ours["created_at"],
    })
}

fn with_secret(ours: &Value, secret: Value) -> Value {
    let mut shown = fields(webhook(ours));
    shown.insert("secret".into(), secret);
    Value::Object(shown)
}

fn tested(id: &str, ours: &Value) -> Value {
    json!({"object": "webhook_test", "id": id, "delivery": {
        "status": ours["status"],
        "response_code": ours["response_status_code"],
        "duration_ms": ours["response_duration_ms"],
        "error": ours.get("error").cloned().unwrap_or_default(),
    }})
}

fn listed(page: Value, shape: impl Fn(&Value) -> Value) -> Value {
    let mut page = fields(page);
    let items: Vec<Value> =
        page.get("data").and_then(Value::as_array).into_iter().flatten().map(shape).collect();
    page.insert("data".into(), items.into());
    Value::Object(page)
}

async fn deliveries(ours: &Ours, id: &str, query: &str) -> Result<Answer, Answer> {
    // Whatever has not been delivered, or not yet, is failed to the client: that is told apart here.
    let only_failed = query.contains("status=failed");
    let query = query.replace("status=failed", "").replace("status=", "state=");
    let target = format!("{}/deliveries{query}", path(id));
    let page = ours.call(Method::GET, &target, Value::Null).await.checked()?;
    let mut shown = Vec::new();
    for item in page.body["data"].as_array().into_iter().flatten() {
        let (whole, event) = whole(ours, item["id"].as_str().unwrap_or_default()).await?;
        if !(only_failed && whole["state"] == "delivered") {
            shown.push(delivery(&whole, &event));
        }
    }
    Ok(page.map(|page| {
        let mut page = fields(page);
        page.insert("data".into(), shown.into());
        camel(Value::Object(page))
    }))
}

/// A delivery with its attempts, and its event.
async fn whole(ours: &Ours, delivery: &str) -> Result<(Value, Value), Answer> {
    let whole =
        ours.call(Method::GET, &format!("/v1/deliveries/{delivery}"), Value::Null).await.checked()?.body;
    let event = whole["event_id"].as_str().unwrap_or_default();
    let event = ours.call(Method::GET, &format!("/v1/events/{event}"), Value::Null).await.checked()?.body;
    Ok((whole, event))
}

fn delivery(ours: &Value, event: &Value) -> Value {
    let last = ours["attempts"].as_array().and_then(|attempts| attempts.last()).cloned().unwrap_or_default();
    json!({
        "object": "webhook_delivery",
        "id": ours["id"],
        "endpoint_id": ours["webhook_id"],
        "event_type": event["type"],
        "event_id": ours["event_id"],
        "status": if ours["state"] == "delivered" { "delivered" } else { "failed" },
        "response_code": last["response_status_code"],
        "duration_ms": last["duration_ms"],
        "attempt": ours["attempts_used"],
        "max_attempts": ours["attempts_max"],
        "error": last["error_message"],
        "created_at": ours["created_at"],
        "next_attempt_at": ours["next_attempt_at"],
    })
}

async fn delivery_detail(ours: &Ours, id: &str, named: &str) -> Result<Answer, Answer> {
    let webhook = get(ours, id).await?;
    let (whole, event) = whole(ours, named).await?;
    let shown = detail(&webhook.body, &whole, &event);
    Ok(webhook.map(|_| shown))
}

fn detail(webhook: &Value, whole: &Value, event: &Value) -> Value {
    let refusal = if webhook["status"] == "paused" {
        json!({"code": "webhook_paused", "message": "the webhook is paused: make it active first"})
    } else {
        Value::Null
    };
    let mut shown = fields(camel(delivery(whole, event)));
    shown.insert(
        "payload".into(),
        json!({"type": event["type"], "timestamp": event["timestamp"], "data": event["data"]}),
    );
    shown.insert("responseBody".into(), Value::Null);
    shown.insert("attempts".into(), camel(whole["attempts"].clone()));
    shown.insert("replayRefusal".into(), refusal);
    Value::Object(shown)
}

async fn replay(ours: &Ours, id: &str, named: &str) -> Result<Answer, Answer> {
    let target = format!("{}/deliveries/{named}/replay", path(id));
    let replayed = ours.call(Method::POST, &target, Value::Null).await.checked()?;
    let webhook = get(ours, id).await?;
    let (whole, event) = whole(ours, named).await?;
    let body = json!({
        "object": "webhook_replay",
        "id": replayed.body.get("id").cloned().unwrap_or_else(|| named.into()),
        "endpointId": id,
        "replayOf": named,
        "eventId": whole["event_id"],
        "eventType": event["type"],
        "delivery": detail(&webhook.body, &whole, &event),
    });
    Ok(replayed.map(|_| body))
}
