//! Secrets and payloads are never in what the server says of itself, however much it is asked to say.

mod peers;

use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::process::{Caller, Home, KEY, Process, data_directory, on_both_stores};

on_both_stores!(no_secret_and_no_payload_is_in_anything_the_server_says);

/// In every payload; what follows it says which.
const CANARY: &str = "canary";
/// For all attempts to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The relay's password in the clear, and as it goes over the wire.
const PASSWORD: &str = "canary-smtp-password";
const LOGIN: &str = "AHNob3AAY2FuYXJ5LXNtdHAtcGFzc3dvcmQ=";

async fn no_secret_and_no_payload_is_in_anything_the_server_says(home: Home) {
    let talk = data_directory();
    let heard = talk.path().join("heard");
    let relay = peers::relay().await;
    let home = home
        .heard("trace", &heard)
        .with("RESTANTE_SMTP_URL", format!("smtp://shop:{PASSWORD}@127.0.0.1:{relay}"))
        .with("RESTANTE_MAIL_WAITS_SECONDS", "0.1");
    let mut server = Process::start(home).await;
    let mut secrets = vec![KEY.to_owned(), PASSWORD.to_owned(), LOGIN.to_owned()];
    let mut ended = Vec::new();
    intake(&server, &mut secrets, &mut ended).await;
    webhooks(&server, &mut secrets, &mut ended).await;
    emails(&server, &mut secrets, &mut ended).await;
    wrong_calls(&server).await;
    wrong_requests(&server).await;
    listen(&server, &mut secrets, &mut ended).await;
    until_ended(&server, &ended).await;
    let (_, metrics) = server.send(Method::GET, "/metrics", Bytes::new()).await.unwrap();
    assert!(server.terminate().await.success());

    let log = std::fs::read_to_string(&heard).unwrap();
    let attempts = log.lines().filter(|line| line.contains("delivery.attempted")).count();
    assert!(attempts >= ended.len(), "only {attempts} attempts are in the log");
    let lines = log.lines().chain(std::str::from_utf8(&metrics).unwrap().lines());
    let leaks: Vec<&str> = lines
        .filter(|line| line.contains(CANARY) || secrets.iter().any(|secret| line.contains(secret.as_str())))
        .collect();
    assert!(leaks.is_empty(), "{} lines leak:\n{}", leaks.len(), leaks.join("\n"));
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// Waits until these resources have nothing to do any more.
async fn until_ended(server: &Process, paths: &[String]) {
    let waiting = async {
        for path in paths {
            loop {
                let shown = server.call(Method::GET, path, Value::Null).await;
                let deliveries = shown["deliveries"].as_array().cloned().unwrap_or_default();
                let open = |it: &Value| matches!(it["state"].as_str(), Some("pending" | "sending"));
                let queued = matches!(shown["status"].as_str(), Some("scheduled" | "queued" | "sending"));
                if !queued && !open(&shown) && !deliveries.iter().any(open) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("all attempts end in time");
}

/// The ways in which receivers fail, as URLs.
async fn receivers() -> Vec<String> {
    let (failing, garbled) = (peers::failing().await, peers::garbled().await);
    vec![
        format!("http://127.0.0.1:{failing}/canary-url?key=canary-url-query"),
        format!("http://127.0.0.1:{garbled}/canary-url?key=canary-url-query"),
        format!("https://127.0.0.1:{garbled}/canary-url?key=canary-url-query"),
        "http://127.0.0.1:1/canary-url?key=canary-url-query".to_owned(),
        "http://nowhere.invalid/canary-url?key=canary-url-query".to_owned(),
    ]
}

async fn intake(server: &Process, secrets: &mut Vec<String>, ended: &mut Vec<String>) {
    let answer = json!({"status": 200, "content_type": "text/plain", "body": "canary-source-answer"});
    let source = json!({"name": "canary-source-name", "response": answer});
    let source = server.call(Method::POST, "/v1/sources", source).await;
    let token = text(&source, "token").to_owned();
    let destinations = format!("/v1/sources/{}/destinations", text(&source, "id"));
    for url in receivers().await {
        let body =
            json!({"kind": "http", "url": url, "attempts": 1, "headers": {"x-static": "canary-static"}});
        server.call(Method::POST, &destinations, body).await;
    }
    let path = format!("/in/{token}/canary-path?q=canary-query");
    let headers = [("x-sender", "canary-header"), ("authorization", "Basic canary-authorization")];
    for method in ["POST", "PUT", "CANARY-METHOD"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let body = Bytes::from_static(b"{\"card\":\"canary-body\"}");
        let (status, headers, _) = server.caller().ask_whole((method, &path), &headers, body).await.unwrap();
        assert_eq!(status, StatusCode::OK);
        ended.push(format!("/v1/requests/{}", headers["x-request-id"].to_str().unwrap()));
    }
    secrets.push(token);
}

async fn webhooks(server: &Process, secrets: &mut Vec<String>, ended: &mut Vec<String>) {
    for url in receivers().await {
        let schedule = json!({"kind": "custom", "waits_seconds": [0.1]});
        let webhook = json!({"url": url, "events": ["*"], "schedule": schedule,
            "headers": {"x-static": "canary-static"}});
        let created = server.call(Method::POST, "/v1/webhooks", webhook).await;
        secrets.push(text(&created, "secret").to_owned());
        let test = format!("/v1/webhooks/{}/test", text(&created, "id"));
        server.send(Method::POST, &test, Bytes::new()).await.unwrap();
    }
    let event = json!({"type": "order.paid", "data": {"card": "canary-event"}});
    let headers = [("idempotency-key", "canary-idempotency")];
    let event = call(&server.caller(), "/v1/events", &headers, event).await;
    ended.push(format!("/v1/events/{}", text(&event, "id")));
}

async fn call(caller: &Caller, path: &str, headers: &[(&str, &str)], body: Value) -> Value {
    let key = format!("Bearer {KEY}");
    let headers = [headers, &[("authorization", key.as_str())]].concat();
    let (status, answer) =
        caller.ask((Method::POST, path), &headers, Bytes::from(body.to_string())).await.unwrap();
    assert!(status.is_success(), "{path}: {status} {answer:?}");
    serde_json::from_slice(&answer).unwrap()
}

async fn emails(server: &Process, secrets: &mut Vec<String>, ended: &mut Vec<String>) {
    let template = json!({"name": "Welcome", "slug": "welcome", "subject": "canary-template {{ name }}",
        "text": "Hi {{ name }}", "publish": true});
    server.call(Method::POST, "/v1/templates", template).await;
    let key = json!({"name": "canary-key-name", "scopes": ["emails:send", "emails:read"], "mode": "test"});
    let key = server.call(Method::POST, "/v1/keys", key).await;
    let captures = text(&key, "token").to_owned();
    for token in [KEY, &captures] {
        for mailbox in ["canary-refused", "canary-later", "canary-taken", "canary-uncertain"] {
            let email = json!({"from": "canary-sender <canary-sender@sender.test>", "to": format!("{mailbox}@mail.test"),
                "subject": "canary-subject", "text": "canary-text", "html": "<b>canary-html</b>",
                "headers": {"x-mine": "canary-mail-header"}});
            let bearer = format!("Bearer {token}");
            let headers = [("authorization", bearer.as_str())];
            let answer = server
                .caller()
                .ask((Method::POST, "/v1/emails"), &headers, Bytes::from(email.to_string()))
                .await;
            let (status, answer) = answer.unwrap();
            assert_eq!(status, StatusCode::ACCEPTED, "{answer:?}");
            let sent: Value = serde_json::from_slice(&answer).unwrap();
            if token == KEY {
                ended.push(format!("/v1/emails/{}", text(&sent, "id")));
            }
        }
    }
    let template = json!({"id": "welcome", "props": {"name": "canary-prop"}});
    let email = json!({"from": "shop@sender.test", "to": "canary-mailbox@mail.test", "template": template});
    let sent = server.call(Method::POST, "/v1/emails", email).await;
    ended.push(format!("/v1/emails/{}", text(&sent, "id")));
    secrets.push(captures);
}

/// Calls that are refused, whatever they hold.
async fn wrong_calls(server: &Process) {
    for path in [
        "/v1/sources",
        "/v1/webhooks",
        "/v1/events",
        "/v1/events/batch",
        "/v1/emails",
        "/v1/keys",
        "/v1/templates",
    ] {
        for body in [
            "{\"canary-json",
            "{\"canary-field\": \"canary-value\"}",
            "{\"name\": 7, \"url\": \"canary-url\", \"type\": \"Canary canary\", \"to\": \"canary\", \"scopes\": [\"canary\"]}",
            "[\"canary-list\"]",
            "\"canary-\u{0}\"",
        ] {
            let (status, _) =
                server.send(Method::POST, path, Bytes::copy_from_slice(body.as_bytes())).await.unwrap();
            assert!(status.is_client_error(), "{path} {body}: {status}");
        }
    }
    for path in [
        "/v1/canary-path?canary-query=canary",
        "/v1/requests?cursor=canary-cursor&text=canary-search",
        "/v1/requests/req_canary",
        "/v1/find/canary",
        "/v1/requests?text=canary-search&path=canary-path",
        "/compat/openemail/emails/canary",
    ] {
        server.send(Method::GET, path, Bytes::new()).await.unwrap();
    }
    for bearer in ["Bearer rst_live_canary-bearer", "canary-scheme canary"] {
        let headers = [
            ("authorization", bearer),
            ("x-workspace-id", "canary-workspace"),
            ("cookie", "canary-cookie=canary"),
        ];
        let answer = server.caller().ask((Method::GET, "/v1/sources"), &headers, Bytes::new()).await;
        assert_eq!(answer.unwrap().0, StatusCode::UNAUTHORIZED);
    }
    let sign_in = Bytes::from_static(b"{\"key\":\"canary-sign-in\",\"link\":\"canary-link\"}");
    for path in ["/v1/session", "/session", "/sign-in"] {
        server
            .caller()
            .ask((Method::POST, path), &[("content-type", "application/json")], sign_in.clone())
            .await;
    }
}

/// What is no proper HTTP.
async fn wrong_requests(server: &Process) {
    for head in [
        "POST /in/canary-raw HTTP/1.1\r\nhost: a\r\nhost: canary-host\r\n\r\n",
        "POST /in/canary-raw HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\nx: canary-raw\r\n\r\nx",
        "POST /in/canary-raw HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\ncanary-chunk\r\n",
        "canary-nonsense\r\n\r\n",
        "GET /v1/tunnel?canary-query HTTP/1.1\r\nhost: a\r\nupgrade: canary\r\nconnection: upgrade\r\n\r\n",
    ] {
        peers::say(server.address, head.as_bytes()).await;
    }
}

/// A client whose local service is not there, then one whose is and fails.
async fn listen(server: &Process, secrets: &mut Vec<String>, ended: &mut Vec<String>) {
    let source = server.call(Method::POST, "/v1/sources", json!({"name": "laptop"})).await;
    let destination = json!({"kind": "cli", "url": "http://localhost", "attempts": 1,
        "headers": {"x-static": "canary-static"}});
    server
        .call(Method::POST, &format!("/v1/sources/{}/destinations", text(&source, "id")), destination)
        .await;
    let token = text(&source, "token").to_owned();
    for port in [1, peers::failing().await] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
        command.args([
            "listen",
            &format!("http://127.0.0.1:{port}/canary-local"),
            "--source",
            "laptop",
            "--json",
        ]);
        command.env("RESTANTE_URL", format!("http://{}", server.address)).env("RESTANTE_API_KEY", KEY);
        let mut client =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let path = format!("/in/{token}/canary-path?q=canary-query");
        let headers = [("x-sender", "canary-header")];
        let answer = server
            .caller()
            .ask_whole((Method::POST, &path), &headers, Bytes::from_static(b"canary-body"))
            .await;
        let request = format!("/v1/requests/{}", answer.unwrap().1["x-request-id"].to_str().unwrap());
        until_ended(server, std::slice::from_ref(&request)).await;
        ended.push(request);
        client.kill().unwrap();
        client.wait().unwrap();
    }
    secrets.push(token);
}
