//! What is printed: for people, for programs, for scripts.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Desk, talk};

/// A page as it came.
#[derive(Deserialize)]
struct Raw {
    data: Vec<Box<RawValue>>,
}

async fn raw(desk: &Desk, path: &str) -> String {
    let (status, body) = desk.server.send(Method::GET, path, Bytes::new()).await.unwrap();
    assert!(status.is_success(), "{path}: {status}");
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_is_what_the_api_gives_byte_by_byte_and_line_by_line() {
    let desk = Desk::open().await;
    for name in ["one", "two", "three"] {
        desk.id(&["sources", "create", name]);
    }
    let create = [
        "destinations",
        "create",
        "--source",
        "one",
        "--url",
        "http://127.0.0.1:1/",
        "--schedule",
        "0.5,3600",
    ];
    desk.id(&[&create[..], &["-H", "X-A: b", "--rate-per-second", "0.5"]].concat());
    desk.id(&["send", "request", "one", "--data", "x"]);
    desk.id(&["webhooks", "create", "http://127.0.0.1:1/", "--event", "a.*", "--schedule", "3600"]);
    desk.id(&["send", "event", "a.b", "--data", "{\"b\":1.10,\"a\":1e2}"]);
    desk.id(&[
        "send",
        "email",
        "--from",
        "a@example.com",
        "--to",
        "b@example.net",
        "--text",
        "x",
        "--subject",
        "é",
    ]);
    desk.id(&["domains", "create", "example.com"]);
    desk.id(&["suppressions", "add", "c@example.net"]);
    desk.until(&["deliveries", "list", "--source", "one"], "2/3").await;
    desk.until(&["emails", "events", &desk.id(&["emails", "list"])], "email.delivered").await;
    desk.until(&["webhooks", "attempts", &desk.id(&["webhooks", "list"])], "connect").await;

    let one = desk.id(&["sources", "get", "one"]);
    let webhook = desk.id(&["webhooks", "list"]);
    let lists: [(&[&str], String); 10] = [
        (&["sources", "list"], "/v1/sources".to_owned()),
        (&["destinations", "list", "--source", "one"], format!("/v1/sources/{one}/destinations")),
        (&["requests", "list"], "/v1/requests".to_owned()),
        (&["webhooks", "list"], "/v1/webhooks".to_owned()),
        (&["webhooks", "attempts", &webhook], format!("/v1/webhooks/{webhook}/attempts")),
        (&["events", "list"], "/v1/events".to_owned()),
        (&["emails", "list"], "/v1/emails".to_owned()),
        (&["domains", "list"], "/v1/domains".to_owned()),
        (&["suppressions", "list"], "/v1/suppressions".to_owned()),
        (&["deliveries", "list", "--source", "one"], format!("/v1/deliveries?source={one}")),
    ];
    for (arguments, path) in lists {
        let page: Raw = serde_json::from_str(&raw(&desk, &path).await).unwrap();
        let expected: Vec<&str> = page.data.iter().map(|item| item.get()).collect();
        assert!(!expected.is_empty(), "{path}");
        let shown = desk.data(&[arguments, &["--json", "--all"]].concat());
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "{path}");
    }
    for (noun, id) in [
        ("requests", desk.id(&["requests", "list"])),
        ("events", desk.id(&["events", "list", "--type", "a.b"])),
    ] {
        let expected = raw(&desk, &format!("/v1/{noun}/{id}")).await;
        assert_eq!(desk.data(&[noun, "get", &id, "--json"]), format!("{expected}\n"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_go_as_far_as_they_are_told() {
    let desk = Desk::open().await;
    let source = desk.json(&["sources", "create", "s"]);
    let path = format!("/in/{}", source["token"].as_str().unwrap());
    for _ in 0..103 {
        desk.server.send(Method::POST, &path, Bytes::new()).await.unwrap();
    }
    let ids = |more: &[&str]| {
        let output = desk.run(&[&["requests", "list"], more].concat());
        (String::from_utf8(output.stdout.clone()).unwrap().lines().count(), talk(&output))
    };
    assert_eq!(ids(&["--quiet"]), (25, String::new()));
    assert_eq!(ids(&["--quiet", "--limit", "102"]), (102, String::new()));
    assert_eq!(ids(&["--quiet", "--all"]), (103, String::new()));
    // A line of titles besides.
    let more = "2 shown; there are more: --all, or --limit with a greater number\n";
    assert_eq!(ids(&["--limit", "2"]), (3, more.to_owned()));
    assert_eq!(ids(&["--limit", "103"]), (104, String::new()));
    assert_eq!(ids(&["--state", "failed"]), (0, "none\n".to_owned()));
    let output = desk.run(&["requests", "list", "--limit", "0"]);
    assert_eq!(output.status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colour_comes_when_it_is_asked_for_and_never_into_a_pipe() {
    let desk = Desk::open().await;
    desk.id(&["sources", "create", "shop"]);
    desk.id(&["send", "request", "shop"]);
    desk.id(&["webhooks", "create", "http://127.0.0.1:1/", "--event", "*"]);
    let list = ["webhooks", "list"];
    assert!(!desk.data(&list).contains('\u{1b}'));
    let painted = desk.data(&[&list[..], &["--color", "always"]].concat());
    assert!(painted.contains("\u{1b}[32mactive\u{1b}[0m"), "{painted}");
    for (when, colours) in [("always", true), ("auto", false), ("never", false)] {
        let output =
            desk.command(&[&list[..], &["--color", when]].concat()).env("NO_COLOR", "1").output().unwrap();
        assert_eq!(output.stdout.contains(&0x1b), colours, "{when}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_bytes_reach_people_as_text_and_files_as_they_are() {
    let desk = Desk::open().await;
    let source = desk.json(&["sources", "create", "s"]);
    let path = format!("/in/{}/%1b%5B2J?a=%07", source["token"].as_str().unwrap());
    let header = [("x-evil", "\u{9b}2J")];
    let body = Bytes::from_static(b"\x1b[2J\xff\x00");
    desk.server.caller().ask((Method::POST, &path), &header, body.clone()).await.unwrap();
    let id = desk.id(&["requests", "list"]);
    for shown in [desk.data(&["requests", "list"]), desk.data(&["requests", "get", &id])] {
        assert!(shown.chars().all(|char| char == '\n' || !char.is_control()), "{shown:?}");
    }
    assert_eq!(desk.run(&["requests", "body", &id]).stdout, body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_has_had_enough_is_no_failure() {
    let desk = Desk::open().await;
    let source = desk.json(&["sources", "create", "s"]);
    let path = format!("/in/{}", source["token"].as_str().unwrap());
    for _ in 0..300 {
        desk.server.send(Method::POST, &path, Bytes::new()).await.unwrap();
    }
    let mut command = desk.command(&["requests", "list", "--all", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("{\"object\":\"request\""), "{first}");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), talk(&output)), (Some(0), String::new()));
}
