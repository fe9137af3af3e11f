//! The API as an existing client speaks it, over real sockets.

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::hooks::Hook;
use super::receiver::Receiver;
use super::{Client, relaying};
use crate::process::{Home, on_both_stores};

on_both_stores!(an_existing_client_sends_and_follows_its_webhooks);

/// That client: its base URL is `/compat/openemail`.
struct Theirs(Client);

impl Theirs {
    async fn ask(&self, method: Method, path: &str, key: Option<&str>, body: Value) -> (StatusCode, Value) {
        let token = format!("Bearer {}", self.0.token);
        let mut headers = vec![("authorization", token.as_str()), ("content-type", "application/json")];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let path = format!("/compat/openemail{path}");
        let (status, answer) = self.0.caller.ask((method, &path), &headers, body).await.unwrap();
        (status, serde_json::from_slice(&answer).unwrap())
    }

    /// The answer to a call that succeeds.
    async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask(Method::GET, path, None, Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(Method::POST, path, None, body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }
}

fn mail(subject: &str) -> Value {
    json!({"from": {"email": "shop@sender.test", "name": "Shop"}, "to": [{"email": "ok@mail.test"}],
        "replyTo": ["help@sender.test"], "subject": subject, "html": "<p>hello</p>", "tags": {"orderKind": "first"}})
}

async fn an_existing_client_sends_and_follows_its_webhooks(home: Home) {
    let (receiver, hook) = (Receiver::start(), Hook::start().await);
    let server = relaying(home, &receiver).await;
    let client = Theirs(Client::from(&server));
    let body = json!({"url": format!("http://{}/", hook.address), "eventTypes": ["email.delivered"]});
    let webhook = client.post("/webhooks", body).await;
    assert_eq!((&webhook["enabled"], &webhook["eventTypes"]), (&json!(true), &json!(["email.delivered"])));
    let path = format!("/webhooks/{}", webhook["id"].as_str().unwrap());

    let (status, sent) = client.ask(Method::POST, "/emails", Some("oe-1"), mail("x")).await;
    assert_eq!((status, &sent["replayed"]), (StatusCode::ACCEPTED, &json!(false)), "{sent}");
    let (status, again) = client.ask(Method::POST, "/emails", Some("oe-1"), mail("x")).await;
    assert_eq!((status, &again["replayed"], &again["id"]), (StatusCode::OK, &json!(true), &sent["id"]));
    let (status, other) = client.ask(Method::POST, "/emails", Some("oe-1"), mail("y")).await;
    assert_eq!(
        (status, &other["error"]["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reuse"))
    );
    let id = sent["id"].as_str().unwrap();
    client.0.ended(id).await;
    let shown = client.get(&format!("/emails/{id}")).await;
    assert_eq!((&shown["status"], &shown["recipients"][0]["status"]), (&json!("sent"), &json!("delivered")));
    assert!(shown["sentAt"].is_string() && shown["recipients"][0]["deliveredAt"].is_string(), "{shown}");

    let arrived = hook.seen(1).await;
    let delivered = loop {
        let page = client.get(&format!("{path}/deliveries?status=delivered&limit=10")).await;
        match page["data"].as_array().unwrap().first() {
            Some(delivery) => break delivery.clone(),
            None => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
        }
    };
    assert_eq!(
        (&delivered["eventType"], &delivered["responseCode"]),
        (&json!("email.delivered"), &json!(200))
    );
    assert_eq!((&delivered["endpointId"], &delivered["attempt"]), (&webhook["id"], &json!(1)));
    assert_eq!(client.get(&format!("{path}/deliveries?status=failed")).await["data"], json!([]));

    let delivery = format!("{path}/deliveries/{}", delivered["id"].as_str().unwrap());
    let detail = client.get(&delivery).await;
    let body: Value = serde_json::from_str(arrived[0]["body"].as_str().unwrap()).unwrap();
    assert_eq!((&detail["payload"], &detail["replayRefusal"]), (&body, &Value::Null));
    let replay = client.post(&format!("{delivery}/replay"), Value::Null).await;
    assert_eq!((&replay["object"], &replay["replayOf"]), (&json!("webhook_replay"), &delivered["id"]));
    let arrived = hook.seen(2).await;
    assert_eq!(arrived[0]["headers"]["webhook-id"], arrived[1]["headers"]["webhook-id"]);
    let tested = client.post(&format!("{path}/test"), json!({})).await;
    assert_eq!(
        (&tested["object"], &tested["delivery"]["status"]),
        (&json!("webhook_test"), &json!("delivered"))
    );

    assert_eq!(receiver.mails().len(), 1, "one mail for one key");
}
