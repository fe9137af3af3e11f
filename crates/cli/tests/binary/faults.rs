//! A disk that is full, or does not sync.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::process::{Home, Process, data_directory};
use crate::sink::Sink;
use crate::strace::Strace;

const FREE_BYTES_MIN: u64 = 16 << 20;
/// More than the log holds: it may have to be copied back before anything fits in.
const RESERVE_BYTES: u64 = 32 << 20;
/// Of the small disk. What is left for messages is less than a log that is copied back: a log that starts afresh has room
/// within itself, and nothing would need the reserve.
const DISK_BYTES: u64 = FREE_BYTES_MIN + RESERVE_BYTES + (12 << 20);
/// Of the file system in memory.
const BLOCK_BYTES: usize = 4096;
/// For a server to notice that there is room, or that its disk works again.
const NOTICE_TIME: Duration = Duration::from_secs(20);

/// A server with a source, and what it acknowledged.
struct Shop {
    server: Process,
    intake: String,
    acknowledged: BTreeSet<String>,
    refused: usize,
}

impl Shop {
    async fn open(home: Home, destination: Value) -> Self {
        let server = Process::start(home).await;
        let source = server.call(Method::POST, "/v1/sources", json!({"name": "shop"})).await;
        let intake = format!("/in/{}", source["token"].as_str().unwrap());
        let destinations = format!("/v1/sources/{}/destinations", source["id"].as_str().unwrap());
        server.call(Method::POST, &destinations, destination).await;
        Self { server, intake, acknowledged: BTreeSet::new(), refused: 0 }
    }

    /// Sends one request; whether it was acknowledged. A refusal is the one that is promised.
    async fn accept(&mut self, body: Bytes) -> bool {
        let caller = self.server.caller();
        let (status, headers, answer) =
            caller.ask_whole((Method::POST, &self.intake), &[], body).await.expect("the server is gone");
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        if status == StatusCode::OK {
            assert!(self.acknowledged.insert(answer["id"].as_str().unwrap().to_owned()));
            return true;
        }
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
        assert!(headers.contains_key("retry-after"), "{headers:?}");
        self.refused += 1;
        false
    }

    async fn until_accepted(&mut self) {
        let waiting = async {
            while !self.accept(Bytes::from_static(b"again")).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(NOTICE_TIME, waiting).await.expect("it never accepts again");
    }

    /// What the server has is what it acknowledged: nothing is lost, and what was refused is not there.
    async fn check(&self) {
        let (mut found, mut cursor) = (BTreeSet::new(), String::new());
        loop {
            let list =
                self.server.call(Method::GET, &format!("/v1/requests?limit=100{cursor}"), Value::Null).await;
            found.extend(
                list["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()),
            );
            match list["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, self.acknowledged);
    }

    async fn ready(&self) -> (StatusCode, String) {
        let (status, answer) = self.server.send(Method::GET, "/readyz", Bytes::new()).await.unwrap();
        (status, String::from_utf8(answer.to_vec()).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_does_not_sync_is_answered_with_503_until_it_does() {
    let (data, sink) = (data_directory(), Sink::start().await);
    let url = format!("http://{}/hook", sink.address);
    let destination = json!({"kind": "http", "url": url, "idempotency_header": true});
    let mut shop = Shop::open(data.path().into(), destination).await;
    for number in 0..20 {
        assert!(shop.accept(format!("before {number}").into()).await);
    }
    let faults = Strace::attach(
        shop.server.pid(),
        &["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO"],
    );
    for number in 0..10 {
        assert!(!shop.accept(format!("meanwhile {number}").into()).await, "acknowledged without a sync");
    }
    assert_eq!(shop.ready().await.0, StatusCode::SERVICE_UNAVAILABLE);
    let alive = shop.server.send(Method::GET, "/healthz", Bytes::new()).await.unwrap();
    assert_eq!(alive.0, StatusCode::OK);
    faults.detach();
    shop.until_accepted().await;
    assert_eq!(shop.ready().await.0, StatusCode::OK);
    shop.check().await;
    shop.server.kill_and_restart().await;
    shop.check().await;
    for id in shop.acknowledged.clone() {
        until_delivered(&shop.server, &id).await;
    }
}

async fn until_delivered(server: &Process, id: &str) {
    let waiting = async {
        loop {
            let shown = server.call(Method::GET, &format!("/v1/requests/{id}"), Value::Null).await;
            if shown["deliveries"][0]["state"] == "delivered" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(NOTICE_TIME, waiting).await.unwrap_or_else(|_| panic!("{id} is not delivered"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_takes_nothing_new_lets_what_is_there_end_and_is_used_again_when_it_has_room() {
    let disk = SmallDisk::mount();
    let data = disk.path.join("data");
    let home = Home::from(data.as_path())
        .with("RESTANTE_DISK_FREE_BYTES", FREE_BYTES_MIN.to_string())
        .with("RESTANTE_DISK_RESERVE_BYTES", RESERVE_BYTES.to_string());
    let destination = json!({"kind": "http", "url": "http://127.0.0.1:1/", "paused": true});
    let mut shop = Shop::open(home, destination).await;
    let reserve = data.join("reserve");
    let held = || std::fs::metadata(&reserve).map_or(0, |file| file.len());
    assert_eq!(held(), RESERVE_BYTES);

    // Below the mark nothing new is taken, and there is room for what must be written.
    let body = Bytes::from(vec![7; 256 << 10]);
    while shop.accept(body.clone()).await {}
    let (status, reason) = shop.ready().await;
    assert!(
        status == StatusCode::SERVICE_UNAVAILABLE && reason.contains("bytes are free"),
        "{status} {reason}"
    );
    assert_eq!(held(), RESERVE_BYTES, "the reserve is for when others fill the disk");
    assert!(shop.acknowledged.len() > 20, "{} were accepted", shop.acknowledged.len());
    shop.check().await;

    // Others fill the disk: what is there can be erased all the same, out of the reserve.
    let filler = disk.fill();
    let mut refused = 0;
    while held() == RESERVE_BYTES {
        let id = shop.acknowledged.pop_first().expect("all is erased, and the reserve never needed");
        while !shop.erase(&id).await {
            refused += 1;
            assert!(refused < 100, "nothing can be erased; {}", disk.contents());
        }
    }
    let (status, reason) = shop.ready().await;
    assert!(status == StatusCode::SERVICE_UNAVAILABLE && reason.contains("the disk"), "{status} {reason}");
    let id = shop.acknowledged.pop_first().unwrap();
    assert!(shop.erase(&id).await, "the reserve is given up, and still nothing can be erased");
    assert!(!shop.accept(body.clone()).await, "the reserve is not for what is new");

    std::fs::remove_file(filler).unwrap();
    // The database keeps what it took; erasing makes room within it.
    disk.grow();
    shop.until_accepted().await;
    assert_eq!((held(), shop.ready().await.0), (RESERVE_BYTES, StatusCode::OK));
    shop.check().await;
    shop.server.kill_and_restart().await;
    shop.check().await;
    assert!(shop.refused > 0);
    shop.server.kill();
}

impl Shop {
    /// Whether a request is erased now.
    async fn erase(&self, id: &str) -> bool {
        let (status, answer) =
            self.server.send(Method::DELETE, &format!("/v1/requests/{id}"), Bytes::new()).await.unwrap();
        // After a 503 it may have been erased.
        let done = status.is_success() || status == StatusCode::NOT_FOUND;
        assert!(done || status == StatusCode::SERVICE_UNAVAILABLE, "{status} {answer:?}");
        done
    }
}

/// A file system of its own in memory, which needs root.
struct SmallDisk {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Self {
        let directory = data_directory();
        let path = directory.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let disk = Self { path, _directory: directory };
        disk.run(&["-t", "tmpfs", "-o", &format!("size={DISK_BYTES},mode=700"), "tmpfs"]);
        disk
    }

    fn grow(&self) {
        self.run(&["-o", &format!("remount,size={}", DISK_BYTES * 2)]);
    }

    fn run(&self, arguments: &[&str]) {
        let mounted = Command::new("mount").args(arguments).arg(&self.path).output().unwrap();
        assert!(
            mounted.status.success(),
            "this test must be root: {}",
            String::from_utf8_lossy(&mounted.stderr)
        );
    }

    /// Takes all that is free now. What the server gives up meanwhile, because it met the full disk first, is not taken.
    fn fill(&self) -> PathBuf {
        let path = self.path.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        for _ in 0..self.free_blocks() {
            match file.write_all(&[7; BLOCK_BYTES]) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
        path
    }

    fn free_blocks(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.path).unwrap();
        assert_eq!(disk.f_frsize, BLOCK_BYTES as u64);
        disk.f_bavail
    }

    /// For whoever reads why a test failed.
    fn contents(&self) -> String {
        let listed = Command::new("ls").arg("-lnR").arg(&self.path).output().unwrap();
        format!("{} blocks are free beside\n{}", self.free_blocks(), String::from_utf8_lossy(&listed.stdout))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A server that still runs, because the test failed, keeps it until it is killed.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}
