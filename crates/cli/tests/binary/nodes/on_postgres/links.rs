//! Links between nodes and the database that are cut, go silent, and lose what matters most.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use restante_store::testbed::{Fault, Newcomers, Proxy, Side};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::dice::Dice;
use crate::nodes::Nodes;
use crate::nodes::load::{Load, judge, post, publish};
use crate::patience::{now, until};
use crate::process::cluster;
use crate::receiver::Receiver;

use super::limits::most_at_once;

/// How long the links are spoiled, at least.
const CHAOS: Duration = Duration::from_secs(12);
/// And at most, for enough to come through.
const LOAD_TIME: Duration = Duration::from_secs(90);
const PATH: &str = "/wait-20";
const HOOK: &str = "/hook";
/// For a keyed call to be answered by some node.
const CALL_TIME: Duration = Duration::from_secs(60);
/// Calls at once with one key.
const PARALLEL: usize = 64;

/// Nodes with a link of their own each.
struct Linked {
    nodes: Nodes,
    proxies: Vec<Proxy>,
    receiver: Receiver,
}

impl Linked {
    async fn start(cluster: &restante_store::testbed::Cluster) -> Self {
        let url = cluster.database().await;
        let (mut proxies, mut urls) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let proxy = Proxy::start(cluster.address()).await;
            urls.push(proxy.url(&url));
            proxies.push(proxy);
        }
        let nodes = Nodes::start(&urls).await;
        Self { nodes, proxies, receiver: Receiver::start().await }
    }

    async fn webhook(&self) {
        let body = json!({"url": self.receiver.url(HOOK), "events": ["*"], "timeout_seconds": 2, "schedule":
            {"kind": "custom", "waits_seconds": [0.1, 0.1, 0.1, 0.1, 0.1]}});
        self.nodes.nodes[0].call(Method::POST, "/v1/webhooks", body).await;
    }

    /// By the number in its data, under which ids the receiver saw an event.
    fn events_seen(&self) -> HashMap<u64, Vec<String>> {
        let mut seen: HashMap<u64, Vec<String>> = HashMap::new();
        for visit in self.receiver.visits(HOOK) {
            let Ok(body) = serde_json::from_slice::<Value>(&visit.body) else { continue };
            let ids = seen.entry(body["data"]["n"].as_u64().unwrap()).or_default();
            if !ids.contains(&visit.identity) {
                ids.push(visit.identity);
            }
        }
        seen
    }
}

fn key(number: u64) -> String {
    format!("key-{number}")
}

fn event(number: u64) -> Bytes {
    json!({"type": "load.sent", "data": {"n": number}}).to_string().into()
}

/// Publishes an event with a key, to one node after the other until one says yes; gives the answer's status and the
/// event's id.
async fn publish_somewhere(nodes: Arc<[SocketAddr]>, first: usize, number: u64) -> (StatusCode, String) {
    let began = now();
    for node in nodes.iter().cycle().skip(first % nodes.len()) {
        if let Some((status, answer)) = publish(*node, &key(number), event(number)).await {
            assert!(status.is_success() || status.is_server_error(), "{status} {answer}");
            if status.is_success() {
                return (status, answer["id"].as_str().unwrap().to_owned());
            }
        }
        assert!(began.elapsed() < CALL_TIME, "no node takes the event");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    unreachable!("nodes go round and round")
}

/// What becomes of a link for a while.
fn spoil(proxy: &Proxy, dice: &mut Dice) {
    proxy.heal();
    match dice.below(6) {
        0 => {
            proxy.strike(Fault::Silence);
            proxy.newcomers(Newcomers::Ignored);
        }
        1 => {
            proxy.strike(Fault::Cut);
            proxy.newcomers(Newcomers::Refused);
        }
        2 => proxy.strike(Fault::HalfOpen { blind: Side::Client }),
        3 => proxy.strike(Fault::HalfOpen { blind: Side::Server }),
        _ => proxy.chaos(dice.below(u64::from(u32::MAX))),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_no_key_makes_two_events_over_links_that_break() {
    let cluster = cluster().await;
    let linked = Linked::start(&cluster).await;
    let Linked { nodes, proxies, receiver } = &linked;
    let source = nodes.source().await;
    let more = json!({"timeout_seconds": 2, "schedule":
        {"kind": "custom", "waits_seconds": [0.1, 0.1, 0.1, 0.1, 0.1]}});
    nodes.destination(&source, &receiver.url(PATH), more).await;
    linked.webhook().await;

    let load = Load::start(&nodes.nodes, &source.intake, 3, Duration::from_millis(30));
    let mut dice = Dice::new();
    let began = now();
    let (over, keyed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut publishers = JoinSet::new();
    for publisher in 0..3_u64 {
        let (nodes, over, keyed) = (nodes.addresses(), Arc::clone(&over), Arc::clone(&keyed));
        publishers.spawn(async move {
            let mut published = Vec::new();
            for count in 0.. {
                if over.load(Ordering::Acquire) {
                    break;
                }
                let number = publisher * 1_000_000 + count;
                let (_, id) = publish_somewhere(Arc::clone(&nodes), number as usize, number).await;
                // The caller did not hear it, and asks another node.
                let again = publish_somewhere(Arc::clone(&nodes), number as usize + 1, number).await;
                assert_eq!(again, (StatusCode::OK, id.clone()), "{}", key(number));
                published.push((number, id));
                keyed.fetch_add(1, Ordering::Relaxed);
            }
            published
        });
    }
    // A link that is silent holds a sender up for as long as it waits: how much comes through is a matter of chance.
    let loaded = || load.acknowledged() > 30 && keyed.load(Ordering::Relaxed) > 10;
    while began.elapsed() < CHAOS || !loaded() {
        assert!(began.elapsed() < LOAD_TIME, "there was hardly any load");
        spoil(&proxies[dice.below(3) as usize], &mut dice);
        tokio::time::sleep(Duration::from_millis(200 + dice.below(800))).await;
    }
    for proxy in proxies {
        proxy.heal();
    }
    let healed = now();
    over.store(true, Ordering::Release);
    let published: Vec<(u64, String)> = publishers.join_all().await.concat();
    let acknowledged = load.stop().await;
    println!("{} published by key", published.len());

    judge(&nodes.nodes[1], receiver, &[PATH], &acknowledged).await;
    until("all events are delivered", Duration::from_secs(40), async || {
        let seen = linked.events_seen();
        published.iter().all(|(number, _)| seen.contains_key(number)).then_some(())
    })
    .await;
    println!("all delivered {:?} after the links were healed", healed.elapsed());
    let seen = linked.events_seen();
    for (number, id) in &published {
        assert_eq!(&seen[number], std::slice::from_ref(id), "one key made two events");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_acknowledged_once_and_one_that_is_lost_is_done_again() {
    let cluster = cluster().await;
    let linked = Linked::start(&cluster).await;
    linked.webhook().await;
    for number in 0..12_u64 {
        let proxy = &linked.proxies[number as usize % 3];
        let struck = if number.is_multiple_of(2) { proxy.lose_commit_answer() } else { proxy.lose_commit() };
        let nodes = linked.nodes.addresses();
        let first = publish_somewhere(Arc::clone(&nodes), number as usize, number).await;
        tokio::time::timeout(Duration::from_secs(10), struck.happened()).await.expect("a commit was made");
        let again = publish_somewhere(nodes, number as usize + 1, number).await;
        assert_eq!(again, (StatusCode::OK, first.1));
    }
    until("all events are delivered", Duration::from_secs(40), async || {
        (linked.events_seen().len() == 12).then_some(())
    })
    .await;
    assert!(linked.events_seen().values().all(|ids| ids.len() == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_with_one_key_over_all_nodes_make_one_event() {
    let cluster = cluster().await;
    let linked = Linked::start(&cluster).await;
    linked.webhook().await;
    for number in 0..6_u64 {
        // Each time another node's commit is lost, or the answer to it.
        let proxy = &linked.proxies[number as usize % 3];
        let _struck = if number.is_multiple_of(2) { proxy.lose_commit_answer() } else { proxy.lose_commit() };
        let mut calls = JoinSet::new();
        for call in 0..PARALLEL {
            calls.spawn(publish_somewhere(linked.nodes.addresses(), call, number));
        }
        let answers = calls.join_all().await;
        let ids: Vec<&String> = answers.iter().map(|(_, id)| id).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "one key made two events: {ids:?}");
        let fresh = answers.iter().filter(|(status, _)| *status == StatusCode::ACCEPTED).count();
        // None: whoever made it was told of a failure, and asked again.
        assert!(fresh <= 1, "{fresh} calls were told that they made it");
        // Another body under the same key is refused by every node.
        for node in &linked.nodes.nodes {
            let refused = until("an answer", CALL_TIME, async || {
                let answer = publish(node.address, &key(number), event(number + 100)).await?;
                (!answer.0.is_server_error()).then_some(answer)
            });
            assert_eq!(refused.await.0, StatusCode::UNPROCESSABLE_ENTITY);
        }
    }
    until("all events are delivered", Duration::from_secs(40), async || {
        (linked.events_seen().len() == 6).then_some(())
    })
    .await;
    assert!(linked.events_seen().values().all(|ids| ids.len() == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_cut_off_for_longer_than_a_lease_stops_dialling_before_others_take_over() {
    const SLOW: &str = "/wait-700";
    const AT_ONCE: usize = 2;
    let cluster = cluster().await;
    let linked = Linked::start(&cluster).await;
    let Linked { nodes, proxies, receiver } = &linked;
    let source = nodes.source().await;
    let more = json!({"max_in_flight": AT_ONCE, "timeout_seconds": 1});
    nodes.destination(&source, &receiver.url(SLOW), more).await;
    let mut acknowledged = HashMap::new();
    for number in 0..48 {
        let body = Bytes::from(format!("{number}"));
        let id = post(nodes.nodes[0].address, &source.intake, body.clone()).await.unwrap();
        acknowledged.insert(id, body);
    }
    until("an attempt", Duration::from_secs(5), async || receiver.visits(SLOW).first().cloned()).await;
    proxies[0].strike(Fault::Silence);
    proxies[0].newcomers(Newcomers::Ignored);
    let cut = now();
    // It goes on with what it has for as long as it may; what it delivers meanwhile cannot be recorded.
    let counts = judge(&nodes.nodes[1], receiver, &[SLOW], &acknowledged).await;
    println!("all delivered {:?} after the cut", cut.elapsed());
    assert!(counts.lost > 0, "the node held nothing");
    let visits = receiver.visits(SLOW);
    assert!(most_at_once(&visits) <= AT_ONCE, "{} at once", most_at_once(&visits));
    let mut starts: Vec<Duration> =
        visits.iter().filter_map(|visit| visit.began.checked_duration_since(cut)).collect();
    starts.sort();
    let gap = starts.windows(2).map(|pair| (pair[1] - pair[0], pair[0])).max().unwrap();
    println!("the longest pause was {:?}, from {:?} after the cut on", gap.0, gap.1);
    proxies[0].heal();
    until("the node is ready again", Duration::from_secs(10), async || {
        let answer = nodes.nodes[0].send(Method::GET, "/readyz", Bytes::new()).await?;
        answer.0.is_success().then_some(())
    })
    .await;
    let id = post(nodes.nodes[0].address, &source.intake, Bytes::from_static(b"after")).await.unwrap();
    judge(&nodes.nodes[0], receiver, &[SLOW], &HashMap::from([(id, Bytes::from_static(b"after"))])).await;
    let after = judge(&nodes.nodes[0], receiver, &[SLOW], &acknowledged).await;
    assert_eq!((after.attempts, after.lost), (counts.attempts, counts.lost), "a stale result was recorded");
}
