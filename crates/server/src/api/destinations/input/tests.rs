use serde_json::{Value, json};

use super::*;
use crate::api::body::parse;
use crate::api::endpoints::bench::{Bench, told};

fn create(rules: &Rules, body: &Value) -> Result<Destination, Value> {
    let input: Result<DestinationInput, _> = parse(body.to_string().as_bytes());
    input.and_then(|input| input.create(Bench::new(rules.clone()).judge())).map_err(|error| told(&error))
}

fn update(destination: &mut Destination, body: &Value) -> Result<(), Value> {
    let input: Result<DestinationInput, _> = parse(body.to_string().as_bytes());
    let bench = Bench::new(Rules::default());
    input.and_then(|input| input.update(destination, bench.judge())).map_err(|error| told(&error))
}

/// A valid body with `more` in it.
fn with(more: Value) -> Value {
    let mut body = json!({"kind": "http", "url": "https://a.example/hook"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn what_is_not_valid_is_refused_by_name() {
    let many: serde_json::Map<_, _> = (0..21).map(|n| (format!("X-{n}"), json!("v"))).collect();
    let table = [
        (json!({}), "kind"),
        (json!({"kind": "http"}), "url"),
        (json!({"kind": "smtp", "url": "https://a.example"}), "kind"),
        (with(json!({"url": "http://a.example"})), "url"),
        (with(json!({"url": "https://127.0.0.1/x"})), "url"),
        (with(json!({"url": "https://u:p@a.example"})), "url"),
        (with(json!({"url": format!("https://a.example/{}", "x".repeat(2048))})), "url"),
        (with(json!({"url": null})), "url"),
        (json!({"kind": "cli", "url": "ftp://localhost"}), "url"),
        (with(json!({"attempts": 0})), "attempts"),
        (with(json!({"attempts": 11})), "attempts"),
        (with(json!({"attempts": 3, "schedule": {"kind": "standard"}})), "attempts"),
        (with(json!({"schedule": {"kind": "mail"}})), "schedule.kind"),
        (with(json!({"schedule": {"kind": "quadratic", "attempts": 11}})), "schedule.attempts"),
        (with(json!({"schedule": {"kind": "quadratic", "jitter": 0.1}})), "schedule.jitter"),
        (with(json!({"schedule": {"kind": "standard", "attempts": 3}})), "schedule.attempts"),
        (with(json!({"schedule": {"kind": "custom"}})), "schedule.waits_seconds"),
        (
            with(json!({"schedule": {"kind": "custom", "waits_seconds": vec![1; 10]}})),
            "schedule.waits_seconds",
        ),
        (with(json!({"schedule": {"kind": "custom", "waits_seconds": [-1]}})), "schedule.waits_seconds"),
        (with(json!({"schedule": {"kind": "custom", "waits_seconds": [604_801]}})), "schedule.waits_seconds"),
        (with(json!({"schedule": {"kind": "custom", "waits_seconds": ["1"]}})), "schedule.waits_seconds[0]"),
        (
            with(json!({"schedule": {"kind": "custom", "waits_seconds": [], "jitter": 0.51}})),
            "schedule.jitter",
        ),
        (with(json!({"schedule": {"kind": "custom", "waits_seconds": [], "x": 1}})), "schedule.x"),
        (with(json!({"idempotency_header": "Host"})), "idempotency_header"),
        (with(json!({"idempotency_header": "a b"})), "idempotency_header"),
        (with(json!({"idempotency_header": 1})), "idempotency_header"),
        (with(json!({"headers": many})), "headers"),
        (with(json!({"headers": {"Webhook-Id": "x"}})), "headers.Webhook-Id"),
        (with(json!({"headers": {"X-A": "a\nb"}})), "headers.X-A"),
        (with(json!({"headers": {"X-A": null}})), "headers.X-A"),
        (with(json!({"headers": {"X-A": "1", "x-a": "2"}})), "headers.x-a"),
        (with(json!({"headers": {"X-A": "x".repeat(4097)}})), "headers.X-A"),
        (with(json!({"max_in_flight": 0})), "max_in_flight"),
        (with(json!({"max_in_flight": 1001})), "max_in_flight"),
        (with(json!({"rate_per_second": 0.09})), "rate_per_second"),
        (with(json!({"rate_per_second": 10_001})), "rate_per_second"),
        (with(json!({"timeout_seconds": 0})), "timeout_seconds"),
        (with(json!({"timeout_seconds": 61})), "timeout_seconds"),
        (with(json!({"paused": "no"})), "paused"),
        (with(json!({"id": "dst_1"})), "id"),
    ];
    for (body, param) in table {
        assert_eq!(create(&Rules::default(), &body).unwrap_err()["param"], param, "{body}");
    }
}

#[test]
fn a_refused_url_names_the_setting_that_would_allow_it() {
    let table = [
        ("http://a.example", "RESTANTE_ALLOW_HTTP_TARGETS"),
        ("https://10.0.0.1", "RESTANTE_ALLOW_PRIVATE_TARGETS"),
    ];
    for (url, setting) in table {
        let error = create(&Rules::default(), &with(json!({"url": url}))).unwrap_err();
        assert!(error["message"].as_str().unwrap().contains(setting), "{error}");
        create(&Rules::dev(), &with(json!({"url": url}))).unwrap();
    }
    let local = json!({"kind": "cli", "url": "http://localhost:3000/hook"});
    assert_eq!(create(&Rules::default(), &local).unwrap().url, "http://localhost:3000/hook");
}

#[test]
fn what_is_not_set_has_defaults() {
    let destination = create(&Rules::default(), &with(json!({}))).unwrap();
    assert_eq!(
        destination,
        Destination {
            kind: DestinationKind::Http,
            url: "https://a.example/hook".into(),
            schedule: Schedule::Quadratic { attempts: 5 },
            idempotency_header: IdempotencyHeader::Off,
            paused: false,
            headers: Vec::new(),
            max_in_flight: 64,
            rate_per_second: None,
            timeout_seconds: 30,
        }
    );
}

#[test]
fn schedules_are_read() {
    let custom = |waits_seconds: Vec<f64>, jitter| Schedule::Custom { waits_seconds, jitter };
    let table = [
        (json!({"attempts": 10}), Schedule::Quadratic { attempts: 10 }),
        (json!({"attempts": 3, "schedule": null}), Schedule::Quadratic { attempts: 3 }),
        (json!({"schedule": {"kind": "quadratic"}}), Schedule::Quadratic { attempts: 5 }),
        (json!({"schedule": {"kind": "standard"}}), Schedule::Standard),
        (
            json!({"schedule": {"kind": "custom", "waits_seconds": [60, 0.5], "jitter": 0.1}}),
            custom(vec![60.0, 0.5], 0.1),
        ),
        (json!({"schedule": {"kind": "custom", "waits_seconds": []}}), custom(Vec::new(), 0.0)),
    ];
    for (more, expected) in table {
        assert_eq!(create(&Rules::default(), &with(more.clone())).unwrap().schedule, expected, "{more}");
    }
}

#[test]
fn absent_stays_and_null_goes_back_to_the_default() {
    let set = json!({"attempts": 9, "idempotency_header": "X-Key", "paused": true, "headers": {"X-A": "1"},
        "max_in_flight": 2, "rate_per_second": 1.5, "timeout_seconds": 5});
    let mut destination = create(&Rules::default(), &with(set.clone())).unwrap();
    let before = destination.clone();
    update(&mut destination, &json!({})).unwrap();
    assert_eq!(destination, before);

    update(&mut destination, &json!({"kind": "http", "paused": null})).unwrap();
    assert_eq!(destination, Destination { paused: false, ..before });

    let nulls: serde_json::Map<_, _> =
        set.as_object().unwrap().keys().map(|name| (name.clone(), Value::Null)).collect();
    update(&mut destination, &Value::Object(nulls)).unwrap();
    assert_eq!(destination, create(&Rules::default(), &with(json!({}))).unwrap());

    assert_eq!(update(&mut destination, &json!({"kind": "cli"})).unwrap_err()["param"], "kind");
    assert_eq!(update(&mut destination, &json!({"url": null})).unwrap_err()["param"], "url");
}

#[test]
fn headers_are_replaced_and_null_keeps_a_value() {
    let mut destination =
        create(&Rules::default(), &with(json!({"headers": {"X-A": "1", "X-B": "2"}}))).unwrap();
    update(&mut destination, &json!({"headers": {"x-a": null, "X-C": "3"}})).unwrap();
    let opened = Bench::new(Rules::default()).opened(&destination.headers);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(opened, [pair("X-C", "3"), pair("x-a", "1")]);

    let error = update(&mut destination.clone(), &json!({"headers": {"X-B": null}})).unwrap_err();
    assert_eq!(error["param"], "headers.X-B");

    update(&mut destination, &json!({"headers": {}})).unwrap();
    assert_eq!(destination.headers, []);
}
