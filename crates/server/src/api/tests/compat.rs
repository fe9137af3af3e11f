//! The API as an existing client speaks it.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use restante_core::Outcome;
use restante_store::Store;
use serde_json::{Value, json};

use super::{Answer, World};
use crate::clock::Clock;

impl World {
    async fn theirs(&self, method: &str, path: &str, body: Value) -> Answer {
        self.call(&self.admin, method, &format!("/compat/openemail{path}"), body).await
    }

    async fn theirs_keyed(&self, path: &str, key: &str, body: Value) -> Answer {
        let request = Request::post(format!("/compat/openemail{path}"))
            .header("authorization", format!("Bearer {}", self.admin))
            .header("idempotency-key", key)
            .body(Body::from(body.to_string()));
        self.send(request.unwrap()).await
    }
}

fn email(subject: &str) -> Value {
    json!({"from": "us@a.example", "to": ["b@b.example"], "replyTo": ["c@a.example"], "subject": subject, "text": "hello",
        "tags": {"orderKind": "first_one"}, "metadata": {"innerKey": {"deep_er": 1}}})
}

#[tokio::test]
async fn a_send_is_replayed_and_its_key_is_guarded() {
    let world = World::new().await;
    let fresh = world.theirs_keyed("/emails", "oe-1", email("x")).await.expect(202);
    assert_eq!((&fresh["replayed"], &fresh["object"]), (&json!(false), &json!("email")));
    assert_eq!(fresh["tags"], json!({"orderKind": "first_one"}));
    assert_eq!(fresh["metadata"], json!({"innerKey": {"deep_er": 1}}));
    assert!(fresh["createdAt"].is_string() && fresh["created_at"].is_null());
    assert_eq!(fresh["recipients"][0]["email"], "b@b.example");
    let again = world.theirs_keyed("/emails", "oe-1", email("x")).await.expect(200);
    assert_eq!((&again["replayed"], &again["id"]), (&json!(true), &fresh["id"]));
    let error = world.theirs_keyed("/emails", "oe-1", email("y")).await.refused(422, "idempotency_key_reuse");
    assert!(error["requestId"].is_string());

    let shown = world.theirs("GET", &format!("/emails/{}", fresh["id"].as_str().unwrap()), Value::Null).await;
    assert_eq!(shown.expect(200)["id"], fresh["id"]);
    let page = world.theirs("GET", "/emails?limit=1", Value::Null).await.expect(200);
    assert_eq!(
        (&page["hasMore"], &page["nextCursor"], &page["data"][0]["id"]),
        (&json!(false), &Value::Null, &fresh["id"])
    );
}

#[tokio::test]
async fn faults_name_fields_in_the_clients_spelling() {
    let world = World::new().await;
    let mut body = email("x");
    body["scheduledAt"] = json!("soon");
    let error = world.theirs("POST", "/emails", body).await.refused(422, "invalid_field");
    assert_eq!((&error["param"], &error["fields"][0]["key"]), (&json!("scheduledAt"), &json!("scheduledAt")));
    let mut body = email("x");
    body["unheardOf"] = json!(1);
    let error = world.theirs("POST", "/emails", body).await.refused(422, "unknown_field");
    assert_eq!(error["param"], "unheardOf");
    world.theirs("GET", "/emails/em_x", Value::Null).await.expect(404);
    let anybody = world.call("wrong", "GET", "/compat/openemail/emails", Value::Null).await;
    assert_eq!(anybody.refused(401, "invalid_api_key")["type"], "authentication_error");
}

#[tokio::test]
async fn a_batch_answers_for_each_item() {
    let world = World::new().await;
    let body = json!({"emails": [email("x"), {"from": "us@a.example", "to": ["nobody"], "text": "x"}]});
    let sent = world.theirs_keyed("/emails/batch", "oe-b", body.clone()).await.expect(202);
    assert_eq!((&sent["sent"], &sent["failed"]), (&json!(1), &json!(1)));
    assert_eq!((&sent["data"][0]["status"], &sent["data"][1]["status"]), (&json!("ok"), &json!("error")));
    assert!(sent["data"][0]["email"]["createdAt"].is_string());
    assert_eq!(sent["data"][1]["error"]["param"], "to[0]");
    let again = world.theirs_keyed("/emails/batch", "oe-b", body).await.expect(200);
    assert_eq!((&again["replayed"], &again["data"][1]), (&json!(true), &sent["data"][1]));
}

#[tokio::test]
async fn webhooks_have_the_clients_names() {
    let world = World::new().await;
    let body =
        json!({"url": "https://hooks.b.example/in", "eventTypes": ["email.delivered"], "description": "d"});
    let made = world.theirs("POST", "/webhooks", body).await.expect(201);
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(
        (&made["object"], &made["eventTypes"], &made["enabled"], &made["addressAllowlist"]),
        (&json!("webhook"), &json!(["email.delivered"]), &json!(true), &json!([]))
    );
    let path = format!("/webhooks/{}", made["id"].as_str().unwrap());
    let paused = world.theirs("PATCH", &path, json!({"enabled": false})).await.expect(200);
    assert_eq!((&paused["enabled"], &paused["disabledReason"]), (&json!(false), &json!("paused")));
    let rotated = world.theirs("POST", &format!("{path}/rotate-secret"), Value::Null).await.expect(200);
    assert_eq!(rotated["id"], made["id"]);
    assert_ne!(rotated["secret"], made["secret"]);
    let listed = world.theirs("GET", "/webhooks", Value::Null).await.expect(200);
    assert_eq!(listed["data"][0]["id"], made["id"]);
    let deliveries = world.theirs("GET", &format!("{path}/deliveries"), Value::Null).await.expect(200);
    assert_eq!(deliveries["data"], json!([]));
    let deleted = world.theirs("DELETE", &path, Value::Null).await.expect(200);
    assert_eq!(deleted, json!({"object": "webhook", "id": made["id"], "deleted": true}));
    world.theirs("GET", &path, Value::Null).await.expect(404);
}

#[tokio::test]
async fn keys_have_the_clients_names() {
    let world = World::new().await;
    let body = json!({"name": "k", "scopes": ["emails:send"]});
    let made = world.theirs("POST", "/keys", body).await.expect(201);
    let token = made["token"].as_str().unwrap();
    assert!(token.ends_with(made["keyLast4"].as_str().unwrap()));
    assert_eq!(
        (&made["status"], &made["mode"], &made["object"]),
        (&json!("active"), &json!("live"), &json!("api_key"))
    );
    let path = format!("/keys/{}", made["id"].as_str().unwrap());
    let revoked = world.theirs("POST", &format!("{path}/revoke"), Value::Null).await.expect(200);
    assert_eq!(revoked["status"], "revoked");
    let deleted = world.theirs("DELETE", &path, Value::Null).await.expect(200);
    assert_eq!(deleted, json!({"object": "api_key", "id": made["id"], "deleted": true}));
}

#[tokio::test]
async fn a_scheduled_email_is_moved_and_cancelled() {
    let world = World::new().await;
    let mut body = email("x");
    body["scheduledAt"] = json!("2026-12-05T10:00:00Z");
    let made = world.theirs_keyed("/emails", "oe-s", body).await.expect(202);
    assert_eq!(
        (&made["status"], &made["scheduledAt"]),
        (&json!("scheduled"), &json!("2026-12-05T10:00:00.000Z"))
    );
    let path = format!("/emails/{}", made["id"].as_str().unwrap());
    let later = json!({"scheduledAt": "2026-12-06T10:00:00Z"});
    let moved = world.theirs("PATCH", &path, later).await.expect(200);
    assert_eq!(moved["cancellableUntil"], "2026-12-06T10:00:00.000Z");
    let query = "/emails?status=scheduled,queued&scheduledFrom=2026-12-06T00:00:00Z";
    assert_eq!(world.theirs("GET", query, Value::Null).await.expect(200)["data"][0]["id"], made["id"]);
    let cancelled = world.theirs("POST", &format!("{path}/cancel"), Value::Null).await.expect(200);
    assert_eq!(cancelled["status"], "cancelled");
    let events = world.theirs("GET", &format!("{path}/events"), Value::Null).await.expect(200);
    let types: Vec<&Value> = events["data"].as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(types, ["email.accepted", "email.scheduled", "email.scheduled", "email.canceled"]);
    assert!(events["data"][0]["data"]["recipient_id"].is_string(), "what webhooks get stays as they get it");
    let error = world.theirs("PATCH", &path, json!({"scheduledAt": "2026-12-07T10:00:00Z"})).await;
    error.expect(409);
}

#[tokio::test]
async fn a_list_is_walked_page_by_page() {
    let world = World::new().await;
    for number in 0..5 {
        world.theirs("POST", "/emails", email(&number.to_string())).await.expect(202);
    }
    let (mut seen, mut path) = (Vec::new(), "/emails?limit=2".to_owned());
    loop {
        let page = world.theirs("GET", &path, Value::Null).await.expect(200);
        seen.extend(
            page["data"].as_array().unwrap().iter().map(|it| it["subject"].as_str().unwrap().to_owned()),
        );
        if page["hasMore"] == false {
            break;
        }
        path = format!("/emails?limit=2&cursor={}", page["nextCursor"].as_str().unwrap());
    }
    assert_eq!(seen, ["4", "3", "2", "1", "0"]);
}

#[tokio::test]
async fn templates_are_published_and_sent() {
    let world = World::new().await;
    let body = json!({"name": "Welcome", "slug": "welcome", "subject": "Hi {{ firstName }}", "html": "<p>{{ firstName }}</p>",
        "publish": true});
    let made = world.theirs("POST", "/templates", body).await.expect(201);
    assert_eq!((&made["object"], &made["status"]), (&json!("template"), &json!("published")));
    assert_eq!(made["publishedVersion"], 1);
    let send = json!({"from": "us@a.example", "to": ["b@b.example"], "props": {"firstName": "<B>"}});
    let sent = world.theirs_keyed("/templates/welcome/send", "oe-t", send.clone()).await.expect(202);
    assert_eq!(sent["subject"], "Hi <B>");
    let again = world.theirs_keyed("/templates/welcome/send", "oe-t", send).await.expect(200);
    assert_eq!((&again["replayed"], &again["id"]), (&json!(true), &sent["id"]));
    let content = json!({"subject": "Hello {{ firstName }}", "html": "<b>{{ firstName }}</b>"});
    world.theirs("POST", "/templates/welcome/content", content).await.expect(200);
    let shown =
        world.theirs("POST", "/templates/welcome/preview", json!({"props": {"firstName": "B"}})).await;
    assert_eq!(shown.expect(200)["subject"], "Hello B");
    let versions = world.theirs("GET", "/templates/welcome/versions", Value::Null).await.expect(200);
    assert_eq!(versions["data"].as_array().unwrap().len(), 1);
    let deleted = world.theirs("DELETE", "/templates/welcome", Value::Null).await.expect(200);
    assert_eq!((&deleted["object"], &deleted["deleted"]), (&json!("template"), &json!(true)));
}

#[tokio::test]
async fn domains_and_suppressions_have_the_clients_names() {
    let world = World::new().await;
    let made = world.theirs("POST", "/domains", json!({"domain": "A.example"})).await.expect(201);
    assert_eq!(
        (&made["object"], &made["domain"], &made["name"]),
        (&json!("domain"), &json!("a.example"), &Value::Null)
    );
    assert!(made["sending"]["canSend"].is_boolean());
    assert!(made["records"][0]["value"].as_str().unwrap().contains("p="));
    let listed = world.theirs("GET", "/domains", Value::Null).await.expect(200);
    assert_eq!(listed["data"][0]["domain"], "a.example");

    let added = world.theirs("POST", "/suppressions", json!({"email": "B@b.example"})).await;
    let added = added.json();
    assert_eq!((&added["object"], &added["removable"]), (&json!("suppression"), &json!(true)));
    let sent = world.theirs("POST", "/emails", email("x")).await.expect(202);
    assert_eq!(sent["recipients"][0]["status"], "suppressed");
    let path = format!("/suppressions/{}", added["id"].as_str().unwrap());
    assert_eq!(world.theirs("DELETE", &path, Value::Null).await.expect(200)["deleted"], true);
}

#[tokio::test]
async fn a_key_that_outlives_its_email_tells_so() {
    let world = World::new().await;
    world.attach().await;
    let sent = world.theirs_keyed("/emails", "oe-1", email("x")).await.expect(202);
    world.settle(Outcome::Delivered { status: None }).await;
    // While the email is there its key is held for another day.
    world.clock.advance(Duration::from_secs(30 * 24 * 3600) + Duration::from_millis(500));
    while world.store.prune(world.clock.now(), 100).await.unwrap() {}
    world.clock.advance(Duration::from_secs(2));
    let path = format!("/emails/{}", sent["id"].as_str().unwrap());
    world.theirs("GET", &path, Value::Null).await.expect(404);
    let again = world.theirs_keyed("/emails", "oe-1", email("x")).await.expect(200);
    assert_eq!(again, json!({"object": "email", "id": sent["id"], "status": "erased", "replayed": true}));
    world.theirs_keyed("/emails", "oe-1", email("y")).await.refused(422, "idempotency_key_reuse");
}
