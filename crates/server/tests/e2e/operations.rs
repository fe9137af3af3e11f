//! What people do: retry, bulk retry, replay; and what it costs.

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{START, World, id};
use crate::receiver::Receiver;

#[tokio::test]
async fn a_delivery_can_be_retried_by_hand_when_it_failed_was_cancelled_or_was_delivered() {
    let world = World::start().await;
    for state in ["failed", "cancelled", "delivered"] {
        let (receiver, other) = (Receiver::start().await, Receiver::start().await);
        receiver.answer(if state == "delivered" { 200 } else { 500 });
        let attempts = if state == "failed" { 1 } else { 5 };
        let source = world.source(state).await;
        world
            .destination(&source, &receiver.url(), json!({"attempts": attempts, "idempotency_header": true}))
            .await;
        world.destination(&source, &other.url(), json!({})).await;
        let request = world.webhook(&source, "x").await;
        let path = format!("/v1/requests/{request}");
        let shown = world.until(&path, |shown| shown["deliveries"][0]["attempts_used"] == 1).await;
        let delivery = id(&shown["deliveries"][0]);
        if state == "cancelled" {
            let early =
                world.call(Method::POST, &format!("/v1/deliveries/{delivery}/retry"), Value::Null).await;
            assert_eq!(early.status, StatusCode::CONFLICT, "a pending delivery has its own schedule");
            world.post(&format!("/v1/deliveries/{delivery}/cancel"), Value::Null).await;
        }
        world.until(&path, |shown| shown["deliveries"][0]["state"] == state).await;
        receiver.answer(200);
        let answer = world.call(Method::POST, &format!("/v1/deliveries/{delivery}/retry"), Value::Null).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
        assert_eq!(answer.json["retry_of"], delivery);
        let retried = world
            .until(&format!("/v1/deliveries/{}", id(&answer.json)), |shown| shown["state"] == "delivered")
            .await;
        assert_eq!(retried["request_id"], request);
        let attempt = &retried["attempts"][0];
        assert_eq!((&attempt["number"], &attempt["trigger"]), (&json!(1), &json!("manual")));
        let old = world.get(&format!("/v1/deliveries/{delivery}")).await;
        assert_eq!(old["state"], state, "the old delivery stays as it was");
        let keys: Vec<_> =
            receiver.seen().iter().map(|seen| seen.headers["x-adal-idempotency"].clone()).collect();
        assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
        assert_eq!(other.seen().len(), 1, "the other destination is not touched");
        assert_eq!(world.get(&path).await["state"], "delivered");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_replay_is_a_new_request_with_a_new_key_to_the_destinations_of_now() {
    let world = World::start().await;
    let (before, after) = (Receiver::start().await, Receiver::start().await);
    let source = world.source("s").await;
    let first = world.destination(&source, &before.url(), json!({"idempotency_header": true})).await;
    let headers = [("X-Mixed-Case", "kept"), ("content-type", "text/plain")];
    let url = format!("{}/path?q=1", source["url"].as_str().unwrap());
    let answer = world.send(Method::POST, &url, &headers, "body").await;
    let original = world.until_all(&id(&answer.json), "delivered").await;
    world.delete(&format!("/v1/sources/{}/destinations/{}", id(&source), id(&first))).await;
    world.destination(&source, &after.url(), json!({"idempotency_header": true})).await;

    let replayed =
        world.call(Method::POST, &format!("/v1/requests/{}/replay", id(&original)), Value::Null).await;
    assert_eq!(replayed.status, StatusCode::ACCEPTED);
    assert_eq!(replayed.json["replay_of"], original["id"]);
    let new = world.until_all(&id(&replayed.json), "delivered").await;
    assert_ne!(new["key"], original["key"]);
    for field in ["method", "path", "query", "headers", "body_bytes", "source_id", "content_type"] {
        assert_eq!(new[field], original[field], "{field}");
    }
    assert_eq!((before.seen().len(), after.seen().len()), (1, 1));
    let seen = &after.seen()[0];
    assert_eq!((seen.target.as_str(), &seen.body[..]), ("/hook/path?q=1", &b"body"[..]));
    assert_eq!(seen.headers["x-adal-idempotency"], new["key"].as_str().unwrap());
    let unchanged = world.get(&format!("/v1/requests/{}", id(&original))).await;
    assert_eq!(unchanged["deliveries"].as_array().unwrap().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn credits_pay_for_requests_retries_and_replays_and_nothing_else_until_402() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({"attempts": 2})).await;
    assert_eq!(world.get("/v1/workspace/credits").await["balance"], Value::Null);
    let workspace = id(&world.get("/v1/workspace").await);
    world.post(&format!("/v1/workspaces/{workspace}/credits"), json!({"delta": 3, "note": "trial"})).await;

    let request = world.webhook(&source, "x").await;
    world.until_attempts(&request, 1).await;
    world.advance(Duration::from_secs(240));
    let delivery = world.until_attempts(&request, 2).await;
    assert_eq!(delivery["state"], "failed");
    world.post(&format!("/v1/deliveries/{}/retry", id(&delivery)), Value::Null).await;
    world.post(&format!("/v1/requests/{request}/replay"), Value::Null).await;
    let credits = world.get("/v1/workspace/credits").await;
    assert_eq!(credits["balance"], 0);
    let lines: Vec<(&Value, &Value)> = credits["ledger"]["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (&line["reason"], &line["delta"]))
        .collect();
    let expected = [("replay", -1), ("retry", -1), ("request", -1), ("grant", 3)];
    assert_eq!(
        lines,
        expected
            .map(|(reason, delta)| (json!(reason), json!(delta)))
            .iter()
            .map(|(a, b)| (a, b))
            .collect::<Vec<_>>()
    );

    let requests = world.get("/v1/requests").await["data"].as_array().unwrap().len();
    let refused = world.send(Method::POST, source["url"].as_str().unwrap(), &[], "x").await;
    assert_eq!(refused.status, StatusCode::PAYMENT_REQUIRED);
    assert_eq!(refused.json["error"]["code"], "credits_exhausted");
    for path in [format!("/v1/deliveries/{}/retry", id(&delivery)), format!("/v1/requests/{request}/replay")]
    {
        let refused = world.call(Method::POST, &path, Value::Null).await;
        assert_eq!(
            (refused.status, &refused.json["error"]["type"]),
            (StatusCode::PAYMENT_REQUIRED, &json!("billing_error"))
        );
    }
    assert_eq!(world.get("/v1/requests").await["data"].as_array().unwrap().len(), requests);
    // What was accepted goes on.
    let seen = receiver.seen().len();
    world.advance(Duration::from_secs(240));
    receiver.until_seen(seen + 2).await;
    world
        .post(&format!("/v1/workspaces/{workspace}/credits"), json!({"balance": null, "note": "paid"}))
        .await;
    world.webhook(&source, "x").await;
    world.stop().await;
}

#[tokio::test]
async fn a_bulk_retry_counts_first_and_then_retries_all_that_failed() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.source("s").await;
    let destination = world.destination(&source, &receiver.url(), json!({"attempts": 1})).await;
    let mut requests = Vec::new();
    for index in 0..30 {
        requests.push(world.webhook(&source, format!("{index}")).await);
    }
    for request in &requests {
        world.until_all(request, "failed").await;
    }
    receiver.answer(200);
    let workspace = id(&world.get("/v1/workspace").await);
    world.post(&format!("/v1/workspaces/{workspace}/credits"), json!({"delta": 100})).await;
    let path = format!("/v1/sources/{}/destinations/{}/retry", id(&source), id(&destination));
    let counted = world
        .call(Method::POST, &format!("{path}?dry_run=true"), json!({"since": START, "state": "failed"}))
        .await;
    assert_eq!(counted.status, StatusCode::OK);
    assert_eq!((&counted.json["deliveries"], &counted.json["credits"]), (&json!(30), &json!(30)));
    assert_eq!(receiver.seen().len(), 30);
    let started = world.call(Method::POST, &path, json!({"since": START, "state": "failed"})).await;
    assert_eq!(started.status, StatusCode::ACCEPTED);
    receiver.until_seen(60).await;
    for request in &requests {
        let shown =
            world.until(&format!("/v1/requests/{request}"), |shown| shown["state"] == "delivered").await;
        assert_eq!(shown["deliveries"].as_array().unwrap().len(), 2);
    }
    assert_eq!(world.get("/v1/workspace/credits").await["balance"], 70);
    let again = world
        .call(Method::POST, &format!("{path}?dry_run=true"), json!({"since": START, "state": "failed"}))
        .await;
    assert_eq!(again.json["deliveries"], 0, "what was retried is not retried again");
    world.stop().await;
}

#[tokio::test]
async fn workspaces_do_not_see_each_other() {
    let mut world = World::start().await;
    let receiver = Receiver::start().await;
    let source = world.source("s").await;
    let destination = world.destination(&source, &receiver.url(), json!({})).await;
    let request = world.webhook(&source, "secret").await;
    let shown = world.until_all(&request, "delivered").await;
    let delivery = id(&shown["deliveries"][0]);
    let other = world.post("/v1/workspaces", json!({"name": "other"})).await;
    world.key = other["key"]["token"].as_str().unwrap().to_owned();
    let (source, destination) = (id(&source), id(&destination));
    for path in [
        format!("/v1/sources/{source}"),
        format!("/v1/sources/{source}/destinations"),
        format!("/v1/sources/{source}/destinations/{destination}"),
        format!("/v1/requests/{request}"),
        format!("/v1/requests/{request}/body"),
        format!("/v1/deliveries/{delivery}"),
    ] {
        assert_eq!(world.call(Method::GET, &path, Value::Null).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    for path in [
        format!("/v1/requests/{request}/replay"),
        format!("/v1/deliveries/{delivery}/retry"),
        format!("/v1/deliveries/{delivery}/cancel"),
        format!("/v1/sources/{source}/rotate-token"),
    ] {
        assert_eq!(
            world.call(Method::POST, &path, Value::Null).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    for list in ["/v1/sources", "/v1/requests", "/v1/deliveries"] {
        assert_eq!(world.get(list).await["data"], json!([]), "{list}");
    }
    world.source("s").await;
    world.stop().await;
}
