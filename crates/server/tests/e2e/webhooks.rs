//! The test call and the attempts log of a webhook.

use std::time::Duration;

use hyper::{Method, StatusCode};
use restante_core::Timestamp;
use restante_server::channel::guard::PrivateTargets;
use serde_json::{Value, json};

use crate::harness::outbound::{column, path, signature_of, waits};
use crate::harness::{START, World, id, time};
use crate::receiver::Receiver;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Sends a test; gives what it came to.
async fn test(world: &World, webhook: &Value, body: Value) -> Value {
    let answer = world.ask(webhook, "test", body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.json);
    answer.json
}

#[tokio::test]
async fn a_test_sends_one_signed_event_and_says_what_came_back() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer_body(201, "thank you");
    let settings = json!({"headers": {"X-Team": "blue"}, "events": ["order.*", "user.made", "order.paid"]});
    let webhook = world.subscribe(&receiver.url(), settings).await;
    let outcome = test(&world, &webhook, Value::Null).await;
    let payload = json!({"type": "user.made", "timestamp": START, "data": {}});
    assert_eq!(
        outcome,
        json!({"status": "delivered", "response_status_code": 201, "response_body": "thank you",
            "response_duration_ms": 0, "event_payload": null, "payload": payload})
    );
    let seen = &receiver.seen()[0];
    assert_eq!(seen.body, format!(r#"{{"type":"user.made","timestamp":"{START}","data":{{}}}}"#));
    assert_eq!(seen.header("webhook-signature"), signature_of(seen, webhook["secret"].as_str().unwrap()));
    assert_eq!((seen.header("x-team"), seen.header("content-type")), ("blue", "application/json"));
    assert!(seen.header("webhook-id").starts_with("whe_"));
    test(&world, &webhook, json!({})).await;
    assert_ne!(receiver.seen()[1].header("webhook-id"), seen.header("webhook-id"));
    world.stop().await;
}

#[tokio::test]
async fn a_tests_type_is_the_one_asked_for_else_the_first_exact_one_else_webhook_test() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    for (events, asked, expected) in [
        (json!(["order.paid", "user.made"]), json!({}), "order.paid"),
        (json!(["*", "user.made"]), json!({"event_type": null}), "user.made"),
        (json!(["*", "order.*"]), json!({}), "webhook.test"),
        (json!(["order.paid"]), json!({"event_type": "not.subscribed"}), "not.subscribed"),
    ] {
        let webhook = world.subscribe(&receiver.url(), json!({"events": events})).await;
        assert_eq!(test(&world, &webhook, asked).await["payload"]["type"], expected);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_test_that_fails_is_a_result_and_no_error_of_the_api() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    for status in [301, 400, 404, 410, 500] {
        receiver.answer_body(status, "");
        let webhook = world.subscribe(&receiver.url(), json!({})).await;
        let outcome = test(&world, &webhook, json!({})).await;
        assert_eq!(
            (&outcome["status"], &outcome["response_status_code"]),
            (&json!("failed"), &json!(status))
        );
        assert_eq!((outcome.get("error"), outcome.get("response_body")), (None, None), "{status}");
    }
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    for url in [closed.as_str(), "http://no-such-host.invalid/"] {
        let webhook = world.subscribe(url, json!({})).await;
        let outcome = test(&world, &webhook, json!({})).await;
        assert_eq!((&outcome["status"], &outcome["response_status_code"]), (&json!("failed"), &Value::Null));
        assert!(!outcome["error"].as_str().unwrap().is_empty(), "{outcome}");
    }
    receiver.hold();
    let webhook = world.subscribe(&receiver.url(), json!({"timeout_seconds": 1})).await;
    let outcome = test(&world, &webhook, json!({})).await;
    assert_eq!((&outcome["status"], &outcome["response_status_code"]), (&json!("failed"), &Value::Null));
    assert!(outcome["error"].as_str().unwrap().contains("1s"), "{outcome}");
    world.stop().await;
}

#[tokio::test]
async fn a_test_shows_at_most_1024_bytes_of_the_response() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), json!({})).await;
    for (bytes, shown) in [(1023, 1023), (1024, 1024), (1025, 1024), (200_000, 1024)] {
        receiver.answer_body(200, &"x".repeat(bytes));
        assert_eq!(test(&world, &webhook, json!({})).await["response_body"], "x".repeat(shown), "{bytes}");
    }
    receiver.answer_body(200, &format!("{}ü", "x".repeat(1023)));
    let cut = test(&world, &webhook, json!({})).await;
    assert_eq!(cut["response_body"], format!("{}\u{fffd}", "x".repeat(1023)), "half a character");
    world.stop().await;
}

#[tokio::test]
async fn a_paused_webhook_is_tested_and_stays_paused() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), json!({"status": "paused"})).await;
    let skipped = world.publish().await;
    for answer in [200, 400] {
        receiver.answer(answer);
        let expected = if answer == 200 { "delivered" } else { "failed" };
        assert_eq!(test(&world, &webhook, json!({})).await["status"], expected);
        assert_eq!(world.shown(&webhook).await["status"], "paused");
    }
    assert_eq!(world.delivery(&skipped).await["state"], "skipped");
    assert_eq!(receiver.seen().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn a_test_is_no_attempt_of_the_log_nor_an_event() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[])).await;
    test(&world, &webhook, json!({})).await;
    assert_eq!(world.log(&webhook).await, json!([]));
    assert_eq!(world.get("/v1/events").await["data"], json!([]));
    assert_eq!(world.get(&format!("{}/deliveries", path(&webhook))).await["data"], json!([]));
    assert_eq!(world.count_replay(&webhook, json!({})).await, 0);
    assert_eq!(world.shown(&webhook).await["failing_since"], Value::Null);
    world.stop().await;
}

#[tokio::test]
async fn a_test_runs_while_the_webhook_has_as_much_in_flight_as_it_may() {
    let world = World::start().await;
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    receiver.hold();
    let settings = json!({"max_in_flight": 1, "rate_per_second": 0.1});
    let webhook = world.subscribe(&receiver.url(), settings).await;
    world.publish().await;
    receiver.until_seen(1).await;
    world.set(&webhook, json!({"url": other.url()})).await;
    assert_eq!(test(&world, &webhook, json!({})).await["status"], "delivered");
    receiver.let_go();
    world.stop().await;
}

#[tokio::test]
async fn the_log_has_a_row_for_each_attempt_newest_first_and_shows_what_is_in_flight() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(503);
    let webhook = world.subscribe(&receiver.url(), waits(&[60.0, 60.0])).await;
    let event = world.fail().await;
    world.advance(Duration::from_secs(60));
    world.until_tried(&event, 2).await;
    receiver.answer(200);
    receiver.hold();
    world.advance(Duration::from_secs(60));
    receiver.until_seen(3).await;
    let log = world.log(&webhook).await;
    assert_eq!(column(&log, "status"), ["pending", "failed", "failed"]);
    assert_eq!(column(&log, "number"), [3, 2, 1]);
    let flying = &log[0];
    assert_eq!((&flying["response_status_code"], &flying["response_duration_ms"]), (&Value::Null, &json!(0)));
    world.advance(Duration::from_millis(250));
    receiver.let_go();
    let delivery = world.until_state(&event, "delivered").await;
    let log = world.log(&webhook).await;
    let attempt = &delivery["attempts"][2];
    assert_eq!(
        log[0],
        json!({"id": attempt["id"], "event_id": event, "event_type": "order.paid",
            "delivery_id": delivery["id"], "number": 3, "trigger": "automatic", "status": "delivered",
            "url": receiver.url(), "response_status_code": 200, "response_duration_ms": 250,
            "error_kind": null, "attempted_at": attempt["started_at"]})
    );
    assert_eq!((&log[1]["error_kind"], &log[1]["response_status_code"]), (&json!("status"), &json!(503)));
    assert!(log[1]["failure_reason"].as_str().unwrap().contains("503"));
    world.stop().await;
}

#[tokio::test]
async fn attempts_that_reached_nobody_are_in_the_log() {
    let world = World::start().await;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    for (url, kind) in [(closed.as_str(), "connect"), ("http://no-such-host.invalid/", "dns")] {
        let webhook = world.subscribe(url, json!({"events": [format!("{kind}.x")]})).await;
        world.post("/v1/events", json!({"type": format!("{kind}.x"), "data": 1})).await;
        world.until_attempted(&webhook, 1).await;
        let log = world.log(&webhook).await;
        assert_eq!(
            (&log[0]["status"], &log[0]["error_kind"], &log[0]["response_status_code"]),
            (&json!("failed"), &json!(kind), &Value::Null)
        );
        assert!(!log[0]["failure_reason"].as_str().unwrap().is_empty());
    }
    world.stop().await;
}

#[tokio::test]
async fn an_address_is_judged_again_whenever_it_is_dialled() {
    let mut world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), waits(&[])).await;
    world.config.allow_private_targets = PrivateTargets::None;
    let world = world.restart().await;
    let event = world.fail().await;
    let log = world.log(&webhook).await;
    assert_eq!((&log[0]["status"], &log[0]["error_kind"]), (&json!("failed"), &json!("refused_address")));
    assert_eq!(world.shown(&webhook).await["consecutive_failures"], 1);
    let outcome = test(&world, &webhook, json!({})).await;
    assert_eq!((&outcome["status"], &outcome["response_status_code"]), (&json!("failed"), &Value::Null));
    assert!(outcome["error"].as_str().unwrap().contains("RESTANTE_ALLOW_PRIVATE_TARGETS"), "{outcome}");
    assert_eq!((receiver.seen().len(), &world.delivery(&event).await["state"]), (0, &json!("failed")));
    world.stop().await;
}

/// Five attempts a second apart, delivered and failed in turn; their times.
async fn five(world: &World) -> (Receiver, Value, Vec<Timestamp>) {
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), waits(&[])).await;
    let mut times = Vec::new();
    for answer in [200, 400, 200, 400, 200] {
        receiver.answer(answer);
        let event = world.publish().await;
        world.until_tried(&event, 1).await;
        times.push(world.now());
        world.advance(Duration::from_secs(1));
    }
    (receiver, webhook, times)
}

#[tokio::test]
async fn the_bounds_of_the_log_are_strict_and_on_the_time_of_the_attempt() {
    let world = World::start().await;
    let (_receiver, webhook, times) = five(&world).await;
    let times_in = async |query: String| -> Vec<Timestamp> {
        let page = world.get(&format!("{}/attempts?{query}", path(&webhook))).await;
        column(&page["data"], "attempted_at").into_iter().map(time).collect()
    };
    let newest_first = |from: usize, to: usize| times[from..to].iter().rev().copied().collect::<Vec<_>>();
    for (query, expected) in [
        (String::new(), newest_first(0, 5)),
        (format!("after={}", times[1]), newest_first(2, 5)),
        (format!("after={}", times[1] - MILLISECOND), newest_first(1, 5)),
        (format!("before={}", times[3]), newest_first(0, 3)),
        (format!("before={}", times[3] + MILLISECOND), newest_first(0, 4)),
        (format!("after={}&before={}", times[0], times[4]), newest_first(1, 4)),
        (format!("after={}&before={}", times[2], times[2] + MILLISECOND), vec![]),
        (format!("after={}&before={}", times[2] - MILLISECOND, times[2] + MILLISECOND), newest_first(2, 3)),
        (format!("after={}", times[4]), vec![]),
        (format!("before={}", times[0]), vec![]),
    ] {
        assert_eq!(times_in(query.clone()).await, expected, "{query}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_log_is_filtered_by_status_and_paged() {
    let world = World::start().await;
    let (receiver, webhook, times) = five(&world).await;
    receiver.hold();
    let flying = world.publish().await;
    receiver.until_seen(6).await;
    let log = path(&webhook) + "/attempts";
    for (status, count) in [("delivered", 3), ("failed", 2), ("pending", 1)] {
        let page = world.get(&format!("{log}?status={status}")).await;
        assert_eq!(column(&page["data"], "status"), vec![status; count]);
    }
    let all = world.get(&log).await;
    assert_eq!((all["data"].as_array().unwrap().len(), &all["next_cursor"]), (6, &Value::Null));
    for (query, expected) in [
        ("limit=1", all["data"].clone()),
        ("limit=2", all["data"].clone()),
        ("limit=4", all["data"].clone()),
        ("limit=1&status=delivered", world.get(&format!("{log}?status=delivered")).await["data"].clone()),
        ("limit=1&status=failed", world.get(&format!("{log}?status=failed")).await["data"].clone()),
    ] {
        let mut walked = Vec::new();
        let mut next = format!("{log}?{query}");
        loop {
            let page = world.get(&next).await;
            walked.extend(page["data"].as_array().unwrap().iter().cloned());
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            next = format!("{log}?{query}&cursor={cursor}");
        }
        assert_eq!(json!(walked), expected, "{query}");
    }
    // A cursor goes on where it was, whatever came meanwhile.
    let first = world.get(&format!("{log}?limit=2")).await;
    receiver.let_go();
    world.until_state(&flying, "delivered").await;
    world.advance(Duration::from_secs(1));
    let newer = world.publish().await;
    world.until_state(&newer, "delivered").await;
    let rest = world.get(&format!("{log}?cursor={}", first["next_cursor"].as_str().unwrap())).await;
    let rest: Vec<_> = column(&rest["data"], "attempted_at").into_iter().map(time).collect();
    assert_eq!(rest, times[..4].iter().rev().copied().collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test]
async fn the_log_has_fifty_rows_unless_asked_otherwise_and_at_most_a_hundred() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), json!({})).await;
    let events = world.publish_many(120).await;
    for event in &events {
        world.until_state(event, "delivered").await;
    }
    let log = path(&webhook) + "/attempts";
    let (mut rows, mut sizes, mut next) = (Vec::new(), Vec::new(), log.clone());
    loop {
        let page = world.get(&next).await;
        sizes.push(page["data"].as_array().unwrap().len());
        rows.extend(column(&page["data"], "event_id").into_iter().map(|id| id.as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        next = format!("{log}?cursor={cursor}");
    }
    assert_eq!(sizes, [50, 50, 20]);
    rows.sort();
    let mut events = events;
    events.sort();
    assert_eq!(rows, events, "each once");
    let page = world.get(&format!("{log}?limit=100")).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 100);
    let answer = world.call(Method::GET, &format!("{log}?limit=101"), Value::Null).await;
    assert_eq!(
        (answer.status, &answer.json["error"]["param"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("limit"))
    );
    world.stop().await;
}

#[tokio::test]
async fn the_log_is_kept_for_three_days_and_deliveries_keep_their_final_state() {
    let world = World::start().await;
    let (_receiver, webhook, times) = five(&world).await;
    let three_days = Duration::from_secs(3 * 24 * 3600);
    world.advance(three_days - world.now().since(times[2]));
    assert_eq!(world.now(), times[2] + three_days);
    let log = world.log(&webhook).await;
    let left: Vec<_> = column(&log, "attempted_at").into_iter().map(time).collect();
    assert_eq!(left, [times[4], times[3]], "the third is three days old");
    let events = world.get("/v1/events").await;
    let first = world.delivery(&id(&events["data"][4])).await;
    assert_eq!((&first["state"], &first["attempts_used"]), (&json!("delivered"), &json!(1)));
    let second = world.delivery(&id(&events["data"][3])).await;
    assert_eq!((&second["state"], &second["reason"]), (&json!("failed"), &json!("exhausted")));
    world.stop().await;
}
