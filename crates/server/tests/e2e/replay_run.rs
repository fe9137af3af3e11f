//! What a replay of a webhook does with the events it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::outbound::{column, path, waits};
use crate::harness::{World, id};
use crate::receiver::Receiver;

/// A receiver that refuses, and a webhook of it whose deliveries have an attempt for each wait and one before.
async fn refusing(world: &World, seconds: &[f64]) -> (Receiver, Value) {
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(seconds)).await;
    (receiver, webhook)
}

/// What of a delivery a replay that fails must not touch.
fn untouched(delivery: &Value) -> Vec<Value> {
    let fields = ["state", "reason", "attempts_used", "attempts_max", "next_attempt_at", "waiting_for"];
    fields.iter().map(|field| delivery[*field].clone()).collect()
}

/// Counters of a replay: delivered, failed, skipped.
fn counts(replay: &Value) -> [u64; 3] {
    ["delivered", "failed", "skipped"].map(|name| replay[name].as_u64().unwrap())
}

#[tokio::test]
async fn each_event_gets_one_attempt_whatever_its_result_under_the_same_webhook_id() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[]).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(world.fail().await);
    }
    world.advance(Duration::from_secs(3600));
    world.replay(&webhook, json!({})).await;
    let replay = world.until_over(&webhook).await;
    assert_eq!((&replay["state"], counts(&replay)), (&json!("done"), [0, 3, 0]));
    receiver.answer(200);
    world.replay(&webhook, json!({})).await;
    assert_eq!(counts(&world.until_over(&webhook).await), [3, 0, 0]);
    world.advance(Duration::from_secs(365 * 24 * 3600));
    let seen = receiver.seen();
    assert_eq!(seen.len(), 9);
    for event in &events {
        let same: Vec<_> = seen.iter().filter(|seen| seen.header("webhook-id") == event).collect();
        assert_eq!(same.len(), 3, "{event}");
        assert!(same.iter().all(|seen| seen.body == same[0].body), "identical bytes");
    }
    world.stop().await;
}

#[tokio::test]
async fn its_attempts_belong_to_the_events_delivery_and_are_logged() {
    let world = World::start().await;
    let (_receiver, webhook) = refusing(&world, &[]).await;
    let event = world.fail().await;
    world.advance(Duration::from_secs(60));
    world.replay(&webhook, json!({})).await;
    world.until_over(&webhook).await;
    let delivery = world.delivery(&event).await;
    let attempts = &delivery["attempts"];
    assert_eq!(column(attempts, "number"), [1, 2]);
    assert_eq!(column(attempts, "trigger"), ["automatic", "replay"]);
    assert_eq!(column(attempts, "result"), ["failed", "failed"]);
    assert_eq!(column(attempts, "uses_budget"), [true, false]);
    let log = world.log(&webhook).await;
    assert_eq!(column(&log, "trigger"), ["replay", "automatic"]);
    assert_eq!(column(&log, "id"), column(attempts, "id").into_iter().rev().collect::<Vec<_>>());
    assert_eq!(column(&log, "event_id"), [&json!(event); 2]);
    let shown = world.get(&format!("/v1/events/{event}")).await;
    assert_eq!(shown["deliveries"].as_array().unwrap().len(), 1, "it is no delivery of its own");
    world.stop().await;
}

#[tokio::test]
async fn a_failed_replay_changes_neither_state_nor_due_time_nor_budget_and_the_schedule_goes_on() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[600.0, 600.0]).await;
    let event = world.fail().await;
    let before = world.delivery(&event).await;
    world.advance(Duration::from_secs(599));
    for _ in 0..5 {
        world.replay(&webhook, json!({})).await;
        assert_eq!(counts(&world.until_over(&webhook).await), [0, 1, 0]);
    }
    let after = world.delivery(&event).await;
    assert_eq!(untouched(&after), untouched(&before));
    assert_eq!(after["attempts"].as_array().unwrap().len(), 6);
    world.advance(Duration::from_secs(1));
    let retried = world.until_tried(&event, 7).await;
    assert_eq!(
        (&retried["attempts_used"], &retried["attempts"][6]["trigger"]),
        (&json!(2), &json!("automatic"))
    );
    receiver.answer(200);
    world.advance(Duration::from_secs(600));
    let delivered = world.until_state(&event, "delivered").await;
    assert_eq!((&delivered["attempts_used"], receiver.seen().len()), (&json!(3), 8));
    world.stop().await;
}

#[tokio::test]
async fn a_delivered_replay_delivers_uses_no_budget_and_drops_the_planned_attempt() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[600.0]).await;
    let event = world.fail().await;
    receiver.answer(200);
    world.replay(&webhook, json!({})).await;
    let delivery = world.until_state(&event, "delivered").await;
    assert_eq!((&delivery["attempts_used"], &delivery["next_attempt_at"]), (&json!(1), &Value::Null));
    assert_eq!((&delivery["reason"], &delivery["attempts"][1]["uses_budget"]), (&Value::Null, &json!(false)));
    world.advance(Duration::from_secs(24 * 3600));
    let world = world.restart().await;
    world.advance(Duration::from_secs(24 * 3600));
    assert_eq!(receiver.seen().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn while_another_attempt_of_the_delivery_is_in_flight_it_waits_and_skips_if_that_one_delivered() {
    for (answer, expected, made) in [(200, [0, 0, 1], 2), (400, [0, 1, 0], 3)] {
        let world = World::start().await;
        let (receiver, webhook) = refusing(&world, &[60.0, 600.0]).await;
        let event = world.fail().await;
        receiver.hold();
        world.advance(Duration::from_secs(60));
        receiver.until_seen(2).await;
        world.replay(&webhook, json!({})).await;
        let delivery = world.delivery(&event).await;
        assert_eq!(
            (delivery["attempts"].as_array().unwrap().len(), &delivery["state"]),
            (2, &json!("sending"))
        );
        assert_eq!(world.replays(&webhook).await[0]["state"], "running");
        assert_eq!(receiver.seen().len(), 2);
        receiver.answer(answer);
        receiver.let_go();
        let replay = world.until_over(&webhook).await;
        assert_eq!((counts(&replay), &replay["total"]), (expected, &json!(1)));
        let delivery = world.until_tried(&event, made).await;
        assert_eq!(delivery["state"], if answer == 200 { "delivered" } else { "pending" });
        assert_eq!(receiver.seen().len(), made);
        world.stop().await;
    }
}

#[tokio::test]
async fn acknowledgement_is_checked_again_before_each_attempt() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[]).await;
    for _ in 0..3 {
        world.fail().await;
    }
    receiver.answer(200);
    receiver.hold();
    // Both lists hold all three events; the first replay delivers them.
    world.replay(&webhook, json!({})).await;
    world.replay(&webhook, json!({})).await;
    receiver.until_seen(6).await;
    receiver.let_go();
    world.until_over(&webhook).await;
    let replays = world.replays(&webhook).await;
    assert_eq!(column(&json!(replays), "total"), [3, 3]);
    assert_eq!((counts(&replays[0]), counts(&replays[1])), ([3, 0, 0], [0, 0, 3]));
    assert_eq!(receiver.seen().len(), 6);
    world.stop().await;
}

#[tokio::test]
async fn replays_of_one_webhook_run_one_after_another_and_those_of_others_do_not_wait_for_them() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[]).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push((world.fail().await, world.now().to_string()));
        world.advance(Duration::from_secs(1));
    }
    let (elsewhere, other) = refusing(&world, &[]).await;
    world.publish().await;
    world.until_counted(&webhook, 4).await;
    world.until_counted(&other, 1).await;

    receiver.hold();
    for (_, at) in &events {
        world.replay(&webhook, json!({"since": at, "until": at})).await;
    }
    receiver.until_seen(5).await;
    elsewhere.answer(200);
    world.replay(&other, json!({})).await;
    assert_eq!(counts(&world.until_over(&other).await), [1, 0, 0]);
    assert_eq!(column(&json!(world.replays(&webhook).await), "state"), ["running", "queued", "queued"]);
    assert_eq!(receiver.seen().len(), 5, "the second does not begin before the first has ended");
    receiver.let_go();
    world.until_over(&webhook).await;
    let replays = world.replays(&webhook).await;
    assert!(replays.iter().all(|it| it["state"] == "done" && counts(it) == [0, 1, 0]), "{replays:?}");
    let sent: Vec<_> = receiver.seen()[4..].iter().map(|seen| seen.header("webhook-id").to_owned()).collect();
    assert_eq!(sent, events.into_iter().map(|(event, _)| event).collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test]
async fn the_schedule_and_new_events_go_on_while_a_replay_runs() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[60.0]).await;
    let failed = world.fail().await;
    receiver.hold();
    world.replay(&webhook, json!({})).await;
    receiver.until_seen(2).await;
    let fresh = world.publish().await;
    receiver.until_seen(3).await;
    world.advance(Duration::from_secs(60));
    receiver.let_go();
    assert_eq!(counts(&world.until_over(&webhook).await), [0, 1, 0]);
    // The planned attempt came due while the replay was in flight, and follows it.
    let delivery = world.until_tried(&failed, 3).await;
    assert_eq!(column(&delivery["attempts"], "trigger"), ["automatic", "replay", "automatic"]);
    assert_eq!(delivery["attempts_used"], 2);
    world.until_tried(&fresh, 1).await;
    world.stop().await;
}

/// Forty events that failed, and a webhook that may begin ten attempts a second.
async fn forty(world: &World) -> (Receiver, Value) {
    let (receiver, webhook) = refusing(world, &[]).await;
    for event in world.publish_many(40).await {
        world.until_state(&event, "failed").await;
    }
    world.advance(Duration::from_secs(60));
    world.set(&webhook, json!({"rate_per_second": 10})).await;
    (receiver, webhook)
}

#[tokio::test]
async fn a_restart_in_the_middle_neither_skips_nor_doubles() {
    let mut world = World::start().await;
    let (receiver, webhook) = forty(&world).await;
    receiver.answer(200);
    world.replay(&webhook, json!({})).await;
    let mut seen = 40;
    while seen < 80 {
        receiver.until_seen(seen + 1).await;
        world.until_attempted(&webhook, seen + 1).await;
        seen += 1;
        assert_eq!(receiver.seen().len(), seen, "the rate holds the next one back");
        if seen.is_multiple_of(7) {
            world = world.restart().await;
        }
        world.advance(Duration::from_millis(100));
    }
    let replay = world.until_over(&webhook).await;
    assert_eq!((&replay["state"], counts(&replay)), (&json!("done"), [40, 0, 0]));
    let mut times = BTreeMap::new();
    for seen in receiver.seen() {
        *times.entry(seen.header("webhook-id").to_owned()).or_insert(0) += 1;
    }
    assert_eq!((times.len(), times.values().all(|times| *times == 2)), (40, true), "{times:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_stop_waits_for_a_replays_attempts_on_the_wire_and_they_are_not_made_again() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[]).await;
    for _ in 0..5 {
        world.fail().await;
    }
    world.set(&webhook, json!({"max_in_flight": 2})).await;
    receiver.answer(200);
    receiver.hold();
    world.replay(&webhook, json!({})).await;
    receiver.until_seen(7).await;
    let (world, ()) = tokio::join!(world.restart(), async { receiver.let_go() });
    let replay = world.until_over(&webhook).await;
    assert_eq!((&replay["state"], counts(&replay)), (&json!("done"), [5, 0, 0]));
    assert_eq!(receiver.seen().len(), 10);
    world.stop().await;
}

#[tokio::test]
async fn pausing_and_deleting_end_a_replay_and_those_behind_it() {
    for delete in [false, true] {
        let world = World::start().await;
        let (receiver, webhook) = forty(&world).await;
        receiver.answer(200);
        receiver.hold();
        world.replay(&webhook, json!({})).await;
        world.replay(&webhook, json!({})).await;
        receiver.until_seen(41).await;
        if delete {
            world.delete(&path(&webhook)).await;
        } else {
            world.set(&webhook, json!({"status": "paused"})).await;
        }
        receiver.let_go();
        world.advance(Duration::from_secs(3600));
        let world = world.restart().await;
        world.advance(Duration::from_secs(3600));
        if delete {
            let answer = world.call(Method::GET, &format!("{}/replays", path(&webhook)), Value::Null).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND);
        } else {
            let replays = world.replays(&webhook).await;
            assert_eq!(column(&json!(replays), "state"), ["ended", "ended"]);
            world.set(&webhook, json!({"status": "active"})).await;
            world.advance(Duration::from_secs(3600));
            world.until_state(&world.publish().await, "delivered").await;
        }
        let replays = receiver.seen().len() - 40 - usize::from(!delete);
        assert_eq!(replays, 1, "only what was in flight");
        world.stop().await;
    }
}

#[tokio::test]
async fn on_a_webhook_that_is_paused_a_replay_is_accepted_and_delivers_nothing() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[]).await;
    world.fail().await;
    world.set(&webhook, json!({"status": "paused"})).await;
    receiver.answer(200);
    world.replay(&webhook, json!({})).await;
    let replay = world.until_over(&webhook).await;
    assert_eq!(
        (&replay["state"], &replay["total"], counts(&replay)),
        (&json!("ended"), &json!(0), [0, 0, 0])
    );
    world.set(&webhook, json!({"status": "active"})).await;
    world.advance(Duration::from_secs(60));
    world.until_state(&world.publish().await, "delivered").await;
    assert_eq!(receiver.seen().len(), 2, "nor does it begin later");
    // Once it is active a replay reaches what failed before the pause.
    world.replay(&webhook, json!({})).await;
    assert_eq!(counts(&world.until_over(&webhook).await), [1, 0, 0]);
    world.stop().await;
}

#[tokio::test]
async fn replays_are_listed_with_what_they_came_to() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[]).await;
    world.fail().await;
    receiver.answer(200);
    world.replay(&webhook, json!({"since": "2026-03-02T00:00:00Z"})).await;
    let replay = world.until_over(&webhook).await;
    assert!(id(&replay).starts_with("rpl_"));
    assert_eq!(
        replay,
        json!({"object": "replay", "id": replay["id"], "kind": "replay", "since": "2026-03-02T00:00:00.000Z",
            "until": "2026-03-02T12:00:00.000Z", "requested_at": "2026-03-02T12:00:00.000Z", "state": "done",
            "total": 1, "delivered": 1, "failed": 0, "skipped": 0})
    );
    world.stop().await;
}

#[tokio::test]
async fn a_dry_run_counts_and_does_nothing() {
    let world = World::start().await;
    let (receiver, webhook) = refusing(&world, &[]).await;
    for _ in 0..3 {
        world.fail().await;
    }
    let answer = world.ask(&webhook, "replay?dry_run=true", json!({})).await;
    assert_eq!((answer.status, answer.json), (StatusCode::OK, json!({"events": 3})));
    assert_eq!(world.ask(&webhook, "replay?dry_run=false", json!({})).await.status, StatusCode::ACCEPTED);
    world.until_over(&webhook).await;
    assert_eq!((world.replays(&webhook).await.len(), receiver.seen().len()), (1, 6));
    world.stop().await;
}
