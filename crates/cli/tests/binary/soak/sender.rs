//! Those who send, and note what is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::ledger::{Published, Sent};
use super::world::{World, moment};

/// Of events.
const TYPES: [&str; 3] = ["soak.paid", "soak.sent", "soak.order.closed"];

/// Sends requests to all sources. To the one that knows repeats each is sent until it is acknowledged, and some again.
pub(super) async fn requests(world: Arc<World>) {
    while !world.is_stopped() {
        let number = world.number();
        let index = usize::try_from(number % 3).unwrap();
        let again = u64::from(world.sources[index].dedupes && number.is_multiple_of(7));
        for time in 0..=again {
            let acknowledged = request(&world, number, index).await;
            world.diary.add("request repeats", u64::from(acknowledged && time > 0));
        }
        tokio::time::sleep(world.plan.request_pause()).await;
    }
}

/// Whether it was acknowledged.
async fn request(world: &World, number: u64, index: usize) -> bool {
    let source = &world.sources[index];
    let body =
        Bytes::from(format!("{number}:{}", "\u{0}ÿ\r\n".repeat(usize::try_from(number % 60).unwrap())));
    let (call, text) = ((Method::POST, source.intake.as_str()), number.to_string());
    loop {
        match world.ask(call.clone(), &[("x-number", &text)], body.clone()).await {
            Some((StatusCode::OK, answer)) => {
                let (id, at) = (answer["id"].as_str().unwrap().to_owned(), world.diary.now());
                let sent = Sent { id, source: index, number, is_replay: false, body, at };
                world.ledger.requests.lock().unwrap().push(sent);
                world.diary.count("requests");
                return true;
            }
            Some((StatusCode::SERVICE_UNAVAILABLE, _)) => world.diary.count("calls refused"),
            None => world.diary.count("calls unanswered"),
            Some(other) => {
                world.diary.fault(None, format!("{}: {other:?}", source.intake));
                return false;
            }
        }
        moment().await;
        if !source.dedupes || world.is_stopped() {
            return false;
        }
    }
}

/// Publishes events, each under its key until it is acknowledged; some again, and some keys with something else.
pub(super) async fn events(world: Arc<World>) {
    while !world.is_stopped() {
        let number = world.number();
        let (key, event) = (format!("soak:{number}"), event(number));
        let (tries, (status, answer)) = publish(&world, &key, &event).await;
        let fresh = (StatusCode::ACCEPTED, false);
        let told = (status, answer["replayed"] == true);
        // A call whose answer did not come may have been the one that counts.
        if told != fresh && (tries == 1 || told != (StatusCode::OK, true)) {
            world.diary.fault(None, format!("{key}, tried {tries} times: {status} {answer}"));
            return;
        }
        let (id, at) = (answer["id"].as_str().unwrap().to_owned(), world.diary.now());
        world.ledger.events.lock().unwrap().push(Published { id: id.clone(), number, at });
        world.diary.count("events");
        if number.is_multiple_of(4) {
            let (_, (status, answer)) = publish(&world, &key, &event).await;
            if status != StatusCode::OK || answer["id"] != id.as_str() || answer["replayed"] != true {
                world.diary.fault(Some(at), format!("{key} was {id}, and again: {status} {answer}"));
            }
            world.diary.count("event repeats");
        }
        if number.is_multiple_of(9) {
            let mut other = event;
            other["data"]["n"] = Value::Null;
            let (_, (status, answer)) = publish(&world, &key, &other).await;
            if status != StatusCode::UNPROCESSABLE_ENTITY {
                world.diary.fault(Some(at), format!("{key} was something else: {status} {answer}"));
            }
            world.diary.count("keys refused");
        }
        tokio::time::sleep(world.plan.event_pause()).await;
    }
}

fn event(number: u64) -> Value {
    let kind = TYPES[usize::try_from(number % 3).unwrap()];
    json!({"type": kind, "data": {"n": number, "text": "ÿ".repeat(usize::try_from(number % 90).unwrap())}})
}

/// What it is answered, and after how many tries.
async fn publish(world: &World, key: &str, event: &Value) -> (usize, (StatusCode, Value)) {
    let body = Bytes::from(event.to_string());
    let mut tries = 0;
    loop {
        tries += 1;
        let call = (Method::POST, "/v1/events");
        match world.ask(call, &[("idempotency-key", key)], body.clone()).await {
            Some((StatusCode::SERVICE_UNAVAILABLE, _)) => world.diary.count("calls refused"),
            None => world.diary.count("calls unanswered"),
            Some(answer) => return (tries, answer),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
