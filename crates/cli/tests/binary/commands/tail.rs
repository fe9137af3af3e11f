//! `restante requests tail`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Desk, bare, talk};
use crate::process::{KEY, data_directory};

/// For a line to come.
const LINE_TIME: Duration = Duration::from_secs(30);

struct Tail {
    child: Child,
    /// Lines of both standard output (`out `) and standard error (`err `).
    lines: Receiver<String>,
}

impl Tail {
    fn start(desk: &Desk, more: &[&str]) -> Self {
        Self::spawn(desk.command(&[&["requests", "tail"], more].concat()))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let others = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = sender.send(format!("out {line}"));
            }
        });
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                let _ = others.send(format!("err {line}"));
            }
        });
        Self { child, lines }
    }

    /// The next line with this in it.
    fn until(&self, wanted: &str) -> String {
        loop {
            let line =
                self.lines.recv_timeout(LINE_TIME).unwrap_or_else(|_| panic!("it never says {wanted}"));
            if line.contains(wanted) {
                return line;
            }
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_deliveries_come_as_they_happen_and_ctrl_c_is_130() {
    let desk = Desk::open().await;
    desk.id(&["sources", "create", "shop"]);
    desk.id(&["sources", "create", "other"]);
    desk.id(&[
        "destinations",
        "create",
        "--source",
        "shop",
        "--url",
        "http://127.0.0.1:1/",
        "--attempts",
        "2",
    ]);
    let mut tail = Tail::start(&desk, &["--source", "shop"]);
    assert_eq!(tail.until("connected"), "err connected; Ctrl-C ends it");
    desk.id(&["send", "request", "other"]);
    let sent = desk.run(&["send", "request", "shop", "--path", "/paid", "--data", "x"]);
    assert!(sent.status.success(), "{}", talk(&sent));
    let request = desk.id(&["requests", "list", "--source", "shop"]);
    let line = tail.until("out ");
    assert!(line.ends_with(&format!("  request   {request}  POST /paid  1 bytes")), "{line}");
    let line = tail.until("connect after");
    let expected = format!("pending  attempt 1 of 2: connect after 0 ms  next in 4 min  of {request}");
    assert!(line.contains("  delivery  dlv_") && line.replace("1 ms", "0 ms").ends_with(&expected), "{line}");

    kill_process(Pid::from_raw(tail.child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    assert_eq!(tail.child.wait().unwrap().code(), Some(130));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_away_is_found_again_and_it_is_told() {
    let mut desk = Desk::open().await;
    desk.id(&["sources", "create", "shop"]);
    let tail = Tail::start(&desk, &["--json"]);
    tail.until("err connected; ");
    let first = desk.id(&["send", "request", "shop"]);
    assert!(tail.until("out {\"object\":\"request\"").contains(&first));
    desk.server.kill();
    let told = tail.until("err not connected: ");
    assert!(told.ends_with("; next try in 1 s"), "{told}");
    desk.server.restart().await;
    let missed = desk.id(&["send", "request", "shop"]);
    // Before or after it is connected again: it is not missed.
    assert!(tail.until("out {\"object\":\"request\"").contains(&missed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_or_a_key_it_ends_at_once() {
    let desk = Desk::open().await;
    let output = desk.run(&["requests", "tail", "--server", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(talk(&output).starts_with("connecting\nerror: no connection: "), "{}", talk(&output));
    let output = desk.run(&["requests", "tail", "--api-key", "rst_live_wrong"]);
    assert_eq!(output.status.code(), Some(3));
}

const REQUEST: &str = r#"{"object":"request","id":"req_1","source_id":"src_1","method":"POST","path":"/missed",
    "query":null,"body_bytes":2,"content_type":null,"remote_address":"192.0.2.1",
    "received_at":"2026-11-29T23:19:41.000Z","key":"019acf3a-0000-7000-8000-000000000000","duplicate_of":null,
    "rejected":false,"rejected_because":null,"replay_of":null,"expires_at":"2026-12-29T23:19:41.000Z","state":"none"}"#;

/// A server whose stream always ends at once, and whose list of requests answers like this, one call after the other.
fn restless_server(lists: Vec<(u16, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut lists = lists.into_iter();
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let head: Vec<String> = BufReader::new(socket.try_clone().unwrap())
                .lines()
                .map_while(|line| line.ok().filter(|line| !line.is_empty()))
                .collect();
            let is_stream = head.first().is_some_and(|line| line.contains("/v1/stream"));
            let (status, kind, body) = if is_stream {
                (200, "text/event-stream", ": hello\n\n".to_owned())
            } else {
                let (status, body) = lists.next().unwrap_or((500, "{}".to_owned()));
                (status, "application/json", body)
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n");
            // The client may have gone.
            let _ = socket.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes());
        }
    });
    url
}

#[test]
fn what_came_while_nothing_had_been_seen_is_caught_up_and_a_failing_catch_up_is_tried_again() {
    let page =
        |data: &str| format!(r#"{{"data":[{data}],"has_more":false,"next_cursor":null,"prev_cursor":null}}"#);
    let (none, broken) = ((200, page("")), (500, "{}".to_owned()));
    let lists = vec![none.clone(), none, broken.clone(), broken.clone(), broken, (200, page(REQUEST))];
    let url = restless_server(lists);
    let home = data_directory();
    let tail = Tail::spawn(bare(home.path(), &["requests", "tail", "--server", &url, "--api-key", KEY]));
    assert_eq!(tail.until("connected"), "err connected; Ctrl-C ends it");
    tail.until("err not connected: the server has ended the stream");
    tail.until("err not connected: ");
    let line = tail.until("out ");
    assert!(line.ends_with("  request   req_1  POST /missed  2 bytes"), "{line}");
}
