use serde_json::value::RawValue;

use super::*;
use crate::signature::{SignatureHeaders, SigningKey, Verifier, sign};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Reads a body that is signed properly.
fn read<T: DeserializeOwned>(body: &str) -> Result<Event<T>, NotAnEvent> {
    let key: SigningKey = SECRET.parse().unwrap();
    let signature = sign("whe_1", 1_795_994_400, body.as_bytes(), &[key]);
    let headers = SignatureHeaders { id: "whe_1", timestamp: "1795994400", signature: &signature };
    let now = Timestamp::from_millis(1_795_994_400_000);
    Event::read(&Verifier::new(SECRET).unwrap().verify(headers, body.as_bytes(), now).unwrap())
}

#[test]
fn an_event_has_its_own_time_and_the_headers_id() {
    let event: Event<Vec<u8>> =
        read(r#"{"type":"a.b","timestamp":"2026-11-29T23:19:41.007Z","data":[1,2],"later":{}}"#).unwrap();
    assert_eq!(
        event,
        Event {
            id: "whe_1".to_owned(),
            event_type: "a.b".to_owned(),
            timestamp: Timestamp::parse("2026-11-29T23:19:41.007Z").unwrap(),
            data: vec![1, 2],
        }
    );
}

#[test]
fn raw_data_are_kept_as_written() {
    let body = r#"{"data":{"n": 1.10000000000000000000001},"type":"a.b","timestamp":"2026-11-29T23:19:41Z"}"#;
    let event: Event<Box<RawValue>> = read(body).unwrap();
    assert_eq!(event.data.get(), r#"{"n": 1.10000000000000000000001}"#);
}

#[test]
fn what_is_no_event_is_told_by_what_and_where() {
    for (body, part) in [
        ("", "EOF"),
        ("[]", "expected an object with `type`"),
        ("7", "expected an object with `type`"),
        ("{}", "missing field `type`"),
        (r#"{"timestamp":"2026-11-29T23:19:41Z","data":1}"#, "missing field `type`"),
        (r#"{"type":"a.b","data":1}"#, "missing field `timestamp`"),
        (r#"{"type":"a.b","timestamp":1795994381,"data":1}"#, "invalid type"),
        (r#"{"type":"a.b","timestamp":"yesterday","data":1}"#, "RFC 3339"),
        (r#"{"type":"a.b","timestamp":"2026-11-29T23:19:41Z"}"#, "missing field `data`"),
        (r#"{"type":"a.b","timestamp":"2026-11-29T23:19:41Z","data":"1"}"#, "column 59"),
        (r#"{"type":"a.b","timestamp":"2026-11-29T23:19:41Z","data":1} x"#, "trailing"),
    ] {
        let fault = read::<u8>(body).unwrap_err().to_string();
        assert!(fault.contains(part), "{body}: {fault}");
    }
}
