//! Schedules, independence, cancelling, pausing.

use std::time::Duration;

use hyper::{Method, StatusCode};
use restante_core::Timestamp;
use serde_json::{Value, json};

use crate::harness::{World, id, time};
use crate::receiver::Receiver;

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

#[tokio::test]
async fn a_failing_delivery_is_retried_after_4_9_16_25_36_49_64_81_and_100_minutes_and_then_given_up() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({"attempts": 10})).await;
    let request = world.webhook(&source, "x").await;
    for (index, wait) in [4, 9, 16, 25, 36, 49, 64, 81, 100].into_iter().enumerate() {
        let delivery = world.until_attempts(&request, index + 1).await;
        assert_eq!(delivery["state"], "pending");
        assert_eq!(delivery["attempts_used"], index as u64 + 1);
        assert_eq!(delivery["waiting_for"], "time");
        let due = time(&delivery["next_attempt_at"]);
        assert_eq!(due.since(ended(&delivery["attempts"][index])), minutes(wait));
        // A millisecond too early nothing happens, whatever else the server is made to do.
        world.advance(minutes(wait) - Duration::from_millis(1));
        let probe = world.source(&format!("probe {index}")).await;
        world.webhook(&probe, "x").await;
        assert_eq!(receiver.seen().len(), index + 1, "an attempt came early");
        world.advance(Duration::from_millis(1));
        receiver.until_seen(index + 2).await;
    }
    let delivery = world.until_attempts(&request, 10).await;
    assert_eq!((&delivery["state"], &delivery["reason"]), (&json!("failed"), &json!("exhausted")));
    assert_eq!(delivery["next_attempt_at"], Value::Null);
    world.advance(minutes(1000));
    assert_eq!(receiver.seen().len(), 10);
    world.stop().await;
}

fn ended(attempt: &Value) -> Timestamp {
    time(&attempt["started_at"]) + Duration::from_millis(attempt["duration_ms"].as_u64().unwrap())
}

#[tokio::test]
async fn destinations_do_not_wait_for_each_other() {
    let world = World::start().await;
    let (hanging, failing, good) =
        (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    hanging.hold();
    failing.answer(503);
    let source = world.source("s").await;
    for receiver in [&hanging, &failing, &good] {
        world.destination(&source, &receiver.url(), json!({})).await;
    }
    let mut requests = Vec::new();
    for index in 0..200 {
        requests.push(world.webhook(&source, format!("{index}")).await);
    }
    good.until_seen(200).await;
    failing.until_seen(200).await;
    for request in &requests {
        let shown = world
            .until(&format!("/v1/requests/{request}"), |shown| {
                shown["deliveries"][2]["state"] == "delivered" && shown["deliveries"][1]["attempts_used"] == 1
            })
            .await;
        assert_eq!(shown["state"], "pending");
        assert_eq!(shown["deliveries"][1]["state"], "pending");
    }
    hanging.let_go();
    for request in &requests {
        world
            .until(&format!("/v1/requests/{request}"), |shown| shown["deliveries"][0]["state"] == "delivered")
            .await;
    }
    world.stop().await;
}

#[tokio::test]
async fn any_2xx_delivers_and_all_else_is_retried() {
    let world = World::start().await;
    for status in [200, 201, 202, 204, 206, 299] {
        let receiver = Receiver::start().await;
        receiver.answer(status);
        let source = world.source(&format!("ok {status}")).await;
        world.destination(&source, &receiver.url(), json!({})).await;
        let shown = world.until_all(&world.webhook(&source, "x").await, "delivered").await;
        let attempt = &shown["deliveries"][0]["attempts"][0];
        assert_eq!(attempt["response_status_code"], status);
        assert_eq!((&attempt["result"], &attempt["number"]), (&json!("delivered"), &json!(1)));
    }
    for status in [301, 302, 307, 304, 400, 401, 404, 410, 429, 500, 503] {
        let receiver = Receiver::start().await;
        receiver
            .answer_with(status, &[("location", "http://127.0.0.1:1/elsewhere"), ("retry-after", "9000")]);
        let source = world.source(&format!("not {status}")).await;
        world.destination(&source, &receiver.url(), json!({})).await;
        let delivery = world.until_attempts(&world.webhook(&source, "x").await, 1).await;
        let attempt = &delivery["attempts"][0];
        assert_eq!((&attempt["result"], &attempt["error_kind"]), (&json!("failed"), &json!("status")));
        assert_eq!(attempt["response_status_code"], status);
        // The quadratic schedule does not know Retry-After.
        assert_eq!(time(&delivery["next_attempt_at"]).since(ended(attempt)), minutes(4));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_refused_connection_and_a_name_without_address_are_failed_attempts_of_their_kind() {
    let world = World::start().await;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let table =
        [(format!("http://{closed}/"), "connect"), ("http://no-such-host.invalid/".to_owned(), "dns")];
    for (url, kind) in table {
        let source = world.source(kind).await;
        world.destination(&source, &url, json!({"attempts": 1})).await;
        let shown = world.until_all(&world.webhook(&source, "x").await, "failed").await;
        let attempt = &shown["deliveries"][0]["attempts"][0];
        assert_eq!(attempt["error_kind"], kind);
        assert_eq!(attempt["response_status_code"], Value::Null);
        assert_eq!(shown["state"], "failed");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_cancelled_pending_delivery_gets_no_further_attempt_and_others_go_on() {
    let world = World::start().await;
    let (one, other) = (Receiver::start().await, Receiver::start().await);
    one.answer(500);
    other.answer(500);
    let source = world.source("s").await;
    world.destination(&source, &one.url(), json!({})).await;
    world.destination(&source, &other.url(), json!({})).await;
    let request = world.webhook(&source, "x").await;
    let path = format!("/v1/requests/{request}");
    let shown = world
        .until(&path, |shown| {
            shown["deliveries"].as_array().unwrap().iter().all(|delivery| delivery["attempts_used"] == 1)
        })
        .await;
    let cancel = format!("/v1/deliveries/{}/cancel", id(&shown["deliveries"][0]));
    let cancelled = world.post(&cancel, Value::Null).await;
    assert_eq!((&cancelled["state"], &cancelled["reason"]), (&json!("cancelled"), &json!("requested")));
    assert_eq!(world.post(&cancel, Value::Null).await["state"], "cancelled");
    other.answer(200);
    world.advance(minutes(4));
    world.until(&path, |shown| shown["deliveries"][1]["state"] == "delivered").await;
    assert_eq!(one.seen().len(), 1);
    let refused = world
        .call(Method::POST, &format!("/v1/deliveries/{}/cancel", id(&shown["deliveries"][1])), Value::Null)
        .await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    world.stop().await;
}

#[tokio::test]
async fn an_attempt_in_flight_decides_a_cancelled_delivery() {
    for (status, state) in [(200, "delivered"), (500, "cancelled")] {
        let world = World::start().await;
        let receiver = Receiver::start().await;
        receiver.answer(status);
        receiver.hold();
        let source = world.source("s").await;
        world.destination(&source, &receiver.url(), json!({})).await;
        let request = world.webhook(&source, "x").await;
        receiver.until_seen(1).await;
        let shown = world.get(&format!("/v1/requests/{request}")).await;
        let delivery = &shown["deliveries"][0];
        assert_eq!(delivery["state"], "sending");
        assert_eq!(delivery["attempts"][0]["result"], Value::Null);
        let cancelled = world.post(&format!("/v1/deliveries/{}/cancel", id(delivery)), Value::Null).await;
        assert_eq!((&cancelled["state"], &cancelled["cancel_requested"]), (&json!("sending"), &json!(true)));
        receiver.let_go();
        world.until_all(&request, state).await;
        world.advance(minutes(600));
        assert_eq!(receiver.seen().len(), 1);
        world.stop().await;
    }
}

#[tokio::test]
async fn what_waits_for_a_slot_is_not_sent_after_a_cancel_was_acknowledged() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.hold();
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({"max_in_flight": 1})).await;
    world.webhook(&source, "first").await;
    receiver.until_seen(1).await;
    let waiting = world.webhook(&source, "second").await;
    let shown = world.get(&format!("/v1/requests/{waiting}")).await;
    world.post(&format!("/v1/deliveries/{}/cancel", id(&shown["deliveries"][0])), Value::Null).await;
    receiver.let_go();
    let shown = world.until_all(&waiting, "cancelled").await;
    assert_eq!(shown["deliveries"][0]["attempts"], json!([]));
    let last = world.webhook(&source, "third").await;
    world.until_all(&last, "delivered").await;
    let bodies: Vec<_> = receiver.seen().iter().map(|seen| seen.body.clone()).collect();
    assert_eq!(bodies, ["first", "third"]);
    world.stop().await;
}

#[tokio::test]
async fn a_paused_destination_uses_no_attempt_and_goes_on_when_resumed() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.source("s").await;
    let destination = world.destination(&source, &receiver.url(), json!({})).await;
    let path = format!("/v1/sources/{}/destinations/{}", id(&source), id(&destination));
    let before = world.webhook(&source, "before").await;
    world.until_attempts(&before, 1).await;
    world.patch(&path, json!({"paused": true})).await;
    let meanwhile = world.webhook(&source, "meanwhile").await;
    world.advance(minutes(60));
    for (request, used) in [(&before, 1), (&meanwhile, 0)] {
        let shown = world.get(&format!("/v1/requests/{request}")).await;
        let delivery = &shown["deliveries"][0];
        assert_eq!((&delivery["state"], &delivery["waiting_for"]), (&json!("pending"), &json!("resume")));
        assert_eq!(delivery["attempts_used"], used);
    }
    assert_eq!(receiver.seen().len(), 1);
    receiver.answer(200);
    world.patch(&path, json!({"paused": false})).await;
    world.until_all(&before, "delivered").await;
    world.until_all(&meanwhile, "delivered").await;
    world.stop().await;
}

#[tokio::test]
async fn an_attempt_in_flight_when_its_destination_is_paused_counts() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    receiver.hold();
    let source = world.source("s").await;
    let destination = world.destination(&source, &receiver.url(), json!({})).await;
    let request = world.webhook(&source, "x").await;
    receiver.until_seen(1).await;
    let path = format!("/v1/sources/{}/destinations/{}", id(&source), id(&destination));
    world.patch(&path, json!({"paused": true})).await;
    receiver.let_go();
    let delivery = world.until_attempts(&request, 1).await;
    assert_eq!((&delivery["attempts_used"], &delivery["waiting_for"]), (&json!(1), &json!("resume")));
    world.stop().await;
}

#[tokio::test]
async fn a_changed_schedule_leaves_the_planned_time_and_counts_from_the_next_failure() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.source("s").await;
    let destination = world.destination(&source, &receiver.url(), json!({"attempts": 5})).await;
    let path = format!("/v1/sources/{}/destinations/{}", id(&source), id(&destination));
    let request = world.webhook(&source, "x").await;
    let planned = world.until_attempts(&request, 1).await["next_attempt_at"].clone();
    let custom = json!({"schedule": {"kind": "custom", "waits_seconds": [1, 30.5, 9]}});
    world.patch(&path, custom).await;
    assert_eq!(world.until_attempts(&request, 1).await["next_attempt_at"], planned);
    world.advance(minutes(4));
    let delivery = world.until_attempts(&request, 2).await;
    let due = time(&delivery["next_attempt_at"]);
    assert_eq!(due.since(ended(&delivery["attempts"][1])), Duration::from_millis(30_500));
    // Two are used; one attempt in all leaves none.
    world.patch(&path, json!({"attempts": 1})).await;
    world.advance(Duration::from_millis(30_500));
    let shown = world.until_all(&request, "failed").await;
    assert_eq!(shown["deliveries"][0]["reason"], "exhausted");
    assert_eq!(receiver.seen().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn a_restart_in_the_middle_keeps_what_is_planned() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({})).await;
    let request = world.webhook(&source, "x").await;
    let before = world.until_attempts(&request, 1).await;
    let world = world.restart().await;
    assert_eq!(world.until_attempts(&request, 1).await, before);
    receiver.answer(200);
    world.advance(minutes(4));
    let shown = world.until_all(&request, "delivered").await;
    assert_eq!(shown["deliveries"][0]["attempts"][1]["number"], 2);
    world.stop().await;
}
