//! The commands that call a server, against the real one.

mod doctor;
mod exits;
mod mail;
mod output;
mod profiles;
mod shell;
mod tail;
mod terminal;
mod trigger;
mod webhooks;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::process::{KEY, Process, data_directory};

/// A server, and somebody at a command line.
struct Desk {
    server: Process,
    /// Where commands run, and where their user is at home.
    home: PathBuf,
    _data: tempfile::TempDir,
}

impl Desk {
    async fn open() -> Self {
        let data = data_directory();
        let home = data.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let server = Process::start(data.path().join("data").as_path()).await;
        Self { server, home, _data: data }
    }

    /// A command with the server and its key in the environment.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare(&self.home, arguments);
        command.env("RESTANTE_URL", format!("http://{}", self.server.address)).env("RESTANTE_API_KEY", KEY);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command that must succeed prints.
    fn data(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", talk(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The one line of JSON that a command prints.
    fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        serde_json::from_str(&self.data(&arguments)).unwrap()
    }

    /// The one id that a command prints.
    fn id(&self, arguments: &[&str]) -> String {
        let arguments = [arguments, &["--quiet"]].concat();
        self.data(&arguments).trim_end().to_owned()
    }

    /// Runs a command until it prints this.
    async fn until(&self, arguments: &[&str], wanted: &str) -> String {
        let waiting = async {
            loop {
                let shown = self.data(arguments);
                if shown.contains(wanted) {
                    return shown;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        let time = std::time::Duration::from_secs(20);
        tokio::time::timeout(time, waiting)
            .await
            .unwrap_or_else(|_| panic!("{arguments:?} never says {wanted}"))
    }
}

/// A command of somebody who has nothing but a home.
fn bare(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.args(arguments).env_clear().env("HOME", home).current_dir(home).stdin(Stdio::null());
    command
}

fn talk(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What differs from run to run is taken out: ids, ages, tokens. Cells stand with bars between them.
fn table(shown: &str) -> Vec<String> {
    let row = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(cell).collect::<Vec<_>>().join(" | ")
    };
    shown.lines().map(row).collect()
}

fn cell(cell: &str) -> String {
    let is_age = cell == "now" || cell.ends_with(" ago") || cell.starts_with("in ");
    match (cell.split_once('_'), cell.split_once("/in/")) {
        (Some((prefix, id)), _) if id.len() == 26 && prefix.len() <= 3 => format!("{prefix}_"),
        (_, Some(_)) => "URL".to_owned(),
        _ if is_age => "when".to_owned(),
        _ => cell.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_and_its_destination_live_from_create_to_delete() {
    let desk = Desk::open().await;
    let made = desk.json(&["sources", "create", "shop", "--retention-days", "7"]);
    assert_eq!((&made["name"], &made["retention_days"]), (&json!("shop"), &json!(7)));
    let source = made["id"].as_str().unwrap();
    assert_eq!(desk.json(&["sources", "get", "shop"]), desk.json(&["sources", "get", source]));

    let answer = ["--response-status", "202", "--response-body", "thanks", "--reset", "retention-days"];
    let changed = desk.json(&[&["sources", "update", "shop", "--name", "store"], &answer[..]].concat());
    assert_eq!((&changed["name"], &changed["retention_days"]), (&json!("store"), &json!(30)));
    assert_eq!(changed["response"], json!({"status": 202, "content_type": "text/plain", "body": "thanks"}));
    let rotated = desk.json(&["sources", "rotate-token", "store", "--yes"]);
    assert_ne!(rotated["token"], made["token"]);
    assert_eq!(
        table(&desk.data(&["sources", "list"])),
        ["ID | NAME | CLIENTS | KEEPS | CREATED | URL", "src_ | store | 0 | 30 d | when | URL"]
    );

    let url = "http://127.0.0.1:9/hook";
    let create =
        ["destinations", "create", "--source", "store", "--url", url, "--schedule", "1,60", "-H", "X-A: b"];
    let made = desk.json(&[&create[..], &["--jitter", "0.1", "--idempotency-header", "X-Key"]].concat());
    assert_eq!(made["schedule"], json!({"kind": "custom", "waits_seconds": [1.0, 60.0], "jitter": 0.1}));
    assert_eq!((&made["idempotency_header"], &made["headers"]), (&json!("X-Key"), &json!({"X-A": null})));
    let id = made["id"].as_str().unwrap();
    let one = |verb: &'static str| ["destinations", verb, id, "--source", "store"];
    assert_eq!(desk.json(&one("get"))["url"], url);
    assert_eq!(desk.json(&one("pause"))["paused"], true);
    assert_eq!(
        table(&desk.data(&["destinations", "list", "--source", "store"])),
        [
            "ID | KIND | STATE | SCHEDULE | CREATED | URL",
            "dst_ | http | paused | 1,60 | when | http://127.0.0.1:9/hook"
        ]
    );
    assert_eq!(desk.json(&one("resume"))["paused"], false);
    let changed = desk.json(&[&one("update")[..], &["--attempts", "3", "--reset", "headers"]].concat());
    assert_eq!((&changed["attempts"], &changed["headers"]), (&json!(3), &json!({})));
    let retry = [&one("retry")[..], &["--since", "1h", "--dry-run"]].concat();
    assert_eq!(desk.data(&retry), "would retry 0 deliveries for 0 credits\n");
    assert_eq!(desk.json(&retry), json!({"deliveries": 0, "credits": 0}));
    let retried = desk.id(&[&one("retry")[..], &["--since", "1h", "--yes"]].concat());
    assert!(retried.starts_with("rpl_"), "{retried}");
    assert!(desk.data(&one("retries")).contains(&retried));

    assert_eq!(desk.data(&[&one("delete")[..], &["--yes"]].concat()), format!("deleted {id}\n"));
    assert_eq!(desk.id(&["sources", "delete", "store", "--yes"]), source);
    assert_eq!(desk.data(&["sources", "list"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_sent_seen_retried_replayed_and_deleted() {
    let desk = Desk::open().await;
    desk.id(&["sources", "create", "shop"]);
    let create = ["destinations", "create", "--source", "shop", "--url", "http://127.0.0.1:1/hook"];
    let destination = desk.id(&[&create[..], &["--attempts", "1"]].concat());
    let sent = desk.run(&[
        "send",
        "request",
        "shop",
        "--data",
        "{\"order\":4192}",
        "--path",
        "/paid?x=1",
        "-H",
        "X-A: b",
    ]);
    assert!(sent.status.success(), "{}", talk(&sent));
    let request = desk.id(&["requests", "list", "--limit", "1"]);
    assert!(String::from_utf8_lossy(&sent.stdout).starts_with(&format!("200 {request} after ")));
    assert_eq!(talk(&sent), format!("restante requests get {request} shows what becomes of it\n"));

    desk.until(&["requests", "list", "--state", "failed"], &request).await;
    assert_eq!(
        table(&desk.data(&[
            "requests", "list", "--source", "shop", "--path", "paid", "--method", "POST", "--text", "4192"
        ])),
        [
            "ID | RECEIVED | STATE | REMARK | METHOD | BYTES | PATH",
            "req_ | when | failed | - | POST | 14 | /paid?x=1"
        ]
    );
    assert_eq!(desk.data(&["requests", "body", &request]), "{\"order\":4192}");
    let file = desk.home.join("body");
    desk.data(&["requests", "body", &request, "--output", file.to_str().unwrap()]);
    assert_eq!(std::fs::read(&file).unwrap(), b"{\"order\":4192}");

    let shown = desk.data(&["requests", "get", &request]);
    let delivery = desk.id(&["deliveries", "list", "--state", "failed", "--destination", &destination]);
    for part in [
        "\nHeaders\n",
        "\n  x-a: b\n",
        "\n  content-type: application/json\n",
        &format!("\n{delivery} to {destination}: failed (exhausted)\n"),
        "failed     connect",
        "no connection to 127.0.0.1:1",
        "\n  over     failed (exhausted), ",
        &format!("\n  again    restante deliveries retry {delivery}"),
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    let shown = desk.data(&["deliveries", "get", &delivery]);
    assert!(shown.contains("attempts_max      1\n") && shown.contains("\nAttempts\n        1  "), "{shown}");
    assert_eq!(
        table(&desk.data(&["deliveries", "attempts", &delivery]))[0],
        "ID | NUMBER | RESULT | ANSWER | TOOK | STARTED | TRIGGER | ERROR"
    );

    desk.data(&["destinations", "pause", &destination, "--source", "shop"]);
    let again = desk.id(&["deliveries", "retry", &delivery]);
    assert_eq!(desk.json(&["deliveries", "get", &again])["retry_of"], json!(delivery));
    let shown = desk.data(&["deliveries", "get", &again]);
    assert!(shown.contains("  because  "), "a waiting delivery says why it waits:\n{shown}");
    assert_eq!(desk.data(&["deliveries", "cancel", &again]), format!("cancelled {again}\n"));
    let copy = desk.id(&["requests", "replay", &request]);
    assert_eq!(desk.json(&["requests", "get", &copy])["replay_of"], json!(request));
    assert_eq!(desk.data(&["requests", "delete", &request, "-y"]), format!("deleted {request}\n"));
    assert_eq!(desk.run(&["requests", "get", &request]).status.code(), Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_workspace_and_credits_are_looked_after() {
    let desk = Desk::open().await;
    let made =
        desk.json(&["keys", "create", "worker", "--scope", "events:publish,sources:read", "--mode", "test"]);
    assert_eq!(made["scopes"], json!(["events:publish", "sources:read"]));
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    assert!(token.starts_with("rst_test_"));
    assert_eq!(desk.json(&["keys", "get", id])["name"], "worker");
    let rows = table(&desk.data(&["keys", "list"]));
    assert_eq!(rows[0], "ID | STATE | MODE | ENDS | CREATED | USED | NAME | SCOPES");
    let expected = format!(
        "key_ | active | test | …{} | when | - | worker | events:publish,sources:read",
        &token[token.len() - 4..]
    );
    assert_eq!(rows[1], expected);
    assert_ne!(desk.json(&["keys", "rotate", id, "--yes"])["token"], token);
    assert_eq!(desk.data(&["keys", "revoke", id, "--yes"]), format!("revoked {id}\n"));
    assert_eq!(desk.data(&["keys", "delete", id, "--yes"]), format!("deleted {id}\n"));

    let changed = desk.json(&["workspace", "update", "--name", "Shop", "--owner", "ops@example.com"]);
    assert_eq!((&changed["name"], &changed["owners"]), (&json!("Shop"), &json!(["ops@example.com"])));
    assert_eq!(desk.json(&["workspace", "get"]), changed);
    let workspace = changed["id"].as_str().unwrap();
    assert_eq!(desk.data(&["credits"]), "balance  not counted\n");
    let path = format!("/v1/workspaces/{workspace}/credits");
    desk.server.call(hyper::Method::POST, &path, json!({"delta": 5, "note": "welcome"})).await;
    assert_eq!(
        table(&desk.data(&["credits", "--limit", "1"])),
        ["balance | 5", "ID | WHEN | CREDITS | REASON | FOR", "chg_ | when | +5 | grant | welcome"]
    );
    assert_eq!(desk.json(&["credits"])["balance"], 5);
    // Acting in a workspace that is named.
    assert_eq!(desk.json(&["workspace", "get", "--workspace", workspace])["id"], json!(workspace));
    assert_eq!(table(&desk.data(&["notices", "list"])), [""; 0]);
}
