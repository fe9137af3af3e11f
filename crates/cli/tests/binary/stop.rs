//! SIGTERM with attempts on the wire.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::process::{Home, Process, data_directory, on_both_stores};
use crate::sink::Sink;

on_both_stores!(a_stop_ends_within_ten_seconds_and_what_hangs_is_lost_and_sent_again);

async fn a_stop_ends_within_ten_seconds_and_what_hangs_is_lost_and_sent_again(home: Home) {
    let (sink, directory) = (Sink::start().await, data_directory());
    let log = directory.path().join("log");
    let home = home.heard("warn", &log);
    let mut server = Process::start(&home).await;
    let source = server.call(Method::POST, "/v1/sources", json!({"name": "s"})).await;
    let destinations = format!("/v1/sources/{}/destinations", source["id"].as_str().unwrap());
    let url = format!("http://{}/hangs-once", sink.address);
    let body =
        json!({"kind": "http", "url": url, "idempotency_header": true, "attempts": 1, "timeout_seconds": 60});
    server.call(Method::POST, &destinations, body).await;
    let intake = format!("/in/{}", source["token"].as_str().unwrap());
    let (status, answer) = server.send(Method::POST, &intake, Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(status, StatusCode::OK);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let request = format!("/v1/requests/{}", answer["id"].as_str().unwrap());
    let key = server.call(Method::GET, &request, Value::Null).await["key"].as_str().unwrap().to_owned();
    while sink.seen("/hangs-once", &key).times == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let status = tokio::time::timeout(Duration::from_secs(10), server.terminate()).await;
    assert!(status.expect("it stops in time").success());
    let said = std::fs::read_to_string(&log).unwrap();
    let line = said.lines().find(|line| line.contains("cut off")).expect("it says what it cut short");
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["attempts"], &line["connections"]), (&json!(1), &json!(0)), "{line}");

    let server = Process::start(&home).await;
    let shown = loop {
        let shown = server.call(Method::GET, &request, Value::Null).await;
        if shown["state"] != "pending" {
            break shown;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let delivery = &shown["deliveries"][0];
    assert_eq!((&delivery["state"], &delivery["attempts_used"]), (&json!("delivered"), &json!(1)));
    let attempts = delivery["attempts"].as_array().unwrap();
    let kinds: Vec<_> = attempts.iter().map(|attempt| (&attempt["number"], &attempt["error_kind"])).collect();
    assert_eq!(kinds, [(&json!(1), &json!("lost")), (&json!(2), &Value::Null)]);
    assert_eq!(attempts[0]["uses_budget"], false);
}
