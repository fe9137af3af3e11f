//! Signatures, and what must never be seen again: signing secrets and the values of headers.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use restante_core::Timestamp;
use restante_server::clock::Clock;
use restante_server::config::Config;
use restante_server::vault::Secret;
use restante_server::{Server, StartFault};
use restante_store::sqlite::Sqlite;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::harness::outbound::{path, signature_of, waits};
use crate::harness::{World, id};
use crate::receiver::{Receiver, Seen};

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn secret(answer: &Value) -> String {
    answer["secret"].as_str().unwrap().to_owned()
}

async fn rotate(world: &World, webhook: &Value) -> String {
    let answer = world.ask(webhook, "rotate-secret", Value::Null).await;
    assert_eq!(answer.status, 200, "{}", answer.json);
    secret(&answer.json)
}

/// The request of an event that is published now.
async fn sent(world: &World, receiver: &Receiver) -> Seen {
    let seen = receiver.seen().len();
    world.publish().await;
    receiver.until_seen(seen + 1).await;
    receiver.seen().pop().unwrap()
}

/// Whether exactly these secrets signed, in this order.
fn is_signed_by(seen: &Seen, secrets: &[&String]) -> bool {
    let expected: Vec<_> = secrets.iter().map(|secret| signature_of(seen, secret)).collect();
    seen.header("webhook-signature") == expected.join(" ")
}

#[tokio::test]
async fn every_attempt_is_signed_with_a_fresh_timestamp_under_an_id_that_stays() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[60.5, 600.0])).await;
    let event = world.fail().await;
    world.advance(Duration::from_millis(60_500));
    world.until_tried(&event, 2).await;
    world.advance(Duration::from_secs(60));
    world.replay(&webhook, json!({})).await;
    world.until_tried(&event, 3).await;
    let delivery = id(&world.delivery(&event).await);
    world.ask(&webhook, &format!("deliveries/{delivery}/replay"), Value::Null).await;
    world.until_tried(&event, 4).await;
    let seen = receiver.seen();
    let start = Timestamp::parse(crate::harness::START).unwrap().millis() / 1000;
    let timestamps: Vec<i64> =
        seen.iter().map(|seen| seen.header("webhook-timestamp").parse().unwrap()).collect();
    assert_eq!(timestamps, [start, start + 60, start + 120, start + 120]);
    for seen in &seen {
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/hook"));
        assert_eq!(seen.header("webhook-id"), event);
        assert!(is_signed_by(seen, &[&secret(&webhook)]), "{seen:?}");
        assert_eq!(seen.header("content-type"), "application/json");
        assert_eq!(seen.header("user-agent"), concat!("Restante/", env!("CARGO_PKG_VERSION")));
        let expected = r#"{"type":"order.paid","timestamp":"2026-03-02T12:00:00.000Z","data":{"n":1}}"#;
        assert_eq!(seen.body, expected);
    }
    world.stop().await;
}

#[tokio::test]
async fn after_a_rotation_both_secrets_sign_for_exactly_24_hours() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), json!({})).await;
    let old = secret(&webhook);
    assert!(is_signed_by(&sent(&world, &receiver).await, &[&old]));
    let new = rotate(&world, &webhook).await;
    assert_ne!(new, old);
    assert!(is_signed_by(&sent(&world, &receiver).await, &[&new, &old]));
    world.advance(DAY - MILLISECOND);
    assert!(is_signed_by(&sent(&world, &receiver).await, &[&new, &old]));
    world.advance(MILLISECOND);
    assert!(is_signed_by(&sent(&world, &receiver).await, &[&new]));
    let world = world.restart().await;
    assert!(is_signed_by(&sent(&world, &receiver).await, &[&new]));
    world.stop().await;
}

#[tokio::test]
async fn an_attempt_is_signed_with_the_secrets_that_are_valid_when_it_starts() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let webhook = world.subscribe(&receiver.url(), waits(&[60.0, 172_800.0])).await;
    let old = secret(&webhook);
    let event = world.fail().await;
    let new = rotate(&world, &webhook).await;
    world.advance(Duration::from_secs(60));
    world.until_tried(&event, 2).await;
    world.advance(2 * DAY);
    world.until_tried(&event, 3).await;
    let seen = receiver.seen();
    assert!(is_signed_by(&seen[0], &[&old]));
    assert!(is_signed_by(&seen[1], &[&new, &old]));
    assert!(is_signed_by(&seen[2], &[&new]));
    world.stop().await;
}

#[tokio::test]
async fn five_secrets_sign_side_by_side_and_a_sixth_is_409() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), json!({})).await;
    let mut secrets = vec![secret(&webhook)];
    for _ in 0..4 {
        world.advance(Duration::from_secs(3600));
        secrets.insert(0, rotate(&world, &webhook).await);
    }
    let answer = world.ask(&webhook, "rotate-secret", Value::Null).await;
    assert_eq!((answer.status.as_u16(), &answer.json["error"]["code"]), (409, &json!("too_many_secrets")));
    assert!(is_signed_by(&sent(&world, &receiver).await, &secrets.iter().collect::<Vec<_>>()));
    // Each was replaced an hour after the one before.
    world.advance(DAY - Duration::from_secs(3 * 3600));
    while secrets.len() > 1 {
        secrets.pop();
        assert!(is_signed_by(&sent(&world, &receiver).await, &secrets.iter().collect::<Vec<_>>()));
        world.advance(Duration::from_secs(3600));
    }
    world.stop().await;
}

#[tokio::test]
async fn of_ten_parallel_rotations_no_more_than_four_succeed_and_all_that_do_sign() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let webhook = world.subscribe(&receiver.url(), json!({})).await;
    let rotations = (0..10).map(|_| world.ask(&webhook, "rotate-secret", Value::Null));
    let mut made = vec![secret(&webhook)];
    for answer in join_all(rotations).await {
        match answer.status.as_u16() {
            200 => made.push(secret(&answer.json)),
            status => assert_eq!((status, &answer.json["error"]["code"]), (409, &json!("too_many_secrets"))),
        }
    }
    assert_eq!(made.len(), 5);
    let seen = sent(&world, &receiver).await;
    let signatures: BTreeSet<_> = seen.header("webhook-signature").split(' ').map(str::to_owned).collect();
    assert_eq!(signatures, made.iter().map(|secret| signature_of(&seen, secret)).collect());
    world.stop().await;
}

#[tokio::test]
async fn secrets_are_kept_over_a_restart_and_with_another_key_nothing_starts() {
    let key = |text: &str| Some(Secret::new(text));
    let world = World::start_with(|config| config.secret_key = key("a-key-of-the-operators")).await;
    let receiver = Receiver::start().await;
    let headers = json!({"headers": {"X-Key": "header-value"}});
    let webhook = world.subscribe(&receiver.url(), headers).await;
    let world = world.restart().await;
    let seen = sent(&world, &receiver).await;
    assert!(is_signed_by(&seen, &[&secret(&webhook)]));
    assert_eq!(seen.header("x-key"), "header-value");
    assert!(!world.config.data.join("secret.key").exists());

    world.server.stop().await;
    world.store.close();
    drop(world.store);
    for other in [key("another-key-of-theirs"), None] {
        let config = Config { secret_key: other, ..world.config.clone() };
        let store = Arc::new(Sqlite::open(&config.data, config.policy()).unwrap());
        let clock = Arc::clone(&world.clock) as Arc<dyn Clock>;
        let started = Server::start(&config, Arc::clone(&store) as _, clock, &[Handle::current()]).await;
        assert!(matches!(started.err(), Some(StartFault::SecretKey(_))));
        store.close();
    }
}

/// All that anybody logs in this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().unwrap()));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Appends what is logged, field by field.
struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        writeln!(self.0, "{field}={value:?}").unwrap();
    }
}

/// The files below a directory in which `text` stands.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if std::fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn neither_secrets_nor_values_of_headers_are_on_the_disk_or_in_the_log() {
    const VALUE: &str = "header-canary-6f1c2a";
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    // What another test logged for the first time in that very moment would stay off.
    tracing::callsite::rebuild_interest_cache();
    let world = World::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(400);
    let settings = json!({"headers": {"Authorization": VALUE}, "description": "plain-canary-6f1c2a"});
    let webhook = world.subscribe(&receiver.url(), settings).await;
    let source = world.source("s").await;
    let settings = json!({"headers": {"Authorization": VALUE}});
    let destination = world.destination(&source, &receiver.url(), settings).await;
    let rotated = rotate(&world, &webhook).await;

    let event = world.fail().await;
    assert_eq!(receiver.seen()[0].header("authorization"), VALUE);
    world.until_attempts(&world.webhook(&source, "x").await, 1).await;
    world.ask(&webhook, "test", json!({})).await;
    world.replay(&webhook, json!({})).await;
    world.until_over(&webhook).await;
    // Attempts that get nowhere are described at more length.
    world.set(&webhook, json!({"url": "http://127.0.0.1:1/"})).await;
    world.fail().await;
    let world = world.restart().await;

    let (old, key) = (secret(&webhook), |secret: &str| secret.strip_prefix("whsec_").unwrap().to_owned());
    let secrets = [VALUE.to_owned(), key(&old), key(&rotated)];
    let shown = [
        world.shown(&webhook).await,
        world.get("/v1/webhooks").await,
        world.get(&format!("{}/attempts", path(&webhook))).await,
        world.get(&format!("/v1/events/{event}")).await,
        world.get(&format!("/v1/sources/{}/destinations/{}", id(&source), id(&destination))).await,
    ];
    let directory = world.config.data.clone();
    let check = || {
        let logged = log.0.lock().unwrap().clone();
        assert!(logged.contains("delivery.attempted") && logged.contains(&event), "the log is this one");
        for secret in &secrets {
            assert_eq!(files_with(&directory, secret), [""; 0], "{secret}");
            assert!(!logged.contains(secret.as_str()), "{secret} is logged");
            assert!(!json!(shown).to_string().contains(secret.as_str()), "{secret} is shown");
        }
    };
    check();
    world.server.stop().await;
    world.store.close();
    check();
    assert!(!files_with(&directory, "plain-canary-6f1c2a").is_empty(), "what is no secret is found");
}
