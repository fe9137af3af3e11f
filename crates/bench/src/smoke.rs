//! Generator against receiver, in one process on real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;

use crate::body::Post;
use crate::line::Line;
use crate::load::{self, Plan, Targets, Until};
use crate::sink::{self, Stats};

fn plan(address: SocketAddr, paths: &[&str], count: u64, rate: Option<f64>) -> Plan {
    let urls: Vec<_> = paths.iter().map(|path| format!("http://{address}{path}")).collect();
    Plan {
        targets: Targets::parse(&urls).unwrap(),
        connections: 5,
        threads: if rate.is_some() { 1 } else { 2 },
        body_bytes: 512,
        post: Post::Plain,
        authorization: None,
        until: Until { after: None, count: Some(count) },
        rate,
        stall: Duration::from_secs(10),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn get(address: SocketAddr, path: &str, key: Option<&str>) -> Bytes {
    runtime().block_on(async {
        let mut request = Request::builder().uri(path).header("host", "sink");
        if let Some(key) = key {
            request = request.header("x-adal-idempotency", key);
        }
        let response = Line::new(address).send(request.body(Full::default()).unwrap()).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    })
}

fn stats(address: SocketAddr) -> Stats {
    serde_json::from_slice(&get(address, "/__stats", None)).unwrap()
}

#[test]
fn a_closed_loop_sends_exactly_its_count_over_all_paths() {
    let sink = sink::start_here().unwrap();
    let report = load::run(&plan(sink, &["/d/1", "/d/2", "/d/3"], 300, None)).unwrap();
    assert_eq!((report.sent, report.acknowledged, report.errors, report.unanswered), (300, 300, 0, 0));
    assert_eq!(report.ack.count, 300);
    let stats = stats(sink);
    assert_eq!((stats.arrivals, stats.paths, stats.latency.count), (300, 3, 300));
    assert_eq!(
        (stats.distinct, stats.duplicates, stats.unnamed),
        (0, 0, 300),
        "the generator names no messages"
    );
}

#[test]
fn an_open_loop_sends_exactly_its_count() {
    let sink = sink::start_here().unwrap();
    let report = load::run(&plan(sink, &["/d/1"], 50, Some(1_000.0))).unwrap();
    assert_eq!((report.sent, report.acknowledged), (50, 50));
    assert_eq!(stats(sink).arrivals, 50);
}

#[test]
fn an_answer_that_is_no_2xx_is_not_acknowledged() {
    let sink = sink::start_here().unwrap();
    let report = load::run(&plan(sink, &["/status/503", "/ok"], 20, None)).unwrap();
    assert_eq!(report.acknowledged, 10);
    assert_eq!(report.statuses.get(&503), Some(&10));
}

#[test]
fn requests_that_hang_are_reported_as_unanswered() {
    let sink = sink::start_here().unwrap();
    let mut plan = plan(sink, &["/hang/1"], 3, None);
    plan.stall = Duration::from_millis(300);
    let report = load::run(&plan).unwrap();
    assert_eq!((report.sent, report.acknowledged, report.unanswered), (3, 0, 3));
    let stats = stats(sink);
    assert_eq!((stats.arrivals, stats.hung), (0, 3));
}

#[test]
fn a_duplicate_does_not_hide_a_lost_message() {
    let sink = sink::start_here().unwrap();
    for (path, key) in [("/d/1", "a"), ("/d/1", "a"), ("/d/2", "a"), ("/d/1", "b")] {
        get(sink, path, Some(key));
    }
    let stats = stats(sink);
    assert_eq!((stats.arrivals, stats.distinct, stats.duplicates), (4, 3, 1));
    assert_eq!(stats.lost(2, 2), 1, "the second message never reached the second path");
}

#[test]
fn a_reset_starts_the_counts_anew() {
    let sink = sink::start_here().unwrap();
    get(sink, "/d/1", Some("a"));
    get(sink, "/__reset", None);
    assert_eq!(stats(sink).arrivals, 0);
}

#[test]
fn an_unreachable_target_is_an_error_with_a_hint() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = load::run(&plan(closed, &["/"], 1, None)).unwrap_err();
    assert!(format!("{error:#}").contains("hint:"), "{error:#}");
}
