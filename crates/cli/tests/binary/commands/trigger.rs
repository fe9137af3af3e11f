//! What well-known senders send, as a receiver sees it.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use ring::hmac;

use super::{Desk, bare};
use crate::process::data_directory;

fn hmac_hex(secret: &str, signed: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    HEXLOWER.encode(hmac::sign(&key, signed.as_bytes()).as_ref())
}

/// Headers and body of the newest request.
fn newest(desk: &Desk) -> (HashMap<String, String>, String) {
    let id = desk.id(&["requests", "list", "--limit", "1"]);
    let request = desk.json(&["requests", "get", &id]);
    let headers: Vec<(String, String)> = serde_json::from_value(request["headers"].clone()).unwrap();
    (headers.into_iter().collect(), desk.data(&["requests", "body", &id]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_can_verify_what_is_triggered() {
    let desk = Desk::open().await;
    let url = desk.json(&["sources", "create", "inbox"])["url"].as_str().unwrap().to_owned();

    assert!(desk.id(&["trigger", "github", "pull_request", "--source", "inbox"]).starts_with("req_"));
    let (headers, body) = newest(&desk);
    assert_eq!(headers["x-github-event"], "pull_request");
    assert_eq!(headers["user-agent"], "GitHub-Hookshot/044aadd");
    assert_eq!(headers["x-github-delivery"].len(), 36);
    assert_eq!(
        headers["x-hub-signature-256"],
        format!("sha256={}", hmac_hex("restante-trigger-secret", &body))
    );

    desk.data(&["trigger", "stripe", "invoice.paid", "--url", &url, "--secret", "whsec_mine"]);
    let (headers, body) = newest(&desk);
    let (time, signature) = headers["stripe-signature"].split_once(",v1=").unwrap();
    assert_eq!(signature, hmac_hex("whsec_mine", &format!("{}.{body}", time.strip_prefix("t=").unwrap())));
    assert_eq!(headers["content-type"], "application/json; charset=utf-8");

    desk.data(&["trigger", "slack", "slash_command", "--source", "inbox"]);
    let (headers, body) = newest(&desk);
    let signed = format!("v0:{}:{body}", headers["x-slack-request-timestamp"]);
    assert_eq!(headers["x-slack-signature"], format!("v0={}", hmac_hex("restante-trigger-secret", &signed)));
    assert_eq!(headers["content-type"], "application/x-www-form-urlencoded");

    let gone = desk.run(&["trigger", "github", "push", "--url", &format!("{url}x")]);
    assert_eq!(gone.status.code(), Some(4), "{}", super::talk(&gone));
}

#[test]
fn what_there_is_is_listed_without_a_server() {
    let home = data_directory();
    let output = bare(home.path(), &["trigger", "--list"]).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "github  ping\ngithub  push\ngithub  pull_request\ngithub  issues\n\
         stripe  payment_intent.succeeded\nstripe  invoice.paid\nstripe  customer.created\nstripe  charge.refunded\n\
         slack   url_verification\nslack   event_callback\nslack   slash_command\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_takes_what_is_signed_with_its_secret() {
    let desk = Desk::open().await;
    let create = ["sources", "create", "careful", "--verify", "github", "--verify-secret", "mine"];
    let source =
        desk.json(&[&create[..], &["--dedupe-header", "X-GitHub-Delivery", "--dedupe-hours", "24"]].concat());
    assert_eq!(source["verification"]["kind"], "github");
    assert_eq!(source["dedupe"]["header"], "X-GitHub-Delivery");

    desk.data(&["trigger", "github", "push", "--source", "careful", "--secret", "mine"]);
    let refused = desk.run(&["trigger", "github", "push", "--source", "careful"]);
    assert!(!refused.status.success(), "{}", super::talk(&refused));
    let id = desk.id(&["requests", "list", "--limit", "1"]);
    let shown = desk.data(&["requests", "get", &id]);
    assert!(shown.contains("no signature in X-Hub-Signature-256 matches"), "{shown}");
    assert!(shown.contains("No deliveries: it was rejected"), "{shown}");

    let update = ["sources", "update", "careful", "--reset", "verification", "--reset", "dedupe"];
    let source = desk.json(&update);
    assert!(source["verification"].is_null() && source["dedupe"].is_null(), "{source}");
    desk.data(&["trigger", "github", "push", "--source", "careful"]);
}
