//! The example for receivers does what it shows.
#![cfg(feature = "axum")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../examples/receiver.rs"]
#[expect(dead_code, reason = "its `main` is for the example")]
mod receiver;

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use restante_sdk::signature::{SecretError, SigningKey, sign};
use tower::ServiceExt;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECONDS: i64 = 1_614_265_330;

fn signed(id: &str, secret: &str) -> Request<Body> {
    let body = r#"{"type":"a.b","timestamp":"2026-11-29T23:19:41.000Z","data":{
"n": 1.0}}"#;
    let key: SigningKey = secret.parse().unwrap();
    Request::post("/")
        .header("webhook-id", id)
        .header("webhook-timestamp", SECONDS)
        .header("webhook-signature", sign(id, SECONDS, body.as_bytes(), &[key]))
        .body(body.into())
        .unwrap()
}

#[tokio::test]
async fn events_are_in_the_file_once_even_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.ndjson");
    let rotated = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let send = async |id, secret| {
        // Anew each time: what it knows it has from the file.
        let verifier = receiver::verifier(&format!("{SECRET} {rotated}\n")).unwrap();
        let app = receiver::app(verifier.with_tolerance(Duration::MAX), &path).unwrap();
        app.oneshot(signed(id, secret)).await.unwrap().status()
    };
    assert_eq!(send("whe_1", SECRET).await, StatusCode::NO_CONTENT);
    assert_eq!(send("whe_1", SECRET).await, StatusCode::OK);
    let line = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        line,
        "{\"id\":\"whe_1\",\"type\":\"a.b\",\"timestamp\":\"2026-11-29T23:19:41.000Z\",\"data\":{ \"n\": 1.0}}\n"
    );

    // Half a line, as a crash leaves it.
    std::fs::write(&path, format!("{line}{{\"id\":\"whe_2\",\"ty")).unwrap();
    assert_eq!(send("whe_2", rotated).await, StatusCode::NO_CONTENT);
    assert_eq!(send("whe_2", SECRET).await, StatusCode::OK);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2], line.trim_end().replace("whe_1", "whe_2"));
}

#[test]
fn without_a_secret_it_does_not_start() {
    assert_eq!(receiver::verifier(" ").err(), Some(SecretError::Empty));
}
