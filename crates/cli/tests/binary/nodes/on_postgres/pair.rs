//! The database's primary is lost, and its synchronous standby takes its place.

use std::time::Duration;

use bytes::Bytes;
use restante_store::testbed::Pair;
use serde_json::json;

use crate::nodes::load::{Load, judge, post};
use crate::nodes::{Nodes, directory};
use crate::patience::{now, until};
use crate::receiver::Receiver;

const PATHS: [&str; 2] = ["/steady", "/wait-30"];
/// From the promotion to the first acknowledgement of each node.
const SERVICE_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_goes_on_after_a_fail_over_of_the_database_and_nothing_acknowledged_is_lost() {
    let pair = Pair::start(&directory()).await;
    let url = pair.database().await;
    let receiver = Receiver::start().await;
    let nodes = Nodes::start(&[url.clone(), url.clone(), url]).await;
    let source = nodes.source().await;
    for path in PATHS {
        let more = json!({"timeout_seconds": 2, "schedule":
            {"kind": "custom", "waits_seconds": [0.1, 0.1, 0.1, 0.1, 0.1]}});
        nodes.destination(&source, &receiver.url(path), more).await;
    }
    let load = Load::start(&nodes.nodes, &source.intake, 6, Duration::from_millis(30));
    until("there is some load", Duration::from_secs(20), async || (load.acknowledged() > 200).then_some(()))
        .await;
    pair.kill_primary().await;
    let killed = now();
    tokio::time::sleep(Duration::from_secs(2)).await;
    pair.promote().await;
    let promoted = now();
    println!("promoted {:?} after the kill", killed.elapsed());
    for (index, node) in nodes.nodes.iter().enumerate() {
        until("a node takes requests again", SERVICE_WITHIN, async || {
            post(node.address, &source.intake, Bytes::from_static(b"x")).await
        })
        .await;
        println!("node {index} acknowledges {:?} after the promotion", promoted.elapsed());
    }
    assert!(promoted.elapsed() <= SERVICE_WITHIN);
    let delivered = receiver.delivered(PATHS[0]);
    until("deliveries go on", Duration::from_secs(10), async || {
        (receiver.delivered(PATHS[0]) > delivered + 20).then_some(())
    })
    .await;
    println!("deliveries go on {:?} after the promotion", promoted.elapsed());
    let acknowledged = load.stop().await;
    judge(&nodes.nodes[2], &receiver, &PATHS, &acknowledged).await;
    println!("all delivered {:?} after the promotion", promoted.elapsed());
}
