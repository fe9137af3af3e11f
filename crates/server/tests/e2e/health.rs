//! A webhook's health: failing runs, degraded, paused, and what clears them.

use std::time::Duration;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::outbound::{column, ended, path, waits};
use crate::harness::{World, id, time};
use crate::receiver::Receiver;

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// How long a run is when a failure pauses.
const PAUSING: Duration = Duration::from_secs(120 * 3600);

/// A webhook with one attempt for each event, and its receiver, which refuses.
async fn failing(world: &World) -> (Receiver, Value) {
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[])).await;
    (receiver, webhook)
}

/// Five failures over exactly five minutes.
async fn degrade(world: &World) {
    for wait in [Duration::ZERO, MINUTE, MINUTE, MINUTE, 2 * MINUTE] {
        world.advance(wait);
        world.fail().await;
    }
}

/// `status`, `consecutive_failures` and `failing_since`.
async fn standing(world: &World, webhook: &Value) -> (String, u64, Value) {
    let shown = world.shown(webhook).await;
    let status = shown["status"].as_str().unwrap().to_owned();
    (status, shown["consecutive_failures"].as_u64().unwrap(), shown["failing_since"].clone())
}

async fn status(world: &World, webhook: &Value) -> String {
    standing(world, webhook).await.0
}

/// What a webhook shows that has not failed since it was made or cleared.
fn clean(status: &str) -> (String, u64, Value) {
    (status.to_owned(), 0, Value::Null)
}

#[tokio::test]
async fn a_run_begins_with_the_end_of_the_first_failed_attempt_since_creation_or_the_last_clearing() {
    let world = World::start().await;
    let (receiver, webhook) = failing(&world).await;
    assert_eq!(standing(&world, &webhook).await, clean("active"));
    for turn in 0..2 {
        receiver.hold();
        let event = world.publish().await;
        receiver.until_seen(3 * turn + 1).await;
        world.advance(Duration::from_millis(700));
        receiver.answer(400);
        receiver.let_go();
        let first = world.until_state(&event, "failed").await;
        world.advance(MINUTE);
        world.fail().await;
        let (_, failures, since) = standing(&world, &webhook).await;
        assert_eq!((failures, time(&since)), (2, ended(&first["attempts"][0])));
        assert_eq!(first["attempts"][0]["duration_ms"], 700);
        let pauses_at = time(&world.shown(&webhook).await["pauses_at"]);
        assert_eq!(pauses_at.since(time(&since)), PAUSING);
        receiver.answer(200);
        let delivered = world.publish().await;
        world.until_state(&delivered, "delivered").await;
        assert_eq!(standing(&world, &webhook).await, clean("active"));
        assert_eq!(world.shown(&webhook).await["pauses_at"], Value::Null);
    }
    world.stop().await;
}

#[tokio::test]
async fn the_fifth_failure_degrades_at_exactly_five_minutes_and_not_a_millisecond_before() {
    for (early, expected) in [(Duration::ZERO, "degraded"), (MILLISECOND, "active")] {
        let world = World::start().await;
        let (_receiver, webhook) = failing(&world).await;
        for _ in 0..4 {
            world.fail().await;
        }
        world.advance(5 * MINUTE - early);
        assert_eq!(status(&world, &webhook).await, "active");
        world.fail().await;
        assert_eq!(status(&world, &webhook).await, expected);
        world.advance(early);
        world.fail().await;
        assert_eq!(status(&world, &webhook).await, "degraded", "the sixth comes late enough");
        assert_eq!(world.notices().await, ["webhook_degraded"]);
        world.stop().await;
    }
}

#[tokio::test]
async fn four_failures_do_not_degrade_however_long_they_last_nor_do_many_at_once() {
    let world = World::start().await;
    let (receiver, webhook) = failing(&world).await;
    for _ in 0..3 {
        world.fail().await;
    }
    world.advance(121 * HOUR);
    world.fail().await;
    assert_eq!(standing(&world, &webhook).await.1, 4);
    assert_eq!(status(&world, &webhook).await, "active");
    receiver.answer(200);
    world.until_state(&world.publish().await, "delivered").await;
    receiver.answer(400);
    for event in world.publish_many(20).await {
        world.until_state(&event, "failed").await;
    }
    assert_eq!(
        (status(&world, &webhook).await, standing(&world, &webhook).await.1),
        ("active".to_owned(), 20)
    );
    assert_eq!(world.notices().await, [""; 0]);
    world.stop().await;
}

#[tokio::test]
async fn the_thresholds_are_settings() {
    let world = World::start_with(|config| {
        config.degraded_after_failures = 2;
        config.degraded_after_seconds = 10;
        config.paused_after_seconds = 30;
    })
    .await;
    let (_receiver, webhook) = failing(&world).await;
    let mut seen = Vec::new();
    for wait_ms in [0, 9_999, 1, 19_999, 1] {
        world.advance(Duration::from_millis(wait_ms));
        world.fail().await;
        seen.push(status(&world, &webhook).await);
    }
    assert_eq!(seen, ["active", "active", "degraded", "degraded", "paused"]);
    world.stop().await;
}

#[tokio::test]
async fn a_degraded_webhook_still_receives_everything() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[75.0, 75.0, 75.0, 75.0, 60.0])).await;
    let event = world.publish().await;
    for attempt in 1..=4 {
        world.until_tried(&event, attempt).await;
        world.advance(Duration::from_secs(75));
    }
    world.until_tried(&event, 5).await;
    assert_eq!(status(&world, &webhook).await, "degraded");
    let other = world.fail().await;
    world.advance(MINUTE);
    let retried = world.until_tried(&event, 6).await;
    assert_eq!((&retried["state"], &retried["reason"]), (&json!("failed"), &json!("exhausted")));
    world.advance(Duration::from_secs(15));
    world.until_tried(&other, 2).await;
    assert_eq!(receiver.seen().len(), 8);
    world.stop().await;
}

#[tokio::test]
async fn the_owners_are_told_once_an_episode_and_again_only_after_a_recovery() {
    let world = World::start().await;
    let (receiver, webhook) = failing(&world).await;
    degrade(&world).await;
    for _ in 0..10 {
        world.advance(HOUR);
        world.fail().await;
    }
    assert_eq!(world.notices().await, ["webhook_degraded"]);
    receiver.answer(200);
    world.until_state(&world.publish().await, "delivered").await;
    receiver.answer(400);
    world.fail().await;
    assert_eq!(world.notices().await, ["webhook_degraded"], "a failure is no episode yet");
    degrade(&world).await;
    world.fail().await;
    assert_eq!(world.notices().await, ["webhook_degraded"; 2]);
    let page = world.get("/v1/notices").await;
    let notice = &page["data"][0];
    assert_eq!(
        *notice,
        json!({"object": "notice", "id": notice["id"], "kind": "webhook_degraded", "webhook_id": webhook["id"],
            "created_at": notice["created_at"], "mailed_at": null})
    );
    assert!(id(notice).starts_with("ntc_"));
    world.stop().await;
}

#[tokio::test]
async fn a_failure_pauses_exactly_120_hours_after_the_run_began_and_not_a_millisecond_before() {
    let world = World::start().await;
    let (_receiver, webhook) = failing(&world).await;
    degrade(&world).await;
    world.advance(PAUSING - 5 * MINUTE - MILLISECOND);
    world.fail().await;
    assert_eq!(status(&world, &webhook).await, "degraded");
    world.advance(MILLISECOND);
    let shown = world.shown(&webhook).await;
    assert_eq!((&shown["status"], time(&shown["pauses_at"])), (&json!("degraded"), world.now()));
    let last = world.fail().await;
    let shown = world.shown(&webhook).await;
    assert_eq!((&shown["status"], &shown["pauses_at"]), (&json!("paused"), &Value::Null));
    assert_eq!(world.delivery(&last).await["reason"], "exhausted", "its own attempts were used up as well");
    assert_eq!(world.notices().await, ["webhook_degraded", "webhook_paused"]);
    world.stop().await;
}

#[tokio::test]
async fn one_settlement_that_degrades_and_pauses_tells_both_in_that_order() {
    let world = World::start().await;
    let (_receiver, webhook) = failing(&world).await;
    for _ in 0..4 {
        world.fail().await;
    }
    world.advance(PAUSING);
    assert_eq!(world.notices().await, [""; 0]);
    world.fail().await;
    assert_eq!(status(&world, &webhook).await, "paused");
    assert_eq!(world.notices().await, ["webhook_degraded", "webhook_paused"]);
    let page = world.get("/v1/notices").await;
    assert_eq!(column(&page["data"], "webhook_id"), [&webhook["id"]; 2]);
    world.stop().await;
}

#[tokio::test]
async fn time_alone_changes_nothing() {
    let world = World::start().await;
    let (_receiver, webhook) = failing(&world).await;
    degrade(&world).await;
    let before = standing(&world, &webhook).await;
    world.advance(1000 * HOUR);
    assert_eq!(standing(&world, &webhook).await, before);
    let world = world.restart().await;
    world.advance(1000 * HOUR);
    assert_eq!(standing(&world, &webhook).await, before);
    assert_eq!(world.notices().await, ["webhook_degraded"]);
    world.fail().await;
    assert_eq!(status(&world, &webhook).await, "paused");
    world.stop().await;
}

/// Waits for four deliveries: one that waits for its second attempt, two in flight, one that waits for a slot.
async fn four_kinds(world: &World, receiver: &Receiver) -> [String; 4] {
    let seen = receiver.seen().len();
    let tried = world.fail().await;
    receiver.hold();
    let (one, other) = (world.publish().await, world.publish().await);
    receiver.until_seen(seen + 3).await;
    let waiting = world.publish().await;
    let delivery = world.delivery(&waiting).await;
    assert_eq!((&delivery["attempts_used"], receiver.seen().len()), (&json!(0), seen + 3));
    [tried, one, other, waiting]
}

#[tokio::test]
async fn pausing_by_hand_ends_what_is_pending_and_what_is_in_flight_ends_with_its_attempt() {
    for (answer, expected, run) in
        [(400, ("failed", json!("endpoint_paused")), 1), (200, ("delivered", Value::Null), 0)]
    {
        let world = World::start().await;
        let receiver = Receiver::start().await;
        receiver.answer(400);
        let mut settings = waits(&[600.0, 600.0]);
        settings["max_in_flight"] = json!(2);
        let webhook = world.subscribe(&receiver.url(), settings).await;
        let [tried, one, other, waiting] = four_kinds(&world, &receiver).await;
        assert_eq!(world.set(&webhook, json!({"status": "paused"})).await["status"], "paused");

        let ended = world.delivery(&tried).await;
        assert_eq!((&ended["state"], &ended["reason"]), (&json!("failed"), &json!("endpoint_paused")));
        assert_eq!((&ended["next_attempt_at"], time(&ended["ended_at"])), (&Value::Null, world.now()));
        let skipped = world.until_state(&waiting, "skipped").await;
        assert_eq!((&skipped["attempts"], &skipped["attempts_used"]), (&json!([]), &json!(0)));
        assert_eq!(skipped["reason"], Value::Null);
        for event in [&one, &other] {
            let flying = world.delivery(event).await;
            assert_eq!((&flying["state"], &flying["cancel_requested"]), (&json!("sending"), &json!(false)));
        }
        receiver.answer(answer);
        receiver.let_go();
        for event in [&one, &other] {
            let ended = world.until_tried(event, 1).await;
            assert_eq!((&ended["state"], &ended["reason"]), (&json!(expected.0), &expected.1));
        }
        let (status, failures, _) = standing(&world, &webhook).await;
        assert_eq!((status.as_str(), failures), ("paused", run), "a 2xx ends the run, the pause stays");
        world.advance(1000 * HOUR);
        assert_eq!(receiver.seen().len(), 3);
        assert_eq!(world.notices().await, [""; 0]);
        world.stop().await;
    }
}

#[tokio::test]
async fn an_automatic_pause_ends_what_is_pending_just_so() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let mut settings = waits(&[604_800.0]);
    settings["rate_per_second"] = json!(1);
    let webhook = world.subscribe(&receiver.url(), settings).await;
    degrade(&world).await;
    world.advance(PAUSING - 5 * MINUTE - Duration::from_millis(4500));
    let tried = world.fail().await;
    receiver.hold();
    let mut flying = Vec::new();
    for seen in [7, 8] {
        world.advance(Duration::from_secs(2));
        flying.push(world.publish().await);
        receiver.until_seen(seen).await;
    }
    // The next attempt may begin half a second after the time that pauses.
    let waiting = world.publish().await;
    world.advance(Duration::from_millis(500));
    assert_eq!(status(&world, &webhook).await, "degraded");
    receiver.let_go();
    for event in flying.iter().chain([&tried]) {
        let delivery = world.until_state(event, "failed").await;
        assert_eq!((&delivery["reason"], &delivery["attempts_used"]), (&json!("endpoint_paused"), &json!(1)));
    }
    assert_eq!(world.until_state(&waiting, "skipped").await["attempts"], json!([]));
    assert_eq!(status(&world, &webhook).await, "paused");
    assert_eq!(world.notices().await, ["webhook_degraded", "webhook_paused"], "one pause, one mail");
    world.advance(1000 * HOUR);
    assert_eq!(receiver.seen().len(), 8);
    world.stop().await;
}

#[tokio::test]
async fn events_that_come_to_a_paused_webhook_are_skipped_and_it_never_resumes_by_itself() {
    let mut world = World::start().await;
    let (receiver, webhook) = failing(&world).await;
    receiver.answer(200);
    world.set(&webhook, json!({"status": "paused"})).await;
    for _ in 0..3 {
        let answer = world.post("/v1/events", json!({"type": "order.paid", "data": 1})).await;
        assert_eq!(answer["deliveries"], 1, "it is recorded");
        let delivery = world.delivery(&id(&answer)).await;
        assert_eq!((&delivery["state"], &delivery["attempts"]), (&json!("skipped"), &json!([])));
        world.advance(1000 * HOUR);
        world = world.restart().await;
        assert_eq!(status(&world, &webhook).await, "paused");
    }
    assert_eq!(receiver.seen().len(), 0);
    world.set(&webhook, json!({"status": "active"})).await;
    world.until_state(&world.publish().await, "delivered").await;
    assert_eq!(receiver.seen().len(), 1, "what was skipped stays skipped");
    world.stop().await;
}

#[tokio::test]
async fn a_delivered_attempt_a_delivered_replay_another_url_and_a_delivered_test_clear() {
    for clearing in ["automatic", "replay", "replay of one", "url", "test"] {
        let world = World::start().await;
        let (receiver, webhook) = failing(&world).await;
        degrade(&world).await;
        assert_eq!(status(&world, &webhook).await, "degraded");
        let other = Receiver::start().await;
        if clearing != "url" {
            receiver.answer(200);
        }
        match clearing {
            "automatic" => _ = world.until_state(&world.publish().await, "delivered").await,
            "replay" => {
                world.replay(&webhook, json!({})).await;
                world.until_over(&webhook).await;
            }
            "replay of one" => {
                let delivery = world.get("/v1/deliveries?limit=1").await["data"][0].clone();
                world.ask(&webhook, &format!("deliveries/{}/replay", id(&delivery)), Value::Null).await;
                world.until_over(&webhook).await;
            }
            "url" => _ = world.set(&webhook, json!({"url": other.url()})).await,
            _ => assert_eq!(world.ask(&webhook, "test", json!({})).await.json["status"], "delivered"),
        }
        assert_eq!(standing(&world, &webhook).await, clean("active"), "{clearing}");
        // What fails then begins a run of its own.
        for receiver in [&receiver, &other] {
            receiver.answer(400);
        }
        let failed = world.fail().await;
        let (status, failures, since) = standing(&world, &webhook).await;
        assert_eq!((status.as_str(), failures), ("active", 1), "{clearing}");
        assert_eq!(time(&since), ended(&world.delivery(&failed).await["attempts"][0]));
        world.stop().await;
    }
}

#[tokio::test]
async fn neither_description_nor_events_nor_a_failed_test_or_replay_nor_writing_active_clear() {
    let world = World::start().await;
    let (receiver, webhook) = failing(&world).await;
    degrade(&world).await;
    let before = standing(&world, &webhook).await;
    world.advance(PAUSING);
    for change in [
        json!({"description": "new"}),
        json!({"events": ["order.paid", "user.*"]}),
        json!({"status": "active"}),
        json!({"headers": {"X-A": "1"}, "timeout_seconds": 20}),
        json!({"url": webhook["url"]}),
    ] {
        world.set(&webhook, change.clone()).await;
        assert_eq!(standing(&world, &webhook).await, before, "{change}");
    }
    assert_eq!(world.ask(&webhook, "test", json!({})).await.json["status"], "failed");
    assert_eq!(standing(&world, &webhook).await, before, "a test is not counted either");
    let seen = receiver.seen().len();
    world.replay(&webhook, json!({"since": "2026-03-01T00:00:00Z"})).await;
    let replay = world.until_over(&webhook).await;
    assert_eq!((&replay["failed"], &replay["total"]), (&json!(0), &json!(0)), "three days have passed");
    world.fail().await;
    assert_eq!(status(&world, &webhook).await, "paused");
    assert_eq!(receiver.seen().len(), seen + 1);
    world.stop().await;
}

#[tokio::test]
async fn failed_replays_are_not_counted_however_late_they_come() {
    let world = World::start().await;
    let (receiver, webhook) = failing(&world).await;
    degrade(&world).await;
    world.advance(PAUSING - 5 * MINUTE - HOUR);
    world.fail().await;
    let before = standing(&world, &webhook).await;
    world.advance(2 * HOUR);
    world.replay(&webhook, json!({})).await;
    let replay = world.until_over(&webhook).await;
    assert_eq!((&replay["failed"], &replay["state"]), (&json!(1), &json!("done")));
    assert_eq!(receiver.seen().len(), 7);
    assert_eq!(standing(&world, &webhook).await, before, "an automatic failure would have paused it");
    world.stop().await;
}

#[tokio::test]
async fn a_paused_webhook_with_another_url_stays_paused() {
    let world = World::start().await;
    let (receiver, webhook) = failing(&world).await;
    degrade(&world).await;
    world.set(&webhook, json!({"status": "paused"})).await;
    let other = Receiver::start().await;
    let changed = world.set(&webhook, json!({"url": other.url()})).await;
    assert_eq!((&changed["status"], &changed["failing_since"]), (&json!("paused"), &Value::Null));
    let skipped = world.publish().await;
    assert_eq!(world.delivery(&skipped).await["state"], "skipped");
    assert_eq!((receiver.seen().len(), other.seen().len()), (5, 0));
    world.stop().await;
}

#[tokio::test]
async fn only_active_and_paused_can_be_written() {
    let world = World::start().await;
    let (_receiver, webhook) = failing(&world).await;
    for status in [json!("degraded"), json!("disabled"), json!(""), json!(true), Value::Null] {
        let answer = world.call(Method::PATCH, &path(&webhook), json!({"status": status})).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
        assert_eq!(answer.json["error"]["param"], "status", "{status}");
    }
    for status in ["paused", "paused", "active", "active"] {
        assert_eq!(world.set(&webhook, json!({"status": status})).await["status"], status);
    }
    world.stop().await;
}

#[tokio::test]
async fn active_on_a_paused_webhook_starts_without_a_run_whoever_paused_it() {
    for automatic in [true, false] {
        let world = World::start().await;
        let (receiver, webhook) = failing(&world).await;
        degrade(&world).await;
        if automatic {
            world.advance(PAUSING);
            world.fail().await;
        } else {
            world.set(&webhook, json!({"status": "paused"})).await;
        }
        assert_eq!(status(&world, &webhook).await, "paused");
        let seen = receiver.seen().len();
        world.set(&webhook, json!({"status": "active"})).await;
        assert_eq!(standing(&world, &webhook).await, clean("active"));
        world.advance(PAUSING);
        world.fail().await;
        assert_eq!(
            (status(&world, &webhook).await, standing(&world, &webhook).await.1),
            ("active".into(), 1)
        );
        assert_eq!(receiver.seen().len(), seen + 1, "what was ended by the pause stays ended");
        world.stop().await;
    }
}
