//! A relay as people run it: postfix, which encrypts, asks who is there, and hands mail on.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{Client, email, script};
use crate::clients::{root, tool};
use crate::process::{Home, Process, data_directory};

const USER: &str = "shop";
const PASSWORD: &str = "p:ss w/rd%";
const PASSWORD_IN_URL: &str = "p%3Ass%20w%2Frd%25";

/// A running postfix that hands all mail on to a receiver: `tests/mail/postfix.py`.
struct Postfix {
    child: Child,
    /// What it printed.
    facts: Value,
}

/// How a conversation with it begins.
#[derive(Clone, Copy)]
enum Manner {
    StartTls,
    Tls,
}

impl Postfix {
    fn before(receiver: &Receiver) -> Self {
        // It stops when its standard input ends, so with this process at the latest.
        let mut child = Command::new(tool("clients/bin/python"))
            .arg(root().join("tests/mail/postfix.py"))
            .args([&receiver.port.to_string(), USER, PASSWORD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let facts = serde_json::from_str(&line).expect("postfix did not start: standard error says why");
        Self { child, facts }
    }

    /// What a home needs to send by it.
    fn relay(&self, home: Home, manner: Manner, password: &str) -> Home {
        let (scheme, port) = match manner {
            Manner::StartTls => ("smtp", &self.facts["starttls"]),
            Manner::Tls => ("smtps", &self.facts["tls"]),
        };
        home.with("RESTANTE_SMTP_URL", format!("{scheme}://{USER}:{password}@127.0.0.1:{port}"))
            .with("RESTANTE_EXTRA_CA_FILE", self.facts["ca"].as_str().unwrap())
    }

    /// Stops it once it has handed on all that it took.
    fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success(), "postfix did not end well");
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postfix_with_starttls_and_a_login_hands_mail_on_unchanged() {
    is_handed_on_unchanged(Manner::StartTls).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postfix_with_tls_from_the_start_hands_mail_on_unchanged() {
    is_handed_on_unchanged(Manner::Tls).await;
}

async fn is_handed_on_unchanged(manner: Manner) {
    let (receiver, data) = (Receiver::start(), data_directory());
    let postfix = Postfix::before(&receiver);
    let mut server = Process::start(postfix.relay(data.path().into(), manner, PASSWORD_IN_URL)).await;
    let client = Client::from(&server);
    let sent = [
        email("ok@mail.test"),
        email(json!(["ok+a@mail.test", "ok+b@elsewhere.test"])),
        json!({
            "from": {"email": "shop@sender.test", "name": "Käse & Wein, \"Zoë\""},
            "to": "Владимир <ok@mail.test>",
            "cc": "plain@elsewhere.test",
            "subject": "Ihre Bestellung Nr. 7 – ☃ ".repeat(20).trim_end(),
            "text": "Grüße\n.\n..\n.dots\ntrailing \t\nFrom here\n\n\n",
            "html": format!("<p>{}</p>", "x".repeat(3000)),
            "headers": {"X-Order": "7", "List-Unsubscribe": format!("<https://sender.test/{}>", "u".repeat(200))},
            "attachments": [{"filename": "Übersicht.bin", "content": "AAEC/f7/DQouDQoN".repeat(20_000)}],
        }),
    ];
    let mut ended = Vec::new();
    for email in &sent {
        ended.push(client.ended(&client.send(email).await).await);
    }

    postfix.finish();
    server.kill();
    // Each email's bytes, oldest first.
    let kept =
        script::run("database.py", &[&data.path().join("restante.db"), "emails".as_ref()], &Value::Null);
    let kept = kept.as_array().unwrap();
    assert_eq!(kept.len(), sent.len());
    for (shown, kept) in ended.iter().zip(kept) {
        assert_eq!((&shown["status"], &shown["attempts"]), (&json!("sent"), &json!(1)), "{shown:#}");
        assert_eq!(shown["transport"], "relay", "{shown:#}");
        let mut wanted: Vec<_> = shown["recipients"].as_array().unwrap().iter().collect();
        wanted.sort_by_key(|it| it["email"].as_str());
        let mut copies = receiver.copies(shown);
        copies.sort_by_key(|it| it["envelope"].to_string());
        // One copy for each.
        let envelopes: Vec<_> = copies.iter().map(|it| it["envelope"].clone()).collect();
        let expected: Vec<_> = wanted.iter().map(|it| json!(["shop@sender.test", [it["email"]]])).collect();
        assert_eq!(envelopes, expected, "{shown:#}");
        for copy in &copies {
            // Encrypted, and from somebody who had logged in (RFC 3848).
            let received = copy["headers"]["received"].as_str().unwrap();
            assert!(received.contains("with ESMTPSA id"), "{received}");
            assert_eq!(copy["times"]["received"], 1);
            assert_eq!(kept, without_received(copy["content"].as_str().unwrap()));
        }
    }
    let recipients = ended.iter().map(|it| it["recipients"].as_array().unwrap().len());
    assert_eq!(receiver.mails().len(), recipients.sum::<usize>(), "mail of no email arrived");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_waits_until_the_password_is_one_that_postfix_knows() {
    let (receiver, data) = (Receiver::start(), data_directory());
    let postfix = Postfix::before(&receiver);
    let home = Home::from(data.path()).with("RESTANTE_MAIL_WAITS_SECONDS", ["2"; 19].join(","));
    let mut server =
        Process::start(postfix.relay(home.clone(), Manner::StartTls, &format!("{PASSWORD_IN_URL}x"))).await;
    let client = Client::from(&server);
    let id = client.send(&email("ok@mail.test")).await;

    let shown = attempted(&client, &id, 2).await;

    assert_eq!(shown["recipients"][0]["status"], "pending", "{shown:#}");
    let error = shown["last_error"].as_str().unwrap();
    assert!(error.contains("535 5.7.8"), "{error}");
    let told = client.told(&id).await;
    assert!(told.starts_with(&["accepted".to_owned(), "processed".to_owned()]), "{told:?}");
    assert!(told[2..].iter().all(|it| it == "deferred"), "{told:?}");
    assert_eq!(receiver.mails(), [Value::Null; 0]);

    server.kill();
    let server = Process::start(postfix.relay(home, Manner::StartTls, PASSWORD_IN_URL)).await;
    let shown = Client::from(&server).ended(&id).await;
    assert_eq!(shown["status"], "sent", "{shown:#}");
    postfix.finish();
    assert_eq!(receiver.copies(&shown).len(), 1);
    assert_eq!(receiver.mails().len(), 1, "no mail about mail has come");
}

/// The email once this many attempts were made.
async fn attempted(client: &Client, id: &str, attempts: u64) -> Value {
    let waiting = async {
        loop {
            let (_, shown) = client.get(&format!("/v1/emails/{id}")).await;
            if shown["attempts"].as_u64().unwrap() >= attempts && shown["last_error"].is_string() {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let attempted = tokio::time::timeout(super::END_TIME, waiting).await;
    attempted.unwrap_or_else(|_| panic!("{id} was not attempted in time"))
}

/// A mail without the line that a relay put in front of it.
fn without_received(content: &str) -> &str {
    let mut rest = content.strip_prefix("Received: ").unwrap();
    loop {
        let end = rest.find("\r\n").unwrap() + 2;
        rest = &rest[end..];
        if !rest.starts_with([' ', '\t']) {
            return rest;
        }
    }
}
