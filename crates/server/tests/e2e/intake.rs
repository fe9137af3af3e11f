//! What comes in is kept and passed on as it came.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{World, id};
use crate::receiver::Receiver;

/// Writes raw bytes and reads the answer to the end of the connection.
async fn raw(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.server.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn token(source: &Value) -> &str {
    source["token"].as_str().unwrap()
}

#[tokio::test]
async fn header_lines_keep_order_duplicates_and_case_and_every_byte_of_the_body_arrives() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let source = world.source("s").await;
    world.destination(&source, &receiver.url(), json!({})).await;
    let body: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let mut bytes = format!(
        "PUT /in/{}/a/../b%2Fc//?x=1&x=2&y HTTP/1.1\r\nHost: example.com\r\nX-Sig: one\r\nx-other: 1\r\nX-SIG: two\r\n\
         Content-Length: {}\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nEmpty:\r\n\r\n",
        token(&source),
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(&body);
    let answer = raw(&world, &bytes).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    receiver.until_seen(1).await;

    let listed = world.get("/v1/requests").await;
    let shown = world.get(&format!("/v1/requests/{}", id(&listed["data"][0]))).await;
    assert_eq!(
        (&shown["method"], &shown["path"], &shown["query"]),
        (&json!("PUT"), &json!("/a/../b%2Fc//"), &json!("x=1&x=2&y"))
    );
    assert_eq!(
        shown["headers"],
        json!([
            ["Host", "example.com"],
            ["X-Sig", "one"],
            ["x-other", "1"],
            ["X-SIG", "two"],
            ["Content-Length", "10000"],
            ["Connection", "close, x-hop"],
            ["X-Hop", "1"],
            ["Empty", ""]
        ])
    );
    assert_eq!((&shown["body_bytes"], &shown["remote_address"]), (&json!(10_000), &json!("127.0.0.1")));
    let stored = world.call(Method::GET, &format!("/v1/requests/{}/body", id(&shown)), Value::Null).await;
    assert_eq!(stored.bytes, body);
    assert_eq!(stored.headers["content-type"], "application/octet-stream");
    assert_eq!(stored.headers["x-content-type-options"], "nosniff");

    let seen = &receiver.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("PUT", "/hook/a/../b%2Fc//?x=1&x=2&y"));
    assert_eq!(seen.body, body);
    let values: Vec<_> = seen.headers.get_all("x-sig").iter().collect();
    assert_eq!(values, ["one", "two"]);
    assert_eq!(seen.headers["host"], receiver.address.to_string());
    assert!(!seen.headers.contains_key("x-hop") && !seen.headers.contains_key("connection"));
    world.stop().await;
}

#[tokio::test]
async fn requests_on_one_connection_are_kept_apart_whatever_their_framing() {
    let world = World::start().await;
    let source = world.source("s").await;
    let path = format!("/in/{}", token(&source));
    let first = format!(
        "POST {path}/1 HTTP/1.1\r\nHost: a\r\nX-First: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    );
    let second = format!("POST {path}/2 HTTP/1.1\r\nHost: a\r\nX-SECOND: 2\r\nContent-Length: 4\r\n\r\nfour");
    let third = format!("GET {path}/3 HTTP/1.1\r\nHost: a\r\nX-Third: 3\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(world.server.address).await.unwrap();
    let mut buffer = vec![0; 4096];
    for request in [&first, &second] {
        stream.write_all(request.as_bytes()).await.unwrap();
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(buffer[..read].starts_with(b"HTTP/1.1 200"));
    }
    stream.write_all(third.as_bytes()).await.unwrap();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    let listed = world.get("/v1/requests").await;
    let mut heads = Vec::new();
    for request in listed["data"].as_array().unwrap() {
        let shown = world.get(&format!("/v1/requests/{}", id(request))).await;
        let body = world.call(Method::GET, &format!("/v1/requests/{}/body", id(request)), Value::Null).await;
        heads.push((shown["path"].clone(), shown["headers"][1][0].clone(), body.bytes));
    }
    let expected = [("/3", "X-Third", ""), ("/2", "X-SECOND", "four"), ("/1", "X-First", "abcde")];
    assert_eq!(heads, expected.map(|(path, name, body)| (json!(path), json!(name), body.into())));
    world.stop().await;
}

#[tokio::test]
async fn every_method_is_taken_and_the_usual_answer_is_the_id() {
    let world = World::start().await;
    let source = world.source("s").await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = world.send(method.clone(), source["url"].as_str().unwrap(), &[], "").await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.headers["content-type"], "application/json");
        let shown = world.get(&format!("/v1/requests/{}", id(&answer.json))).await;
        assert_eq!(shown["method"], method.as_str());
        assert_eq!((&shown["state"], &shown["deliveries"]), (&json!("none"), &json!([])));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_source_answers_as_it_is_told() {
    let world = World::start().await;
    let response = json!({"status": 202, "content_type": "text/xml; charset=utf-8", "body": "<ok/>"});
    let source = world.post("/v1/sources", json!({"name": "s", "response": response})).await;
    assert_eq!(source["response"], response);
    let answer = world.send(Method::POST, source["url"].as_str().unwrap(), &[], "x").await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    assert_eq!(answer.headers["content-type"], "text/xml; charset=utf-8");
    assert_eq!(answer.bytes, "<ok/>");
    let empty = json!({"response": {"status": 204, "content_type": "text/plain", "body": ""}});
    world.patch(&format!("/v1/sources/{}", id(&source)), empty).await;
    let answer = world.send(Method::POST, source["url"].as_str().unwrap(), &[], "x").await;
    assert_eq!((answer.status, answer.bytes.len()), (StatusCode::NO_CONTENT, 0));
    world.stop().await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_not_kept() {
    let world = World::start_with(|config| config.intake_body_bytes = 1000).await;
    let source = world.source("s").await;
    let url = source["url"].as_str().unwrap().to_owned();
    let fits = world.send(Method::POST, &url, &[], vec![b'x'; 1000]).await;
    assert_eq!(fits.status, StatusCode::OK);
    let declared = world.send(Method::POST, &url, &[], vec![b'x'; 1001]).await;
    assert_eq!(declared.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(declared.json["error"]["code"], "body_too_large");
    let chunked = format!(
        "POST /in/{} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{}\r\n0\r\n\r\n",
        token(&source),
        "x".repeat(1001)
    );
    assert!(raw(&world, chunked.as_bytes()).await.starts_with("HTTP/1.1 413"));
    assert_eq!(world.get("/v1/requests").await["data"].as_array().unwrap().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn unknown_and_former_tokens_are_not_found() {
    let world = World::start().await;
    let source = world.source("s").await;
    let old = source["url"].as_str().unwrap().to_owned();
    let unknown = world.send(Method::POST, &world.url("/in/nobody"), &[], "x").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_eq!(unknown.json["error"]["type"], "not_found_error");
    assert!(unknown.headers.contains_key("x-request-id"));
    let rotated = world.post(&format!("/v1/sources/{}/rotate-token", id(&source)), Value::Null).await;
    assert_eq!(world.send(Method::POST, &old, &[], "x").await.status, StatusCode::NOT_FOUND);
    let new = rotated["url"].as_str().unwrap();
    assert_eq!(world.send(Method::POST, new, &[], "x").await.status, StatusCode::OK);
    world.stop().await;
}

#[tokio::test]
async fn without_a_store_nothing_is_acknowledged() {
    let world = World::start().await;
    let source = world.source("s").await;
    world.store.close();
    let answer = world.send(Method::POST, source["url"].as_str().unwrap(), &[], "x").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!(answer.json["error"]["type"], "api_error");
    world.stop().await;
}

#[tokio::test]
async fn heads_that_two_readers_could_read_differently_are_refused() {
    let world = World::start().await;
    let source = world.source("s").await;
    let path = format!("/in/{}", token(&source));
    let table = [
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 1\r\n\r\nx"),
        format!("POST {path} HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"),
        format!("POST {path} HTTP/1.1\nHost: a\nContent-Length: 1\n\nx"),
        format!("POST {path} HTTP/1.1\r\nHost: a\nContent-Length: 1\r\n\r\nx"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
        ),
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"
        ),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\nContent-Length: 1\r\n\r\nx"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\nx"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n"),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", "X: y\r\n".repeat(200)),
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(100_000)),
        "nonsense\r\n\r\n".to_owned(),
        "\x16\x03\x01\x02\x00\x01\x00\x01\x7f\x03\x03".to_owned(),
    ];
    for request in table {
        let answer = raw(&world, request.as_bytes()).await;
        let clean = ["HTTP/1.1 400", "HTTP/1.1 431"].iter().any(|start| answer.starts_with(start));
        assert!(clean, "{:?}\n{answer}", &request[..request.len().min(200)]);
    }
    assert_eq!(world.get("/v1/requests").await["data"], json!([]));
    world.stop().await;
}
