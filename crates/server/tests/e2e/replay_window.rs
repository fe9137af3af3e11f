//! Which events a replay of a webhook takes.

use std::time::Duration;

use hyper::StatusCode;
use restante_core::Timestamp;
use serde_json::{Value, json};

use crate::harness::outbound::waits;
use crate::harness::{World, time};
use crate::receiver::Receiver;

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A webhook whose deliveries have one attempt each, and its receiver, which refuses.
async fn refusing(world: &World) -> (Receiver, Value) {
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[])).await;
    (receiver, webhook)
}

fn window(since: Timestamp, until: Timestamp) -> Value {
    json!({"since": since.to_string(), "until": until.to_string()})
}

#[tokio::test]
async fn an_attempt_exactly_at_since_or_until_is_in_the_window_and_a_millisecond_beyond_is_not() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world).await;
    world.fail().await;
    let at = world.now();
    world.advance(HOUR);
    for (since, until, events) in [
        (at, at, 1),
        (at, at + HOUR, 1),
        (at - HOUR, at, 1),
        (at + MILLISECOND, at + HOUR, 0),
        (at - HOUR, at - MILLISECOND, 0),
    ] {
        let window = window(since, until);
        assert_eq!(world.count_replay(&webhook, window.clone()).await, events, "{window}");
    }
    for (since, until, events) in [
        (at + MILLISECOND, at + HOUR - MILLISECOND, 0),
        (at, at, 1),
        // The replay of a moment ago is an attempt like any other.
        (world.now(), world.now(), 1),
        (at - HOUR, at - MILLISECOND, 0),
    ] {
        world.replay(&webhook, window(since, until)).await;
        let replay = world.until_over(&webhook).await;
        assert_eq!((&replay["total"], &replay["failed"]), (&json!(events), &json!(events)));
        assert_eq!((time(&replay["since"]), time(&replay["until"])), (since, until));
    }
    assert_eq!(receiver.seen().len(), 3);
    world.stop().await;
}

#[tokio::test]
async fn the_window_is_about_the_time_of_attempts_and_not_of_events() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[600.0])).await;
    let event = world.fail().await;
    let first = world.now();
    world.advance(Duration::from_secs(600));
    receiver.hold();
    receiver.until_seen(2).await;
    let second = world.now();
    world.advance(MILLISECOND * 700);
    receiver.let_go();
    world.until_tried(&event, 2).await;
    world.advance(HOUR);
    for (since, until, events) in [
        (first, first, 1),
        (second, second, 1),
        (first + MILLISECOND, second - MILLISECOND, 0),
        // It ended in this one, and had begun before.
        (second + MILLISECOND, second + HOUR, 0),
        (first, second, 1),
    ] {
        let window = window(since, until);
        assert_eq!(world.count_replay(&webhook, window.clone()).await, events, "{window}");
    }
    world.stop().await;
}

#[tokio::test]
async fn without_since_the_window_begins_exactly_24_hours_ago_and_without_until_it_ends_now() {
    let world = World::start().await;
    let (_receiver, webhook) = refusing(&world).await;
    world.fail().await;
    assert_eq!(world.count_replay(&webhook, json!({})).await, 1, "until now, inclusive");
    world.advance(DAY);
    assert_eq!(world.count_replay(&webhook, json!({})).await, 1, "since 24 hours ago, inclusive");
    world.replay(&webhook, json!({})).await;
    let replay = world.until_over(&webhook).await;
    assert_eq!((time(&replay["since"]), time(&replay["until"])), (world.now() - DAY, world.now()));
    assert_eq!((&replay["total"], time(&replay["requested_at"])), (&json!(1), world.now()));
    world.stop().await;
}

#[tokio::test]
async fn an_outage_of_24_hours_and_a_millisecond_ago_needs_an_explicit_start() {
    let world = World::start().await;
    let (_receiver, webhook) = refusing(&world).await;
    world.fail().await;
    world.advance(DAY + MILLISECOND);
    // No body, an empty one and nulls mean the same.
    for body in [Value::Null, json!({}), json!({"since": null, "until": null})] {
        assert_eq!(world.count_replay(&webhook, body).await, 0);
    }
    let since = (world.now() - DAY - MILLISECOND).to_string();
    assert_eq!(world.count_replay(&webhook, json!({"since": since})).await, 1);
    world.stop().await;
}

#[tokio::test]
async fn an_event_that_this_webhook_has_acknowledged_is_left_out() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[60.0])).await;
    let other = Receiver::start().await;
    other.answer(400);
    let elsewhere = world.subscribe(&other.url(), waits(&[])).await;
    let event = world.publish().await;
    receiver.until_seen(1).await;
    world
        .until(&format!("/v1/events/{event}"), |shown| {
            shown["deliveries"].as_array().unwrap().iter().all(|delivery| delivery["attempts_used"] == 1)
        })
        .await;
    assert_eq!(world.count_replay(&webhook, json!({})).await, 1);
    receiver.answer(200);
    world.advance(Duration::from_secs(60));
    world.until_state(&event, "delivered").await;
    assert_eq!(world.count_replay(&webhook, json!({})).await, 0);
    assert_eq!(world.count_replay(&elsewhere, json!({})).await, 1, "the other webhook has not");
    world.replay(&webhook, json!({})).await;
    assert_eq!(world.until_over(&webhook).await["total"], 0);
    assert_eq!(receiver.seen().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn events_that_were_never_attempted_are_not_covered() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world).await;
    world.set(&webhook, json!({"status": "paused"})).await;
    let skipped = world.publish().await;
    world.set(&webhook, json!({"status": "active", "max_in_flight": 1})).await;
    world.fail().await;
    receiver.answer(200);
    receiver.hold();
    let flying = world.publish().await;
    receiver.until_seen(2).await;
    let waiting = world.publish().await;
    assert_eq!(world.count_replay(&webhook, json!({})).await, 1, "neither has ended an attempt");
    world.replay(&webhook, json!({})).await;
    receiver.let_go();
    assert_eq!(world.until_over(&webhook).await["delivered"], 1);
    world.until_state(&flying, "delivered").await;
    world.until_state(&waiting, "delivered").await;
    assert_eq!(world.delivery(&skipped).await["state"], "skipped");
    assert_eq!(receiver.seen().len(), 4);
    world.stop().await;
}

#[tokio::test]
async fn a_since_of_more_than_three_days_ago_is_accepted_and_reaches_nothing_older() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world).await;
    let event = world.fail().await;
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    world.advance(3 * DAY - MILLISECOND);
    assert_eq!(world.count_replay(&webhook, since.clone()).await, 1);
    assert_eq!(world.log(&webhook).await.as_array().unwrap().len(), 1);
    world.advance(MILLISECOND);
    assert_eq!(world.count_replay(&webhook, since.clone()).await, 0);
    assert_eq!(world.log(&webhook).await, json!([]));
    world.replay(&webhook, since).await;
    assert_eq!(world.until_over(&webhook).await["total"], 0);
    // Its final state stays.
    assert_eq!(world.delivery(&event).await["state"], "failed");
    assert_eq!(receiver.seen().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_since_after_until_is_422_with_defaults_counted_in() {
    let world = World::start().await;
    let (_receiver, webhook) = refusing(&world).await;
    let (now, later) = (world.now(), world.now() + MILLISECOND);
    for body in [
        json!({"since": later.to_string()}),
        json!({"until": (now - DAY - MILLISECOND).to_string()}),
        window(later, now),
    ] {
        for below in ["replay", "replay?dry_run=true"] {
            let answer = world.ask(&webhook, below, body.clone()).await;
            assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{below} {body}");
            assert_eq!(answer.json["error"]["param"], "since");
        }
    }
    for body in
        [json!({"since": now.to_string()}), json!({"until": (now - DAY).to_string()}), window(later, later)]
    {
        world.replay(&webhook, body).await;
    }
    assert_eq!(world.replays(&webhook).await.len(), 3);
    world.stop().await;
}

#[tokio::test]
async fn the_list_is_fixed_when_the_call_is_answered() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world).await;
    world.fail().await;
    world.set(&webhook, json!({"max_in_flight": 1})).await;
    receiver.hold();
    let until = (world.now() + DAY).to_string();
    world.replay(&webhook, json!({"until": until})).await;
    receiver.until_seen(2).await;
    let later = world.publish().await;
    receiver.let_go();
    world.until_state(&later, "failed").await;
    let replay = world.until_over(&webhook).await;
    assert_eq!((&replay["total"], &replay["failed"]), (&json!(1), &json!(1)));
    assert_eq!(world.delivery(&later).await["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(world.count_replay(&webhook, json!({})).await, 2, "the next one takes both");
    world.stop().await;
}

#[tokio::test]
async fn a_replay_takes_the_oldest_10_000_of_those_that_were_not_acknowledged() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let mut settings = waits(&[]);
    settings["max_in_flight"] = json!(1000);
    let webhook = world.subscribe(&receiver.url(), settings).await;
    // These are the oldest failures, but they are acknowledged before the rest fails.
    world.publish_many(3).await;
    world.until_counted(&webhook, 3).await;
    receiver.answer(200);
    world.replay(&webhook, json!({})).await;
    assert_eq!(world.until_over(&webhook).await["delivered"], 3);
    receiver.answer(400);
    world.advance(MILLISECOND);
    for seen in (500..=10_000).step_by(500) {
        world.publish_many(500).await;
        receiver.until_seen(6 + seen).await;
    }
    world.until_counted(&webhook, 10_000).await;
    world.advance(MILLISECOND);
    let last = world.fail().await;
    assert_eq!(world.count_replay(&webhook, json!({})).await, 10_000, "of 10,001");

    receiver.answer(200);
    world.replay(&webhook, json!({})).await;
    for seen in (500..=10_000).step_by(500) {
        receiver.until_seen(6 + 10_001 + seen).await;
    }
    let replay = world.until_over(&webhook).await;
    assert_eq!((&replay["total"], &replay["delivered"]), (&json!(10_000), &json!(10_000)));
    assert_eq!((&replay["failed"], &replay["skipped"]), (&json!(0), &json!(0)));
    assert_eq!(world.count_replay(&webhook, json!({})).await, 1, "the next one takes the rest");
    assert_eq!(world.delivery(&last).await["state"], "failed");
    assert_eq!(receiver.seen().len(), 6 + 10_001 + 10_000);
    world.stop().await;
}
