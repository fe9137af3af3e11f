//! `restante requests tail`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Desk, talk};

/// For a line to come.
const LINE_TIME: Duration = Duration::from_secs(30);

struct Tail {
    child: Child,
    /// Lines of both standard output (`out `) and standard error (`err `).
    lines: Receiver<String>,
}

impl Tail {
    fn start(desk: &Desk, more: &[&str]) -> Self {
        let mut command = desk.command(&[&["requests", "tail"], more].concat());
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
