//! A thousand clients that mean ill.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::process::{Home, Process, on_both_stores};

const CLIENTS: usize = 1000;
/// Within this each of them is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);
/// What memory may grow by.
const GROWTH_KIB_MAX: u64 = 20 * 1024;

on_both_stores!(a_thousand_hostile_clients_are_closed_in_time_and_cost_little_memory);

async fn a_thousand_hostile_clients_are_closed_in_time_and_cost_little_memory(home: Home) {
    let server = Process::start(&home).await;
    let source = server.call(Method::POST, "/v1/sources", json!({"name": "s"})).await;
    let path = format!("/in/{}", source["token"].as_str().unwrap());
    // What the ordinary business needs is there before anything is measured.
    for _ in 0..200 {
        assert_eq!(intake(&server, &path).await, StatusCode::OK);
    }
    let before = resident_kib(server.pid());

    let mut clients = JoinSet::new();
    for index in 0..CLIENTS {
        let (address, path) = (server.address, path.clone());
        clients.spawn(async move {
            let ended = tokio::time::timeout(CLOSED_WITHIN, client(index % 8, address, &path)).await;
            assert!(ended.is_ok(), "client of kind {} is not closed in time", index % 8);
        });
    }
    let mut highest = before;
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                Some(ended) => ended.unwrap(),
                None => break,
            },
            () = tokio::time::sleep(Duration::from_millis(100)) => {
                highest = highest.max(resident_kib(server.pid()));
                assert_eq!(intake(&server, &path).await, StatusCode::OK, "others are served meanwhile");
            }
        }
    }
    let growth = highest.saturating_sub(before);
    println!("resident memory: {before} KiB before, {highest} KiB at most");
    assert!(growth <= GROWTH_KIB_MAX, "memory grew by {growth} KiB");
}

async fn intake(server: &Process, path: &str) -> StatusCode {
    server.send(Method::POST, path, Bytes::from_static(b"honest")).await.unwrap().0
}

/// Plays one kind of hostile client until the server closes the connection.
async fn client(kind: usize, address: SocketAddr, path: &str) {
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    let (start, drip): (String, Option<&[u8]>) = match kind {
        // One byte of a header each second.
        0 => (format!("POST {path} HTTP/1.1\r\nHost: a\r\nX-Slow: "), Some(b"x")),
        // Says nothing at all.
        1 => (String::new(), None),
        // One byte of a declared body each second.
        2 => (format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n"), Some(b"x")),
        // One chunk each second, for ever.
        3 => (
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Some(b"1\r\nx\r\n"),
        ),
        // More than is taken, declared.
        4 => (
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"),
            Some(&[b'x'; 1024]),
        ),
        5 => (format!("POST {path} HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 1\r\n\r\nx"), None),
        6 => (format!("POST {path} HTTP/1.1\nHost: a\nContent-Length: 1\n\nx"), None),
        _ => (
            format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"
            ),
            None,
        ),
    };
    if stream.write_all(start.as_bytes()).await.is_err() {
        return;
    }
    let mut answer = [0; 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut answer) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            () = tokio::time::sleep(Duration::from_secs(1)) => {
                if let Some(drip) = drip
                    && stream.write_all(drip).await.is_err()
                {
                    return;
                }
            }
        }
    }
}

pub(crate) fn resident_kib(pid: u32) -> u64 {
    status(pid, "VmRSS:").unwrap()
}

/// A number in a process's status, as the system writes it; `None`: there is no such process any more.
pub(crate) fn status(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
