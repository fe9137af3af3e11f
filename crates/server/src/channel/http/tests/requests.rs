//! What is on the wire.

use std::io::Write;
use std::sync::mpsc;

use hyper::header::{HeaderName, HeaderValue};

use super::super::host;
use super::receiver::{Receiver, read_request};
use super::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A receiver that says what it got.
fn recorder() -> (Receiver, mpsc::Receiver<String>) {
    let (seen, requests) = mpsc::channel();
    let receiver = Receiver::start(move |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            seen.send(request).unwrap();
            stream.write_all(OK).unwrap();
        }
    });
    (receiver, requests)
}

fn header(name: &str, value: &'static str) -> (HeaderName, HeaderValue) {
    (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value))
}

#[tokio::test]
async fn a_request_is_written_as_given_with_its_own_host_and_length() {
    let (receiver, requests) = recorder();
    let mut out = post(receiver.url(), PATIENT);
    out.headers = vec![
        header("Content-Type", "text/plain"),
        header("X-Many", "1"),
        header("Host", "elsewhere.example"),
        header("Content-Length", "99"),
        header("X-Many", "2"),
        header("Connection", "close, x-hop"),
        header("X-Hop", "1"),
        header("Transfer-Encoding", "gzip"),
    ];
    assert_eq!(send(&channel(), out).await, delivered(200));
    let expected = format!(
        "POST /hook HTTP/1.1\r\ncontent-type: text/plain\r\nx-many: 1\r\nx-many: 2\r\n\
         host: 127.0.0.1:{}\r\ncontent-length: 5\r\n\r\nhello",
        receiver.port()
    );
    let got = requests.recv().unwrap();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
        lines[1..].sort();
        lines
    };
    assert_eq!(sorted(&got), sorted(&expected), "{got}");
    assert!(got.contains("x-many: 1\r\nx-many: 2\r\n"), "{got}");
}

#[tokio::test]
async fn the_target_is_sent_byte_for_byte() {
    let (receiver, requests) = recorder();
    let targets = [
        "/",
        "/a//b/../c/./%2F%2f%zz",
        "/a?",
        "/{\"a\"}|b/[c]'(d)',;=!$*@:~",
        "/a??b=%20+&c[]={d:'e'}|f^`&;=,!$*()@:~\\",
        "/ü?ü=é",
        "//double",
        "/trailing/",
    ];
    let channel = channel();
    for target in targets {
        let url = format!("http://127.0.0.1:{}{target}", receiver.port());
        assert_eq!(send(&channel, post(url, PATIENT)).await, delivered(200), "{target}");
        let got = requests.recv().unwrap();
        assert!(got.starts_with(&format!("POST {target} HTTP/1.1\r\n")), "{target}: {got}");
    }
    for (rest, target) in [("", "/"), ("?q", "/?q")] {
        let url = format!("http://127.0.0.1:{}{rest}", receiver.port());
        send(&channel, post(url, PATIENT)).await;
        assert!(requests.recv().unwrap().starts_with(&format!("POST {target} HTTP/1.1\r\n")));
    }
}

#[tokio::test]
async fn any_method_is_sent_and_an_empty_body_has_a_length_where_one_is_expected() {
    let (receiver, requests) = recorder();
    let channel = channel();
    let table = [
        ("GET", false),
        ("DELETE", false),
        ("OPTIONS", false),
        ("POST", true),
        ("PUT", true),
        ("X-Custom!", true),
    ];
    for (method, length) in table {
        let mut out = post(receiver.url(), PATIENT);
        out.method = Method::from_bytes(method.as_bytes()).unwrap();
        out.body = Bytes::new();
        assert_eq!(send(&channel, out).await, delivered(200), "{method}");
        let got = requests.recv().unwrap();
        assert!(got.starts_with(&format!("{method} /hook HTTP/1.1\r\n")), "{got}");
        assert_eq!(got.contains("content-length: 0\r\n"), length, "{got}");
    }
}

#[tokio::test]
async fn a_large_body_arrives_whole() {
    let (receiver, requests) = recorder();
    let mut out = post(receiver.url(), PATIENT);
    let body = "0123456789abcdef".repeat(320 * 1024);
    out.body = Bytes::from(body.clone());
    assert_eq!(send(&channel(), out).await, delivered(200));
    assert!(requests.recv().unwrap().ends_with(&body));
}

#[tokio::test]
async fn an_expectation_does_not_hold_back_the_body() {
    let (receiver, requests) = recorder();
    let mut out = post(receiver.url(), PATIENT);
    out.headers = vec![header("Expect", "100-continue")];
    assert_eq!(send(&channel(), out).await, delivered(200));
    let got = requests.recv().unwrap();
    assert!(got.contains("expect: 100-continue\r\n") && got.ends_with("hello"), "{got}");
}

#[tokio::test]
async fn what_cannot_be_written_fails_without_a_connection() {
    let (receiver, _requests) = recorder();
    let channel = channel();
    let origin = format!("127.0.0.1:{}", receiver.port());
    let urls = [
        String::new(),
        "/hook".to_owned(),
        origin.clone(),
        format!("ftp://{origin}/"),
        format!("http://{origin}/a b"),
        format!("http://{origin}/a\r\nX: 1"),
        format!("http://{origin}/{}", "a".repeat(70_000)),
        "http://".to_owned(),
        "http:///hook".to_owned(),
    ];
    for url in urls {
        assert_eq!(
            kind_of_failure(&channel, post(url.clone(), PATIENT)).await,
            FailureKind::Connect,
            "{url:.60}"
        );
    }
    let mut out = post(receiver.url(), PATIENT);
    out.method = Method::CONNECT;
    assert_eq!(kind_of_failure(&channel, out).await, FailureKind::Connect);
    assert_eq!(receiver.connections(), 0);
}

#[test]
fn the_host_is_named_without_the_port_that_goes_without_saying() {
    for (target, expected) in [
        ("http://receiver.example/", "receiver.example"),
        ("http://receiver.example:80/", "receiver.example"),
        ("https://receiver.example:80/", "receiver.example:80"),
        ("https://receiver.example:443/", "receiver.example"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("http://[::1]:80/", "[::1]"),
        ("http://jane:secret@receiver.example:8080/", "receiver.example:8080"),
        ("http://jane:secret@receiver.example:80/", "receiver.example"),
    ] {
        assert_eq!(host(&target.parse().unwrap()).unwrap(), expected, "{target}");
    }
}
