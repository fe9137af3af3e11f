//! A zoo of receivers that do whatever receivers have been seen to do, with healthy ones among them.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use restante_core::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::hostile::resident_kib;
use crate::process::{Home, Process, on_sqlite};

mod animals;
mod cage;

use animals::{Animal, Ends, Failure};
use cage::{Cage, Manner};

/// Requests that each receiver gets.
const REQUESTS: usize = 8;
/// Between them.
const EVERY: Duration = Duration::from_millis(250);
const HEALTHY: usize = 3;
/// Of each attempt.
const TIMEOUT: Duration = Duration::from_secs(1);
/// What an attempt may take longer than its timeout on a busy machine.
const TOLERANCE: Duration = Duration::from_secs(1);
/// A wish counts from the response, and a wait from the end of its attempt.
const MOMENT: Duration = Duration::from_millis(100);
/// Healthy receivers have a request so soon, whatever the others do.
const PROMPT: Duration = Duration::from_secs(1);
/// All deliveries have come to what is promised by then.
const SETTLED_WITHIN: Duration = Duration::from_secs(25);
/// What memory may grow by: a connection and a head of 64 KB for each attempt in flight, and what a server that has just
/// started comes to need.
const GROWTH_KIB_MAX: u64 = 48 * 1024;
/// What is taken of one answer without end: the server's limit, and what the buffers of two sockets hold.
const POURED_BYTES_MAX: usize = 12 * 1024 * 1024;

on_sqlite!(no_receiver_is_more_than_its_own_trouble);

/// A receiver in the zoo, and what it is there for.
struct Kept {
    animal: Animal,
    cage: Cage,
    destination: String,
}

async fn no_receiver_is_more_than_its_own_trouble(home: Home) {
    let server = Process::start(&home).await;
    let source = server.call(Method::POST, "/v1/sources", json!({"name": "zoo"})).await;
    let witness = Cage::open(Manner::Says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())).await;
    let mut zoo = Vec::new();
    let healthy = (0..HEALTHY).map(|_| Animal {
        name: "is healthy",
        scheme: "http",
        manner: Manner::Says(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        ends: Ends::Delivered,
    });
    let animals = animals::all(&format!("http://{}/private", witness.address));
    for animal in healthy.chain(animals) {
        zoo.push(keep(&server, source["id"].as_str().unwrap(), animal).await);
    }
    let before = resident_kib(server.pid());
    let (sent, mut highest) = send(&server, source["token"].as_str().unwrap()).await;
    let requests = settle(&server, &sent, &zoo, &mut highest).await;

    let mut faults = Vec::new();
    for request in &requests {
        let key = request["key"].as_str().unwrap();
        let sent_at = sent[request["id"].as_str().unwrap()];
        for (index, kept) in zoo.iter().enumerate() {
            let delivery = delivery(request, kept);
            let seen = kept.cage.requests(key);
            let fault = fault(kept.animal.ends, delivery).or_else(|| {
                let attempts = delivery["attempts"].as_array().unwrap().len();
                (seen.len() > attempts).then_some("it saw more requests than there were attempts")
            });
            faults.extend(fault.map(|fault| format!("{}: {fault}: {delivery}", kept.animal.name)));
            if index < HEALTHY {
                let after = seen.first().expect("it was delivered").duration_since(sent_at);
                assert!(after <= PROMPT, "a healthy receiver waited for {after:?}");
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // What is read until the time is up is bounded by that: interim responses may be many.
    for kept in zoo.iter().filter(|kept| !matches!(kept.animal.ends, Ends::Waits(..))) {
        let poured = kept.cage.poured() / kept.cage.connections().max(1);
        assert!(poured <= POURED_BYTES_MAX, "{}: {poured} bytes of one answer were taken", kept.animal.name);
    }
    assert_eq!(witness.connections(), 0, "a redirect was followed");
    let growth = highest.saturating_sub(before);
    println!("{} receivers; resident memory: {before} KiB before, {highest} KiB at most", zoo.len());
    assert!(growth <= GROWTH_KIB_MAX, "memory grew by {growth} KiB");
}

async fn keep(server: &Process, source: &str, animal: Animal) -> Kept {
    let cage = Cage::open(animal.manner.clone()).await;
    let body = json!({
        "kind": "http",
        "url": format!("{}://{}/", animal.scheme, cage.address),
        "schedule": {"kind": "custom", "waits_seconds": [0.1]},
        "idempotency_header": true,
        "timeout_seconds": TIMEOUT.as_secs(),
    });
    let destination = server.call(Method::POST, &format!("/v1/sources/{source}/destinations"), body).await;
    Kept { animal, cage, destination: destination["id"].as_str().unwrap().to_owned() }
}

/// Sends the requests; gives when each was sent, by its id, and the most memory that the server had meanwhile.
async fn send(server: &Process, token: &str) -> (HashMap<String, Instant>, u64) {
    let (mut sent, mut highest) = (HashMap::new(), 0);
    let mut ticks = tokio::time::interval(EVERY);
    for number in 0..REQUESTS {
        ticks.tick().await;
        let at = Instant::now();
        let body = Bytes::from(format!("request {number}"));
        let (status, answer) = server.send(Method::POST, &format!("/in/{token}"), body).await.unwrap();
        assert_eq!(status, StatusCode::OK);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        sent.insert(answer["id"].as_str().unwrap().to_owned(), at);
        highest = highest.max(resident_kib(server.pid()));
    }
    (sent, highest)
}

/// Waits until all deliveries are what they will be, and gives the requests with them.
async fn settle(
    server: &Process,
    sent: &HashMap<String, Instant>,
    zoo: &[Kept],
    highest: &mut u64,
) -> Vec<Value> {
    let until = Instant::now() + SETTLED_WITHIN;
    loop {
        let mut requests = Vec::new();
        for id in sent.keys() {
            requests.push(server.call(Method::GET, &format!("/v1/requests/{id}"), Value::Null).await);
        }
        *highest = (*highest).max(resident_kib(server.pid()));
        let pairs =
            requests.iter().flat_map(|request| zoo.iter().map(move |kept| (kept, delivery(request, kept))));
        let open = pairs.filter(|(kept, delivery)| !is_settled(kept.animal.ends, delivery));
        let open: Vec<String> =
            open.map(|(kept, delivery)| format!("{}: {delivery}", kept.animal.name)).collect();
        if open.is_empty() {
            return requests;
        }
        assert!(Instant::now() < until, "not settled in time:\n{}", open.join("\n"));
        tokio::time::sleep(EVERY).await;
    }
}

fn delivery<'a>(request: &'a Value, kept: &Kept) -> &'a Value {
    let deliveries = request["deliveries"].as_array().unwrap();
    deliveries.iter().find(|it| it["destination_id"] == kept.destination.as_str()).unwrap()
}

/// Whether nothing more is to come within the test's time.
fn is_settled(ends: Ends, delivery: &Value) -> bool {
    let is_planned = delivery["state"] == "pending" && delivery["attempts_used"] == 1;
    let is_over = matches!(delivery["state"].as_str(), Some("delivered" | "failed"));
    match ends {
        Ends::Delivered | Ends::Exhausted(_) | Ends::DeliveredOr(_) => is_over,
        Ends::Waits(..) | Ends::Somehow => is_over || is_planned,
    }
}

/// What a delivery came to that is not what is promised.
fn fault(ends: Ends, delivery: &Value) -> Option<&'static str> {
    let attempts = delivery["attempts"].as_array().unwrap();
    let took = |attempt: &Value| Duration::from_millis(attempt["duration_ms"].as_u64().unwrap());
    if attempts.iter().any(|attempt| took(attempt) > TIMEOUT + TOLERANCE) {
        return Some("an attempt outlived its timeout");
    }
    let used = attempts.iter().filter(|attempt| attempt["uses_budget"] == true).count();
    if used != attempts.len() || delivery["attempts_used"] != used {
        return Some("an attempt was not counted");
    }
    let failures: Vec<Failure> = attempts.iter().filter(|it| it["result"] == "failed").map(failure).collect();
    let is_kept = match ends {
        Ends::Delivered => delivery["state"] == "delivered" && failures.is_empty(),
        Ends::Exhausted(failure) => delivery["reason"] == "exhausted" && failures == [failure, failure],
        Ends::Waits(failure, seconds) => {
            let wait = Duration::from_secs(seconds);
            delivery["state"] == "pending"
                && failures == [failure]
                && waits(delivery).abs_diff(wait) <= MOMENT
        }
        Ends::DeliveredOr(failure) => failures.iter().all(|it| *it == failure),
        Ends::Somehow => true,
    };
    (!is_kept).then_some("it ended otherwise")
}

/// From the end of the last attempt to the next one.
fn waits(delivery: &Value) -> Duration {
    let time = |value: &Value| Timestamp::parse(value.as_str().unwrap()).unwrap();
    let last = delivery["attempts"].as_array().unwrap().last().unwrap();
    let duration = Duration::from_millis(last["duration_ms"].as_u64().unwrap());
    time(&delivery["next_attempt_at"]).since(time(&last["started_at"]).after(duration))
}

fn failure(attempt: &Value) -> Failure<'_> {
    let status = attempt["response_status_code"].as_u64().map(|status| u16::try_from(status).unwrap());
    (attempt["error_kind"].as_str().unwrap(), status)
}
