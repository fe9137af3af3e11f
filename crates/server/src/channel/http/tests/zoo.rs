//! Receivers that misbehave.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use tokio::sync::mpsc;

use super::receiver::{Receiver, read_request, until_closed};
use super::*;

#[tokio::test]
async fn a_receiver_that_hangs_is_a_timeout_and_its_connection_is_closed() {
    let (closed, mut closings) = mpsc::unbounded_channel();
    let receiver = Receiver::start(move |mut stream| {
        read_request(&mut stream);
        until_closed(&mut stream);
        closed.send(()).unwrap();
    });
    let channel = channel();
    for _ in 0..2 {
        assert_eq!(kind_of_failure(&channel, post(receiver.url(), HASTY)).await, FailureKind::Timeout);
        closings.recv().await.unwrap();
    }
    assert_eq!(receiver.connections(), 2, "a connection with a request on it is not used again");
}

#[tokio::test]
async fn a_receiver_that_never_reads_is_a_timeout() {
    let receiver = Receiver::start(|stream| {
        // Held until the test's process ends.
        std::mem::forget(stream);
    });
    let mut out = post(receiver.url(), HASTY);
    out.body = Bytes::from(vec![b'x'; 8 * 1024 * 1024]);
    assert_eq!(kind_of_failure(&channel(), out).await, FailureKind::Timeout);
}

#[tokio::test]
async fn a_head_that_trickles_in_is_a_timeout() {
    let receiver = Receiver::start(|mut stream| {
        read_request(&mut stream);
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" {
            thread::sleep(Duration::from_millis(10));
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    });
    assert_eq!(kind_of_failure(&channel(), post(receiver.url(), HASTY)).await, FailureKind::Timeout);
}

#[tokio::test]
async fn an_endless_body_neither_holds_back_the_outcome_nor_the_connection() {
    let heads: [&[u8]; 2] = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n",
    ];
    for head in heads {
        let (given_up, mut giving_up) = mpsc::unbounded_channel();
        let receiver = Receiver::start(move |mut stream| {
            read_request(&mut stream);
            stream.write_all(head).unwrap();
            let chunk = [b"1000\r\n".as_slice(), &[b'x'; 4096], b"\r\n"].concat();
            while stream.write_all(&chunk).is_ok() {}
            given_up.send(()).unwrap();
        });
        assert_eq!(send(&channel(), post(receiver.url(), PATIENT)).await, delivered(200));
        giving_up.recv().await.unwrap();
    }
}

#[tokio::test]
async fn a_body_that_breaks_after_the_head_changes_nothing() {
    let bodies: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a chunk\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ];
    for body in bodies {
        let receiver = Receiver::start(|mut stream| {
            read_request(&mut stream);
            stream.write_all(body).unwrap();
        });
        assert_eq!(send(&channel(), post(receiver.url(), PATIENT)).await, delivered(200));
        let (outcome, _) = channel().send_and_read(post(receiver.url(), PATIENT), || NOW, 1024).await;
        assert_eq!(outcome, delivered(200));
    }
}

#[tokio::test]
async fn reading_a_body_ends_with_the_attempts_time() {
    let receiver = Receiver::start(|mut stream| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").unwrap();
        until_closed(&mut stream);
    });
    let out = post(receiver.url(), Duration::from_millis(300));
    let (outcome, body) = channel().send_and_read(out, || NOW, 1024).await;
    assert_eq!((outcome, body.as_ref()), (delivered(200), b"half".as_slice()));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_head_is_a_network_failure() {
    let reset = Receiver::start(|mut stream| {
        // Closing with unread bytes makes the kernel send a reset.
        stream.read_exact(&mut [0]).unwrap();
    });
    let closed = Receiver::start(|mut stream| drop(read_request(&mut stream)));
    let half_a_head = Receiver::start(|mut stream| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap();
    });
    for receiver in [reset, closed, half_a_head] {
        assert_eq!(kind_of_failure(&channel(), post(receiver.url(), PATIENT)).await, FailureKind::Network);
        assert_eq!(receiver.connections(), 1, "a written request is not sent again");
    }
}

#[tokio::test]
async fn what_is_not_http_is_a_network_failure() {
    let endless_head = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &[b'x'; 200_000]].concat();
    let many_headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: 1\r\n".repeat(1000));
    let responses: [&[u8]; 6] = [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &endless_head,
        many_headers.as_bytes(),
    ];
    for response in responses {
        let receiver = Receiver::answering(response);
        let kind = kind_of_failure(&channel(), post(receiver.url(), PATIENT)).await;
        assert_eq!(kind, FailureKind::Network, "{}", response.escape_ascii());
    }
}

#[tokio::test]
async fn a_target_that_cannot_be_reached_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let table = [
        (format!("http://127.0.0.1:{port}/"), FailureKind::Connect),
        ("http://nowhere.example/".to_owned(), FailureKind::Dns),
        ("http://empty.example/".to_owned(), FailureKind::Dns),
        ("http://private.example/".to_owned(), FailureKind::RefusedAddress),
        ("https://private.example/".to_owned(), FailureKind::RefusedAddress),
        ("http://169.254.169.254/latest/meta-data".to_owned(), FailureKind::RefusedAddress),
        ("https://[fd00:ec2::254]/".to_owned(), FailureKind::RefusedAddress),
    ];
    for (url, kind) in table {
        assert_eq!(kind_of_failure(&channel(), post(url.clone(), PATIENT)).await, kind, "{url}");
    }
}

#[tokio::test]
async fn plain_http_is_refused_unless_allowed() {
    let receiver = Receiver::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let rules = Rules { private_targets: PrivateTargets::All, http_targets: false };
    let config = ChannelConfig { rules, extra_ca_file: None };
    let channel = HttpChannel::with_resolver(&config, Arc::new(Here)).unwrap();
    let failure = fail(&channel, post(receiver.url(), PATIENT)).await;
    assert_eq!(failure.kind, FailureKind::RefusedAddress);
    assert!(failure.message.contains("RESTANTE_ALLOW_HTTP_TARGETS"), "{}", failure.message);
    assert_eq!(receiver.connections(), 0);
}
