//! Limits of an endpoint over all nodes together.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::nodes::Nodes;
use crate::nodes::load::{Load, judge};
use crate::patience::now;
use crate::process::cluster;
use crate::receiver::{Receiver, Visit};

const IN_FLIGHT: usize = 5;
const RATE: f64 = 30.0;
/// What a busy machine may delay a request by on its way.
const JITTER: Duration = Duration::from_millis(60);
const PATHS: [&str; 2] = ["/wait-60/few", "/wait-10/paced"];
/// Before the kill, and again after it.
const LOAD: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_over_all_nodes_also_while_one_is_killed() {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let receiver = Receiver::start().await;
    let mut nodes = Nodes::start(&[url.clone(), url.clone(), url]).await;
    let source = nodes.source().await;
    let few = json!({"max_in_flight": IN_FLIGHT, "timeout_seconds": 1});
    let paced = json!({"rate_per_second": RATE, "timeout_seconds": 1});
    nodes.destination(&source, &receiver.url(PATHS[0]), few).await;
    nodes.destination(&source, &receiver.url(PATHS[1]), paced).await;

    let load = Load::start(&nodes.nodes, &source.intake, 6, Duration::from_millis(100));
    tokio::time::sleep(LOAD).await;
    // The first one that asked has the rate.
    nodes.nodes[0].kill_and_restart().await;
    tokio::time::sleep(LOAD).await;
    let acknowledged = load.stop().await;
    let ended = now();
    assert!(acknowledged.len() > 100, "there was hardly any load");
    judge(&nodes.nodes[1], &receiver, &PATHS, &acknowledged).await;
    println!("all delivered {:?} after the load", ended.elapsed());

    let few = receiver.visits(PATHS[0]);
    let most = most_at_once(&few);
    println!("at most {most} of {} at once", few.len());
    assert!(most <= IN_FLIGHT, "{most} at once");
    assert_eq!(most, IN_FLIGHT, "the limit was never reached: it was not tested");
    let paced: Vec<Instant> = receiver.visits(PATHS[1]).iter().map(|visit| visit.began).collect();
    holds_rate(&paced);
}

pub(super) fn most_at_once(visits: &[Visit]) -> usize {
    let starts = visits.iter().map(|visit| (visit.began, 1));
    let ends = visits.iter().map(|visit| (visit.ended.expect("all have ended"), -1));
    let mut moments: Vec<(Instant, i32)> = starts.chain(ends).collect();
    // Of one moment, the ends come first.
    moments.sort();
    let mut now = 0;
    let levels = moments.iter().map(|(_, change)| {
        now += change;
        now
    });
    levels.max().unwrap().try_into().unwrap()
}

/// In no window of T seconds are there more than rate · T + 1 starts.
fn holds_rate(starts: &[Instant]) {
    let mut worst = f64::MIN;
    for (first, begin) in starts.iter().enumerate() {
        for (count, end) in (1..).zip(&starts[first..]) {
            let allowed = RATE * (end.duration_since(*begin) + JITTER).as_secs_f64() + 1.0;
            worst = worst.max(f64::from(count) - allowed);
            assert!(f64::from(count) <= allowed, "{count} starts in {:?}", end.duration_since(*begin));
        }
    }
    println!("{} paced starts, {worst} more than allowed at worst", starts.len());
}
