//! The judge itself: what it must see.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Endpoint, Ledger, Record, Source, Visit};
use crate::patience::now;

const BODY: &[u8] = b"7:x";

/// A source with one destination.
fn source(path: &'static str) -> Source {
    let endpoint = Endpoint { id: "dst_1".to_owned(), resource: String::new(), path };
    Source { intake: String::new(), destinations: vec![endpoint], dedupes: false }
}

/// A request with a delivery that hung once and then arrived.
fn sound() -> Value {
    json!({"key": "k", "duplicate_of": null, "deliveries": [{
        "id": "dlv_1", "destination_id": "dst_1", "state": "delivered", "reason": null, "attempts": [
            {"number": 1, "result": "failed", "error_kind": "timeout"},
            {"number": 2, "result": "delivered", "error_kind": null},
        ],
    }]})
}

fn visits(delivered: &[bool]) -> Vec<Vec<Visit>> {
    let visit = |delivered: &bool| Visit {
        path: "/steady".to_owned(),
        identity: "k".to_owned(),
        body: Bytes::from_static(BODY),
        began: now(),
        ended: None,
        delivered: *delivered,
    };
    vec![delivered.iter().map(visit).collect()]
}

/// All that is wrong with what is shown, beside what was seen and told.
fn faults(shown: &Value, path: &'static str, visits: &[Vec<Visit>], ledger: &Ledger) -> Vec<String> {
    let (source, body) = (source(path), Bytes::from_static(BODY));
    let record = Record::of_request(shown, &source, Some(&body));
    [record.faults(), record.open(ledger), record.unseen(visits)].concat()
}

#[test]
fn what_is_sound_has_no_fault() {
    let none: [&str; 0] = [];
    assert_eq!(faults(&sound(), "/steady", &visits(&[false, true]), &Ledger::default()), none);
}

#[test]
fn whatever_is_wrong_is_seen() {
    type Plant = fn(&mut Value);
    let plants: [(&str, Plant); 7] = [
        ("there is no delivery", |it| it["deliveries"] = json!([])),
        ("the attempts are not dense", |it| it["deliveries"][0]["attempts"][1]["number"] = 3.into()),
        ("state and attempts differ", |it| it["deliveries"][0]["state"] = "pending".into()),
        ("ended otherwise", |it| it["deliveries"][0]["state"] = "pending".into()),
        ("ended otherwise", |it| {
            it["deliveries"][0]["state"] = "failed".into();
            it["deliveries"][0]["reason"] = "exhausted".into();
        }),
        ("ended otherwise", |it| {
            it["deliveries"][0]["state"] = "cancelled".into();
            it["deliveries"][0]["reason"] = "requested".into();
        }),
        ("2 requests of 1 attempts", |it| {
            it["deliveries"][0]["attempts"] = json!([{"number": 1, "result": "delivered"}]);
        }),
    ];
    for (wanted, plant) in plants {
        let mut shown = sound();
        plant(&mut shown);
        let seen = faults(&shown, "/steady", &visits(&[false, true]), &Ledger::default());
        assert!(seen.iter().any(|it| it.contains(wanted)), "{wanted}: {seen:?}");
    }
}

#[test]
fn what_did_not_arrive_or_arrived_otherwise_is_seen() {
    let ledger = Ledger::default();
    let seen = faults(&sound(), "/steady", &visits(&[false, false]), &ledger);
    assert_eq!(seen, ["/steady: 1 are delivered, 0 arrived"]);
    let mut other = visits(&[false, true]);
    other[0][1].body = Bytes::from_static(b"8:x");
    assert_eq!(faults(&sound(), "/steady", &other, &ledger), ["/steady: other bytes arrived"]);
}

#[test]
fn an_attempt_after_a_cancel_is_seen() {
    let mut shown = sound();
    shown["deliveries"][0]["state"] = "cancelled".into();
    shown["deliveries"][0]["reason"] = "requested".into();
    shown["deliveries"][0]["attempts"][1]["result"] = "failed".into();
    let seen = |attempts: usize| {
        let ledger = Ledger::default();
        ledger.cancelled.lock().unwrap().insert("dlv_1".to_owned(), Some(attempts));
        faults(&shown, "/steady", &visits(&[false, false]), &ledger)
    };
    assert_eq!(seen(2), Vec::<String>::new());
    assert_eq!(seen(1), ["/steady: it ended otherwise (cancelled: Some(Some(1)))"]);
}
