//! Backups of a server at work, and what becomes of them.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::migrate::{refuses, talk};
use crate::process::{Caller, Process, data_directory};
use crate::sink::Sink;

const SENDERS: usize = 4;
const BACKUPS: usize = 4;
/// For all that was pending to be delivered.
const DRAIN_TIME: Duration = Duration::from_secs(60);

fn restante(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.args(arguments).env_clear();
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn backup(data: &Path, file: &Path, flags: &[&str]) -> Output {
    restante(&[&["backup", text(file), "--data", text(data)], flags].concat()).output().unwrap()
}

pub(crate) fn restore(file: &Path, data: &Path) -> Output {
    restante(&["restore", text(file), "--data", text(data)]).output().unwrap()
}

/// What a command that must succeed prints.
pub(crate) fn shown(output: &Output) -> String {
    assert!(output.status.success(), "{}", talk(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A server with a source whose one destination is paused.
struct Shop {
    server: Process,
    source: String,
    intake: String,
}

impl Shop {
    async fn open(data: &Path, url: &str) -> Self {
        let server = Process::start(data).await;
        let source = server.call(Method::POST, "/v1/sources", json!({"name": "shop"})).await;
        let intake = format!("/in/{}", source["token"].as_str().unwrap());
        let source = format!("/v1/sources/{}", source["id"].as_str().unwrap());
        let body = json!({"kind": "http", "url": url, "idempotency_header": true, "paused": true});
        server.call(Method::POST, &format!("{source}/destinations"), body).await;
        Self { server, source, intake }
    }

    async fn accept(&self, body: impl Into<Bytes>) {
        let (status, _) = self.server.send(Method::POST, &self.intake, body.into()).await.unwrap();
        assert_eq!(status, StatusCode::OK);
    }
}

/// What was acknowledged: id → body.
type Acknowledged = Arc<Mutex<HashMap<String, Bytes>>>;

async fn send(
    caller: Caller,
    intake: String,
    sent: Arc<AtomicU64>,
    acknowledged: Acknowledged,
    stop: Arc<AtomicBool>,
) {
    while !stop.load(Ordering::Acquire) {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        let body = Bytes::from(format!("{number}:{}", "x".repeat((number % 5000) as usize)));
        let (status, answer) = caller.ask((Method::POST, &intake), &[], body.clone()).await.unwrap();
        assert_eq!(status, StatusCode::OK, "a backup stands in the way of intake");
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        acknowledged.lock().unwrap().insert(answer["id"].as_str().unwrap().to_owned(), body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_a_backup_is_in_it_and_is_delivered_after_a_restore() {
    let (data, backups, sink) = (data_directory(), data_directory(), Sink::start().await);
    let mut shop = Shop::open(data.path(), &format!("http://{}/hook", sink.address)).await;
    let (acknowledged, sent, stop) = (Acknowledged::default(), Arc::default(), Arc::<AtomicBool>::default());
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let (caller, intake) = (shop.server.caller(), shop.intake.clone());
            tokio::spawn(send(
                caller,
                intake,
                Arc::clone(&sent),
                Arc::clone(&acknowledged),
                Arc::clone(&stop),
            ))
        })
        .collect();
    let mut taken: Vec<(PathBuf, HashMap<String, Bytes>)> = Vec::new();
    for number in 0..BACKUPS {
        let more = 300 * (number + 1);
        while acknowledged.lock().unwrap().len() < more {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (before, file) =
            (acknowledged.lock().unwrap().clone(), backups.path().join(format!("{number}.db")));
        let (from, to) = (data.path().to_owned(), file.clone());
        let output = tokio::task::spawn_blocking(move || backup(&from, &to, &["--json"])).await.unwrap();
        let told: Value = serde_json::from_str(&shown(&output)).unwrap();
        assert!(told["messages"].as_u64().unwrap() >= before.len() as u64, "{told}");
        assert_eq!((&told["secret_key"], &told["attempts_in_flight"]), (&json!(false), &json!(0)));
        taken.push((file, before));
    }
    stop.store(true, Ordering::Release);
    for sender in senders {
        sender.await.unwrap();
    }
    shop.server.kill();

    for (file, before) in [&taken[0], &taken[BACKUPS - 1]] {
        let (parent, sink) = (data_directory(), Sink::start().await);
        let restored = parent.path().join("restored");
        let told = shown(&restore(file, &restored));
        assert!(told.contains("messages, ") && told.contains("is delivered again"), "{told}");
        std::fs::copy(data.path().join("secret.key"), restored.join("secret.key")).unwrap();
        let server = Process::start(restored.as_path()).await;
        resume(&server, &shop.source, &sink).await;
        for (id, body) in before {
            let key = until_delivered(&server, id).await;
            assert_eq!(sink.seen("/hook", &key).bodies, std::slice::from_ref(body), "{id}");
        }
    }
}

/// Lets the destination of the source go on, to this receiver.
async fn resume(server: &Process, source: &str, sink: &Sink) {
    let list = server.call(Method::GET, &format!("{source}/destinations"), Value::Null).await;
    let destination = format!("{source}/destinations/{}", list["data"][0]["id"].as_str().unwrap());
    let url = format!("http://{}/hook", sink.address);
    server.call(Method::PATCH, &destination, json!({"paused": false, "url": url})).await;
}

/// The key of a request whose delivery has been made.
async fn until_delivered(server: &Process, id: &str) -> String {
    let waiting = async {
        loop {
            let shown = server.call(Method::GET, &format!("/v1/requests/{id}"), Value::Null).await;
            if shown["deliveries"][0]["state"] == "delivered" {
                return shown["key"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DRAIN_TIME, waiting).await.unwrap_or_else(|_| panic!("{id} is not delivered"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_backup_leaves_nothing_under_its_name() {
    let (data, backups) = (data_directory(), data_directory());
    let shop = Shop::open(data.path(), "http://127.0.0.1:1/").await;
    for _ in 0..40 {
        shop.accept(vec![7; 1 << 20]).await;
    }
    let file = backups.path().join("daily.db");
    let unfinished = backups.path().join("daily.db.unfinished");
    let mut killed = 0;
    for grown in [0, 1 << 12, 8 << 20, 30 << 20, 41 << 20] {
        let mut command = restante(&["backup", text(&file), "--data", text(data.path()), "--force"]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        // It dies once the file has so many bytes, or ends before that is seen.
        let status = loop {
            if std::fs::metadata(&unfinished).is_ok_and(|metadata| metadata.len() >= grown) {
                child.kill().unwrap();
            }
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
        };
        if status.success() {
            std::fs::remove_file(&file).unwrap();
            continue;
        }
        assert_eq!(status.signal(), Some(9));
        assert!(!file.exists(), "killed at {grown} bytes, and there is a backup");
        killed += 1;
    }
    assert!(killed >= 2, "{killed} were killed in time");
    shown(&backup(data.path(), &file, &[]));
    assert!(!unfinished.exists());
    shown(&restore(&file, &backups.path().join("restored")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_key_is_in_a_backup_only_if_it_is_wished_for() {
    let (data, backups) = (data_directory(), data_directory());
    let mut shop = Shop::open(data.path(), "http://127.0.0.1:1/").await;
    let (without, with) = (backups.path().join("without.db"), backups.path().join("with.db"));
    let told = shown(&backup(data.path(), &without, &[]));
    assert!(told.contains("does not hold the secret key"), "{told}");
    let told = shown(&backup(data.path(), &with, &["--with-secret-key"]));
    assert!(told.contains("It holds the secret key"), "{told}");
    let told = shown(&backup(data.path(), &with, &["--with-secret-key", "--force", "--json"]));
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["secret_key"], true);
    shop.server.kill();
    let key = std::fs::read_to_string(data.path().join("secret.key")).unwrap();
    let holds = |file: &Path| {
        let bytes = std::fs::read(file).unwrap();
        bytes.windows(64).any(|window| window == key.trim_end().as_bytes())
    };
    assert_eq!((holds(&without), holds(&with)), (false, true));

    let restored = backups.path().join("a");
    let told = shown(&restore(&without, &restored));
    assert!(told.contains("The secret key was not in the backup") && told.contains("secret.key"), "{told}");
    let output = restante(&["serve", "--data", text(&restored), "--listen", "127.0.0.1:0"]).output().unwrap();
    refuses_to_start(&output, "need the key they were made with");
    std::fs::copy(data.path().join("secret.key"), restored.join("secret.key")).unwrap();
    drop(Process::start(restored.as_path()).await);

    let restored = backups.path().join("b");
    let told = shown(&restore(&with, &restored));
    assert!(told.contains("The secret key was in the backup"), "{told}");
    assert_eq!(std::fs::read_to_string(restored.join("secret.key")).unwrap(), key);
    assert!(!holds(&restored.join("restante.db")), "the key is still in the database");
    drop(Process::start(restored.as_path()).await);
}

fn refuses_to_start(output: &Output, words: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", talk(output));
    assert!(talk(output).contains(words), "{}", talk(output));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_backup_is_not_restored() {
    let (data, backups) = (data_directory(), data_directory());
    let shop = Shop::open(data.path(), "http://127.0.0.1:1/").await;
    let mark = b"a word in the body of a request";
    shop.accept(mark.to_vec()).await;
    let (file, into) = (backups.path().join("daily.db"), backups.path().join("restored"));
    shown(&backup(data.path(), &file, &[]));
    let whole = std::fs::read(&file).unwrap();
    let body = whole.windows(mark.len()).position(|window| window == mark).unwrap();
    for place in [body + 5, 4096 + 3, whole.len() / 2, 150] {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        refuses(&restore(&file, &into), 1, &["nothing was restored", "is damaged"]);
        assert!(!into.join("restante.db").exists());
    }
    std::fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    refuses(&restore(&file, &into), 1, &["nothing was restored", "is damaged"]);
    std::fs::write(&file, whole).unwrap();
    shown(&restore(&file, &into));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_overwritten_and_each_refusal_says_what_to_do() {
    let (data, backups) = (data_directory(), data_directory());
    let _shop = Shop::open(data.path(), "http://127.0.0.1:1/").await;
    let (file, nowhere) = (backups.path().join("daily.db"), backups.path().join("nowhere"));
    std::fs::write(&file, "mine").unwrap();
    refuses(&backup(data.path(), &file, &[]), 5, &["no backup was made", "exists", "--force"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    refuses(&restore(&file, &nowhere), 2, &["was not made by `restante backup`"]);
    assert!(!nowhere.exists(), "a directory is made of nothing");
    shown(&backup(data.path(), &file, &["--force"]));
    refuses(&backup(&nowhere, &backups.path().join("other.db"), &[]), 2, &["is not a data directory"]);
    refuses(&backup(data.path(), &nowhere.join("daily.db"), &[]), 1, &["No such file"]);
    let within = data.path().join("restante.db");
    refuses(&backup(data.path(), &within, &["--force"]), 2, &["is in the data directory"]);
    refuses(&restore(&file, data.path()), 5, &["is not empty: it has restante.db\n", "--data"]);
    refuses(&restore(&nowhere.join("daily.db"), &nowhere), 4, &["No such file"]);

    let mut on_postgres = restante(&["backup", text(&file)]);
    let output = on_postgres.env("RESTANTE_DATABASE_URL", "postgres://127.0.0.1:1/x").output().unwrap();
    refuses(&output, 2, &["cannot backup: all is in the PostgreSQL", "pg_basebackup"]);
    let mut on_postgres = restante(&["restore", text(&file)]);
    let output = on_postgres.env("RESTANTE_DATABASE_URL", "postgres://127.0.0.1:1/x").output().unwrap();
    refuses(&output, 2, &["cannot restore: all is in the PostgreSQL", "pg_basebackup"]);
    let mut set = restante(&["backup", text(&backups.path().join("other.db")), "--with-secret-key"]);
    let empty = backups.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    refuses(&set.args(["--data", text(&empty)]).output().unwrap(), 2, &["there is no secret.key"]);
}
