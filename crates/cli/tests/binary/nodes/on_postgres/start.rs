//! What a node needs to start.

use std::process::{Command, Output};

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::Nodes;
use crate::process::{Home, KEY, Process, SECRET_KEY, cluster, data_directory};

/// A node that is expected to end at once.
fn serve(database: &str, data: &std::path::Path, secret_key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.args(["serve", "--log", "off", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.env_clear().env("RESTANTE_DATABASE_URL", database).env("RESTANTE_ADMIN_KEY", KEY);
    if let Some(secret_key) = secret_key {
        command.env("RESTANTE_SECRET_KEY", secret_key);
    }
    command.output().unwrap()
}

fn talk(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_secret_key_of_the_others_is_refused_with_a_hint() {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let data = data_directory();
    let output = serve(&url, data.path(), None);
    assert_eq!(output.status.code(), Some(2));
    let said = talk(&output);
    assert!(said.contains("RESTANTE_SECRET_KEY") && said.contains("hint: "), "{said}");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "it has made no key of its own");

    let nodes = Nodes::start(std::slice::from_ref(&url)).await;
    let output = serve(&url, data.path(), Some("another-key-than-that-of-the-first-node"));
    assert_eq!(output.status.code(), Some(2));
    let said = talk(&output);
    assert!(said.contains("RESTANTE_SECRET_KEY") && !said.contains(SECRET_KEY), "{said}");
    drop(nodes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_needs_no_data_directory_and_makes_none() {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let data = data_directory();
    let missing = data.path().join("missing");
    let node = Process::start(&Home::on(&url, &missing)).await;
    node.call(Method::POST, "/v1/webhooks", json!({"url": "http://127.0.0.1:1/", "events": ["*"]})).await;
    assert!(!missing.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_at_once_on_an_empty_database_make_one_workspace() {
    let cluster = cluster().await;
    let url = cluster.database().await;
    let homes = [data_directory(), data_directory(), data_directory()];
    let [one, two, three] = homes.each_ref().map(|home| Home::on(&url, home.path()));
    let (one, two, three) = tokio::join!(Process::start(&one), Process::start(&two), Process::start(&three));
    let source = one.call(Method::POST, "/v1/sources", json!({"name": "s"})).await;
    for node in [&one, &two, &three] {
        let workspaces = node.call(Method::GET, "/v1/workspaces", Value::Null).await;
        assert_eq!(workspaces["data"].as_array().unwrap().len(), 1, "{workspaces:#}");
        let sources = node.call(Method::GET, "/v1/sources", Value::Null).await;
        assert_eq!(sources["data"][0]["id"], source["id"], "{sources:#}");
    }
}
