//! Replay of one delivery of a webhook, whatever its state.

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::outbound::{column, waits};
use crate::harness::{World, id};
use crate::receiver::Receiver;

/// What an event's delivery can be when somebody replays it.
const STATES: [&str; 5] = ["pending", "delivered", "failed", "cancelled", "skipped"];

/// A webhook, its receiver, and an event whose delivery is in this state.
async fn in_state(world: &World, state: &str) -> (Receiver, Value, String) {
    let receiver = Receiver::start().await;
    receiver.answer(if state == "delivered" { 200 } else { 400 });
    let schedule = if state == "failed" { waits(&[]) } else { waits(&[600.0, 600.0]) };
    let webhook = world.subscribe(&receiver.url(), schedule).await;
    let paused = state == "skipped";
    if paused {
        world.set(&webhook, json!({"status": "paused"})).await;
    }
    let event = world.publish().await;
    let delivery = world.until_tried(&event, usize::from(!paused)).await;
    if state == "cancelled" {
        world.post(&format!("/v1/deliveries/{}/cancel", id(&delivery)), Value::Null).await;
    }
    if paused {
        world.set(&webhook, json!({"status": "active"})).await;
    }
    assert_eq!(world.delivery(&event).await["state"], state);
    (receiver, webhook, event)
}

/// Replays an event's delivery.
async fn replay(world: &World, webhook: &Value, event: &str) {
    let delivery = id(&world.delivery(event).await);
    let answer = world.ask(webhook, &format!("deliveries/{delivery}/replay"), Value::Null).await;
    assert_eq!((answer.status, id(&answer.json)), (StatusCode::ACCEPTED, delivery), "{}", answer.json);
}

#[tokio::test]
async fn in_any_state_it_makes_one_attempt_more_and_a_2xx_delivers() {
    for state in STATES {
        let world = World::start().await;
        let (receiver, webhook, event) = in_state(&world, state).await;
        let before = world.delivery(&event).await;
        let made = before["attempts"].as_array().unwrap().len();
        receiver.answer(200);
        world.advance(Duration::from_secs(60));
        replay(&world, &webhook, &event).await;
        let delivery = world.until_tried(&event, made + 1).await;
        assert_eq!((&delivery["state"], &delivery["reason"]), (&json!("delivered"), &Value::Null), "{state}");
        assert_eq!(delivery["attempts_used"], before["attempts_used"], "{state}");
        let attempt = &delivery["attempts"][made];
        assert_eq!(
            (&attempt["number"], &attempt["trigger"]),
            (&json!(made + 1), &json!("replay")),
            "{state}"
        );
        assert_eq!(attempt["uses_budget"], false);
        let seen = receiver.seen();
        assert!(seen.iter().all(|seen| seen.header("webhook-id") == event), "{state}");
        world.advance(Duration::from_secs(24 * 3600));
        assert_eq!(receiver.seen().len(), made + 1, "{state}: one attempt, and nothing planned any more");
        world.stop().await;
    }
}

#[tokio::test]
async fn in_any_state_a_failure_leaves_the_delivery_as_it_was_and_does_not_count_for_health() {
    for state in STATES {
        let world = World::start().await;
        let (receiver, webhook, event) = in_state(&world, state).await;
        let before = world.delivery(&event).await;
        let made = before["attempts"].as_array().unwrap().len();
        let health = world.shown(&webhook).await["consecutive_failures"].clone();
        receiver.answer(500);
        world.advance(Duration::from_secs(60));
        replay(&world, &webhook, &event).await;
        let delivery = world.until_tried(&event, made + 1).await;
        for field in ["state", "reason", "attempts_used", "next_attempt_at", "cancel_requested"] {
            assert_eq!(delivery[field], before[field], "{state}: {field}");
        }
        assert_eq!(world.shown(&webhook).await["consecutive_failures"], health, "{state}");
        world.stop().await;
    }
}

#[tokio::test]
async fn while_an_attempt_is_in_flight_it_waits_and_then_sends_again_whatever_that_came_to() {
    for answer in [200, 400] {
        let world = World::start().await;
        let receiver = Receiver::start().await;
        receiver.answer(answer);
        receiver.hold();
        let webhook = world.subscribe(&receiver.url(), waits(&[600.0])).await;
        let event = world.publish().await;
        receiver.until_seen(1).await;
        replay(&world, &webhook, &event).await;
        assert_eq!(world.delivery(&event).await["attempts"].as_array().unwrap().len(), 1);
        assert_eq!(receiver.seen().len(), 1);
        receiver.let_go();
        let delivery = world.until_tried(&event, 2).await;
        assert_eq!(column(&delivery["attempts"], "trigger"), ["automatic", "replay"]);
        assert_eq!(delivery["state"], if answer == 200 { "delivered" } else { "pending" });
        world.stop().await;
    }
}

#[tokio::test]
async fn on_a_paused_webhook_it_is_409_and_nothing_is_sent() {
    let world = World::start().await;
    let (receiver, webhook, event) = in_state(&world, "failed").await;
    world.set(&webhook, json!({"status": "paused"})).await;
    let below = format!("deliveries/{}/replay", id(&world.delivery(&event).await));
    let answer = world.ask(&webhook, &below, Value::Null).await;
    assert_eq!(
        (answer.status, &answer.json["error"]["code"]),
        (StatusCode::CONFLICT, &json!("webhook_paused"))
    );
    world.set(&webhook, json!({"status": "active"})).await;
    world.advance(Duration::from_secs(3600));
    assert_eq!(receiver.seen().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn it_does_not_wait_for_a_replay_of_many() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[])).await;
    world.fail().await;
    let first = world.now().to_string();
    world.advance(Duration::from_secs(1));
    let other = world.fail().await;
    receiver.hold();
    world.replay(&webhook, json!({"since": first, "until": first})).await;
    receiver.until_seen(3).await;
    replay(&world, &webhook, &other).await;
    receiver.until_seen(4).await;
    assert_eq!(receiver.seen()[3].header("webhook-id"), other);
    assert_eq!(column(&json!(world.replays(&webhook).await), "state"), ["running", "running"]);
    receiver.let_go();
    world.until_tried(&other, 2).await;
    world.stop().await;
}

#[tokio::test]
async fn a_delivery_of_a_deleted_webhook_is_not_found() {
    let world = World::start().await;
    let (receiver, webhook, event) = in_state(&world, "failed").await;
    let below = format!("deliveries/{}/replay", id(&world.delivery(&event).await));
    world.delete(&crate::harness::outbound::path(&webhook)).await;
    assert_eq!(world.ask(&webhook, &below, Value::Null).await.status, StatusCode::NOT_FOUND);
    let shown = world.call(Method::GET, &format!("/v1/events/{event}"), Value::Null).await;
    assert_eq!((shown.status, receiver.seen().len()), (StatusCode::OK, 1));
    world.stop().await;
}
