//! `restante doctor`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use super::{Desk, bare, talk};
use crate::process::{KEY, data_directory};

/// Each finding's check and state.
fn findings(json: &str) -> Vec<(String, String)> {
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let findings = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    findings.map(|finding| (text(&finding, "check"), text(&finding, "state"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_is_well_with_a_server_and_its_key() {
    let desk = Desk::open().await;
    let shown = desk.data(&["doctor"]);
    for part in [
        &format!(
            "ok    settings  server http://{} (from the environment), key …stuv (from the environment)\n",
            desk.server.address
        ),
        "ok    clock     like the server's\n",
        "ok    ready     its store answers and its disk has room\n",
        "ok    version   0.1.0, as this command\n",
        "ok    key       live mode; First admin key (key_",
        "), scopes admin\n",
        "ok    workspace Default (ws_",
        "warn  targets   any address, https and http\n      hint: fine for development; ",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    assert!(!shown.contains(KEY) && !shown.contains('\u{1b}'), "{shown}");
    let checks = ["settings", "server", "clock", "ready", "version", "key", "workspace"];
    let mut expected: Vec<_> = checks.iter().map(|check| ((*check).to_owned(), "ok".to_owned())).collect();
    // The tests' server delivers to their own receivers.
    expected.push(("targets".to_owned(), "warn".to_owned()));
    assert_eq!(findings(&desk.data(&["doctor", "--json"])), expected);
    let quiet = desk.data(&["doctor", "--quiet"]);
    assert!(quiet.starts_with("warn  targets") && quiet.lines().count() == 2, "{quiet}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_wrong_or_weak_or_missing_is_told_apart() {
    let desk = Desk::open().await;
    let wrong = desk.run(&["doctor", "--api-key", "rst_live_wrongwrongwrong"]);
    let shown = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert_eq!(wrong.status.code(), Some(3), "{shown}");
    assert!(shown.contains("fail  key       ") && shown.contains("\n      hint: "), "{shown}");
    assert!(shown.contains("ok    ready"), "{shown}");

    let weak = desk.json(&["keys", "create", "weak", "--scope", "events:publish", "--mode", "test"]);
    let weak = desk.data(&["doctor", "--api-key", weak["token"].as_str().unwrap()]);
    assert!(weak.contains("ok    key       test mode; weak (key_"), "{weak}");
    assert!(weak.contains("), scopes events:publish\n"), "{weak}");
    assert!(weak.contains("ok    workspace ws_"), "{weak}");

    let missing = desk.command(&["doctor", "--json"]).env_remove("RESTANTE_API_KEY").output().unwrap();
    assert_eq!(missing.status.code(), Some(3));
    let found = findings(&String::from_utf8_lossy(&missing.stdout));
    assert_eq!(found[0], ("settings".to_owned(), "fail".to_owned()));
    assert_eq!(found[3], ("ready".to_owned(), "ok".to_owned()), "the server is looked at without a key");
}

#[test]
fn a_server_whose_disk_is_full_is_told_with_what_to_do() {
    let home = data_directory();
    let mut command = bare(home.path(), &["serve", "--listen", "127.0.0.1:0", "--log", "error"]);
    // More than any disk has.
    command.env("RESTANTE_DISK_FREE_BYTES", "1000000000000000000").env("RESTANTE_ADMIN_KEY", KEY);
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut greeting = String::new();
    // It greets on, and must find somebody there.
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut greeting).unwrap();
    let url = greeting.split("listens on ").nth(1).unwrap().split(',').next().unwrap();

    let output = bare(home.path(), &["doctor", "--server", url, "--api-key", KEY]).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(
        shown.contains(
            " bytes are free on the disk, disk_free_bytes wants 1000000000000000000\n      hint: make room"
        ),
        "{shown}"
    );
    assert!(shown.contains("ok    key       live mode"), "the rest is looked at too:\n{shown}");
}

#[test]
fn without_a_server_it_says_where_it_looked_and_from_where_it_knows() {
    let home = data_directory();
    let output =
        bare(home.path(), &["doctor", "--server", "http://127.0.0.1:1", "--api-key", KEY]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(6), "{shown}");
    assert_eq!(
        shown,
        "ok    settings  server http://127.0.0.1:1 (from the command line), key …stuv (from the command line)\n\
         fail  server    http://127.0.0.1:1: no connection: Connection refused (os error 111)\n      \
         hint: start it with restante serve, or name another with --server or RESTANTE_URL; this one is from the command line\n"
    );
    assert_eq!(talk(&output), "");
}
