//! Exit codes, hints, and asking first.

use std::io::Read;
use std::net::TcpListener;

use super::{Desk, bare, talk};
use crate::process::{KEY, data_directory};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_has_its_code_and_one_hint() {
    let desk = Desk::open().await;
    desk.id(&["sources", "create", "stripe-live"]);
    desk.id(&["send", "event", "a.b", "--idempotency-key", "k"]);
    let weak = desk.json(&["keys", "create", "weak", "--scope", "events:read"]);
    let weak = weak["token"].as_str().unwrap();
    let none = "req_01jdx3s0mze5tr5yk9v1qx7b2h";
    let table: &[(&[&str], i32, &str, &str)] = &[
        (
            &["sources", "list", "--api-key", "rst_live_wrong"],
            3,
            "401 invalid_api_key",
            "restante doctor shows which key is used",
        ),
        (
            &["sources", "list", "--api-key", weak],
            3,
            "403 insufficient_scope",
            "restante keys create NAME --scope sources:read",
        ),
        (
            &["requests", "get", none],
            4,
            "there is no such request (404 request_not_found, request ",
            "restante requests list shows",
        ),
        (
            &["sources", "get", "stripe_live"],
            4,
            "there is no source \"stripe_live\"",
            "did you mean stripe-live?",
        ),
        (
            &["requests", "list", "--source", "github"],
            4,
            "there is no source \"github\"",
            "restante sources list shows",
        ),
        (&["sources", "create", "stripe-live"], 5, "409 name_taken", "choose another name"),
        (
            &["send", "event", "a.c", "--idempotency-key", "k"],
            5,
            "422 idempotency_key_reuse",
            "another --idempotency-key",
        ),
        (
            &["sources", "create", "x", "--retention-days", "0"],
            2,
            "422 ",
            "restante sources create --help says what retention_days takes",
        ),
        (
            &["webhooks", "create", "ftp://x", "--event", "*"],
            2,
            "422 ",
            "restante webhooks create --help says what url takes",
        ),
        (&["send", "event", "a.b", "--data", "{"], 2, "--data is not JSON", "it looks like --data "),
        (&["send", "event", "a.b", "--data", "@/nowhere"], 2, "cannot read @/nowhere", "@FILE reads a file"),
        (
            &["send", "event", "a.b", "--idempotency-key", "a b"],
            2,
            "an idempotency key is",
            "restante send event --help",
        ),
        (
            &["sources", "list", "--server", "http://127.0.0.1:1"],
            6,
            "no connection: Connection refused",
            "restante doctor tells",
        ),
        (
            &["sources", "list", "--server", "http://example.com"],
            2,
            "would carry the API key in the clear",
            "the URL is from the command line",
        ),
        (
            &["sources", "list", "--profile", "none"],
            2,
            "there is no profile \"none\", which the command line names",
            "restante profiles list",
        ),
    ];
    for (arguments, code, line, hint) in table {
        let output = desk.run(arguments);
        let talk = talk(&output);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {talk}");
        let lines: Vec<&str> = talk.lines().collect();
        assert_eq!(lines.len(), 2, "{arguments:?}: {talk}");
        assert!(lines[0].starts_with("error: ") && lines[0].contains(line), "{arguments:?}: {talk}");
        assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{arguments:?}: {talk}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_send_whose_answer_is_lost_says_with_which_key_it_can_be_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // It takes the request, and dies.
            let _ = stream.unwrap().read(&mut [0; 4096]);
        }
    });
    let home = data_directory();
    let arguments = ["send", "event", "a.b", "--server", &url, "--api-key", KEY];
    let output = bare(home.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    let talk = talk(&output);
    assert!(talk.starts_with("error: the connection broke: ") && talk.contains(" (3 tries)\n"), "{talk}");
    let key = talk.split("--idempotency-key ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(key.starts_with("oe-") && key.len() == 39, "{talk}");
}

#[test]
fn a_wrong_command_line_is_told_with_the_nearest_right_one() {
    let home = data_directory();
    let table: &[(&[&str], &str)] = &[
        (&["soruces", "list"], "hint: did you mean sources?"),
        (&["sources", "lsit"], "hint: did you mean list?"),
        (&["sources", "get"], "hint: restante sources get <SOURCE>"),
        (&["deliveries", "list", "--state", "faild"], "hint: did you mean failed?"),
        (&["requests", "list", "--sorce", "x"], "hint: did you mean --source?"),
        (&["requests", "list", "--since", "yesterday"], "how long ago: 90s, 15m, 2h, 7d"),
        (&["trigger", "github", "psh", "--url", "http://127.0.0.1:1"], "did you mean push?"),
    ];
    for (arguments, expected) in table {
        let output = bare(home.path(), arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let talk = talk(&output);
        assert!(talk.contains(expected), "{arguments:?}: {talk}");
        let begins: Vec<_> = talk.lines().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(begins, ["error", "hint"], "{arguments:?}: {talk}");
    }
    let output = bare(home.path(), &["sources", "list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(talk(&output).contains("hint: set RESTANTE_API_KEY"), "{}", talk(&output));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_terminal_nothing_is_destroyed_unless_yes_is_said() {
    let desk = Desk::open().await;
    desk.id(&["sources", "create", "shop"]);
    let destination =
        desk.id(&["destinations", "create", "--source", "shop", "--url", "http://127.0.0.1:1/"]);
    let request = desk.id(&["send", "request", "shop"]);
    let webhook = desk.id(&["webhooks", "create", "http://127.0.0.1:1/", "--event", "*"]);
    let key =
        desk.json(&["keys", "create", "k", "--scope", "events:read"])["id"].as_str().unwrap().to_owned();
    let domain = desk.id(&["domains", "create", "example.com"]);
    let suppression = desk.id(&["suppressions", "add", "a@example.com"]);
    desk.data(&["profiles", "set", "p", "--url", "http://127.0.0.1:1"]);
    let table: &[&[&str]] = &[
        &["sources", "delete", "shop"],
        &["sources", "rotate-token", "shop"],
        &["destinations", "delete", &destination, "--source", "shop"],
        &["destinations", "retry", &destination, "--source", "shop", "--since", "1h"],
        &["requests", "delete", &request],
        &["webhooks", "delete", &webhook],
        &["webhooks", "pause", &webhook],
        &["webhooks", "rotate-secret", &webhook],
        &["webhooks", "replay", &webhook],
        &["webhooks", "recover", &webhook],
        &["keys", "delete", &key],
        &["keys", "revoke", &key],
        &["keys", "rotate", &key],
        &["domains", "delete", &domain],
        &["suppressions", "delete", &suppression],
        &["profiles", "remove", "p"],
    ];
    for arguments in table {
        let output = desk.run(arguments);
        let talk = talk(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {talk}");
        assert!(talk.starts_with("error: not done: there is nobody to ask whether to "), "{talk}");
        assert!(talk.ends_with("\nhint: --yes does it without asking\n"), "{talk}");
    }
    assert!(desk.data(&["sources", "get", "shop"]).contains("/in/"));
    assert_eq!(desk.json(&["webhooks", "get", &webhook])["status"], "active");
    for arguments in table.iter().rev() {
        let output = desk.run(&[arguments, &["--yes"][..]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", talk(&output));
    }
    assert_eq!(desk.data(&["sources", "list"]), "");
}
