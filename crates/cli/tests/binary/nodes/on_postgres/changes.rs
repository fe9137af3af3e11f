//! What is changed by one node counts on the others.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::nodes::Nodes;
use crate::nodes::load::{Load, post, publish, send};
use crate::patience::{now, until};
use crate::process::cluster;
use crate::receiver::Receiver;

const DELETED: &str = "/wait-5/deleted";
const KEPT: &str = "/kept";
const HOOK: &str = "/hook";
/// For the load before a change, and for what would come after it.
const WHILE: Duration = Duration::from_secs(2);

async fn start() -> (restante_store::testbed::Cluster, Receiver, Nodes) {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let nodes = Nodes::start(&[url.clone(), url.clone(), url]).await;
    (cluster, Receiver::start().await, nodes)
}

/// A time before everything that a node begins from now on: what was on the wire may take a moment to be seen.
fn acknowledged_now() -> Instant {
    now() + Duration::from_millis(100)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_dialled_after_the_deletion_of_a_destination_was_acknowledged() {
    let (_cluster, receiver, nodes) = start().await;
    let source = nodes.source().await;
    // More comes than goes, so that every node has some that wait.
    let more = json!({"max_in_flight": 6});
    let deleted = nodes.destination(&source, &receiver.url(DELETED), more).await;
    nodes.destination(&source, &receiver.url(KEPT), json!({})).await;
    let load = Load::start(&nodes.nodes, &source.intake, 6, Duration::from_millis(10));
    tokio::time::sleep(WHILE).await;
    let began = now();
    nodes.nodes[0].call(Method::DELETE, &deleted, Value::Null).await;
    let (took, acknowledged) = (began.elapsed(), acknowledged_now());
    println!("the deletion took {took:?}");
    assert!(took < Duration::from_secs(1), "the deletion took {took:?}");
    tokio::time::sleep(WHILE).await;
    let sent = load.stop().await;

    let visits = receiver.visits(DELETED);
    assert!(!visits.is_empty() && sent.len() > 100, "there was hardly any load");
    let late = visits.iter().filter(|visit| visit.began > acknowledged).count();
    assert_eq!(late, 0, "attempts were made after the deletion was acknowledged");
    until("the other destination gets all", Duration::from_secs(20), async || {
        (receiver.delivered(KEPT) >= sent.len()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_webhook_gets_nothing_by_any_node_and_a_resumed_one_does() {
    let (_cluster, receiver, nodes) = start().await;
    let body = json!({"url": receiver.url(HOOK), "events": ["*"]});
    let webhook = nodes.nodes[0].call(Method::POST, "/v1/webhooks", body).await;
    let webhook = format!("/v1/webhooks/{}", webhook["id"].as_str().unwrap());
    let event = Bytes::from_static(br#"{"type": "load.sent", "data": {}}"#);
    for (round, status) in ["paused", "active", "paused"].into_iter().enumerate() {
        let began = now();
        nodes.nodes[round].call(Method::PATCH, &webhook, json!({"status": status})).await;
        println!("{status} took {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(1));
        let (before, mut events) = (receiver.visits(HOOK).len(), Vec::new());
        for (index, node) in nodes.nodes.iter().enumerate() {
            let answer = publish(node.address, &format!("{round}-{index}"), event.clone()).await.unwrap();
            events.push(answer.1["id"].as_str().unwrap().to_owned());
        }
        for id in events {
            let wanted = if status == "paused" { "skipped" } else { "delivered" };
            let deliveries = format!("{webhook}/deliveries");
            until(&format!("{id} is {wanted}"), Duration::from_secs(5), async || {
                let shown = nodes.nodes[2].call(Method::GET, &deliveries, Value::Null).await;
                let mine = shown["data"].as_array().unwrap().iter().find(|it| it["event_id"] == *id).cloned();
                mine.filter(|it| it["state"] == wanted)
            })
            .await;
        }
        let visits = receiver.visits(HOOK).len() - before;
        assert_eq!(visits, if status == "paused" { 0 } else { 3 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_token_and_a_new_destination_count_on_every_node_at_once() {
    let (_cluster, receiver, nodes) = start().await;
    let source = nodes.source().await;
    for round in 0..3_usize {
        let path = format!("/kept/{round}");
        nodes.destination(&source, &receiver.url(&path), json!({})).await;
        for node in &nodes.nodes {
            post(node.address, &source.intake, Bytes::from_static(b"x")).await.unwrap();
        }
        until("every node delivers to it", Duration::from_secs(5), async || {
            (receiver.delivered(&path) == 3).then_some(())
        })
        .await;
    }
    let rotate = format!("{}/rotate-token", source.path);
    let began = now();
    let rotated = nodes.nodes[1].call(Method::POST, &rotate, Value::Null).await;
    println!("the rotation took {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(1));
    let fresh = format!("/in/{}", rotated["token"].as_str().unwrap());
    for node in &nodes.nodes {
        let (status, _) =
            send(node.address, Method::POST, &source.intake, &[], Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(status, StatusCode::NOT_FOUND, "the old token counts no more");
        assert!(post(node.address, &fresh, Bytes::from_static(b"x")).await.is_some());
    }
}
