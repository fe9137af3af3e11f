//! What is called otherwise, and what looks otherwise, resource by resource.

use axum::http::Method;
use serde_json::{Value, json};

use super::casing::fields;
use super::webhooks::WebhookCall;

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Domain,
    Key,
    Suppression,
    Template,
    /// The same but for the spelling.
    Other,
}

impl Resource {
    /// The wire's `object`.
    pub(super) const fn object(self) -> &'static str {
        match self {
            Self::Domain => "domain",
            Self::Key => "api_key",
            Self::Suppression => "suppression",
            Self::Template => "template",
            Self::Other => "object",
        }
    }

    fn of(name: &str) -> Self {
        match name {
            "domains" => Self::Domain,
            "keys" => Self::Key,
            "suppressions" => Self::Suppression,
            "templates" => Self::Template,
            _ => Self::Other,
        }
    }
}

/// What becomes of a call.
pub(super) enum Call {
    /// The same path of ours answers it.
    Plain(Resource),
    /// Ours answers nothing, the client wants to hear what was deleted.
    Delete(Resource, String),
    Webhook(WebhookCall),
}

pub(super) fn find(method: &Method, segments: &[&str]) -> Call {
    match segments {
        ["webhooks", rest @ ..] => match WebhookCall::find(method, rest) {
            Some(call) => Call::Webhook(call),
            None => Call::Plain(Resource::Other),
        },
        [name, id] if *method == Method::DELETE => Call::Delete(Resource::of(name), (*id).to_owned()),
        [name, ..] => Call::Plain(Resource::of(name)),
        [] => Call::Plain(Resource::Other),
    }
}

/// The body of a call, in our spelling, with our names.
pub(super) fn request(resource: Resource, body: Value) -> Value {
    match resource {
        Resource::Domain => renamed(body, "domain", "name"),
        Resource::Key | Resource::Suppression | Resource::Template | Resource::Other => body,
    }
}

/// An answer of ours, in our spelling, with the client's names and fields.
pub(super) fn response(resource: Resource, body: Value) -> Value {
    if body.get("object").is_none() && body["data"].is_array() {
        let mut page = fields(body);
        let items = page.remove("data").unwrap_or_default();
        let items: Vec<Value> = items.as_array().cloned().unwrap_or_default();
        page.insert("data".into(), items.into_iter().map(|item| response(resource, item)).collect());
        return Value::Object(page);
    }
    match resource {
        Resource::Domain => renamed(body, "name", "domain"),
        Resource::Key => key(&body),
        Resource::Suppression | Resource::Template | Resource::Other => body,
    }
}

fn renamed(body: Value, from: &str, to: &str) -> Value {
    if !body.is_object() {
        return body;
    }
    let mut body = fields(body);
    if let Some(value) = body.remove(from) {
        body.insert(to.into(), value);
    }
    Value::Object(body)
}

fn key(key: &Value) -> Value {
    if key["object"] != "api_key" {
        return key.clone();
    }
    let (mode, last4) = (key["mode"].as_str().unwrap_or("live"), key["last4"].as_str().unwrap_or_default());
    let revoked = key["revoked_at"].is_string();
    let mut shown = json!({
        "object": "api_key",
        "id": key["id"],
        "name": key["name"],
        "mode": mode,
        "masked_key": format!("rst_{mode}_…{last4}"),
        "key_last4": last4,
        "status": if revoked { "revoked" } else { "active" },
        "scopes": key["scopes"],
        "expires_at": null,
        "last_used_at": key["last_used_at"],
        // Uses and rotations are not counted.
        "total_uses": null,
        "rotated_at": null,
        "rotation_count": 0,
        "revoked_at": key["revoked_at"],
        "created_at": key["created_at"],
        "updated_at": key["updated_at"],
    });
    if let (Some(token), Some(shown)) = (key.get("token"), shown.as_object_mut()) {
        shown.insert("token".into(), token.clone());
    }
    shown
}
