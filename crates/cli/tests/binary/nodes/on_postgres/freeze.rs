//! One node stands still for longer than a lease, and goes on.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::Nodes;
use crate::nodes::load::{judge, post};
use crate::patience::{now, until};
use crate::process::cluster;
use crate::receiver::Receiver;

/// Of a destination with `timeout_seconds` 1.
const LEASE: Duration = Duration::from_secs(16);
const REQUESTS: usize = 24;
/// Only a few of them are dialled before the node is frozen, and none of those is answered.
const PATH: &str = "/hangs";
const CANCELLED: &str = "/wait-800/cancelled";
/// For what a node does first when it goes on.
const AFTERMATH: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_is_taken_over_within_its_lease_and_does_no_harm_when_it_goes_on() {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let receiver = Receiver::start().await;
    let nodes = Nodes::start(&[url.clone(), url.clone(), url]).await;
    let [frozen, other] = [&nodes.nodes[0], &nodes.nodes[1]];
    let source = nodes.source().await;
    let more = json!({"max_in_flight": 8, "timeout_seconds": 1, "schedule":
        {"kind": "custom", "waits_seconds": [0.1, 0.1, 0.1]}});
    nodes.destination(&source, &receiver.url(PATH), more.clone()).await;
    let doomed = frozen.call(Method::POST, "/v1/sources", json!({"name": "doomed"})).await;
    let destinations = format!("/v1/sources/{}/destinations", doomed["id"].as_str().unwrap());
    let body = json!({"kind": "http", "url": receiver.url(CANCELLED), "idempotency_header": true,
        "max_in_flight": 1, "timeout_seconds": 1});
    frozen.call(Method::POST, &destinations, body).await;
    let doomed = format!("/in/{}", doomed["token"].as_str().unwrap());

    let (mut acknowledged, mut cancelled) = (HashMap::new(), Vec::new());
    for number in 0..REQUESTS {
        let body = Bytes::from(format!("{number}"));
        let id = post(frozen.address, &source.intake, body.clone()).await.unwrap();
        acknowledged.insert(id, body);
    }
    for _ in 0..8 {
        cancelled.push(post(frozen.address, &doomed, Bytes::from_static(b"x")).await.unwrap());
    }
    until("attempts", Duration::from_secs(5), async || {
        (receiver.visits(PATH).len() >= 4 && !receiver.visits(CANCELLED).is_empty()).then_some(())
    })
    .await;
    frozen.freeze();
    let stopped = now();
    receiver.recover();

    let cancelling = async {
        let mut keys = Vec::new();
        for id in &cancelled {
            let shown = other.call(Method::GET, &format!("/v1/requests/{id}"), Value::Null).await;
            let delivery = shown["deliveries"][0]["id"].as_str().unwrap();
            let state = &shown["deliveries"][0]["state"];
            if state == "pending" || state == "sending" {
                let answer =
                    other.call(Method::POST, &format!("/v1/deliveries/{delivery}/cancel"), Value::Null).await;
                println!("{state} → {} {:?} after the stop", answer["state"], stopped.elapsed());
                let begun = receiver.times(CANCELLED, shown["key"].as_str().unwrap());
                keys.push((shown["key"].as_str().unwrap().to_owned(), begun, id.clone()));
            }
        }
        keys
    };
    let taking_over = async {
        let counts = judge(other, &receiver, &[PATH], &acknowledged).await;
        (counts, stopped.elapsed())
    };
    let (keys, (counts, taken_over)) = tokio::join!(cancelling, taking_over);
    println!("all of the frozen node's work was delivered {taken_over:?} after the stop: {counts:?}");
    assert!(counts.lost > 0, "no attempt was cut off");
    assert!(taken_over <= LEASE + Duration::from_secs(10), "the take-over took {taken_over:?}");
    assert!(!keys.is_empty(), "nothing was left to cancel");

    let visits = receiver.visits(PATH).len();
    frozen.thaw();
    until("the frozen node is ready", Duration::from_secs(10), async || {
        let answer = frozen.send(Method::GET, "/readyz", Bytes::new()).await?;
        answer.0.is_success().then_some(())
    })
    .await;
    tokio::time::sleep(AFTERMATH).await;
    for (key, begun, id) in keys {
        let shown = frozen.call(Method::GET, &format!("/v1/requests/{id}"), Value::Null).await;
        assert_eq!(receiver.times(CANCELLED, &key), begun, "an attempt began after the cancel: {shown:#}");
        assert_eq!(shown["deliveries"][0]["state"], "cancelled", "{shown:#}");
    }
    assert_eq!(receiver.visits(PATH).len(), visits, "something was attempted again after the thaw");
    let after = judge(frozen, &receiver, &[PATH], &acknowledged).await;
    assert_eq!((after.attempts, after.lost), (counts.attempts, counts.lost), "a stale result was recorded");
    let id = post(frozen.address, &source.intake, Bytes::from_static(b"after")).await.unwrap();
    judge(frozen, &receiver, &[PATH], &HashMap::from([(id, Bytes::from_static(b"after"))])).await;
}
