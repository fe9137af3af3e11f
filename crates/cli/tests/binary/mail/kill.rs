//! kill -9 of the server while it sends mail.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::RwLock;

use super::receiver::Receiver;
use super::{Client, relaying_home};
use crate::process::{Home, Process, on_sqlite};

const KILLS: usize = 50;
const SENDERS: u64 = 4;
/// Many: a domain with trouble is sent less at a time.
const DOMAINS: u64 = 97;
/// `slow`: a kill finds mail that was sent and not answered.
const NAMES: [&str; 4] = ["ok", "slow", "later-once", "drop-before-once"];

struct Load {
    server: RwLock<Process>,
    client: Client,
    /// What was acknowledged: number → id.
    acknowledged: Mutex<HashMap<u64, String>>,
    replayed: AtomicU64,
    next: AtomicU64,
    stop: AtomicBool,
}

on_sqlite!(one_key_is_one_email_and_one_copy_when_the_server_is_killed_at_random_moments);

async fn one_key_is_one_email_and_one_copy_when_the_server_is_killed_at_random_moments(home: Home) {
    let receiver = Receiver::start();
    let server = Process::start(relaying_home(home, &receiver)).await;
    let load = Arc::new(Load {
        client: Client::from(&server),
        server: RwLock::new(server),
        acknowledged: Mutex::default(),
        replayed: AtomicU64::new(0),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let senders: Vec<_> = (0..SENDERS).map(|_| tokio::spawn(Arc::clone(&load).send())).collect();

    let mut moment = u64::from(std::process::id());
    println!("seed {moment}");
    for _ in 0..KILLS {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_millis(20 + (moment >> 33) % 330)).await;
        // The senders' calls are cut in the middle: the kill does not wait for them.
        load.server.write().await.kill_and_restart().await;
    }
    load.stop.store(true, Ordering::Release);
    for sender in senders {
        sender.await.unwrap();
    }
    check(&load, &receiver).await;
}

impl Load {
    /// Sends email after email, each again and again under its key until it is acknowledged.
    async fn send(self: Arc<Self>) {
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
        }
    }

    /// What a call is answered, made as often as it takes.
    async fn answer(&self, key: &str, email: &str) -> (StatusCode, Value) {
        loop {
            let answer = self.client.try_post("/v1/emails", &[key], email.as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            if let Some(answer) = answer {
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

/// Every key has the one email that was acknowledged; each of them arrived once, or may have, and then is said to.
async fn check(load: &Load, receiver: &Receiver) {
    let acknowledged = load.acknowledged.lock().unwrap().clone();
    for id in acknowledged.values() {
        load.client.ended(id).await;
    }
    let emails = load.client.all().await;
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
    let replayed = load.replayed.load(Ordering::Relaxed);
    println!(
        "{} emails, {replayed} replayed, {uncertain} uncertain, {arrived} of those arrived",
        emails.len()
    );
    assert_eq!(emails.len(), acknowledged.len());
    assert!(emails.len() > 200, "there was hardly any load");
    assert!(arrived > 0, "no kill came between a mail and its answer");
}
