//! SIGTERM to one node of several.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use crate::nodes::Nodes;
use crate::nodes::load::{judge, post};
use crate::patience::{now, until};
use crate::process::cluster;
use crate::receiver::Receiver;

const REQUESTS: usize = 60;
const PATH: &str = "/wait-200";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_hands_its_work_to_others_and_no_attempt_is_lost() {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let receiver = Receiver::start().await;
    let mut nodes = Nodes::start(&[url.clone(), url.clone(), url]).await;
    let source = nodes.source().await;
    nodes.destination(&source, &receiver.url(PATH), json!({"max_in_flight": 4})).await;
    let mut acknowledged = HashMap::new();
    for number in 0..REQUESTS {
        let body = Bytes::from(format!("{number}"));
        let id = post(nodes.nodes[0].address, &source.intake, body.clone()).await.unwrap();
        acknowledged.insert(id, body);
    }
    until("an attempt", Duration::from_secs(5), async || receiver.visits(PATH).first().cloned()).await;

    let began = now();
    let status = tokio::time::timeout(Duration::from_secs(10), nodes.nodes[0].terminate()).await;
    assert!(status.expect("it stops in time").success());
    let (stopped, left) = (began.elapsed(), REQUESTS - receiver.delivered(PATH));
    assert!(left > 0, "there was nothing left to hand over");

    let counts = judge(&nodes.nodes[1], &receiver, &[PATH], &acknowledged).await;
    println!("stopped in {stopped:?}, {left} left, all delivered {:?} after SIGTERM", began.elapsed());
    assert_eq!((counts.lost, counts.attempts), (0, REQUESTS));
    assert!(began.elapsed() < Duration::from_secs(20), "what was handed over lay about");
}
