//! Publishing: who gets what, keys, how long events are kept, and deliveries of webhooks.

use std::time::Duration;

use futures_util::future::join_all;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::outbound::{column, ended, path, waits};
use crate::harness::{World, id, time};
use crate::receiver::Receiver;

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn an_event_goes_to_the_webhooks_that_are_subscribed_to_its_type() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let filters = [
        ("exact", json!(["order.paid"])),
        ("below", json!(["order.*"])),
        ("deeper", json!(["order.paid.*"])),
        ("all", json!(["*"])),
        ("twice", json!(["order.*", "*", "order.paid"])),
        ("other", json!(["user.made", "orders.*"])),
    ];
    for (name, events) in &filters {
        let url = format!("http://{}/{name}", receiver.address);
        world.subscribe(&url, json!({"events": events})).await;
    }
    for (event_type, expected) in [
        ("order.paid", vec!["/all", "/below", "/exact", "/twice"]),
        ("order.paid.late", vec!["/all", "/below", "/deeper", "/twice"]),
        ("order_x.paid", vec!["/all", "/twice"]),
        ("user.made", vec!["/all", "/other", "/twice"]),
        ("orders.made", vec!["/all", "/other", "/twice"]),
    ] {
        let before = receiver.seen().len();
        let answer = world.post("/v1/events", json!({"type": event_type, "data": {}})).await;
        assert_eq!(answer["deliveries"], expected.len(), "{event_type}");
        world
            .until(&format!("/v1/events/{}", id(&answer)), |shown| {
                column(&shown["deliveries"], "state").iter().all(|state| *state == "delivered")
            })
            .await;
        let mut targets: Vec<String> =
            receiver.seen()[before..].iter().map(|seen| seen.target.clone()).collect();
        targets.sort();
        assert_eq!(targets, expected, "{event_type}: one delivery each");
    }
    world.stop().await;
}

#[tokio::test]
async fn webhooks_do_not_wait_for_each_other() {
    let world = World::start().await;
    let (hanging, failing, good) =
        (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    hanging.hold();
    failing.answer(503);
    for receiver in [&hanging, &failing, &good] {
        world.subscribe(&receiver.url(), json!({})).await;
    }
    let events = world.publish_many(200).await;
    let url = world.url("/metrics");
    let metrics = String::from_utf8(world.send(Method::GET, &url, &[], "").await.bytes.to_vec()).unwrap();
    assert!(metrics.contains("\nrestante_events_published_total 200\n"), "{metrics}");
    good.until_seen(200).await;
    failing.until_seen(200).await;
    hanging.let_go();
    for event in [&events[0], &events[199]] {
        world
            .until(&format!("/v1/events/{event}"), |shown| {
                let states = column(&shown["deliveries"], "state");
                states == ["delivered", "pending", "delivered"]
            })
            .await;
    }
    world.stop().await;
}

#[tokio::test]
async fn changed_subscriptions_count_from_the_next_event() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), json!({"events": ["user.*"]})).await;
    let publish = async || {
        let answer = world.post("/v1/events", json!({"type": "order.paid", "data": 1})).await;
        answer["deliveries"].as_u64().unwrap()
    };
    assert_eq!(publish().await, 0);
    world.set(&webhook, json!({"events": ["order.paid"]})).await;
    assert_eq!(publish().await, 1);
    world.set(&webhook, json!({"events": ["user.*"]})).await;
    assert_eq!(publish().await, 0);
    world.subscribe(&receiver.url(), json!({})).await;
    assert_eq!(publish().await, 1);
    world.delete(&path(&webhook)).await;
    assert_eq!(publish().await, 1);
    receiver.until_seen(3).await;
    world.stop().await;
}

#[tokio::test]
async fn a_failing_delivery_is_retried_on_the_standard_schedule_each_wait_within_a_fifth_and_then_given_up() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    world.subscribe(&receiver.url(), json!({"events": ["order.*"]})).await;
    let event = world.publish().await;
    for (index, seconds) in [5, 300, 1800, 7200, 18_000, 36_000, 36_000].into_iter().enumerate() {
        let delivery = world.until_tried(&event, index + 1).await;
        assert_eq!((&delivery["attempts_max"], &delivery["attempts_used"]), (&json!(8), &json!(index + 1)));
        let due = time(&delivery["next_attempt_at"]);
        let wait = due.since(ended(&delivery["attempts"][index]));
        let planned = Duration::from_secs(seconds);
        assert!((planned * 4 / 5..=planned * 6 / 5).contains(&wait), "wait {}: {wait:?}", index + 1);
        world.advance(wait - MILLISECOND);
        world.post("/v1/events", json!({"type": "no.one", "data": 1})).await;
        assert_eq!(receiver.seen().len(), index + 1, "an attempt came early");
        world.advance(MILLISECOND);
    }
    let delivery = world.until_tried(&event, 8).await;
    assert_eq!((&delivery["state"], &delivery["reason"]), (&json!("failed"), &json!("exhausted")));
    world.advance(365 * DAY);
    assert_eq!(receiver.seen().len(), 8);
    world.stop().await;
}

#[tokio::test]
async fn a_receivers_wish_lengthens_a_wait_and_never_shortens_it() {
    for (status, retry_after, expected) in [
        (503, Some("3600"), 3600),
        (400, Some("3600"), 3600),
        (301, Some("3600"), 3600),
        (503, Some("29"), 30),
        (503, Some("0"), 30),
        (503, Some("-1"), 30),
        (503, Some("soon"), 30),
        (503, Some("Mon, 02 Mar 2026 13:00:00 GMT"), 3600),
        (503, Some("Mon, 02 Mar 2026 11:00:00 GMT"), 30),
        (503, Some("900000"), 86_400),
        (429, None, 60),
        (429, Some("10"), 30),
        (429, Some("90"), 90),
        (500, None, 30),
    ] {
        let world = World::start().await;
        let receiver = Receiver::start().await;
        let headers: Vec<_> = retry_after.iter().map(|value| ("retry-after", *value)).collect();
        receiver.answer_with(status, &headers);
        world.subscribe(&receiver.url(), waits(&[30.0])).await;
        let event = world.fail().await;
        let delivery = world.delivery(&event).await;
        let wait = time(&delivery["next_attempt_at"]).since(world.now());
        assert_eq!(wait.as_secs(), expected, "{status} {retry_after:?}");
        world.stop().await;
    }
}

#[tokio::test]
async fn twenty_parallel_calls_with_one_key_publish_one_event_that_each_webhook_gets_once() {
    let world = World::start().await;
    let receivers = [Receiver::start().await, Receiver::start().await];
    for receiver in &receivers {
        world.subscribe(&receiver.url(), json!({})).await;
    }
    let body = json!({"type": "order.paid", "data": {"n": 1}});
    let answers = join_all((0..20).map(|_| world.publish_keyed("one-send", &body))).await;
    let fresh: Vec<_> = answers.iter().filter(|answer| answer.status == StatusCode::ACCEPTED).collect();
    let again: Vec<_> = answers.iter().filter(|answer| answer.status == StatusCode::OK).collect();
    assert_eq!((fresh.len(), again.len()), (1, 19));
    let event = id(&fresh[0].json);
    assert_eq!(fresh[0].json, json!({"id": event, "deliveries": 2, "replayed": false}));
    assert!(again.iter().all(|it| it.json == json!({"id": event, "deliveries": 2, "replayed": true})));
    assert_eq!(column(&world.get("/v1/events").await["data"], "id"), [&json!(event)]);
    for receiver in &receivers {
        receiver.until_seen(1).await;
    }
    world.until_state(&event, "delivered").await;
    let last = world.publish().await;
    world.until_state(&last, "delivered").await;
    for receiver in &receivers {
        receiver.until_seen(2).await;
        assert_eq!(receiver.seen().len(), 2);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_key_holds_over_a_restart_and_whatever_changed_since() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), json!({})).await;
    let body = json!({"type": "order.paid", "data": {"n": 1}});
    let first = world.publish_keyed("k", &body).await;
    world.until_state(&id(&first.json), "delivered").await;
    world.delete(&path(&webhook)).await;
    world.subscribe(&receiver.url(), json!({})).await;
    let world = world.restart().await;
    world.advance(29 * DAY);
    let again = world.publish_keyed("k", &body).await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(again.json, json!({"id": first.json["id"], "deliveries": 1, "replayed": true}));
    let other = world.publish_keyed("k", &json!({"type": "order.paid", "data": {"n": 2}})).await;
    assert_eq!(
        (other.status, &other.json["error"]["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("idempotency_key_reuse"))
    );
    assert_eq!(receiver.seen().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn an_event_is_gone_to_the_millisecond_30_days_after_its_last_delivery_ended() {
    let world = World::start().await;
    let (prompt, slow) = (Receiver::start().await, Receiver::start().await);
    slow.answer(400);
    world.subscribe(&prompt.url(), json!({})).await;
    world.subscribe(&slow.url(), waits(&[86_400.0])).await;
    let path = format!("/v1/events/{}", world.publish().await);
    let until = async |state: &str| {
        world.until(&path, |shown| column(&shown["deliveries"], "state") == ["delivered", state]).await
    };
    let delivery = format!("/v1/deliveries/{}", id(&until("pending").await["deliveries"][1]));
    slow.answer(200);
    world.advance(DAY);
    let shown = until("delivered").await;
    assert_eq!(time(&shown["deliveries"][1]["ended_at"]), world.now());
    world.advance(30 * DAY - MILLISECOND);
    for path in [&path, &delivery] {
        assert_eq!(world.call(Method::GET, path, Value::Null).await.status, StatusCode::OK, "{path}");
    }
    world.advance(MILLISECOND);
    for path in [&path, &delivery] {
        assert_eq!(world.call(Method::GET, path, Value::Null).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    for list in ["/v1/events", "/v1/deliveries"] {
        assert_eq!(world.get(list).await["data"], json!([]), "{list}");
    }
    world.stop().await;
}

#[tokio::test]
async fn an_event_without_deliveries_is_kept_from_when_it_was_accepted_and_a_pending_one_stays() {
    let world = World::start_with(|config| config.retention_days = 2).await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    world
        .subscribe(
            &receiver.url(),
            json!({"events": ["order.*"], "schedule": {"kind": "custom",
        "waits_seconds": [604_800]}}),
        )
        .await;
    let pending = world.fail().await;
    let lone = world.post("/v1/events", json!({"type": "no.one", "data": 1})).await;
    assert_eq!(lone["deliveries"], 0);
    let lone = format!("/v1/events/{}", id(&lone));
    let read = async || world.call(Method::GET, &lone, Value::Null).await.status;
    world.advance(2 * DAY - MILLISECOND);
    assert_eq!(read().await, StatusCode::OK);
    world.advance(MILLISECOND);
    assert_eq!(read().await, StatusCode::NOT_FOUND);
    world.advance(5 * DAY - MILLISECOND);
    assert_eq!(world.delivery(&pending).await["state"], "pending", "what is under way is not forgotten");
    world.advance(MILLISECOND);
    world.until_state(&pending, "failed").await;
    world.stop().await;
}

#[tokio::test]
async fn a_pending_delivery_to_a_webhook_can_be_cancelled_and_a_replay_does_not_revive_its_schedule() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[600.0, 600.0])).await;
    let event = world.fail().await;
    let cancel = format!("/v1/deliveries/{}/cancel", id(&world.delivery(&event).await));
    let cancelled = world.post(&cancel, Value::Null).await;
    assert_eq!((&cancelled["state"], &cancelled["reason"]), (&json!("cancelled"), &json!("requested")));
    assert_eq!(world.post(&cancel, Value::Null).await, cancelled, "again it changes nothing");
    world.replay(&webhook, json!({})).await;
    world.until_over(&webhook).await;
    let delivery = world.delivery(&event).await;
    assert_eq!((&delivery["state"], &delivery["next_attempt_at"]), (&json!("cancelled"), &Value::Null));
    world.advance(DAY);
    assert_eq!(receiver.seen().len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn an_attempt_in_flight_decides_a_cancelled_delivery_to_a_webhook() {
    for (status, state) in [(200, "delivered"), (400, "cancelled")] {
        let world = World::start().await;
        let receiver = Receiver::start().await;
        receiver.answer(status);
        receiver.hold();
        world.subscribe(&receiver.url(), waits(&[600.0])).await;
        let event = world.publish().await;
        receiver.until_seen(1).await;
        let cancel = format!("/v1/deliveries/{}/cancel", id(&world.delivery(&event).await));
        let asked = world.post(&cancel, Value::Null).await;
        assert_eq!((&asked["state"], &asked["cancel_requested"]), (&json!("sending"), &json!(true)));
        receiver.let_go();
        world.until_state(&event, state).await;
        world.advance(DAY);
        assert_eq!(receiver.seen().len(), 1);
        world.stop().await;
    }
}

#[tokio::test]
async fn what_a_delivery_came_to_otherwise_cannot_be_cancelled() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), waits(&[])).await;
    for (answer, status, state) in
        [(200, "active", "delivered"), (400, "active", "failed"), (200, "paused", "skipped")]
    {
        receiver.answer(answer);
        world.set(&webhook, json!({"status": status})).await;
        let event = world.publish().await;
        let delivery = world.until_state(&event, state).await;
        let cancel = format!("/v1/deliveries/{}/cancel", id(&delivery));
        let refused = world.call(Method::POST, &cancel, Value::Null).await;
        assert_eq!(
            (refused.status, &refused.json["error"]["code"]),
            (StatusCode::CONFLICT, &json!("not_cancellable")),
            "{state}"
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn deleting_a_webhook_cancels_what_is_pending_and_its_events_stay_readable() {
    let world = World::start().await;
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[600.0])).await;
    world.subscribe(&other.url(), json!({})).await;
    let event = world.publish().await;
    receiver.until_seen(1).await;
    world
        .until(&format!("/v1/events/{event}"), |shown| {
            column(&shown["deliveries"], "state") == ["pending", "delivered"]
        })
        .await;
    world.delete(&path(&webhook)).await;
    let shown = world.get(&format!("/v1/events/{event}")).await;
    assert_eq!(column(&shown["deliveries"], "state"), ["cancelled", "delivered"]);
    assert_eq!(shown["deliveries"][0]["reason"], "endpoint_deleted");
    world.advance(DAY);
    assert_eq!((receiver.seen().len(), other.seen().len()), (1, 1));
    let again = world.publish().await;
    assert_eq!(world.get(&format!("/v1/events/{again}")).await["deliveries"].as_array().unwrap().len(), 1);
    world.stop().await;
}
