//! Sources that ask for signatures, and that know repeats.

use bytes::Bytes;
use hyper::Method;
use ring::hmac;
use serde_json::{Value, json};

use crate::harness::{Answer, World, id};
use crate::receiver::Receiver;

const SECRET: &str = "It's a Secret to Everybody";

fn signature(secret: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body.as_bytes());
    let hex: Vec<String> = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={}", hex.concat())
}

async fn send(world: &World, source: &Value, headers: &[(&str, &str)], body: &str) -> Answer {
    let url = source["url"].as_str().unwrap();
    world.send(Method::POST, url, headers, Bytes::copy_from_slice(body.as_bytes())).await
}

/// The request that an answer is about.
async fn stored(world: &World, answer: &Answer) -> Value {
    world.get(&format!("/v1/requests/{}", answer.headers["x-request-id"].to_str().unwrap())).await
}

#[tokio::test]
async fn what_is_not_signed_is_stored_and_shown_and_goes_nowhere() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let verification = json!({"kind": "github", "secret": ["another", SECRET]});
    let source = world.post("/v1/sources", json!({"name": "s", "verification": verification})).await;
    world.destination(&source, &receiver.url(), json!({})).await;

    let good = signature(SECRET, "hello");
    for (headers, because) in [
        (&[][..], "the header X-Hub-Signature-256 is missing"),
        (
            &[("x-hub-signature-256", &*signature("other", "hello"))],
            "no signature in X-Hub-Signature-256 matches: another secret, or another body",
        ),
        (
            &[("x-hub-signature-256", "sha1=00")],
            "the header X-Hub-Signature-256 has no signature of the form sha256=…",
        ),
    ] {
        let answer = send(&world, &source, headers, "hello").await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json["error"]["code"]),
            (401, &json!("invalid_signature"))
        );
        assert_eq!(answer.json["error"]["request_id"], answer.headers["x-request-id"].to_str().unwrap());
        let request = stored(&world, &answer).await;
        assert_eq!((&request["rejected"], &request["rejected_because"]), (&json!(true), &json!(because)));
        assert_eq!((&request["state"], &request["deliveries"]), (&json!("none"), &json!([])));
    }
    let answer = send(&world, &source, &[("x-hub-signature-256", &good)], "hello").await;
    assert_eq!(answer.status, 200);
    world.until_all(&id(&answer.json), "delivered").await;
    assert_eq!(receiver.seen().len(), 1);

    let rejected = world.get("/v1/requests").await["data"][1].clone();
    let copy = world.post(&format!("/v1/requests/{}/replay", id(&rejected)), Value::Null).await;
    let copy = world.until_all(&id(&copy), "delivered").await;
    assert_eq!((&copy["rejected"], &copy["replay_of"]), (&json!(false), &rejected["id"]));
    assert_eq!(receiver.seen().len(), 2);
}

#[tokio::test]
async fn a_secret_counts_from_the_moment_it_is_set() {
    let world = World::start().await;
    let source = world.source("s").await;
    let path = format!("/v1/sources/{}", id(&source));
    assert_eq!(send(&world, &source, &[], "hello").await.status, 200);
    for secret in ["first", "second"] {
        world.patch(&path, json!({"verification": {"kind": "github", "secret": secret}})).await;
        for given in ["first", "second"] {
            let header = signature(given, "hello");
            let answer = send(&world, &source, &[("x-hub-signature-256", &header)], "hello").await;
            assert_eq!(answer.status, if given == secret { 200 } else { 401 }, "{secret} {given}");
        }
    }
    world.patch(&path, json!({"verification": null})).await;
    assert_eq!(send(&world, &source, &[], "hello").await.status, 200);
}

#[tokio::test]
async fn a_repeat_is_answered_alike_and_goes_nowhere() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let response = json!({"status": 202, "content_type": "text/plain", "body": "thanks"});
    let dedupe = json!({"json_pointer": "/id", "hours": 1});
    let body = json!({"name": "s", "response": response, "dedupe": dedupe});
    let source = world.post("/v1/sources", body).await;
    world.destination(&source, &receiver.url(), json!({})).await;

    let first = send(&world, &source, &[], r#"{"id": "evt_1"}"#).await;
    let first_id = first.headers["x-request-id"].to_str().unwrap().to_owned();
    world.until_all(&first_id, "delivered").await;
    let repeat = send(&world, &source, &[], r#"{"n": 2, "id": "evt_1"}"#).await;
    assert_eq!((repeat.status, &repeat.bytes), (first.status, &first.bytes));
    let request = stored(&world, &repeat).await;
    assert_eq!((&request["duplicate_of"], &request["deliveries"]), (&json!(first_id), &json!([])));

    for other in [r#"{"id": "evt_2"}"#, "no json", "no json", r#"{"id": null}"#, r#"{"id": null}"#] {
        let answer = send(&world, &source, &[], other).await;
        let request = stored(&world, &answer).await;
        assert_eq!(request["duplicate_of"], Value::Null, "{other}");
        world.until_all(&id(&request), "delivered").await;
    }
    assert_eq!(receiver.seen().len(), 6);
}

#[tokio::test]
async fn what_is_rejected_does_not_make_what_is_signed_a_repeat() {
    let world = World::start().await;
    let source = json!({"name": "s", "dedupe": {"header": "X-GitHub-Delivery", "hours": 1},
        "verification": {"kind": "github", "secret": SECRET}});
    let source = world.post("/v1/sources", source).await;
    let name = ("x-github-delivery", "72d3162e");
    assert_eq!(send(&world, &source, &[name], "hello").await.status, 401);
    let good = signature(SECRET, "hello");
    let mut duplicates = Vec::new();
    for _ in 0..2 {
        let answer = send(&world, &source, &[name, ("x-hub-signature-256", &good)], "hello").await;
        assert_eq!(answer.status, 200);
        duplicates.push(stored(&world, &answer).await["duplicate_of"].is_string());
    }
    assert_eq!(duplicates, [false, true]);
    let page =
        String::from_utf8(world.send(Method::GET, &world.url("/metrics"), &[], "").await.bytes.to_vec())
            .unwrap();
    for line in [
        "restante_requests_accepted_total 2",
        "restante_requests_duplicate_total 1",
        "restante_requests_refused_total{reason=\"unverified\"} 1",
    ] {
        assert!(page.lines().any(|it| it == line), "{line}");
    }
}
