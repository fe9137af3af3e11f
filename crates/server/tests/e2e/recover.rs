//! Recovering what was skipped: events that came to a paused webhook, or waited when it was paused.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::harness::outbound::{column, waits};
use crate::harness::{World, id, time};
use crate::receiver::Receiver;

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

async fn webhook(world: &World, settings: Value) -> (Receiver, Value) {
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), settings).await;
    (receiver, webhook)
}

async fn pause(world: &World, webhook: &Value) {
    world.set(webhook, json!({"status": "paused"})).await;
}

async fn activate(world: &World, webhook: &Value) {
    world.set(webhook, json!({"status": "active"})).await;
}

/// Starts a recovery; gives how many events it takes.
async fn recover(world: &World, webhook: &Value, window: Value) -> u64 {
    let answer = world.ask(webhook, "recover", window).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED, "{}", answer.json);
    assert!(id(&answer.json).starts_with("rpl_"));
    assert_eq!(answer.json.as_object().unwrap().len(), 2);
    answer.json["events"].as_u64().unwrap()
}

#[tokio::test]
async fn what_was_skipped_is_delivered_with_the_normal_schedule() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world, waits(&[60.0, 120.0])).await;
    pause(&world, &webhook).await;
    let event = world.publish().await;
    world.advance(HOUR);
    activate(&world, &webhook).await;
    receiver.answer(400);
    assert_eq!(recover(&world, &webhook, json!({})).await, 1);
    let delivery = world.until_tried(&event, 1).await;
    assert_eq!((&delivery["state"], &delivery["attempts_used"]), (&json!("pending"), &json!(1)));
    assert_eq!(delivery["attempts"][0]["trigger"], "automatic");
    assert_eq!(time(&delivery["attempts"][0]["started_at"]), world.now(), "due at once");
    assert_eq!(world.shown(&webhook).await["consecutive_failures"], 1, "it counts as any attempt does");
    world.advance(Duration::from_secs(60));
    world.until_tried(&event, 2).await;
    receiver.answer(200);
    world.advance(Duration::from_secs(120));
    let delivery = world.until_state(&event, "delivered").await;
    assert_eq!(column(&delivery["attempts"], "number"), [1, 2, 3]);
    assert_eq!(receiver.seen()[2].header("webhook-id"), event);
    let recovery = world.replays(&webhook).await.remove(0);
    assert_eq!(
        (&recovery["kind"], &recovery["state"], &recovery["total"], &recovery["delivered"]),
        (&json!("recover"), &json!("done"), &json!(1), &json!(1))
    );
    assert_eq!((&recovery["failed"], &recovery["skipped"]), (&json!(0), &json!(0)));
    world.stop().await;
}

#[tokio::test]
async fn unless_told_otherwise_it_takes_what_was_skipped_since_the_last_pause() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world, json!({"max_in_flight": 1})).await;
    pause(&world, &webhook).await;
    let earlier = world.publish().await;
    world.advance(HOUR);
    activate(&world, &webhook).await;
    // Two wait while one is in flight; the pause skips them.
    receiver.hold();
    let flying = world.publish().await;
    receiver.until_seen(1).await;
    let waiting = [world.publish().await, world.publish().await];
    world.advance(HOUR);
    pause(&world, &webhook).await;
    receiver.let_go();
    world.until_state(&flying, "delivered").await;
    for event in &waiting {
        world.until_state(event, "skipped").await;
    }
    let at_once = world.publish().await;
    world.advance(HOUR);
    let later = world.publish().await;
    activate(&world, &webhook).await;
    world.advance(HOUR);
    assert_eq!(recover(&world, &webhook, json!({})).await, 4);
    for event in waiting.iter().chain([&at_once, &later]) {
        world.until_state(event, "delivered").await;
    }
    assert_eq!(world.delivery(&earlier).await["state"], "skipped");
    assert_eq!(recover(&world, &webhook, json!({})).await, 0, "they are skipped no more");
    assert_eq!(receiver.seen().len(), 5);
    world.stop().await;
}

#[tokio::test]
async fn a_window_is_on_the_time_of_acceptance_and_both_ends_are_in_it() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world, json!({})).await;
    pause(&world, &webhook).await;
    let mut events = Vec::new();
    for _ in 0..4 {
        events.push((world.publish().await, world.now()));
        world.advance(MILLISECOND);
    }
    activate(&world, &webhook).await;
    world.advance(HOUR);
    let window = |since: usize, until: usize| json!({"since": events[since].1.to_string(), "until": events[until].1.to_string()});
    assert_eq!(recover(&world, &webhook, window(1, 2)).await, 2);
    for index in [1, 2] {
        world.until_state(&events[index].0, "delivered").await;
    }
    for index in [0, 3] {
        assert_eq!(world.delivery(&events[index].0).await["state"], "skipped");
    }
    let recovery = world.until_over(&webhook).await;
    assert_eq!((time(&recovery["since"]), time(&recovery["until"])), (events[1].1, events[2].1));
    assert_eq!(recover(&world, &webhook, json!({"since": events[3].1.to_string()})).await, 1);
    world.until_state(&events[3].0, "delivered").await;
    assert_eq!(recover(&world, &webhook, window(0, 0)).await, 1);
    world.until_state(&events[0].0, "delivered").await;
    assert_eq!(receiver.seen().len(), 4);
    world.stop().await;
}

#[tokio::test]
async fn on_a_paused_webhook_it_is_409_and_without_skipped_events_it_does_nothing() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world, json!({})).await;
    assert_eq!(recover(&world, &webhook, json!({})).await, 0);
    assert_eq!(world.until_over(&webhook).await["state"], "done");
    pause(&world, &webhook).await;
    let event = world.publish().await;
    let answer = world.ask(&webhook, "recover", json!({})).await;
    assert_eq!(
        (answer.status, &answer.json["error"]["code"]),
        (StatusCode::CONFLICT, &json!("webhook_paused"))
    );
    activate(&world, &webhook).await;
    world.advance(HOUR);
    world.until_state(&world.publish().await, "delivered").await;
    assert_eq!(world.delivery(&event).await["state"], "skipped");
    assert_eq!((receiver.seen().len(), world.replays(&webhook).await.len()), (1, 1));
    world.stop().await;
}

#[tokio::test]
async fn it_does_not_touch_what_failed_was_cancelled_or_delivered() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world, waits(&[600.0])).await;
    let delivered = world.publish().await;
    world.until_state(&delivered, "delivered").await;
    receiver.answer(400);
    let (failed, cancelled) = (world.fail().await, world.fail().await);
    world
        .post(&format!("/v1/deliveries/{}/cancel", id(&world.delivery(&cancelled).await)), Value::Null)
        .await;
    pause(&world, &webhook).await;
    activate(&world, &webhook).await;
    assert_eq!(world.delivery(&failed).await["reason"], "endpoint_paused");
    receiver.answer(200);
    let all = json!({"since": "2020-01-01T00:00:00Z"});
    assert_eq!(recover(&world, &webhook, all).await, 0);
    world.until_over(&webhook).await;
    assert_eq!(receiver.seen().len(), 3);
    // What failed is for a replay to reach.
    assert_eq!(world.count_replay(&webhook, json!({})).await, 2);
    world.stop().await;
}

#[tokio::test]
async fn a_thousand_that_a_pause_skipped_a_moment_ago_are_recovered_at_once() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world, json!({"rate_per_second": 0.1})).await;
    world.until_state(&world.publish().await, "delivered").await;
    // The clock stands, so none of these begins.
    let events = world.publish_many(1000).await;
    pause(&world, &webhook).await;
    world.set(&webhook, json!({"status": "active", "rate_per_second": null})).await;
    assert_eq!(recover(&world, &webhook, json!({})).await, 1000);
    world.advance(Duration::from_secs(10));
    receiver.until_seen(1001).await;
    for event in [&events[0], &events[499], &events[999]] {
        world.until_state(event, "delivered").await;
    }
    assert_eq!(world.get("/v1/deliveries?state=skipped&limit=1").await["data"], json!([]));
    let recovery = world.until_over(&webhook).await;
    assert_eq!((&recovery["kind"], &recovery["total"]), (&json!("recover"), &json!(1000)));
    world.stop().await;
}

#[tokio::test]
async fn a_pause_ends_a_recovery_and_skips_again_what_it_has_not_attempted() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world, json!({"max_in_flight": 1})).await;
    pause(&world, &webhook).await;
    let events = world.publish_many(10).await;
    activate(&world, &webhook).await;
    receiver.hold();
    assert_eq!(recover(&world, &webhook, json!({})).await, 10);
    receiver.until_seen(1).await;
    world.until_over(&webhook).await;
    pause(&world, &webhook).await;
    receiver.let_go();
    world.until_state(&events[0], "delivered").await;
    for event in &events[1..] {
        world.until_state(event, "skipped").await;
    }
    world.advance(HOUR);
    activate(&world, &webhook).await;
    assert_eq!(recover(&world, &webhook, json!({})).await, 9);
    for event in &events {
        world.until_state(event, "delivered").await;
    }
    assert_eq!(receiver.seen().len(), 10);
    world.stop().await;
}

#[tokio::test]
async fn a_restart_in_the_middle_neither_skips_nor_doubles() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world, json!({"rate_per_second": 10})).await;
    pause(&world, &webhook).await;
    let events = world.publish_many(30).await;
    activate(&world, &webhook).await;
    assert_eq!(recover(&world, &webhook, json!({})).await, 30);
    let mut world = world;
    for seen in 1..=30 {
        receiver.until_seen(seen).await;
        world.until_attempted(&webhook, seen).await;
        if seen % 9 == 0 {
            world = world.restart().await;
        }
        world.advance(Duration::from_millis(100));
    }
    for event in &events {
        let delivery = world.until_state(event, "delivered").await;
        assert_eq!(delivery["attempts"].as_array().unwrap().len(), 1);
    }
    assert_eq!(receiver.seen().len(), 30);
    world.stop().await;
}
