//! When a connection is used again.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc;

use super::receiver::{Receiver, read_request};
use super::*;

#[tokio::test]
async fn a_connection_is_used_again_once_its_body_is_read() {
    let bodies = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_owned(),
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        format!("HTTP/1.1 500 No\r\nContent-Length: 4000\r\n\r\n{}", "x".repeat(4000)),
    ];
    for body in bodies {
        let receiver = Receiver::answering(body.clone());
        let channel = channel();
        for _ in 0..20 {
            send(&channel, post(receiver.url(), PATIENT)).await;
        }
        assert_eq!(receiver.connections(), 1, "{body:.60}");
    }
}

#[tokio::test]
async fn the_outcome_does_not_wait_for_the_body_and_the_late_body_is_read() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let receiver = Receiver::start(move |mut stream| {
        while read_request(&mut stream).is_some() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n").unwrap();
            released.lock().unwrap().recv().unwrap();
            stream.write_all(b"ok").unwrap();
        }
    });
    let channel = channel();
    // The body is released only after the outcome is known.
    assert_eq!(send(&channel, post(receiver.url(), PATIENT)).await, delivered(200));
    release.send(()).unwrap();
    // How soon the late body arrives is the machine's affair; each request on a new connection is one more look.
    let mut sent = 1;
    while receiver.connections() == sent {
        assert!(sent < 1000, "the first connection never comes back");
        send(&channel, post(receiver.url(), PATIENT)).await;
        release.send(()).unwrap();
        sent += 1;
    }
}

/// Answers one request on each connection and keeps it open until told to close one, and says when it has.
fn closing_on_demand() -> (Receiver, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (close, closing) = mpsc::channel();
    let (closed, closings) = mpsc::channel();
    let closing = Mutex::new(closing);
    let receiver = Receiver::start(move |mut stream| {
        read_request(&mut stream).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        // Fails when the test is over.
        if closing.lock().unwrap().recv().is_ok() {
            drop(stream);
            closed.send(()).unwrap();
        }
    });
    (receiver, close, closings)
}

/// The waits block this thread, and with it the runtime: the peer's close is in the kernel, unseen, when the next
/// request starts. This is what a busy dispatcher meets.
#[tokio::test]
async fn a_connection_the_peer_closed_while_idle_is_not_a_failed_attempt() {
    let (receiver, close, closings) = closing_on_demand();
    let channel = channel();
    for sent in 1..=50 {
        assert_eq!(send(&channel, post(receiver.url(), PATIENT)).await, delivered(200), "request {sent}");
        close.send(()).unwrap();
        closings.recv().unwrap();
        assert_eq!(receiver.connections(), sent, "a request is sent once");
    }
}

#[tokio::test]
async fn many_connections_closed_at_once_are_not_failed_attempts() {
    let (receiver, close, closings) = closing_on_demand();
    let channel = channel();
    for round in 1..=10 {
        let sending: Vec<_> = (0..8)
            .map(|_| {
                let (channel, out) = (channel.clone(), post(receiver.url(), PATIENT));
                tokio::spawn(async move { channel.send(out, || NOW).await })
            })
            .collect();
        for sent in sending {
            assert_eq!(sent.await.unwrap(), delivered(200), "round {round}");
        }
        let open = receiver.connections() - (round - 1) * 8;
        assert_eq!(open, 8);
        for _ in 0..open {
            close.send(()).unwrap();
            closings.recv().unwrap();
        }
    }
}

#[test]
fn an_attempt_takes_little_room() {
    // It is moved when its task is spawned, once for each attempt.
    let channel = channel();
    let attempt = channel.send(post("http://receiver.example/".to_owned(), PATIENT), || NOW);
    assert!(size_of_val(&attempt) <= 3072, "{} bytes", size_of_val(&attempt));
}
