//! The way of a request from what is kept to a receiver's socket.

use hyper_util::rt::TokioIo;
use restante_core::Timestamp;
use restante_core::endpoint::{
    Destination, DestinationKind, IDEMPOTENCY_HEADER, IdempotencyHeader, Receiver,
};
use restante_core::id::{Key, RequestId, Tail};
use restante_core::message::{Content, MessageId, Received};
use restante_core::retry::Schedule;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::sent::{self, Sent, grouped};
use crate::channel::http::request;
use crate::dispatcher::attempt::{Opened, outgoing};
use crate::vault::Vault;

const URL: &str = "http://receiver.example/hook?k=1";
/// What belongs to one connection (RFC 9110, 7.6.1), or is made anew for each.
const LEFT_OUT: [&str; 8] =
    ["connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// A receiver gets the method, the header lines and the body that were received.
pub(super) async fn check(received: &Received) {
    let receiver = Receiver::Destination(destination());
    let opened = Opened::new(&receiver, &Vault::new([7; 32])).expect("nothing is sealed");
    let id = MessageId::Request(RequestId::new(Key::first_at(Timestamp::default()), Tail::from_bits(1)));
    let content = Content::Request(received.clone());
    let out = outgoing(id, &content, &receiver, &opened, Timestamp::default());
    let expected_target = out.url.strip_prefix("http://receiver.example").map(str::to_owned);
    // What cannot be written as a request is a failed attempt, and nobody is sent anything.
    let Ok(request) = request(out) else { return };
    let wire = written(request).await;
    let mut rest = &wire[..];
    let seen = sent::next(&mut rest).expect("what is written is a request");
    assert!(rest.is_empty(), "behind a request there is nothing: {}", rest.escape_ascii());
    compare(&seen, received, expected_target.as_deref());
}

fn compare(seen: &Sent<'_>, received: &Received, target: Option<&str>) {
    assert_eq!(seen.method, received.method.as_bytes());
    let until = target.map(|target| target.split('#').next().unwrap_or_default().as_bytes());
    assert_eq!(Some(seen.target), until);
    assert_eq!(seen.body, received.body);
    let hops: Vec<String> = received
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .map(|token| String::from_utf8_lossy(token.trim_ascii()).to_ascii_lowercase())
        .collect();
    let goes_on = |name: &str| {
        let name = name.to_ascii_lowercase();
        !LEFT_OUT.contains(&name.as_str()) && !name.starts_with("proxy-") && !hops.contains(&name)
    };
    let lines = received.headers.iter().filter(|(name, _)| {
        // Whoever sends this one could pass for us.
        goes_on(name) && !name.eq_ignore_ascii_case(IDEMPOTENCY_HEADER)
    });
    let expected: Vec<(String, &[u8])> = lines.map(|(name, value)| (name.to_owned(), value)).collect();
    let seen: Vec<(String, &[u8])> = seen.lines.iter().filter(|(name, _)| goes_on(name)).cloned().collect();
    assert_eq!(grouped(&seen), grouped(&expected));
}

fn destination() -> Destination {
    Destination {
        kind: DestinationKind::Http,
        url: URL.to_owned(),
        schedule: Schedule::default(),
        idempotency_header: IdempotencyHeader::Off,
        paused: false,
        headers: Vec::new(),
        max_in_flight: 64,
        rate_per_second: None,
        timeout_seconds: 30,
    }
}

/// The bytes that a receiver gets.
async fn written(mut request: hyper::Request<http_body_util::Full<bytes::Bytes>>) -> Vec<u8> {
    let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.expect("nothing was said yet");
    // As the pool does it, whose part this is here.
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    *request.uri_mut() = path.parse().expect("a part of a URI is one");
    let receiving = async {
        let mut wire = Vec::new();
        let mut chunk = [0; 4096];
        while sent::next(&mut &wire[..]).is_none() {
            match theirs.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(count) => wire.extend_from_slice(&chunk[..count]),
            }
        }
        let _ = theirs.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
        let _ = theirs.read_to_end(&mut wire).await;
        wire
    };
    let (_, _, wire) = tokio::join!(connection, sender.send_request(request), receiving);
    wire
}
