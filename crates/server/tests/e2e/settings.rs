//! What a destination can be told: headers, key, limits.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{World, id};
use crate::receiver::Receiver;

#[tokio::test]
async fn static_headers_go_with_every_attempt_and_are_never_read_back() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let source = world.source("s").await;
    let headers = json!({"headers": {"Authorization": "Bearer secret-value", "X-Team": "blue"}});
    let destination = world.destination(&source, &receiver.url(), headers).await;
    assert_eq!(destination["headers"], json!({"Authorization": null, "X-Team": null}));
    let sent = [("x-team", "outsider"), ("x-mine", "1")];
    world.send(hyper::Method::POST, source["url"].as_str().unwrap(), &sent, "x").await;
    receiver.until_seen(1).await;
    let seen = &receiver.seen()[0];
    assert_eq!(seen.headers["authorization"], "Bearer secret-value");
    assert_eq!(seen.headers.get_all("x-team").iter().collect::<Vec<_>>(), ["blue"]);
    assert_eq!(seen.headers["x-mine"], "1");
    let path = format!("/v1/sources/{}/destinations/{}", id(&source), id(&destination));
    assert!(!world.get(&path).await.to_string().contains("secret-value"));
    world.stop().await;
}

#[tokio::test]
async fn the_request_key_is_the_same_for_every_attempt_and_only_ours() {
    let world = World::start().await;
    let (standard, named, off) = (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    standard.answer(500);
    let source = world.source("s").await;
    world.destination(&source, &standard.url(), json!({"idempotency_header": true})).await;
    world.destination(&source, &named.url(), json!({"idempotency_header": "X-Once"})).await;
    world.destination(&source, &off.url(), json!({})).await;
    let outsider = [("X-Adal-Idempotency", "forged"), ("x-once", "forged")];
    let answer = world.send(hyper::Method::POST, source["url"].as_str().unwrap(), &outsider, "x").await;
    let shown = world.get(&format!("/v1/requests/{}", id(&answer.json))).await;
    let key = shown["key"].as_str().unwrap().to_owned();
    assert_eq!(key.len(), 36);
    for receiver in [&standard, &named, &off] {
        receiver.until_seen(1).await;
    }
    world
        .until(&format!("/v1/requests/{}", id(&answer.json)), |shown| {
            shown["deliveries"][0]["attempts_used"] == 1
        })
        .await;
    world.advance(Duration::from_secs(240));
    standard.until_seen(2).await;
    for seen in standard.seen() {
        let values: Vec<_> = seen.headers.get_all("x-adal-idempotency").iter().collect();
        assert_eq!(values, [key.as_str()]);
    }
    let seen = &named.seen()[0];
    assert_eq!(seen.headers.get_all("x-once").iter().collect::<Vec<_>>(), [key.as_str()]);
    assert!(!seen.headers.contains_key("x-adal-idempotency"));
    assert!(!off.seen()[0].headers.contains_key("x-adal-idempotency"));
    assert_eq!(off.seen()[0].headers["x-once"], "forged");
    world.stop().await;
}

#[tokio::test]
async fn no_more_than_max_in_flight_attempts_run_at_once_and_waiting_uses_none() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.hold();
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({"max_in_flight": 3})).await;
    let mut requests = Vec::new();
    for index in 0..20 {
        requests.push(world.webhook(&source, format!("{index}")).await);
    }
    receiver.until_seen(3).await;
    let mut waiting = 0;
    for request in &requests {
        let shown = world.get(&format!("/v1/requests/{request}")).await;
        waiting += usize::from(shown["deliveries"][0]["attempts_used"] == 0);
    }
    assert_eq!(waiting, 20);
    assert_eq!(receiver.seen().len(), 3);
    receiver.let_go();
    for request in &requests {
        let shown = world.until_all(request, "delivered").await;
        assert_eq!(shown["deliveries"][0]["attempts"].as_array().unwrap().len(), 1);
    }
    assert!(receiver.held_at_most() <= 3);
    world.stop().await;
}

#[tokio::test]
async fn attempts_keep_to_the_rate() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({"rate_per_second": 2})).await;
    let mut requests = Vec::new();
    for index in 0..5 {
        requests.push(world.webhook(&source, format!("{index}")).await);
    }
    for seen in 1..=5 {
        receiver.until_seen(seen).await;
        // The clock stands: nothing more may begin.
        assert_eq!(receiver.seen().len(), seen);
        world
            .until(&format!("/v1/requests/{}", requests[seen - 1]), |shown| shown["state"] == "delivered")
            .await;
        assert_eq!(receiver.seen().len(), seen);
        world.advance(Duration::from_millis(500));
    }
    world.stop().await;
}

#[tokio::test]
async fn attempts_keep_to_the_rate_also_while_those_before_them_hang() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.hold();
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({"rate_per_second": 0.5})).await;
    for index in 0..6 {
        world.webhook(&source, format!("{index}")).await;
    }
    for seen in 1..=6 {
        receiver.until_seen(seen).await;
        assert_eq!(receiver.seen().len(), seen);
        world.advance(Duration::from_secs(2));
    }
    assert_eq!(receiver.held_at_most(), 6);
    receiver.let_go();
    world.stop().await;
}

#[tokio::test]
async fn a_changed_url_counts_from_the_next_attempt_and_attempts_say_where_they_went() {
    let world = World::start().await;
    let (old, new) = (Receiver::start().await, Receiver::start().await);
    old.answer(500);
    let source = world.source("s").await;
    let destination = world.destination(&source, &old.url(), json!({})).await;
    let request = world.webhook(&source, "x").await;
    world.until_attempts(&request, 1).await;
    let path = format!("/v1/sources/{}/destinations/{}", id(&source), id(&destination));
    world.patch(&path, json!({"url": new.url()})).await;
    world.advance(Duration::from_secs(240));
    let shown = world.until_all(&request, "delivered").await;
    let urls: Vec<&Value> = shown["deliveries"][0]["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| &attempt["url"])
        .collect();
    assert_eq!(urls, [&json!(old.url()), &json!(new.url())]);
    world.stop().await;
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_in_time_is_a_timeout() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.hold();
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({"timeout_seconds": 1, "attempts": 1})).await;
    let shown = world.until_all(&world.webhook(&source, "x").await, "failed").await;
    assert_eq!(shown["deliveries"][0]["attempts"][0]["error_kind"], "timeout");
    world.stop().await;
}

#[tokio::test]
async fn a_private_address_is_refused_unless_allowed_and_the_error_names_the_setting() {
    let world = World::start_with(|config| {
        config.allow_private_targets =
            "none".parse().unwrap_or(restante_server::channel::guard::PrivateTargets::None);
    })
    .await;
    let source = world.source("s").await;
    let path = format!("/v1/sources/{}/destinations", id(&source));
    let body = json!({"kind": "http", "url": "http://169.254.169.254/latest"});
    let answer = world.call(hyper::Method::POST, &path, body).await;
    assert_eq!(answer.status, 422);
    assert_eq!(answer.json["error"]["param"], "url");
    assert!(answer.json["error"]["message"].as_str().unwrap().contains("RESTANTE_ALLOW_PRIVATE_TARGETS"));
    world.stop().await;
}
