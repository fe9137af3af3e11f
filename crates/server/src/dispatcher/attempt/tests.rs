use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64;
use restante_core::endpoint::{
    Destination, DestinationKind, IdempotencyHeader, Sealed, SigningSecret, Webhook,
};
use restante_core::event::{EventType, Filter};
use restante_core::id::{EventId, Key, RequestId, Tail};
use restante_core::message::Headers;
use restante_core::retry::Schedule;
use sha2::{Digest, Sha256};

use super::*;
use crate::clock::ManualClock;

/// When attempts start: 2026-11-29T23:19:41.999Z.
const NOW: Timestamp = Timestamp::from_millis(1_795_994_381_999);
const BODY: &str = r#"{"type":"order.paid","timestamp":"2026-11-29T23:19:41.000Z","data":{"n":1.0}}"#;

struct Bench {
    vault: Vault,
    clock: ManualClock,
}

impl Bench {
    fn new() -> Self {
        Self { vault: Vault::new([7; 32]), clock: ManualClock::new(NOW, 1) }
    }

    /// A secret whose key is so many times this byte.
    fn secret(&self, byte: u8, until: Option<Timestamp>) -> SigningSecret {
        let text = format!("whsec_{}", BASE64.encode(&[byte; 32]));
        SigningSecret { secret: self.vault.seal(Purpose::SigningSecret, &text, &self.clock), until }
    }

    fn headers(&self, headers: &[(&str, &str)]) -> Vec<(String, Sealed)> {
        let seal = |value: &str| self.vault.seal(Purpose::HeaderValue, value, &self.clock);
        headers.iter().map(|(name, value)| ((*name).to_owned(), seal(value))).collect()
    }

    fn webhook(&self, secrets: Vec<SigningSecret>, headers: &[(&str, &str)]) -> Receiver {
        Receiver::Webhook(Webhook {
            url: "https://a.example/hook?k=1".into(),
            description: None,
            events: vec![Filter::parse("*").unwrap()],
            secrets,
            paused: false,
            schedule: Schedule::Standard,
            headers: self.headers(headers),
            max_in_flight: 64,
            rate_per_second: None,
            timeout_seconds: 15,
        })
    }

    fn destination(&self, idempotency_header: IdempotencyHeader, headers: &[(&str, &str)]) -> Receiver {
        Receiver::Destination(Destination {
            kind: DestinationKind::Http,
            url: "https://a.example/hook?k=1".into(),
            schedule: Schedule::default(),
            idempotency_header,
            paused: false,
            headers: self.headers(headers),
            max_in_flight: 64,
            rate_per_second: None,
            timeout_seconds: 30,
        })
    }

    fn send(&self, message: MessageId, content: &Content, receiver: &Receiver, now: Timestamp) -> Outgoing {
        outgoing(message, content, receiver, &Opened::new(receiver, &self.vault).unwrap(), now)
    }
}

fn event() -> MessageId {
    MessageId::Event(EventId::new(Key::first_at(NOW), Tail::from_bits(3)))
}

fn published() -> Content {
    let event_type = EventType::parse("order.paid").unwrap();
    Content::Event(Published { event_type, body: Bytes::from_static(BODY.as_bytes()) })
}

fn received(headers: &[(&str, &[u8])]) -> Content {
    Content::Request(Received {
        method: "PUT".into(),
        path: "/x".into(),
        query: Some("q=2".into()),
        headers: headers.iter().copied().collect::<Headers>(),
        body: Bytes::from_static(b"raw"),
        remote_address: "192.0.2.1".into(),
    })
}

/// All lines, with values as text.
fn lines(out: &Outgoing) -> Vec<(&str, &str)> {
    out.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect()
}

/// All values under a name.
fn values<'a>(out: &'a Outgoing, name: &str) -> Vec<&'a str> {
    lines(out).into_iter().filter(|(known, _)| *known == name).map(|(_, value)| value).collect()
}

/// `v1,` and HMAC-SHA256 as RFC 2104 writes it down, with a key of 32 times this byte.
fn signature_by_the_book(byte: u8, id: &str, seconds: &str) -> String {
    let padded = |with: u8| {
        let mut block = [with; 64];
        block[..32].iter_mut().for_each(|it| *it ^= byte);
        block
    };
    let message = format!("{id}.{seconds}.{BODY}");
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    let mac = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    format!("v1,{}", BASE64.encode(&mac))
}

#[test]
fn an_event_is_posted_signed_and_byte_for_byte() {
    let bench = Bench::new();
    let webhook = bench.webhook(vec![bench.secret(1, None)], &[]);
    let out = bench.send(event(), &published(), &webhook, NOW);
    assert_eq!((&out.method, out.url.as_str()), (&Method::POST, "https://a.example/hook?k=1"));
    assert_eq!((&out.body[..], out.timeout), (BODY.as_bytes(), Duration::from_secs(15)));
    let id = event().to_string();
    let product = concat!("Restante/", env!("CARGO_PKG_VERSION"));
    let signature = signature_by_the_book(1, &id, "1795994381");
    let mut lines = lines(&out);
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            ("content-type", "application/json"),
            ("user-agent", product),
            ("webhook-id", id.as_str()),
            ("webhook-signature", signature.as_str()),
            ("webhook-timestamp", "1795994381"),
        ]
    );
}

#[test]
fn the_secrets_that_are_valid_when_an_attempt_starts_sign_it_the_current_one_first() {
    let bench = Bench::new();
    let until = NOW + Duration::from_secs(60);
    let rotated = vec![
        bench.secret(3, None),
        bench.secret(2, Some(until)),
        bench.secret(1, Some(until - Duration::from_secs(30))),
    ];
    let webhook = bench.webhook(rotated, &[]);
    let id = event().to_string();
    for (after_ms, keys) in
        [(0, &[3, 2, 1][..]), (29_999, &[3, 2, 1]), (30_000, &[3, 2]), (59_999, &[3, 2]), (60_000, &[3])]
    {
        let now = NOW + Duration::from_millis(after_ms);
        let out = bench.send(event(), &published(), &webhook, now);
        let seconds = values(&out, "webhook-timestamp")[0].to_owned();
        assert_eq!(seconds, now.millis().div_euclid(1000).to_string());
        let expected: Vec<_> = keys.iter().map(|key| signature_by_the_book(*key, &id, &seconds)).collect();
        assert_eq!(values(&out, "webhook-signature"), [expected.join(" ")], "after {after_ms} ms");
        assert_eq!(values(&out, "webhook-id"), [id.as_str()], "it never changes");
    }
}

#[test]
fn static_headers_of_a_webhook_take_the_place_of_ours_but_not_of_the_signed_ones() {
    let bench = Bench::new();
    let set = [("Content-Type", "application/cloudevents+json"), ("USER-AGENT", "Own/1"), ("X-Team", "blue")];
    let out = bench.send(event(), &published(), &bench.webhook(vec![bench.secret(1, None)], &set), NOW);
    assert_eq!(values(&out, "content-type"), ["application/cloudevents+json"]);
    assert_eq!(values(&out, "user-agent"), ["Own/1"]);
    assert_eq!(values(&out, "x-team"), ["blue"]);
    for signed in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        assert_eq!(values(&out, signed).len(), 1, "{signed}");
    }
    assert_eq!(out.headers.len(), 6);
}

#[test]
fn a_request_carries_its_key_and_no_outsiders_header_of_that_name() {
    let bench = Bench::new();
    let request = RequestId::new(Key::first_at(NOW), Tail::from_bits(3));
    let content = received(&[
        ("X-Adal-Idempotency", b"forged"),
        ("X-Once", b"theirs"),
        ("X-Raw", b"\xff"),
        ("Webhook-Id", b"theirs"),
        ("X-Team", b"theirs"),
    ]);
    for (choice, standard, named) in [
        (IdempotencyHeader::Off, vec![], vec!["theirs".to_owned()]),
        (IdempotencyHeader::Standard, vec![request.hyphenated()], vec!["theirs".to_owned()]),
        (IdempotencyHeader::Named("X-Once".into()), vec![], vec![request.hyphenated()]),
    ] {
        let destination = bench.destination(choice.clone(), &[("x-team", "blue")]);
        let out = bench.send(MessageId::Request(request), &content, &destination, NOW);
        assert_eq!((out.method.as_str(), out.url.as_str()), ("PUT", "https://a.example/hook/x?k=1&q=2"));
        assert_eq!((&out.body[..], out.timeout), (&b"raw"[..], Duration::from_secs(30)));
        let of = |name: &str| -> Vec<String> {
            let found = out.headers.iter().filter(|(known, _)| known == name);
            found.map(|(_, value)| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
        };
        assert_eq!((of("x-adal-idempotency"), of("x-once")), (standard, named), "{choice:?}");
        assert_eq!((of("x-team"), of("webhook-id")), (vec!["blue".to_owned()], vec!["theirs".to_owned()]));
        assert!(of("webhook-signature").is_empty() && of("user-agent").is_empty());
        assert_eq!(out.headers.iter().find(|(name, _)| name == "x-raw").unwrap().1.as_bytes(), b"\xff");
    }
}

#[test]
fn secrets_that_do_not_open_make_no_attempt() {
    let bench = Bench::new();
    let sealed = bench.vault.seal(Purpose::SigningSecret, "no signing secret", &bench.clock);
    let nonsense = SigningSecret { secret: sealed, until: None };
    let header = bench.vault.seal(Purpose::HeaderValue, "x", &bench.clock);
    for secret in [nonsense, SigningSecret { secret: header, until: None }] {
        assert!(Opened::new(&bench.webhook(vec![secret], &[]), &bench.vault).is_err());
    }
    let webhook = bench.webhook(vec![bench.secret(1, None)], &[("X-A", "1")]);
    assert!(Opened::new(&webhook, &Vault::new([8; 32])).is_err());
    let destination = bench.destination(IdempotencyHeader::Off, &[("X-A", "1")]);
    assert!(Opened::new(&destination, &Vault::new([8; 32])).is_err());
}
