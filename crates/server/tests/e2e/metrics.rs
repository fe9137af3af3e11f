//! What `/metrics` says of a server at work.

use std::time::Duration;

use hyper::{Method, StatusCode};
use restante_core::Timestamp;
use restante_store::Store;
use serde_json::json;

use crate::harness::{START, World};
use crate::receiver::Receiver;

async fn page(world: &World) -> String {
    let answer = world.send(Method::GET, &world.url("/metrics"), &[], "").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    String::from_utf8(answer.bytes.to_vec()).unwrap()
}

/// The value of a series.
#[track_caller]
fn value(page: &str, series: &str) -> f64 {
    let found = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {series} in\n{page}")).parse().unwrap()
}

/// Asks until a series has a value.
async fn until(world: &World, series: &str, wanted: f64) -> String {
    for _ in 0..2000 {
        let page = page(world).await;
        if value(&page, series) >= wanted {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{series} does not become {wanted}:\n{}", page(world).await);
}

#[tokio::test]
async fn a_scrape_tells_what_was_done() {
    let world = World::start().await;
    let (good, bad) = (Receiver::start().await, Receiver::start().await);
    bad.answer(503);
    let source = world.source("orders").await;
    world.destination(&source, &good.url(), json!({})).await;
    world.destination(&source, &bad.url(), json!({})).await;
    world.webhook(&source, "{}").await;
    let answer = world.send(Method::POST, &world.url("/in/nobodys"), &[], "").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);

    until(&world, "restante_attempts_total{channel=\"destination\",result=\"delivered\"}", 1.0).await;
    let failed = "restante_attempts_total{channel=\"destination\",result=\"failed\",error_kind=\"status\"}";
    let page = until(&world, failed, 1.0).await;
    for (series, expected) in [
        ("restante_store_up", 1.0),
        ("restante_requests_accepted_total", 1.0),
        ("restante_requests_refused_total{reason=\"unknown_token\"}", 1.0),
        ("restante_requests_refused_total{reason=\"unavailable\"}", 0.0),
        ("restante_accept_seconds_count", 1.0),
        ("restante_delivery_lag_seconds_count{channel=\"destination\"}", 2.0),
        ("restante_delivery_lag_seconds_count{channel=\"webhook\"}", 0.0),
        ("restante_attempt_seconds_count", 2.0),
        ("restante_commits_refused_total", 0.0),
        ("restante_clock_jumps_total{direction=\"back\"}", 0.0),
        ("restante_clock_jump_last_seconds", 0.0),
    ] {
        assert_eq!(value(&page, series).to_string(), expected.to_string(), "{series}\n{page}");
    }
    assert!(value(&page, "restante_commit_items_count") > 0.0);
    assert!(value(&page, "restante_commit_seconds_sum") > 0.0);
    assert!(value(&page, "restante_disk_free_bytes") > value(&page, "restante_disk_free_min_bytes"));
    assert!(value(&page, "restante_callers_connected") >= 1.0);
    assert!(!page.contains("restante_database_connections_max"), "SQLite has no pool");
    world.stop().await;
}

#[tokio::test]
async fn a_late_attempt_counts_from_when_it_was_due() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let source = world.source("orders").await;
    let destination = world.destination(&source, &receiver.url(), json!({"paused": true})).await;
    world.webhook(&source, "{}").await;
    world.clock.advance(Duration::from_secs(20));
    let path = format!(
        "/v1/sources/{}/destinations/{}",
        source["id"].as_str().unwrap(),
        destination["id"].as_str().unwrap()
    );
    world.patch(&path, json!({"paused": false})).await;
    let page = until(&world, "restante_delivery_lag_seconds_count{channel=\"destination\"}", 1.0).await;
    assert!(value(&page, "restante_delivery_lag_seconds_sum{channel=\"destination\"}") >= 20.0);
    world.stop().await;
}

#[tokio::test]
async fn emails_are_counted_as_accepted_and_sent() {
    let world = World::start().await;
    let email = json!({"from": "a@shop.example", "to": ["b@mail.example"], "subject": "s", "text": "t"});
    world.post("/v1/emails", email).await;
    let page = until(&world, "restante_attempts_total{channel=\"email\",result=\"delivered\"}", 1.0).await;
    assert!(value(&page, "restante_emails_accepted_total") >= 1.0);
    world.stop().await;
}

#[tokio::test]
async fn a_clock_that_is_set_is_told() {
    let world = World::start().await;
    let start = Timestamp::parse(START).unwrap();
    let forward = "restante_clock_jumps_total{direction=\"forward\"}";
    let back = "restante_clock_jumps_total{direction=\"back\"}";
    // Once it is answered, the dispatcher has looked at the clock.
    page(&world).await;
    world.clock.set(start + Duration::from_secs(7200));
    world.store.due().notify_one();
    let page = until(&world, forward, 1.0).await;
    assert!(value(&page, "restante_clock_jump_last_seconds") >= 7200.0);
    world.clock.set(start + Duration::from_secs(3600));
    world.store.due().notify_one();
    let page = until(&world, back, 1.0).await;
    for (series, expected) in [
        (forward, "1"),
        (back, "1"),
        ("restante_clock_jump_last_seconds", "-3600"),
        ("restante_clock_back_ms_total", "3600000"),
    ] {
        assert_eq!(value(&page, series).to_string(), expected, "{series}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_database_that_is_closed_is_told() {
    let world = World::start().await;
    assert_eq!(value(&page(&world).await, "restante_store_up").to_string(), "1");
    world.store.close();
    let page = page(&world).await;
    assert_eq!(value(&page, "restante_store_up").to_string(), "0");
    assert!(!page.contains("restante_oldest_due_seconds"), "what is not known is missing");
    world.stop().await;
}
