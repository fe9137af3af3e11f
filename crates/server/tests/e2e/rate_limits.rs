//! Limits of how often a key may call and a source be sent to, over sockets.

use std::time::Duration;

use hyper::{Method, StatusCode};
use restante_sdk::Client;
use restante_sdk::wire::PublishEvent;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::harness::{Answer, KEY, World};
use crate::tunnel::login;

const SECOND: Duration = Duration::from_secs(1);

/// One request a second for each source, and `burst` at once.
async fn one_a_second(burst: u32) -> World {
    World::start_with(|config| {
        config.rate_limit_source_per_second = Some(1.0);
        config.rate_limit_source_burst = Some(burst);
    })
    .await
}

async fn sent(world: &World, source: &Value, body: &'static str) -> Answer {
    world.send(Method::POST, source["url"].as_str().unwrap(), &[], body).await
}

/// A number of the page for monitoring.
async fn metric(world: &World, name: &str) -> Option<u64> {
    let page = world.send(Method::GET, &world.url("/metrics"), &[], "").await;
    let page = String::from_utf8(page.bytes.to_vec()).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
    line.and_then(|value| value.trim().parse().ok())
}

async fn kept(world: &World) -> usize {
    world.get("/v1/requests").await["data"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_source_that_is_sent_too_much_refuses_and_keeps_nothing_and_others_go_on() {
    let world = one_a_second(2).await;
    let (busy, quiet) = (world.source("busy").await, world.source("quiet").await);
    for _ in 0..2 {
        let taken = sent(&world, &busy, "x").await;
        assert_eq!(taken.status, StatusCode::OK);
        assert!(["ratelimit", "ratelimit-policy"].iter().all(|name| !taken.headers.contains_key(*name)));
    }
    let refused = sent(&world, &busy, "x").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["ratelimit-policy"], r#""default";q=2;w=2"#);
    assert_eq!(refused.headers["ratelimit"], r#""default";r=0;t=1"#);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.headers["content-type"], "application/json");
    let error = &refused.json["error"];
    assert_eq!((&error["type"], &error["code"]), (&json!("rate_limit_error"), &json!("rate_limited")));
    assert_eq!(error["request_id"], refused.headers["x-request-id"].to_str().unwrap());

    assert_eq!(sent(&world, &quiet, "x").await.status, StatusCode::OK);
    assert_eq!(kept(&world).await, 3);
    let name = r#"restante_requests_refused_total{reason="rate_limited"}"#;
    assert_eq!(metric(&world, name).await, Some(1));

    world.advance(SECOND);
    assert_eq!(sent(&world, &busy, "x").await.status, StatusCode::OK);
    assert_eq!(sent(&world, &busy, "x").await.status, StatusCode::TOO_MANY_REQUESTS);
    world.stop().await;
}

#[tokio::test]
async fn a_token_that_no_source_has_is_not_found_however_often_it_is_tried() {
    let world = one_a_second(1).await;
    for _ in 0..5 {
        let unknown = world.send(Method::POST, &world.url("/in/nobody"), &[], "x").await;
        assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    }
    world.stop().await;
}

/// Whoever is refused sees why, and may use its connection again.
#[tokio::test]
async fn a_refused_body_is_read_past() {
    let world = one_a_second(2).await;
    let source = world.source("s").await;
    for _ in 0..2 {
        assert_eq!(sent(&world, &source, "x").await.status, StatusCode::OK);
    }
    let path = format!("/in/{}", source["token"].as_str().unwrap());
    let mut stream = TcpStream::connect(world.server.address).await.unwrap();
    let long = "x".repeat(3_000_000);
    for request in [
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{long}", long.len()),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nfour"),
    ] {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut buffer = vec![0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(buffer[..read].starts_with(b"HTTP/1.1 429"), "{}", String::from_utf8_lossy(&buffer[..read]));
    }
    world.advance(SECOND);
    let last = format!(
        "POST {path}/y HTTP/1.1\r\nHost: a\r\nX-Last: 1\r\nConnection: close\r\nContent-Length: 1\r\n\r\nz"
    );
    stream.write_all(last.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(kept(&world).await, 3);
    assert_eq!(world.get("/v1/requests").await["data"][0]["path"], "/y");
    world.stop().await;
}

#[tokio::test]
async fn who_asks_before_it_sends_need_not_send() {
    let world = one_a_second(1).await;
    let source = world.source("s").await;
    assert_eq!(sent(&world, &source, "x").await.status, StatusCode::OK);
    let mut stream = TcpStream::connect(world.server.address).await.unwrap();
    let head = format!(
        "POST /in/{} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        source["token"].as_str().unwrap()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 429"), "{}", String::from_utf8_lossy(&answer));
    world.stop().await;
}

#[tokio::test]
async fn clients_log_in_while_their_source_is_sent_too_much_and_not_too_often_themselves() {
    let world = one_a_second(1).await;
    let source = world.source("s").await;
    let token = source["token"].as_str().unwrap();
    assert_eq!(sent(&world, &source, "x").await.status, StatusCode::OK);
    assert_eq!(sent(&world, &source, "x").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(login(&world, token).await.status, StatusCode::OK);
    let refused = login(&world, token).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.json["error"]["code"], "rate_limited");
    world.advance(SECOND);
    assert_eq!(login(&world, token).await.status, StatusCode::OK);
    world.stop().await;
}

#[tokio::test]
async fn the_client_waits_as_long_as_it_is_told_and_then_succeeds() {
    let world = World::start_with(|config| config.rate_limit_key_per_second = Some(1.0)).await;
    let client = Client::new(&world.url(""), KEY).unwrap();
    let event = PublishEvent::new("invoice.paid", &json!({"invoice": "inv_4192"})).unwrap();
    let first = client.events().publish(&event).answered().await.unwrap();
    assert_eq!(first.attempts, 1);

    let began = Instant::now();
    let second = tokio::spawn(async move { client.events().publish(&event).answered().await });
    while metric(&world, "restante_calls_rate_limited_total").await != Some(1) {
        tokio::task::yield_now().await;
    }
    world.advance(SECOND);
    let second = second.await.unwrap().unwrap();
    assert_eq!((second.attempts, second.value.replayed), (2, false));
    assert!(began.elapsed() >= SECOND);
    assert_ne!(first.value.id, second.value.id);

    let refused = world.call(Method::GET, "/v1/events", Value::Null).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    world.advance(SECOND);
    assert_eq!(world.get("/v1/events").await["data"].as_array().unwrap().len(), 2);
    world.stop().await;
}
