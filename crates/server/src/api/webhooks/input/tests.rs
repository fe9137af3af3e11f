use serde_json::{Value, json};

use super::*;
use crate::api::body::parse;
use crate::api::endpoints::bench::{Bench, told};

fn bench() -> Bench {
    Bench::new(Rules::default())
}

fn secret() -> SigningSecret {
    SigningSecret { secret: restante_core::endpoint::Sealed("sealed".into()), until: None }
}

fn create_on(bench: &Bench, body: &Value) -> Result<Webhook, Value> {
    let input: Result<WebhookInput, _> = parse(body.to_string().as_bytes());
    input.and_then(|input| input.create(secret(), bench.judge())).map_err(|error| told(&error))
}

fn create(body: &Value) -> Result<Webhook, Value> {
    create_on(&bench(), body)
}

fn update(webhook: &mut Webhook, body: &Value) -> Result<(), Value> {
    let input: Result<WebhookInput, _> = parse(body.to_string().as_bytes());
    input.and_then(|input| input.update(webhook, bench().judge())).map_err(|error| told(&error))
}

/// A valid body with `more` in it.
fn with(more: Value) -> Value {
    let mut body = json!({"url": "https://a.example/hook", "events": ["order.paid"]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn what_is_not_valid_is_refused_by_name() {
    let many: serde_json::Map<_, _> = (0..21).map(|n| (format!("X-{n}"), json!("v"))).collect();
    let custom = |more: Value| {
        let mut schedule = json!({"kind": "custom", "waits_seconds": [1]});
        schedule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        with(json!({"schedule": schedule}))
    };
    let table = [
        (json!({}), "url"),
        (json!({"events": ["order.paid"]}), "url"),
        (json!({"url": "https://a.example"}), "events"),
        (with(json!({"url": null})), "url"),
        (with(json!({"url": 1})), "url"),
        (with(json!({"url": "a.example/hook"})), "url"),
        (with(json!({"url": "http://a.example"})), "url"),
        (with(json!({"url": "ftp://a.example"})), "url"),
        (with(json!({"url": "https://127.0.0.1/x"})), "url"),
        (with(json!({"url": "https://[::1]/x"})), "url"),
        (with(json!({"url": "https://10.0.0.1"})), "url"),
        (with(json!({"url": "https://169.254.169.254/latest"})), "url"),
        (with(json!({"url": "https://localhost/x"})), "url"),
        (with(json!({"url": "https://u:p@a.example"})), "url"),
        (with(json!({"url": format!("https://a.example/{}", "x".repeat(2031))})), "url"),
        (with(json!({"events": null})), "events"),
        (with(json!({"events": "order.paid"})), "events"),
        (with(json!({"events": []})), "events"),
        (with(json!({"events": vec!["order.paid"; 101]})), "events"),
        (with(json!({"events": ["order.paid", "order"]})), "events[1]"),
        (with(json!({"events": ["*.paid"]})), "events[0]"),
        (with(json!({"events": ["order.*.x"]})), "events[0]"),
        (with(json!({"events": ["order*"]})), "events[0]"),
        (with(json!({"events": ["Order.paid"]})), "events[0]"),
        (with(json!({"events": [format!("a.{}", "b".repeat(127))]})), "events[0]"),
        (with(json!({"events": [1]})), "events[0]"),
        (with(json!({"description": "x".repeat(257)})), "description"),
        (with(json!({"description": 1})), "description"),
        (with(json!({"status": "degraded"})), "status"),
        (with(json!({"status": "Paused"})), "status"),
        (with(json!({"status": null})), "status"),
        (with(json!({"filter": {}})), "filter"),
        (with(json!({"destination": null})), "destination"),
        (with(json!({"destination": {"type": "queue"}})), "destination.type"),
        (with(json!({"destination": {"type": "webhook", "x": 1}})), "destination.x"),
        (with(json!({"attempts": 3})), "attempts"),
        (with(json!({"schedule": {"kind": "mail"}})), "schedule.kind"),
        (with(json!({"schedule": {"kind": "quadratic", "attempts": 11}})), "schedule.attempts"),
        (with(json!({"schedule": {"kind": "standard", "attempts": 3}})), "schedule.attempts"),
        (with(json!({"schedule": {"kind": "standard", "jitter": 0.1}})), "schedule.jitter"),
        (with(json!({"schedule": {"kind": "custom"}})), "schedule.waits_seconds"),
        (custom(json!({"waits_seconds": vec![1; 20]})), "schedule.waits_seconds"),
        (custom(json!({"waits_seconds": [604_800.001]})), "schedule.waits_seconds"),
        (custom(json!({"waits_seconds": [-1]})), "schedule.waits_seconds"),
        (custom(json!({"waits_seconds": ["1"]})), "schedule.waits_seconds[0]"),
        (custom(json!({"jitter": 0.51})), "schedule.jitter"),
        (custom(json!({"x": 1})), "schedule.x"),
        (with(json!({"headers": many})), "headers"),
        (with(json!({"headers": ["x"]})), "headers"),
        (with(json!({"headers": {"Webhook-Signature": "x"}})), "headers.Webhook-Signature"),
        (with(json!({"headers": {"Host": "x"}})), "headers.Host"),
        (with(json!({"headers": {"Content-Length": "1"}})), "headers.Content-Length"),
        (with(json!({"headers": {"Connection": "close"}})), "headers.Connection"),
        (with(json!({"headers": {"X-A": "a\r\nb"}})), "headers.X-A"),
        (with(json!({"headers": {"X-A": "x".repeat(4097)}})), "headers.X-A"),
        (with(json!({"headers": {"X-A": null}})), "headers.X-A"),
        (with(json!({"headers": {"X-A": "1", "x-a": "2"}})), "headers.x-a"),
        (with(json!({"max_in_flight": 0})), "max_in_flight"),
        (with(json!({"max_in_flight": 1001})), "max_in_flight"),
        (with(json!({"max_in_flight": 1.5})), "max_in_flight"),
        (with(json!({"rate_per_second": 0.09})), "rate_per_second"),
        (with(json!({"rate_per_second": 10_001})), "rate_per_second"),
        (with(json!({"timeout_seconds": 0})), "timeout_seconds"),
        (with(json!({"timeout_seconds": 61})), "timeout_seconds"),
        (with(json!({"secret": "whsec_mine"})), "secret"),
        (with(json!({"paused": true})), "paused"),
        (with(json!({"id": "whk_1"})), "id"),
    ];
    for (body, param) in table {
        let error = create(&body).expect_err(&body.to_string());
        assert_eq!((&error["param"], &error["type"]), (&json!(param), &json!("validation_error")), "{body}");
    }
}

#[test]
fn the_limits_themselves_are_valid() {
    for more in [
        json!({"url": format!("https://a.example/{}", "x".repeat(2030))}),
        json!({"events": vec!["order.paid"; 100]}),
        json!({"events": [format!("a.{}", "b".repeat(126))]}),
        json!({"events": ["*", "a.*", "a.b.*", "a_1.b"]}),
        json!({"description": "ü".repeat(256)}),
        json!({"schedule": {"kind": "custom", "waits_seconds": vec![604_800; 19], "jitter": 0.5}}),
        json!({"schedule": {"kind": "quadratic", "attempts": 10}}),
        json!({"headers": {"X-A": "x".repeat(4096)}}),
        json!({"max_in_flight": 1000, "rate_per_second": 10_000, "timeout_seconds": 60}),
        json!({"max_in_flight": 1, "rate_per_second": 0.1, "timeout_seconds": 1}),
        json!({"filter": null, "destination": {"type": "webhook"}}),
    ] {
        create(&with(more.clone())).unwrap_or_else(|error| panic!("{more}: {error}"));
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let error = create(&with(json!({"url": "http://a.example", "events": ["a"], "max_in_flight": 0})));
    let error = error.unwrap_err();
    let params = error["details"].as_array().unwrap().iter().map(|detail| detail["param"].clone());
    assert_eq!(params.collect::<Vec<_>>(), ["url", "events[0]", "max_in_flight"]);
    assert_eq!(error["param"], "url");
}

#[test]
fn a_refused_url_names_the_setting_that_would_allow_it() {
    let table = [
        ("http://a.example", "RESTANTE_ALLOW_HTTP_TARGETS"),
        ("https://10.0.0.1", "RESTANTE_ALLOW_PRIVATE_TARGETS"),
    ];
    for (url, setting) in table {
        let error = create(&with(json!({"url": url}))).unwrap_err();
        assert!(error["message"].as_str().unwrap().contains(setting), "{error}");
        create_on(&Bench::new(Rules::dev()), &with(json!({"url": url}))).unwrap();
    }
}

#[test]
fn what_is_not_set_has_defaults() {
    assert_eq!(
        create(&with(json!({}))).unwrap(),
        Webhook {
            url: "https://a.example/hook".into(),
            description: None,
            events: vec![Filter::parse("order.paid").unwrap()],
            secrets: vec![secret()],
            paused: false,
            schedule: Schedule::Standard,
            headers: Vec::new(),
            max_in_flight: 64,
            rate_per_second: None,
            timeout_seconds: 15,
        }
    );
}

#[test]
fn absent_stays_and_null_goes_back_to_the_default() {
    let set = json!({"description": "d", "schedule": {"kind": "quadratic"}, "headers": {"X-A": "1"},
        "max_in_flight": 2, "rate_per_second": 1.5, "timeout_seconds": 5});
    let mut webhook = create(&with(set.clone())).unwrap();
    let before = webhook.clone();
    update(&mut webhook, &json!({})).unwrap();
    assert_eq!(webhook, before);

    update(&mut webhook, &json!({"status": "paused"})).unwrap();
    assert_eq!(webhook, Webhook { paused: true, ..before.clone() });
    update(&mut webhook, &json!({"status": "active", "filter": null})).unwrap();
    assert_eq!(webhook, before);

    let nulls: serde_json::Map<_, _> =
        set.as_object().unwrap().keys().map(|name| (name.clone(), Value::Null)).collect();
    update(&mut webhook, &Value::Object(nulls)).unwrap();
    assert_eq!(webhook, create(&with(json!({}))).unwrap());

    for required in ["url", "events"] {
        assert_eq!(update(&mut webhook, &json!({required: null})).unwrap_err()["param"], required);
    }
}

#[test]
fn an_empty_description_is_none() {
    let mut webhook = create(&with(json!({"description": ""}))).unwrap();
    assert_eq!(webhook.description, None);
    update(&mut webhook, &json!({"description": "d"})).unwrap();
    assert_eq!(webhook.description.as_deref(), Some("d"));
    update(&mut webhook, &json!({"description": ""})).unwrap();
    assert_eq!(webhook.description, None);
}

#[test]
fn header_values_are_sealed_and_null_keeps_one() {
    let mut webhook = create(&with(json!({"headers": {"X-A": "canary", "X-B": "2"}}))).unwrap();
    assert!(!format!("{webhook:?}").contains("canary"));
    update(&mut webhook, &json!({"headers": {"x-a": null, "X-C": "3"}})).unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(bench().opened(&webhook.headers), [pair("X-C", "3"), pair("x-a", "canary")]);
    let error = update(&mut webhook.clone(), &json!({"headers": {"X-B": null}})).unwrap_err();
    assert_eq!(error["param"], "headers.X-B");
    update(&mut webhook, &json!({"headers": {}})).unwrap();
    assert_eq!(webhook.headers, []);
}
