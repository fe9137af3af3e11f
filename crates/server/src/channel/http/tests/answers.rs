//! What a response head means.

use super::receiver::Receiver;
use super::*;

fn response(status: u16, headers: &str) -> String {
    format!("HTTP/1.1 {status} Whatever\r\n{headers}Content-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn every_2xx_delivers() {
    for status in [200, 201, 202, 226, 299] {
        let receiver = Receiver::answering(response(status, ""));
        assert_eq!(send(&channel(), post(receiver.url(), PATIENT)).await, delivered(status));
    }
    let receiver = Receiver::answering("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(send(&channel(), post(receiver.url(), PATIENT)).await, delivered(204));
}

#[tokio::test]
async fn every_other_status_fails_with_it() {
    for status in [300, 304, 400, 404, 410, 429, 500, 503, 599, 600, 999] {
        let receiver = Receiver::answering(response(status, ""));
        let failure = fail(&channel(), post(receiver.url(), PATIENT)).await;
        assert_eq!((failure.kind, failure.status), (FailureKind::Status, Some(status)));
    }
    let receiver =
        Receiver::answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    let failure = fail(&channel(), post(receiver.url(), PATIENT)).await;
    assert_eq!((failure.kind, failure.status), (FailureKind::Status, Some(101)));
}

#[tokio::test]
async fn informational_responses_are_not_the_answer() {
    let informational = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let receiver = Receiver::answering(format!("{informational}{}", response(201, "")));
    assert_eq!(send(&channel(), post(receiver.url(), PATIENT)).await, delivered(201));
    let receiver = Receiver::answering(format!("{informational}{}", response(500, "")));
    assert_eq!(fail(&channel(), post(receiver.url(), PATIENT)).await.status, Some(500));
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let private = Receiver::answering(response(200, ""));
    for status in [301, 302, 303, 307, 308] {
        let location = format!("Location: {}\r\n", private.url());
        let receiver = Receiver::answering(response(status, &location));
        let failure = fail(&channel(), post(receiver.url(), PATIENT)).await;
        assert_eq!((failure.kind, failure.status), (FailureKind::Status, Some(status)));
        assert_eq!(receiver.connections(), 1);
    }
    assert_eq!(private.connections(), 0);
}

#[tokio::test]
async fn a_failed_status_carries_the_receivers_wish() {
    let at = |millis: i64| Some(Timestamp::from_millis(millis));
    let table = [
        (429, "Retry-After: 120\r\n", at(1_800_000_120_000)),
        (503, "retry-after:  7 \r\n", at(1_800_000_007_000)),
        (500, "Retry-After: Fri, 15 Jan 2027 08:00:01 GMT\r\n", at(1_800_000_001_000)),
        (429, "Retry-After: Fri, 15 Jan 2027 07:59:59 GMT\r\n", None),
        (429, "Retry-After: 10\r\nRetry-After: 20\r\n", at(1_800_000_010_000)),
        (429, "Retry-After: -5\r\n", None),
        (429, "Retry-After: 0\r\n", None),
        (429, "Retry-After: Fri, 15 Jan 2027 08:00:00 GMT\r\n", None),
        (429, "Retry-After: 1.5\r\n", None),
        (429, "Retry-After: tomorrow\r\n", None),
        (429, "Retry-After: \r\n", None),
        (429, "Retry-After: \u{fc}\r\n", None),
        (429, "Retry-After: 99999999999999999999999\r\n", None),
        (429, "", None),
    ];
    for (status, header, expected) in table {
        let receiver = Receiver::answering(response(status, header));
        let failure = fail(&channel(), post(receiver.url(), PATIENT)).await;
        assert_eq!((failure.status, failure.retry_after), (Some(status), expected), "{header:?}");
    }
}

/// `aaaa…`, a thousand of them, in 29 bytes.
const GZIP: &[u8] = &[
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 75, 76, 28, 5, 163, 96, 20, 12, 119, 0, 0, 3, 218, 56, 154, 232, 3, 0, 0,
];

#[tokio::test]
async fn a_compressed_body_stays_as_it_came() {
    let mut bomb = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 29\r\n\r\n".to_vec();
    bomb.extend_from_slice(GZIP);
    let receiver = Receiver::answering(bomb);
    let (outcome, body) = channel().send_and_read(post(receiver.url(), PATIENT), || NOW, 1024).await;
    assert_eq!((outcome, body.as_ref()), (delivered(200), GZIP));
}

#[tokio::test]
async fn the_beginning_of_a_body_can_be_read() {
    let receiver = Receiver::answering("HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\n0123456789");
    for (bytes_max, expected) in [(0, ""), (4, "0123"), (10, "0123456789"), (1024, "0123456789")] {
        let (outcome, body) = channel().send_and_read(post(receiver.url(), PATIENT), || NOW, bytes_max).await;
        assert!(matches!(outcome, Outcome::Failed(Failure { status: Some(500), .. })));
        assert_eq!(body, expected);
    }
}
