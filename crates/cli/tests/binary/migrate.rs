//! From a data directory to PostgreSQL, by the binary.

use std::path::Path;
use std::process::{Command, Output};

use hyper::Method;
use serde_json::{Value, json};

use crate::process::{Process, data_directory};

fn migrate(from: &str, to: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.args(["migrate", "--from", from, "--to", to]).env_clear().output().unwrap()
}

pub(crate) fn talk(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The refusal says what it should, and has this exit code.
pub(crate) fn refuses(output: &Output, code: i32, words: &[&str]) {
    let talk = talk(output);
    assert_eq!(output.status.code(), Some(code), "{talk}");
    for word in words.iter().chain(&["error: ", "hint: "]) {
        assert!(talk.contains(word), "{word} is missing: {talk}");
    }
    assert!(output.stdout.is_empty());
}

fn sqlite(directory: &Path) -> String {
    format!("sqlite:{}", directory.display())
}

/// A port of this machine that nobody listens on.
const NOWHERE: &str = "postgres://postgres@127.0.0.1:1/none";

#[test]
fn what_cannot_be_moved_is_refused_with_a_hint() {
    let empty = data_directory();
    let from = sqlite(empty.path());
    refuses(&migrate("./restante-data", NOWHERE), 2, &["only a data directory"]);
    refuses(&migrate("sqlite:", NOWHERE), 2, &["only a data directory"]);
    refuses(&migrate(&from, "mysql://root@localhost/x"), 2, &["must name a PostgreSQL"]);
    refuses(&migrate(&from, NOWHERE), 2, &["is not a data directory", "restante.db"]);
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is made in a wrong directory");
}

#[tokio::test]
async fn a_directory_in_use_and_a_database_out_of_reach_are_refused() {
    let data = data_directory();
    let mut server = Process::start(data.path()).await;
    let from = sqlite(data.path());
    refuses(&migrate(&from, NOWHERE), 5, &["in use by another process"]);
    server.kill();
    refuses(&migrate(&from, NOWHERE), 6, &["Nothing was moved"]);
    refuses(&migrate(&from, "postgres://[/x"), 2, &["cannot migrate"]);
}

mod on_postgres {
    use restante_store::postgres::{Postgres, trust_nobody};
    use restante_store::record::Kind;
    use restante_store::row::RequestFilter;
    use restante_store::{Page, Policy, Store};

    use super::*;
    use crate::process::cluster;

    /// The ids of a list of the API.
    fn ids(list: &Value) -> Vec<&str> {
        list["data"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_data_directory_goes_to_an_empty_database_once() {
        let cluster = cluster().await;
        let (data, url) = (data_directory(), cluster.database().await);
        let mut server = Process::start(data.path()).await;
        let source = server.call(Method::POST, "/v1/sources", json!({"name": "shop"})).await;
        let path = source["url"].as_str().unwrap().rsplit_once("/in/").unwrap().1.to_owned();
        for number in 0..3 {
            let body = format!("{number}").into();
            assert!(server.send(Method::POST, &format!("/in/{path}"), body).await.unwrap().0.is_success());
        }
        let before = server.call(Method::GET, "/v1/requests", Value::Null).await;
        assert_eq!(ids(&before).len(), 3);
        server.kill();

        let output = migrate(&sqlite(data.path()), &url);
        let shown = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(output.status.success(), "{}", talk(&output));
        let line = shown.lines().find(|line| line.starts_with("message")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["message", "3", "3"]);
        assert!(shown.contains("RESTANTE_SECRET_KEY"), "{shown}");
        assert!(talk(&output).contains("message: 3 of 3 rows"), "{}", talk(&output));

        refuses(&migrate(&sqlite(data.path()), &url), 5, &["holds records already"]);
        let node = Postgres::open(&url, trust_nobody(), Policy::default()).await.unwrap();
        let workspaces = node.records(Kind::Workspace, None, None, Page::newest(2)).await.unwrap().items;
        let [workspace] = &workspaces[..] else { panic!("{workspaces:?}") };
        let (all, now) = (RequestFilter::default(), workspace.created_at);
        let found = node.requests(workspace.workspace, all, Page::newest(9), now).await.unwrap().items;
        let found: Vec<String> = found.iter().map(|request| request.id.to_string()).collect();
        assert_eq!(found, ids(&before));
        node.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_database_that_a_node_works_on_is_refused() {
        let cluster = cluster().await;
        let (data, url) = (data_directory(), cluster.database().await);
        let mut server = Process::start(data.path()).await;
        server.kill();
        // It has made no record: only its row tells of it.
        let node = Postgres::open(&url, trust_nobody(), Policy::default()).await.unwrap();
        refuses(&migrate(&sqlite(data.path()), &url), 5, &["a node works on the database"]);
        node.close().await;
        assert!(migrate(&sqlite(data.path()), &url).status.success());
    }
}
