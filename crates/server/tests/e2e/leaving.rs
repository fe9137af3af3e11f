//! Deletion and expiry.

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{World, id, time};
use crate::receiver::Receiver;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn a_deleted_request_is_gone_with_its_deliveries_and_gets_no_further_attempt() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({})).await;
    let request = world.webhook(&source, "x").await;
    let delivery = id(&world.until_attempts(&request, 1).await);
    world.delete(&format!("/v1/requests/{request}")).await;
    for (method, path) in [
        (Method::GET, format!("/v1/requests/{request}")),
        (Method::GET, format!("/v1/requests/{request}/body")),
        (Method::GET, format!("/v1/deliveries/{delivery}")),
        (Method::POST, format!("/v1/deliveries/{delivery}/retry")),
        (Method::POST, format!("/v1/deliveries/{delivery}/cancel")),
        (Method::POST, format!("/v1/requests/{request}/replay")),
        (Method::DELETE, format!("/v1/requests/{request}")),
    ] {
        assert_eq!(world.call(method, &path, Value::Null).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    world.advance(DAY);
    assert_eq!(world.get("/v1/requests").await["data"], json!([]));
    assert_eq!(receiver.seen().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_deleted_destination_takes_only_its_own_deliveries_with_it() {
    let world = World::start().await;
    let (one, other) = (Receiver::start().await, Receiver::start().await);
    one.answer(500);
    other.answer(500);
    let source = world.source("s").await;
    let doomed = world.destination(&source, &one.url(), json!({})).await;
    world.destination(&source, &other.url(), json!({})).await;
    let request = world.webhook(&source, "x").await;
    let path = format!("/v1/requests/{request}");
    world
        .until(&path, |shown| {
            shown["deliveries"].as_array().unwrap().iter().all(|delivery| delivery["attempts_used"] == 1)
        })
        .await;
    world.delete(&format!("/v1/sources/{}/destinations/{}", id(&source), id(&doomed))).await;
    let shown = world.get(&path).await;
    let gone = &shown["deliveries"][0];
    assert_eq!((&gone["state"], &gone["reason"]), (&json!("cancelled"), &json!("endpoint_deleted")));
    assert_eq!(shown["deliveries"][1]["state"], "pending");
    let retry = world.call(Method::POST, &format!("/v1/deliveries/{}/retry", id(gone)), Value::Null).await;
    assert_eq!(
        (retry.status, &retry.json["error"]["code"]),
        (StatusCode::CONFLICT, &json!("destination_deleted"))
    );
    other.answer(200);
    world.advance(Duration::from_secs(240));
    world.until(&path, |shown| shown["deliveries"][1]["state"] == "delivered").await;
    assert_eq!(one.seen().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_deleted_source_takes_nothing_more_in_but_its_requests_stay_readable() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({})).await;
    let request = world.webhook(&source, "x").await;
    world.until_attempts(&request, 1).await;
    world.delete(&format!("/v1/sources/{}", id(&source))).await;
    let refused = world.send(Method::POST, source["url"].as_str().unwrap(), &[], "x").await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    let shown = world.get(&format!("/v1/requests/{request}")).await;
    let delivery = &shown["deliveries"][0];
    assert_eq!((&delivery["state"], &delivery["reason"]), (&json!("cancelled"), &json!("source_deleted")));
    let replay = world.call(Method::POST, &format!("/v1/requests/{request}/replay"), Value::Null).await;
    assert_eq!(
        (replay.status, &replay.json["error"]["code"]),
        (StatusCode::CONFLICT, &json!("source_deleted"))
    );
    world.source("s").await;
    world.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(receiver.seen().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_request_is_gone_to_the_millisecond_when_its_retention_ends() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.post("/v1/sources", json!({"name": "s", "retention_days": 2})).await;
    let schedule = json!({"schedule": {"kind": "custom", "waits_seconds": [172_000, 172_000]}});
    world.destination(&source, &receiver.url(), schedule).await;
    let request = world.webhook(&source, "x").await;
    let delivery = id(&world.until_attempts(&request, 1).await);
    let path = format!("/v1/requests/{request}");
    let shown = world.get(&path).await;
    assert_eq!(time(&shown["expires_at"]).since(time(&shown["received_at"])), 2 * DAY);
    world.advance(2 * DAY - Duration::from_millis(1));
    world.until(&path, |shown| shown["deliveries"][0]["attempts_used"] == 2).await;
    world.advance(Duration::from_millis(1));
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::GET, format!("/v1/deliveries/{delivery}")),
        (Method::POST, format!("{path}/replay")),
        (Method::POST, format!("/v1/deliveries/{delivery}/retry")),
    ] {
        assert_eq!(world.call(method, &path, Value::Null).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    world.advance(10 * DAY);
    assert_eq!(world.get("/v1/requests").await["data"], json!([]));
    assert_eq!(receiver.seen().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn a_longer_retention_keeps_what_is_there_and_a_shorter_one_ends_it() {
    let world = World::start().await;
    let source = world.post("/v1/sources", json!({"name": "s", "retention_days": 2})).await;
    let path = format!("/v1/sources/{}", id(&source));
    let request = format!("/v1/requests/{}", world.webhook(&source, "x").await);
    world.patch(&path, json!({"retention_days": 5})).await;
    world.advance(3 * DAY);
    world.get(&request).await;
    world.patch(&path, json!({"retention_days": 3})).await;
    assert_eq!(world.call(Method::GET, &request, Value::Null).await.status, StatusCode::NOT_FOUND);
    world.stop().await;
}
