//! Nodes killed and restarted at random moments.

use std::time::Duration;

use serde_json::json;

use crate::dice::Dice;
use crate::nodes::Nodes;
use crate::nodes::load::{Load, judge};
use crate::process::cluster;
use crate::receiver::Receiver;

const KILLS: usize = 12;
const PATHS: [&str; 3] = ["/steady", "/flaky", "/wait-30"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_nodes_are_killed_at_random_moments() {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let receiver = Receiver::start().await;
    let mut nodes = Nodes::start(&[url.clone(), url.clone(), url]).await;
    let source = nodes.source().await;
    for path in PATHS {
        let schedule =
            json!({"kind": "custom", "waits_seconds": [0.05, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.5, 0.5]});
        let more = json!({"schedule": schedule, "timeout_seconds": 2});
        nodes.destination(&source, &receiver.url(path), more).await;
    }
    let load = Load::start(&nodes.nodes, &source.intake, 6, Duration::from_millis(20));
    let mut dice = Dice::new();
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(50 + dice.below(600))).await;
        let victim = dice.below(3) as usize;
        nodes.nodes[victim].kill_and_restart().await;
    }
    let acknowledged = load.stop().await;
    assert!(acknowledged.len() > 200, "there was hardly any load");
    let counts = judge(&nodes.nodes[0], &receiver, &PATHS, &acknowledged).await;
    assert!(counts.lost > 0, "no kill hit an attempt");
}
