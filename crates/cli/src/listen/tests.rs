//! What tests of several parts use.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use restante_core::Timestamp;

use super::event::{Attempt, End, Event, Outcome};
use super::sources::Chosen;

/// 2026-11-29 14:03:20 UTC.
pub(crate) const START_MS: i64 = 1_795_961_000_000;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(START_MS + seconds * 1000)
}

pub(crate) fn chosen(name: &str) -> Chosen {
    Chosen {
        id: format!("src_{name}"),
        name: name.to_owned(),
        token: "secret".to_owned(),
        url: format!("https://hooks.example/in/{name}-c0ffee"),
        targets: vec!["http://127.0.0.1:3000".to_owned()],
    }
}

/// `serial` is also how many seconds after the start it began.
pub(crate) fn attempt(serial: u64, method: &str, uri: &str, body: &'static [u8]) -> Arc<Attempt> {
    Arc::new(Attempt {
        serial,
        source: 0,
        at: at(serial as i64),
        request_id: Some(format!("req_{serial}")),
        delivery_id: Some(format!("dlv_{serial}")),
        destination_id: Some("dst_1".to_owned()),
        number: 1,
        attempts_max: Some(5),
        method: method.to_owned(),
        uri: uri.to_owned(),
        url: format!("http://127.0.0.1:3000{uri}"),
        lines: vec![
            ("Content-Type".to_owned(), Bytes::from("application/json")),
            ("X-Signature".to_owned(), Bytes::from_static(b"\xffit's")),
        ],
        body: Bytes::from_static(body),
        body_bytes: body.len(),
    })
}

pub(crate) fn end(outcome: Outcome, millis: u64) -> End {
    let lines = match outcome {
        Outcome::Answer { .. } => vec![("server".to_owned(), Bytes::from("own/1"))],
        Outcome::Fault { .. } | Outcome::Cancelled => Vec::new(),
    };
    End { outcome, duration: Duration::from_millis(millis), lines, reported: true }
}

pub(crate) fn ended(attempt: &Arc<Attempt>, outcome: Outcome, millis: u64) -> Event {
    Event::Ended { attempt: Arc::clone(attempt), end: end(outcome, millis) }
}
