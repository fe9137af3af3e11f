//! What the generator posts. Plain bodies and events hold what it agrees on with the receiver: JSON that begins with the
//! time it was sent.

use std::io::Write as _;

use bytes::Bytes;
use clap::ValueEnum;

/// What each request of a run carries.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Post {
    /// A body of exactly the wanted size, for sources and for the receiver itself.
    Plain,
    /// A call that publishes an event; what webhooks get has about the wanted size.
    Event,
    /// A call that sends an email to one mailbox; its text has the wanted size.
    Email,
}

/// Type of the events that are published.
pub(crate) const EVENT_TYPE: &str = "bench.sent";
/// Domains that emails go to in turn.
pub(crate) const MAIL_DOMAINS: u64 = 8;
/// Longest line of an email's text, in bytes.
const MAIL_LINE_BYTES: usize = 72;

const PREFIX: &[u8] = br#"{"sent_at_us":"#;
/// What comes before it in an event.
const DATA: &[u8] = br#""data":{"sent_at_us":"#;

/// The smallest body that has room for two 20-digit numbers, in bytes.
pub(crate) const BODY_BYTES_MIN: usize = 80;

impl Post {
    /// The body of request `n` of a run, counted from 0.
    pub(crate) fn body(self, sent_at_us: u64, n: u64, body_bytes: usize) -> Bytes {
        match self {
            Self::Plain => write(sent_at_us, n, body_bytes),
            Self::Event => write_event(sent_at_us, n, body_bytes),
            Self::Email => write_email(n, body_bytes),
        }
    }
}

/// A body of exactly `body_bytes` bytes: `{"sent_at_us":…,"n":…,"pad":"xxx…"}`.
///
/// `sent_at_us` is in microseconds of the steady clock, `n` numbers the requests of one run from 0. A `body_bytes` below
/// [`BODY_BYTES_MIN`] may give a longer body.
pub(crate) fn write(sent_at_us: u64, n: u64, body_bytes: usize) -> Bytes {
    let mut body = Vec::with_capacity(body_bytes.max(BODY_BYTES_MIN));
    write!(body, r#"{{"sent_at_us":{sent_at_us},"n":{n},"pad":""#).expect("a Vec takes every write");
    let padded = body_bytes.saturating_sub(2).max(body.len());
    body.resize(padded, b'x');
    body.extend_from_slice(br#""}"#);
    Bytes::from(body)
}

/// A call that publishes an event with a body of [`write()`] as its data. Receivers then get about `body_bytes` bytes.
fn write_event(sent_at_us: u64, n: u64, body_bytes: usize) -> Bytes {
    let around = format!(r#"{{"type":"{EVENT_TYPE}","timestamp":"{TIMESTAMP}","data":}}"#).len();
    let data = write(sent_at_us, n, body_bytes.saturating_sub(around));
    let mut call = format!(r#"{{"type":"{EVENT_TYPE}","data":"#).into_bytes();
    call.extend_from_slice(&data);
    call.push(b'}');
    Bytes::from(call)
}

/// A call that sends an email to one mailbox of one of the domains. Its text has `body_bytes` bytes once each line break
/// is CRLF, as on the wire.
fn write_email(n: u64, body_bytes: usize) -> Bytes {
    let domain = n % MAIL_DOMAINS;
    let mut call =
        format!(r#"{{"from":"a@x.example","to":"b@y{domain}.example","subject":"Benchmark {n}","text":""#)
            .into_bytes();
    let mut left = body_bytes;
    while left > 2 {
        let line = (left - 2).min(MAIL_LINE_BYTES);
        call.resize(call.len() + line, b'x');
        call.extend_from_slice(br"\n");
        left -= line + 2;
    }
    call.extend_from_slice(br#""}"#);
    Bytes::from(call)
}

/// What a server puts into an event.
const TIMESTAMP: &str = "2026-01-01T00:00:00.000Z";
/// Where a body made by [`write()`] begins at the latest.
const BEGINS_WITHIN: usize = 256;

/// The time in a body made by [`write()`], or in an event around one, in microseconds of the steady clock; `None` for any other
/// body.
pub(crate) fn sent_at_us(body: &[u8]) -> Option<u64> {
    let head = &body[..body.len().min(BEGINS_WITHIN)];
    let begin =
        if body.starts_with(PREFIX) { 0 } else { head.windows(DATA.len()).position(|it| it == DATA)? + 7 };
    let rest = body[begin..].strip_prefix(PREFIX)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json_of_the_wanted_size_and_keeps_its_numbers() {
        for (sent, n, bytes) in [(0, 0, 80), (1_700_000_000_123_456, 42, 512), (u64::MAX, u64::MAX, 80)] {
            let body = write(sent, n, bytes);
            assert_eq!(body.len(), bytes);
            let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(json["sent_at_us"], sent);
            assert_eq!(json["n"], n);
            assert_eq!(sent_at_us(&body), Some(sent));
        }
    }

    #[test]
    fn an_event_keeps_the_time_too() {
        let call = write_event(1_700_000_000_123_456, 3, 512);
        let json: serde_json::Value = serde_json::from_slice(&call).unwrap();
        assert_eq!(json["data"]["n"], 3);
        let sent = format!(r#"{{"type":"{EVENT_TYPE}","timestamp":"{TIMESTAMP}","data":{}}}"#, json["data"]);
        assert_eq!(sent.len(), 512);
        assert_eq!(sent_at_us(&call), Some(1_700_000_000_123_456));
    }

    #[test]
    fn an_email_has_a_text_of_the_wanted_size_and_goes_to_one_domain_after_the_other() {
        for (n, to) in [(0, "b@y0.example"), (7, "b@y7.example"), (8, "b@y0.example")] {
            let json: serde_json::Value = serde_json::from_slice(&write_email(n, 512)).unwrap();
            assert_eq!(json["to"], to);
            assert_eq!(json["text"].as_str().unwrap().replace('\n', "\r\n").len(), 512);
        }
    }

    #[test]
    fn a_foreign_body_has_no_time() {
        for body in ["", "{}", r#"{"sent_at_us":}"#, r#"{"sent_at_us":"5"}"#, r#"{"n":1,"sent_at_us":5}"#] {
            assert_eq!(sent_at_us(body.as_bytes()), None, "{body}");
        }
        assert_eq!(sent_at_us(br#"{"sent_at_us":99999999999999999999}"#), None, "more than 64 bits");
    }
}
