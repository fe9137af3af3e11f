//! Published clients of others, unmodified, against the real binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use hyper::Method;
use serde_json::{Value, json};

use crate::process::{Home, Process, on_both_stores};

on_both_stores!(
    the_published_bird_client_works_unmodified_and_its_deliveries_verify,
    what_senders_sign_is_taken_and_what_is_changed_is_rejected,
);

async fn the_published_bird_client_works_unmodified_and_its_deliveries_verify(home: Home) {
    let server = Process::start(&home).await;
    // A key that may do just this.
    let scopes = ["webhooks:read", "webhooks:write", "events:publish"];
    let key = server.call(Method::POST, "/v1/keys", json!({"name": "clients", "scopes": scopes})).await;
    let shown = run("bird_webhooks.py", &server, &key);
    assert!(shown.ends_with("ok verify_with_node\n"), "it did not get to the end:\n{shown}");
}

async fn what_senders_sign_is_taken_and_what_is_changed_is_rejected(home: Home) {
    let server = Process::start(&home).await;
    let scopes = ["sources:read", "sources:write", "requests:read"];
    let key = server.call(Method::POST, "/v1/keys", json!({"name": "senders", "scopes": scopes})).await;
    let shown = run("senders.py", &server, &key);
    assert_eq!(shown, "ok github\nok stripe\nok standard_webhooks\nok slack\nok shopify\n");
}

/// What a script prints that plays clients with this key, and must succeed.
fn run(script: &str, server: &Process, key: &Value) -> String {
    let output = Command::new(tool("clients/bin/python"))
        .arg(root().join("tests/clients").join(script))
        .arg(format!("http://{}", server.address))
        .arg(key["token"].as_str().unwrap())
        .arg(tool("clients-node"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    shown
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// What `./test` installs for this.
pub(crate) fn tool(name: &str) -> PathBuf {
    let path = root().join("target/tools").join(name);
    assert!(path.exists(), "{} is missing\nhint: run ./test, which installs it", path.display());
    path
}
