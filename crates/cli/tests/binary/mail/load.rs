//! Senders of mail, and the judgement of what became of what was acknowledged.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::Client;
use super::receiver::Receiver;

/// Many: a domain with trouble is sent less at a time.
const DOMAINS: u64 = 97;
/// `slow`: a kill finds mail that was sent and not answered.
const NAMES: [&str; 4] = ["ok", "slow", "later-once", "drop-before-once"];

/// Senders that go on until they are stopped.
pub(crate) struct Load {
    pub(crate) client: Client,
    pause: Duration,
    acknowledged: Mutex<HashMap<u64, String>>,
    replayed: AtomicU64,
    next: AtomicU64,
    stop: AtomicBool,
}

impl Load {
    /// With a pause after each email.
    pub(crate) fn new(client: Client, pause: Duration) -> Self {
        let (replayed, next, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { client, pause, acknowledged: Mutex::default(), replayed, next, stop }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// What was acknowledged: number → id.
    pub(crate) fn acknowledged(&self) -> HashMap<u64, String> {
        self.acknowledged.lock().unwrap().clone()
    }

    /// How many calls were repeats of one that was stored.
    pub(crate) fn replayed(&self) -> u64 {
        self.replayed.load(Ordering::Relaxed)
    }

    /// Sends email after email, each again and again under its key until it is acknowledged.
    pub(crate) async fn send(self: Arc<Self>) {
        while !self.stop.load(Ordering::Acquire) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = NAMES[(number % NAMES.len() as u64) as usize];
            let email = json!({
                "from": "shop@sender.test",
                "to": format!("{name}+{number}@{}.mail.test", number % DOMAINS),
                "text": format!("Number {number}"),
                "metadata": {"number": number},
            });
            let (key, email) = (format!("load:{number}"), email.to_string());
            // Some forget that they were answered.
            for _ in 0..1 + u64::from(number.is_multiple_of(5)) {
                let (status, answer) = self.answer(&key, &email).await;
                self.acknowledge(number, status, &answer);
            }
            tokio::time::sleep(self.pause).await;
        }
    }

    /// What a call is answered, made as often as it takes: a server that stops says that it does.
    async fn answer(&self, key: &str, email: &str) -> (StatusCode, Value) {
        loop {
            let answer = self.client.try_post("/v1/emails", &[key], email.as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            if let Some(answer) = answer.filter(|(status, _)| *status != StatusCode::SERVICE_UNAVAILABLE) {
                return answer;
            }
        }
    }

    fn acknowledge(&self, number: u64, status: StatusCode, answer: &Value) {
        let is_replayed = answer["replayed"].as_bool().unwrap();
        let expected = if is_replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
        assert_eq!(status, expected, "{answer:#}");
        self.replayed.fetch_add(u64::from(is_replayed), Ordering::Relaxed);
        let id = answer["id"].as_str().unwrap();
        let known = self.acknowledged.lock().unwrap().insert(number, id.to_owned());
        assert!(known.is_none_or(|known| known == id && is_replayed), "{answer:#}");
    }
}

/// What became of emails.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) emails: usize,
    /// Of them, how many may have arrived.
    pub(crate) uncertain: usize,
    /// Of those, how many did.
    pub(crate) arrived: usize,
}

/// Every key has the one email that was acknowledged; each of them arrived once, or may have, and then is said to.
pub(crate) async fn judge(
    client: &Client,
    acknowledged: &HashMap<u64, String>,
    receiver: &Receiver,
) -> Counts {
    for id in acknowledged.values() {
        client.ended(id).await;
    }
    let emails = client.all().await;
    let numbers: HashSet<_> = emails.iter().map(|it| it["metadata"]["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), emails.len(), "a key has two emails");

    let mut copies: HashMap<String, usize> = HashMap::new();
    for mail in receiver.mails() {
        *copies.entry(mail["message_id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let (mut uncertain, mut arrived) = (0, 0);
    for email in &emails {
        let number = email["metadata"]["number"].as_u64().unwrap();
        assert_eq!(acknowledged.get(&number).map(String::as_str), email["id"].as_str(), "{email:#}");
        let copies = copies.remove(email["message_id"].as_str().unwrap()).unwrap_or(0);
        let result = [&email["status"], &email["recipients"][0]["status"]].map(|it| it.as_str().unwrap());
        match result {
            ["sent", "delivered"] => assert_eq!(copies, 1, "{email:#}"),
            ["partial", "uncertain"] => {
                assert!(copies <= 1, "{copies} copies: {email:#}");
                uncertain += 1;
                arrived += copies;
            }
            _ => panic!("acknowledged and lost, {copies} copies arrived: {email:#}"),
        }
    }
    assert!(copies.is_empty(), "mail of no email arrived: {copies:?}");
    assert_eq!(emails.len(), acknowledged.len());
    Counts { emails: emails.len(), uncertain, arrived }
}
