//! What a collector of traces is told, and what it costs when there is none.

mod collector;

use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::process::{Home, KEY, Process, on_both_stores, on_sqlite};
use crate::sink::Sink;
use collector::{Collector, Span};

on_both_stores!(a_message_is_one_trace_from_its_intake_to_its_last_attempt);

mod embedded {
    use super::*;

    on_sqlite!(
        an_event_has_a_trace_of_its_own_that_is_linked_with_its_call,
        a_collector_that_is_away_costs_spans_and_nothing_else,
        a_collector_that_hangs_does_not_hold_up_the_stop,
        without_an_endpoint_nobody_is_connected_to,
    );
}

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Where a caller says it is: trace and span.
const CALLER: (&str, &str) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
/// In everything that no collector may see.
const CANARY: &str = "canary-7d1f";
/// Kinds of span.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const PRODUCER: u64 = 4;
/// A status of spans.
const ERROR: u64 = 2;

fn traceparent() -> String {
    format!("00-{}-{}-01", CALLER.0, CALLER.1)
}

/// A source with destinations at these paths of a sink. Gives where it receives.
async fn source(server: &Process, sink: &Sink, paths: &[&str]) -> String {
    let source = server.call(Method::POST, "/v1/sources", json!({"name": "s"})).await;
    let destinations = format!("/v1/sources/{}/destinations", source["id"].as_str().unwrap());
    for path in paths {
        let url = format!("http://{}{path}", sink.address);
        let schedule = json!({"kind": "custom", "waits_seconds": [0.1, 0.1, 0.1]});
        let body = json!({"kind": "http", "url": url, "idempotency_header": true, "schedule": schedule,
            "headers": {"x-static": CANARY}});
        server.call(Method::POST, &destinations, body).await;
    }
    format!("/in/{}", source["token"].as_str().unwrap())
}

/// Sends a request with canaries everywhere; gives its id.
async fn intake(server: &Process, path: &str) -> String {
    let parent = traceparent();
    let headers = [("traceparent", parent.as_str()), ("x-sender", CANARY)];
    let path = format!("{path}/{CANARY}?q={CANARY}");
    let answer =
        server.caller().ask((Method::POST, &path), &headers, Bytes::from_static(CANARY.as_bytes())).await;
    let (status, body) = answer.unwrap();
    assert_eq!(status, StatusCode::OK, "{body:?}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    body["id"].as_str().unwrap().to_owned()
}

/// The trace of a request: its key, without hyphens.
async fn trace_of(server: &Process, request: &str) -> String {
    let shown = server.call(Method::GET, &format!("/v1/requests/{request}"), Value::Null).await;
    shown["key"].as_str().unwrap().replace('-', "")
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn attributes<'a>(span: &'a Span, names: &[&str]) -> Vec<&'a str> {
    names.iter().map(|name| span.attributes.get(*name).map_or("", String::as_str)).collect()
}

async fn a_message_is_one_trace_from_its_intake_to_its_last_attempt(home: Home) {
    let (collector, sink) = (Collector::start().await, Sink::start().await);
    let home = home
        .with(ENDPOINT, format!("{}/base/", collector.url()))
        .with("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20for-the-collector")
        .with("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test");
    let mut server = Process::start(home).await;
    let path = source(&server, &sink, &["/ok?key=canary-7d1f", "/flaky"]).await;
    let request = intake(&server, &path).await;
    let trace = trace_of(&server, &request).await;
    // At the door, the commit, one attempt to the first destination and three to the second.
    let spans = collector.trace(&trace, 6).await;
    assert_eq!(spans.len(), 6, "{spans:#?}");

    let doors = named(&spans, "POST /in/{token}");
    let [door] = doors[..] else { panic!("{spans:#?}") };
    assert_eq!((door.kind, door.parent.as_str(), door.status), (SERVER, "", 0));
    assert_eq!(door.links, [(CALLER.0.to_owned(), CALLER.1.to_owned())]);
    let said = ["http.request.method", "http.route", "http.response.status_code", "request.id"];
    assert_eq!(attributes(door, &said), ["POST", "/in/{token}", "200", request.as_str()]);
    let commits = named(&spans, "commit");
    let [commit] = commits[..] else { panic!("{spans:#?}") };
    assert_eq!((commit.kind, &commit.parent), (INTERNAL, &door.id));
    assert!(door.start <= commit.start && commit.start < commit.end && commit.end <= door.end);

    let attempts = named(&spans, "deliver destination");
    assert!(attempts.iter().all(|it| it.kind == CLIENT && it.parent == door.id), "{attempts:#?}");
    let said =
        ["attempt.number", "attempt.result", "http.response.status_code", "error.type", "delivery.state"];
    let mut told: Vec<_> = attempts.iter().map(|it| (it.status, attributes(it, &said))).collect();
    told.sort();
    let failed = |number| (ERROR, vec![number, "failed", "503", "status", "pending"]);
    let delivered = |number| (0, vec![number, "delivered", "200", "", "delivered"]);
    assert_eq!(told, [delivered("1"), delivered("3"), failed("1"), failed("2")]);
    for name in ["workspace.id", "source.id", "destination.id", "delivery.id"] {
        assert!(attempts.iter().all(|it| it.attributes.contains_key(name)), "{name}: {attempts:#?}");
    }
    assert!(attempts.iter().all(|it| it.attributes["request.id"] == request));

    // What waits when the server stops is brought before it ends.
    let last = intake(&server, &path).await;
    let last = trace_of(&server, &last).await;
    assert!(server.terminate().await.success());
    assert_eq!(named(&collector.trace(&last, 2).await, "POST /in/{token}").len(), 1);

    let resource = collector.resource();
    assert_eq!(resource["service.name"], "restante");
    assert_eq!(resource["deployment.environment.name"], "test");
    let token = path.rsplit('/').next().unwrap();
    for export in collector.exports() {
        assert_eq!(export.path, "/base/v1/traces");
        assert_eq!(export.content_type, "application/x-protobuf");
        assert_eq!(export.authorization, "Bearer for-the-collector");
        let text = String::from_utf8_lossy(&export.body);
        for secret in [CANARY, token, KEY, "for-the-collector"] {
            assert!(!text.contains(secret), "{secret} was exported: {text}");
        }
    }
}

async fn an_event_has_a_trace_of_its_own_that_is_linked_with_its_call(home: Home) {
    let (collector, sink) = (Collector::start().await, Sink::start().await);
    let server = Process::start(home.with(ENDPOINT, collector.url())).await;
    let url = format!("http://{}/hook", sink.address);
    let webhook = json!({"url": url, "events": ["*"], "headers": {"x-adal-idempotency": "k"}});
    server.call(Method::POST, "/v1/webhooks", webhook).await;
    let (parent, key) = (traceparent(), format!("Bearer {KEY}"));
    let headers = [("traceparent", parent.as_str()), ("authorization", key.as_str())];
    let body = Bytes::from(json!({"type": "order.paid", "data": {"secret": CANARY}}).to_string());
    let (status, answer) = server.caller().ask((Method::POST, "/v1/events"), &headers, body).await.unwrap();
    assert_eq!(status, StatusCode::ACCEPTED, "{answer:?}");
    let answer: Value = serde_json::from_slice(&answer).unwrap();

    // The call and its commit are in the caller's trace.
    let call = collector.trace(CALLER.0, 2).await;
    let (calls, commits) = (named(&call, "POST /v1/events"), named(&call, "commit"));
    assert_eq!((calls[0].kind, calls[0].parent.as_str()), (SERVER, CALLER.1));
    assert_eq!((commits[0].kind, &commits[0].parent), (INTERNAL, &calls[0].id));
    let spans = loop {
        let spans = collector.spans();
        if !named(&spans, "deliver webhook").is_empty() && !named(&spans, "publish event").is_empty() {
            break spans;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let published = named(&spans, "publish event")[0];
    assert_eq!((published.kind, published.parent.as_str()), (PRODUCER, ""));
    assert_eq!(published.links, [(CALLER.0.to_owned(), calls[0].id.clone())]);
    assert_eq!(published.attributes["event.id"], answer["id"].as_str().unwrap());
    let attempt = named(&spans, "deliver webhook")[0];
    assert_eq!((&attempt.trace, &attempt.parent), (&published.trace, &published.id));

    // A stranger's call does not get into the trace that it names.
    let headers = [("traceparent", parent.as_str()), ("authorization", "Bearer rst_live_nobody")];
    let refused = server.caller().ask((Method::POST, "/v1/events/batch"), &headers, Bytes::new()).await;
    assert_eq!(refused.unwrap().0, StatusCode::UNAUTHORIZED);
    let refused = loop {
        if let Some(span) = collector.spans().into_iter().find(|span| span.name == "POST /v1/events/batch") {
            break span;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_ne!(refused.trace, CALLER.0);
    assert_eq!(refused.parent, "");
}

async fn a_collector_that_is_away_costs_spans_and_nothing_else(home: Home) {
    let sink = Sink::start().await;
    // Nobody has this port while the test runs: it is bound, and nobody listens.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let server =
        Process::start(home.with(ENDPOINT, format!("http://{}", nobody.local_addr().unwrap()))).await;
    let path = source(&server, &sink, &["/ok"]).await;
    let request = intake(&server, &path).await;
    let waiting = async {
        loop {
            let (_, page) = server.send(Method::GET, "/metrics", Bytes::new()).await.unwrap();
            let page = String::from_utf8(page.to_vec()).unwrap();
            let dropped = page.lines().find_map(|line| line.strip_prefix("restante_spans_dropped_total "));
            if dropped.unwrap().parse::<u64>().unwrap() > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("drops are counted");
    let shown = server.call(Method::GET, &format!("/v1/requests/{request}"), Value::Null).await;
    assert_eq!(shown["state"], "delivered");
}

async fn a_collector_that_hangs_does_not_hold_up_the_stop(home: Home) {
    let sink = Sink::start().await;
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut server =
        Process::start(home.with(ENDPOINT, format!("http://{}", hangs.local_addr().unwrap()))).await;
    let path = source(&server, &sink, &["/ok"]).await;
    intake(&server, &path).await;
    let connected = hangs.accept().await.unwrap();
    intake(&server, &path).await;
    let status = tokio::time::timeout(Duration::from_secs(10), server.terminate()).await;
    assert!(status.expect("it stops in time").success());
    drop(connected);
}

async fn without_an_endpoint_nobody_is_connected_to(home: Home) {
    let (collector, sink) = (Collector::start().await, Sink::start().await);
    let off = home.clone().with(ENDPOINT, collector.url()).with("OTEL_SDK_DISABLED", "true");
    let on = home.clone().with(ENDPOINT, collector.url());
    let mut path = None;
    for (home, connects) in [(home, false), (off, false), (on, true)] {
        let mut server = Process::start(home).await;
        let path = match &path {
            Some(path) => path,
            None => path.insert(source(&server, &sink, &["/ok"]).await),
        };
        intake(&server, path).await;
        assert!(server.terminate().await.success());
        assert_eq!(collector.connections() > 0, connects);
    }
}
