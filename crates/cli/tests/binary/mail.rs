//! Emails, from the call to a mail server.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::process::{Caller, Home, KEY, Process};
use receiver::Receiver;

mod answers;
mod capture;
mod content;
mod dkim;
mod hooks;
mod keys;
mod kill;
pub(crate) mod load;
mod login;
mod once;
mod postfix;
pub(crate) mod receiver;
mod script;
mod theirs;

/// For an email to end.
const END_TIME: Duration = Duration::from_secs(60);

/// A server whose mail goes to a receiver, which waits 0.2 s before each of three further attempts.
async fn relaying(home: Home, receiver: &Receiver) -> Process {
    Process::start(relaying_home(home, receiver)).await
}

pub(crate) fn relaying_home(home: Home, receiver: &Receiver) -> Home {
    home.with("RESTANTE_SMTP_URL", receiver.url()).with("RESTANTE_MAIL_WAITS_SECONDS", "0.2,0.2,0.2")
}

fn email(to: impl Into<Value>) -> Value {
    json!({"from": "Shop <shop@sender.test>", "to": to.into(), "subject": "Hello", "text": "Hello!"})
}

/// Who calls, and under which key of his.
pub(crate) struct Client {
    caller: Caller,
    token: String,
}

impl From<&Process> for Client {
    fn from(server: &Process) -> Self {
        Self { caller: server.caller(), token: KEY.to_owned() }
    }
}

impl Client {
    /// A client with a key of the test mode.
    async fn testing(server: &Process) -> Self {
        let key = json!({"name": "tests", "scopes": ["emails:send", "emails:read"], "mode": "test"});
        let key = server.call(Method::POST, "/v1/keys", key).await;
        Self { caller: server.caller(), token: key["token"].as_str().unwrap().to_owned() }
    }

    /// `None`: no answer came.
    async fn try_post(&self, path: &str, keys: &[&str], body: &[u8]) -> Option<(StatusCode, Value)> {
        let token = format!("Bearer {}", self.token);
        let mut headers = vec![("authorization", token.as_str())];
        headers.extend(keys.iter().map(|key| ("idempotency-key", *key)));
        let body = Bytes::copy_from_slice(body);
        let (status, answer) = self.caller.ask((Method::POST, path), &headers, body).await?;
        Some((status, serde_json::from_slice(&answer).unwrap()))
    }

    async fn post(&self, key: &str, email: &Value) -> (StatusCode, Value) {
        self.try_post("/v1/emails", &[key], email.to_string().as_bytes()).await.unwrap()
    }

    /// Sends an email without a key; gives its id.
    async fn send(&self, email: &Value) -> String {
        let sent = self.try_post("/v1/emails", &[], email.to_string().as_bytes()).await.unwrap();
        assert_eq!(sent.0, StatusCode::ACCEPTED, "{}", sent.1);
        sent.1["id"].as_str().unwrap().to_owned()
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let token = format!("Bearer {}", self.token);
        let headers = [("authorization", token.as_str())];
        let (status, answer) = self.caller.ask((Method::GET, path), &headers, Bytes::new()).await.unwrap();
        (status, serde_json::from_slice(&answer).unwrap())
    }

    /// The email once it has ended.
    async fn ended(&self, id: &str) -> Value {
        let waiting = async {
            loop {
                let (status, shown) = self.get(&format!("/v1/emails/{id}")).await;
                assert_eq!(status, StatusCode::OK, "{shown}");
                if !["scheduled", "queued", "sending"].contains(&shown["status"].as_str().unwrap()) {
                    return shown;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let ended = tokio::time::timeout(END_TIME, waiting).await;
        ended.unwrap_or_else(|_| panic!("{id} has not ended in time"))
    }

    /// What webhooks are told about an email, without the `email.` in front of each.
    async fn told(&self, id: &str) -> Vec<String> {
        let (status, events) = self.get(&format!("/v1/emails/{id}/events")).await;
        assert_eq!(status, StatusCode::OK, "{events}");
        let types = events["data"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap());
        types.map(|it| it.strip_prefix("email.").unwrap().to_owned()).collect()
    }

    /// All emails, newest first.
    async fn all(&self) -> Vec<Value> {
        let mut emails = Vec::new();
        let mut path = "/v1/emails?limit=100".to_owned();
        loop {
            let (status, page) = self.get(&path).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            emails.extend(page["data"].as_array().unwrap().iter().cloned());
            let Some(cursor) = page["next_cursor"].as_str() else { return emails };
            path = format!("/v1/emails?limit=100&cursor={cursor}");
        }
    }
}
