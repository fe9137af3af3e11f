//! The live stream of one node shows what others do.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::nodes::Nodes;
use crate::nodes::load::post;
use crate::process::{KEY, cluster};
use crate::receiver::Receiver;

const REQUESTS: usize = 30;
/// For other nodes to learn that somebody listens.
const HEARD_WITHIN: Duration = Duration::from_secs(10);
const SHOWN_WITHIN: Duration = Duration::from_secs(5);

/// A listener of the live stream.
struct Listener {
    stream: TcpStream,
    text: String,
}

impl Listener {
    async fn start(node: std::net::SocketAddr) -> Self {
        let mut stream = TcpStream::connect(node).await.unwrap();
        let head = format!("GET /v1/stream HTTP/1.1\r\nhost: load\r\nauthorization: Bearer {KEY}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut listener = Self { stream, text: String::new() };
        while !listener.text.contains("\r\n\r\n") {
            listener.read().await;
        }
        assert!(listener.text.starts_with("HTTP/1.1 200"), "{}", listener.text);
        listener
    }

    async fn read(&mut self) {
        let mut bytes = [0; 65_536];
        let count = self.stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the stream ended");
        self.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }

    /// The ids of what was told so far, of one kind and in the states that are wanted.
    fn told(&self, kind: &str, name: &str, state: Option<&str>) -> HashSet<String> {
        let kind = format!("event: {kind}");
        let events = self.text.split(&kind).skip(1);
        let data = events.filter_map(|event| event.split("data: ").nth(1)?.lines().next());
        let data = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        let wanted = data.filter(|it| state.is_none_or(|state| it["state"] == state));
        wanted.map(|it| it[name].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_of_one_node_sees_what_others_accept_and_deliver() {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let receiver = Receiver::start().await;
    let nodes = Nodes::start(&[url.clone(), url.clone(), url]).await;
    let source = nodes.source().await;
    nodes.destination(&source, &receiver.url("/steady"), json!({})).await;
    let mut listener = Listener::start(nodes.nodes[1].address).await;

    // A node tells what it does when it has learned that somebody listens.
    let others = [nodes.nodes[0].address, nodes.nodes[2].address];
    let mut sent: [HashSet<String>; 2] = Default::default();
    let hearing = async {
        while sent.iter().any(|sent| listener.told("request", "id", None).is_disjoint(sent)) {
            for (node, sent) in others.iter().zip(&mut sent) {
                sent.insert(post(*node, &source.intake, Bytes::from_static(b"first")).await.unwrap());
            }
            // Nothing may have come.
            let _ = tokio::time::timeout(Duration::from_millis(300), listener.read()).await;
        }
    };
    tokio::time::timeout(HEARD_WITHIN, hearing).await.expect("others learn that somebody listens");
    let mut wanted = HashSet::new();
    for number in 0..REQUESTS {
        wanted.insert(post(others[number % 2], &source.intake, Bytes::from_static(b"x")).await.unwrap());
    }
    let seeing = async {
        while !listener.told("request", "id", None).is_superset(&wanted)
            || !listener.told("delivery", "request_id", Some("delivered")).is_superset(&wanted)
        {
            listener.read().await;
        }
    };
    if tokio::time::timeout(SHOWN_WITHIN, seeing).await.is_err() {
        let (requests, delivered) = (
            listener.told("request", "id", None),
            listener.told("delivery", "request_id", Some("delivered")),
        );
        let of = |told: &HashSet<String>| wanted.iter().filter(|id| told.contains(*id)).count();
        panic!("told of {} accepted and {} delivered of {REQUESTS}", of(&requests), of(&delivered));
    }
}
