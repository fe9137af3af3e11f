//! Where there is no terminal: lines, states, signals and exit codes.

use bytes::Bytes;
use restante_sdk::tunnel::ResultStatus;
use rustix::process::Signal;
use serde_json::Value;

use super::process::Listen;
use super::testbed::{OK, Server, Service, frame, request, soon};

async fn pair() -> (Server, Service) {
    let server = Server::start().await.with_source("orders", Some("http://localhost:1/own"));
    (server, Service::start().await)
}

#[tokio::test]
async fn each_attempt_is_a_line_and_the_connection_is_told_beside_it() {
    let (mut server, mut service) = pair().await;
    let mut listen = Listen::start(&server, &[&service.port.to_string(), "--path", "/hooks"]);
    let answers = format!("the local service answers: {}/hooks", service.url);
    assert_eq!(listen.talk_of("the local service").await, answers);
    let connected = format!("orders: connected: {}/in/tok_orders → {}/hooks", server.url, service.url);
    assert_eq!(listen.talk_of("connected").await, connected);
    let mut client = server.client().await;
    client.send(&frame(request(41, "POST", "/x?y=1", &[("X-A", b"1")], Bytes::from_static(b"hi")))).await;
    let received = service.received().await;
    assert_eq!(received.line(), "POST /hooks/x?y=1 HTTP/1.1");
    received.answer(OK);
    let line = listen.next_data().await;
    let (_, line) = line.split_once(" ← ").expect("time and arrow");
    assert!(line.starts_with("200 POST /x?y=1 ") && line.contains(" ms attempt 1 of 5 "), "{line}");
    assert!(line.ends_with(&format!("{}/requests/req_41", server.url)), "{line}");
    assert!(!line.contains('\x1b'));
    client.ack().await;
    client.result().await;
    drop(client);
    let reconnecting = listen.talk_of("reconnecting").await;
    let why = "orders: reconnecting: the server ended the connection; next try at ";
    assert!(reconnecting.starts_with(why), "{reconnecting}");
    server.client().await;
    listen.talk_of("connected").await;
}

#[tokio::test]
async fn programs_get_json_with_the_states() {
    let (mut server, mut service) = pair().await;
    let mut listen = Listen::start(&server, &[&service.port.to_string(), "--json", "--quiet"]);
    let mut client = server.client().await;
    client.send(&frame(request(41, "POST", "/x", &[], Bytes::new()))).await;
    service.received().await.answer("HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n");
    let mut seen = Vec::new();
    let attempt = loop {
        let line: Value = serde_json::from_str(&listen.next_data().await).unwrap();
        assert_eq!((&line["v"], &line["source"]), (&1.into(), &"orders".into()));
        match line["event"].as_str().unwrap() {
            "state" => seen.push(line["state"].as_str().unwrap().to_owned()),
            "attempt" => break line,
            _ => {}
        }
    };
    assert_eq!(seen, ["connecting", "connected"]);
    assert_eq!((&attempt["outcome"], &attempt["status"]), (&"failed".into(), &404.into()));
    listen.signal(Signal::INT);
    assert_eq!(listen.end().await.code(), Some(130));
    assert_eq!(listen.talk.next_line().await.unwrap(), None, "quiet");
}

#[tokio::test]
async fn a_signal_lets_running_attempts_end() {
    for signal in [Signal::INT, Signal::TERM] {
        let (mut server, mut service) = pair().await;
        let mut listen = Listen::start(&server, &[&service.port.to_string()]);
        let mut client = server.client().await;
        client.send(&frame(request(1, "GET", "/slow", &[], Bytes::new()))).await;
        assert_eq!(client.ack().await, 1);
        let slow = service.received().await;
        listen.signal(signal);
        assert_eq!(listen.talk_of("stopping").await, "stopping: 1 attempt may still end, at most 5 s");
        client.send(&frame(request(2, "GET", "/new", &[], Bytes::new()))).await;
        slow.answer(OK);
        let result = client.result().await;
        assert_eq!((result.delivery_id, result.status), (1, ResultStatus::Success));
        assert!(client.try_frame().await.is_none(), "nothing new was begun");
        drop(client);
        assert!(listen.next_data().await.contains(" 200 GET /slow "));
        assert_eq!(listen.end().await.code(), Some(130));
    }
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let (mut server, mut service) = pair().await;
    let mut listen = Listen::start(&server, &[&service.port.to_string()]);
    let mut client = server.client().await;
    client.send(&frame(request(1, "GET", "/slow", &[], Bytes::new()))).await;
    let _slow = service.received().await;
    listen.signal(Signal::INT);
    listen.talk_of("stopping").await;
    listen.signal(Signal::INT);
    assert_eq!(listen.end().await.code(), Some(130));
}

#[tokio::test]
async fn what_trying_again_does_not_help_ends_with_a_hint() {
    let (server, _service) = pair().await;
    server.answer_logins(&[401]);
    let mut listen = Listen::start(&server, &["3000"]);
    listen.talk_of("orders: failed: the server knows no source with this token").await;
    listen.talk_of("error: the server knows no source with this token").await;
    listen.talk_of("hint: ").await;
    assert_eq!(listen.end().await.code(), Some(3));

    server.answer_upgrades(&[429]);
    let mut listen = Listen::start(&server, &["3000"]);
    listen.talk_of("error: the source has as many clients as it may have").await;
    listen.talk_of("hint: end another `restante listen` of this source").await;
    assert_eq!(listen.end().await.code(), Some(1));
}

#[tokio::test]
async fn wrong_command_lines_say_what_is_right() {
    let server = Server::start().await;
    for (arguments, message, code) in [
        (vec!["ftp://x"], "error: \"ftp://x\" is no http or https URL", 2),
        (vec!["3000"], "error: there is no source yet", 4),
        (vec!["3000", "--source", "orders"], "error: there is no source \"orders\"; there are none yet", 4),
    ] {
        let mut listen = Listen::start(&server, &arguments);
        assert_eq!(listen.talk_of("error: ").await, message);
        listen.talk_of("hint: ").await;
        assert_eq!(listen.end().await.code(), Some(code));
    }
}

#[tokio::test]
async fn several_sources_are_listened_to_in_one_process() {
    let (mut server, mut service) = (Server::start().await, Service::start().await);
    let port = service.port.to_string();
    let mut listen = Listen::start(&server, &[&port, "--source", "orders", "--source", "mail", "--create"]);
    listen.talk_of("made the source \"orders\"").await;
    listen.talk_of("made the source \"mail\"").await;
    let mut tokens = Vec::new();
    let mut clients = Vec::new();
    for id in 1..=2 {
        let mut client = server.client().await;
        tokens.push(client.token.clone());
        client.send(&frame(request(id, "GET", "", &[], Bytes::new()))).await;
        clients.push(client);
        service.received().await.answer(OK);
        let line = listen.next_data().await;
        let name = tokens.last().unwrap().trim_start_matches("tok_");
        assert!(line.contains(&format!(" attempt 1 of 5 {name} ")), "{line}");
    }
    tokens.sort();
    assert_eq!(tokens, ["tok_mail", "tok_orders"]);
}

#[tokio::test]
async fn an_output_that_nobody_reads_is_an_error() {
    let (mut server, mut service) = pair().await;
    let Listen { mut child, data, mut talk } = Listen::start(&server, &[&service.port.to_string()]);
    let mut client = server.client().await;
    drop(data);
    client.send(&frame(request(1, "GET", "", &[], Bytes::new()))).await;
    service.received().await.answer(OK);
    let mut said = Vec::new();
    while let Some(line) = soon(talk.next_line()).await.unwrap() {
        said.push(line);
    }
    let end = [
        "error: standard output is closed: whoever read it has ended",
        "hint: without a reader it listens with --quiet",
    ];
    assert!(said.ends_with(&end.map(str::to_owned)), "{said:?}");
    assert_eq!(soon(child.wait()).await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn a_reader_that_stops_reading_holds_up_neither_deliveries_nor_the_end() {
    let (mut server, mut service) = pair().await;
    let mut listen = Listen::start(&server, &[&service.port.to_string()]);
    let mut client = server.client().await;
    // Far more than a pipe holds, and nobody reads it.
    let path = format!("/{}", "x".repeat(20_000));
    for id in 1..=20 {
        client.send(&frame(request(id, "GET", &path, &[], Bytes::new()))).await;
        client.ack().await;
        service.received().await.answer(OK);
        assert_eq!(client.result().await.delivery_id, id);
    }
    listen.signal(Signal::TERM);
    assert!(client.try_frame().await.is_none());
    drop(client);
    assert_eq!(listen.end().await.code(), Some(1), "not all was shown");
}
