//! How many replays a workspace may ask for in a day.

use std::time::Duration;

use futures_util::future::join_all;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::harness::outbound::waits;
use crate::harness::{Answer, World, id};
use crate::receiver::Receiver;

const MILLISECOND: Duration = Duration::from_millis(1);

async fn webhook(world: &World) -> (Receiver, Value) {
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[])).await;
    (receiver, webhook)
}

/// Asks so many times, ten callers at a time; says how many were accepted.
async fn accepted(world: &World, webhook: &Value, calls: usize) -> usize {
    let mut accepted = 0;
    for start in (0..calls).step_by(10) {
        let callers = (start..calls.min(start + 10)).map(|_| world.ask(webhook, "replay", json!({})));
        for answer in join_all(callers).await {
            match answer.status {
                StatusCode::ACCEPTED => accepted += 1,
                _ => check_refusal(&answer),
            }
        }
    }
    accepted
}

fn check_refusal(answer: &Answer) {
    let error = &answer.json["error"];
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{}", answer.json);
    assert_eq!(
        (&error["type"], &error["code"], &error["name"]),
        (
            &json!("rate_limit_error"),
            &json!("webhook_replay_quota_exceeded"),
            &json!("WebhookReplayQuotaExceeded")
        )
    );
    assert!(!answer.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn the_twentieth_of_a_day_is_accepted_and_the_next_is_429_however_many_ask_at_once() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world).await;
    world.fail().await;
    assert_eq!(accepted(&world, &webhook, 19).await, 19);
    assert_eq!(accepted(&world, &webhook, 10).await, 1, "one of ten parallel callers is the twentieth");
    check_refusal(&world.ask(&webhook, "replay", json!({})).await);
    receiver.until_seen(21).await;
    world.until_over(&webhook).await;
    let replays = world.replays(&webhook).await;
    assert_eq!(replays.len(), 20);
    assert!(replays.iter().all(|replay| replay["failed"] == 1), "what was accepted runs: {replays:?}");
    assert_eq!(receiver.seen().len(), 21);
    world.stop().await;
}

#[tokio::test]
async fn midnight_utc_gives_twenty_more() {
    let world = World::start().await;
    let (_receiver, webhook) = webhook(&world).await;
    assert_eq!(accepted(&world, &webhook, 30).await, 20);
    // Noon it is when a test begins.
    world.advance(Duration::from_secs(12 * 3600) - MILLISECOND);
    assert_eq!(accepted(&world, &webhook, 10).await, 0);
    let world = world.restart().await;
    assert_eq!(accepted(&world, &webhook, 10).await, 0, "the count survives a restart");
    world.advance(MILLISECOND);
    assert_eq!(accepted(&world, &webhook, 30).await, 20);
    world.advance(Duration::from_secs(24 * 3600));
    assert_eq!(accepted(&world, &webhook, 30).await, 20);
    world.stop().await;
}

#[tokio::test]
async fn it_is_counted_for_the_workspace_over_all_its_webhooks_and_for_no_other() {
    let mut world = World::start().await;
    let (_one, first) = webhook(&world).await;
    let (_two, second) = webhook(&world).await;
    assert_eq!(accepted(&world, &first, 12).await + accepted(&world, &second, 12).await, 20);
    let other = world.post("/v1/workspaces", json!({"name": "other"})).await;
    world.key = other["key"]["token"].as_str().unwrap().to_owned();
    let (_three, theirs) = webhook(&world).await;
    assert_eq!(accepted(&world, &theirs, 25).await, 20);
    world.stop().await;
}

#[tokio::test]
async fn every_202_counts_also_where_there_is_nothing_to_send() {
    let world = World::start().await;
    let (receiver, webhook) = webhook(&world).await;
    world.set(&webhook, json!({"status": "paused"})).await;
    assert_eq!(accepted(&world, &webhook, 12).await, 12);
    world.set(&webhook, json!({"status": "active"})).await;
    assert_eq!(accepted(&world, &webhook, 12).await, 8);
    assert_eq!(receiver.seen().len(), 0);
    world.stop().await;
}

#[tokio::test]
async fn nothing_but_a_202_counts_and_neither_a_dry_run_nor_a_recovery_nor_a_replay_of_one() {
    let world = World::start().await;
    let (_receiver, webhook) = webhook(&world).await;
    let event = world.fail().await;
    let one = format!("deliveries/{}/replay", id(&world.delivery(&event).await));
    let gone = json!({"id": "whk_01abcdefghe0080000000000ab"});
    for _ in 0..25 {
        for (webhook, below, body, status) in [
            (&webhook, "replay?dry_run=true", json!({}), 200),
            (&webhook, "replay", json!({"since": "2027-01-01T00:00:00Z"}), 422),
            (&webhook, "replay", json!({"since": "yesterday"}), 422),
            (&webhook, "replay?x=1", json!({}), 422),
            (&gone, "replay", json!({}), 404),
            (&webhook, "recover", json!({}), 202),
            (&webhook, one.as_str(), Value::Null, 202),
        ] {
            assert_eq!(world.ask(webhook, below, body).await.status, status, "{below}");
        }
    }
    assert_eq!(accepted(&world, &webhook, 30).await, 20);
    let answer = world.ask(&webhook, "replay?dry_run=true", json!({})).await;
    assert_eq!(answer.status, StatusCode::OK, "nor does it need any left");
    assert_eq!(world.ask(&webhook, &one, Value::Null).await.status, StatusCode::ACCEPTED);
    world.stop().await;
}
