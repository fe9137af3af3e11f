//! `Idempotency-Key`: which calls are one, which are not, and what is no key.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{Client, email};
use crate::process::{Home, Process, on_both_stores};

on_both_stores!(
    ways_to_write_the_same_are_one_call,
    whatever_else_is_asked_for_is_another_call,
    a_key_is_read_before_the_body_and_kept_only_with_an_email,
    a_key_covers_a_whole_batch,
);

const SENT: &str = r#"{
    "from": "Shop <shop@sender.test>", "to": "ok@mail.test", "subject": "Hello", "text": "Hi", "html": "<p>Hi</p>",
    "headers": {"X-A": "1", "X-B": "2"}, "tags": {"a": "1", "b": "2"}, "metadata": {"x": {"y": 1.0, "z": [1, 2]}},
    "attachments": [{"filename": "a.txt", "content": "+/8="}, {"filename": "b.bin", "content": "AAEC", "content_id": "b"}]
}"#;

/// The same, with one part of the text in another form.
const SAME: [(&str, &str); 13] = [
    (r#""from": "Shop <shop@sender.test>""#, r#""from": {"name": "Shop", "email": "shop@sender.test"}"#),
    (r#""from": "Shop <shop@sender.test>""#, r#""from": "\"Shop\" <shop@SENDER.test>""#),
    (r#""to": "ok@mail.test""#, r#""to": ["ok@mail.test"]"#),
    (r#""to": "ok@mail.test""#, r#""to": [{"email": "ok@mail.test", "name": null}], "cc": [], "bcc": null"#),
    (r#""subject": "Hello""#, r#""subject": "\u0048ello", "reply_to": null, "scheduled_at": null"#),
    (r#""subject": "Hello", "text": "Hi""#, r#""text":"Hi","subject":"Hello","template":null"#),
    (r#"{"X-A": "1", "X-B": "2"}"#, r#"{"X-B": "2", "X-A": "1"}"#),
    (r#"{"a": "1", "b": "2"}"#, r#"{"b":"2","a":"1"}"#),
    (r#"{"x": {"y": 1.0, "z": [1, 2]}}"#, r#"{"x":{"z":[1,2],"y":1.0}}"#),
    (r#""content": "+/8=""#, r#""content": "-_8""#),
    (r#""content": "+/8=""#, r#""content": " +/\r\n8= ", "content_type": "text/plain", "content_id": null"#),
    (r#""attachments": ["#, "\n\r\t \"attachments\" : [ "),
    (r#""content": "AAEC""#, r#""content_type": "application/octet-stream", "content": "AA\nEC""#),
];

/// Something else, likewise.
const OTHER: [(&str, &str); 27] = [
    ("Shop <shop@", "shop <shop@"),
    ("Shop <shop@sender.test>", "shop@sender.test"),
    ("<shop@sender", "<Shop@sender"),
    ("sender.test", "sender.example"),
    (r#""to": "ok@mail.test""#, r#""to": "Ok <ok@mail.test>""#),
    (r#""to": "ok@mail.test""#, r#""to": "OK@mail.test""#),
    (r#""to": "ok@mail.test""#, r#""cc": "ok@mail.test""#),
    (r#""to": "ok@mail.test""#, r#""to": ["ok@mail.test", "ok@mail.test"]"#),
    (r#""to": "ok@mail.test""#, r#""to": "ok@mail.test", "bcc": "other@mail.test""#),
    (r#""to": "ok@mail.test""#, r#""to": "ok@mail.test", "reply_to": "other@mail.test""#),
    ("Hello", "Hello "),
    (r#""subject": "Hello", "#, ""),
    (r#""text": "Hi""#, r#""text": "Hi\n""#),
    (r#""text": "Hi", "#, ""),
    ("<p>Hi</p>", "<p>Hi </p>"),
    (r#""X-A": "1""#, r#""X-A": "01""#),
    (r#""X-A": "1""#, r#""x-a": "1""#),
    (r#""a": "1""#, r#""a": "2""#),
    (r#""tags": {"a": "1", "b": "2"}, "#, ""),
    ("1.0", "1"),
    ("[1, 2]", "[2, 1]"),
    (r#""+/8=""#, r#""+/4=""#),
    ("a.txt", "A.txt"),
    (r#""filename": "a.txt""#, r#""filename": "a.txt", "content_type": "text/html""#),
    (r#""content_id": "b""#, r#""content_id": "c""#),
    (r#""text": "Hi""#, r#""text": "Hi", "scheduled_at": "2020-01-01T00:00:00Z""#),
    (r#"{"filename": "a.txt", "content": "+/8="}, "#, ""),
];

/// The call with one part of it replaced.
fn with((part, by): (&str, &str)) -> String {
    assert_eq!(SENT.matches(part).count(), 1, "{part}");
    SENT.replace(part, by)
}

async fn post(client: &Client, keys: &[&str], body: &str) -> (StatusCode, Value) {
    client.try_post("/v1/emails", keys, body.as_bytes()).await.unwrap()
}

/// A refused call, as its code.
fn code((status, answer): &(StatusCode, Value)) -> (u16, &str) {
    (status.as_u16(), answer["error"]["code"].as_str().unwrap_or_default())
}

async fn ways_to_write_the_same_are_one_call(home: Home) {
    let server = Process::start(home).await;
    let client = Client::from(&server);
    let (status, first) = post(&client, &["k"], SENT).await;
    assert_eq!((status, &first["replayed"]), (StatusCode::ACCEPTED, &json!(false)), "{first:#}");

    let compact = serde_json::from_str::<Value>(SENT).unwrap().to_string();
    for body in SAME.map(with).into_iter().chain([SENT.to_owned(), compact]) {
        let (status, answer) = post(&client, &["k"], &body).await;
        assert_eq!((status, &answer["replayed"]), (StatusCode::OK, &json!(true)), "{body}\n{answer:#}");
        assert_eq!(answer["id"], first["id"]);
    }
    assert_eq!(client.all().await.len(), 1);
}

async fn whatever_else_is_asked_for_is_another_call(home: Home) {
    let server = Process::start(home).await;
    let client = Client::from(&server);
    assert_eq!(post(&client, &["k"], SENT).await.0, StatusCode::ACCEPTED);
    let reuse = (422, "idempotency_key_reuse");
    for change in OTHER {
        let answer = post(&client, &["k"], &with(change)).await;
        assert_eq!(code(&answer), reuse, "{change:?}: {answer:?}");
    }
    let others = [
        ("/v1/emails/batch", format!(r#"{{"emails": [{SENT}]}}"#)),
        ("/v1/events", json!({"type": "order.paid", "data": {}}).to_string()),
    ];
    for (path, body) in others {
        let answer = client.try_post(path, &["k"], body.as_bytes()).await.unwrap();
        assert_eq!(code(&answer), reuse, "{path}: {answer:?}");
    }
    // An instant is compared as it is written.
    let at = |text: &str| with((r#""text": "Hi""#, &format!(r#""text": "Hi", "scheduled_at": "{text}""#)));
    assert_eq!(post(&client, &["t"], &at("2020-01-01T00:00:00Z")).await.0, StatusCode::ACCEPTED);
    assert_eq!(post(&client, &["t"], &at("2020-01-01T00:00:00Z")).await.0, StatusCode::OK);
    assert_eq!(code(&post(&client, &["t"], &at("2020-01-01T00:00:00.000Z")).await), reuse);

    // The first one is what the key stands for, as before.
    assert_eq!(post(&client, &["k"], SENT).await.0, StatusCode::OK);
    assert_eq!(client.all().await.len(), 2);
}

async fn a_key_is_read_before_the_body_and_kept_only_with_an_email(home: Home) {
    let server = Process::start(home).await;
    let client = Client::from(&server);
    let (long, too_long) = ("k".repeat(255), "k".repeat(256));
    let no_keys: [&[&str]; 10] = [
        &[""],
        &[" "],
        &["a b"],
        &["a/b"],
        &["a,b"],
        &["\"a\""],
        &["a;q=1"],
        &[&too_long],
        &["a", "a"],
        &["a", "b"],
    ];
    for keys in no_keys {
        for body in [SENT, "{", r#"{"to": 3}"#] {
            let answer = post(&client, keys, body).await;
            assert_eq!(code(&answer), (400, "invalid_idempotency_key"), "{keys:?} {body}: {answer:?}");
        }
    }
    let stranger = Client { caller: server.caller(), token: "rst_live_nobody".to_owned() };
    assert_eq!(post(&stranger, &["a b"], SENT).await.0, StatusCode::UNAUTHORIZED);

    let no_emails = [
        ("{", 400),
        (r#"{"from": "shop@sender.test", "text": "Hi"}"#, 422),
        (r#"{"from": "shop@sender.test", "to": "nobody", "text": "Hi"}"#, 422),
        (r#"{"from": "shop@sender.test", "to": "ok@mail.test", "txt": "Hi"}"#, 422),
        (
            r#"{"from": "shop@sender.test", "to": "ok@mail.test", "text": "Hi", "scheduled_at": "2099-01-01T00:00:00Z"}"#,
            422,
        ),
        (r#"{"from": "shop@sender.test", "to": "ok@mail.test", "template": {"id": "none"}}"#, 404),
    ];
    for key in [&long, "k", "A-Z_a.z:0-9"] {
        for (body, status) in no_emails {
            let answer = post(&client, &[key], body).await;
            assert_eq!(answer.0.as_u16(), status, "{body}: {answer:?}");
        }
        let (status, answer) = post(&client, &[key], SENT).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{key}: {answer:#}");
        // What is no email is told so whether or not the key is known.
        assert_eq!(post(&client, &[key], no_emails[1].0).await.1["error"]["param"], "to");
        assert_eq!(post(&client, &[key], SENT).await.0, StatusCode::OK, "{key}");
    }
    assert_eq!(client.all().await.len(), 3);
    // Where nothing is sent, it is a header like any other.
    let id = client.send(&email("ok@mail.test")).await;
    client.ended(&id).await;
    let answer = client.try_post(&format!("/v1/emails/{id}/cancel"), &["a b"], b"").await.unwrap();
    assert_eq!(code(&answer), (409, "not_cancellable"), "{answer:?}");
}

async fn a_key_covers_a_whole_batch(home: Home) {
    let server = Process::start(home).await;
    let client = Client::from(&server);
    let batch = |emails: Value| json!({"emails": emails}).to_string();
    let send = async |key: &str, body: String| {
        client.try_post("/v1/emails/batch", &[key], body.as_bytes()).await.unwrap()
    };
    let bad = json!({"from": "shop@sender.test", "to": "nobody", "text": "Hi"});
    let mixed = batch(json!([email("a@mail.test"), bad, email("b@mail.test")]));

    // No item is an email: nothing is stored, and the key stays free.
    let (status, answer) = send("k", batch(json!([bad]))).await;
    assert_eq!(
        (status, &answer["sent"], &answer["failed"]),
        (StatusCode::ACCEPTED, &json!(0), &json!(1)),
        "{answer:#}"
    );
    let (status, first) = send("k", mixed.clone()).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{first:#}");
    let kinds: Vec<_> = first["data"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(kinds, ["ok", "error", "ok"], "{first:#}");
    assert_eq!([&first["sent"], &first["failed"], &first["replayed"]], [&json!(2), &json!(1), &json!(false)]);
    for index in [0, 2] {
        client.ended(first["data"][index]["email"]["id"].as_str().unwrap()).await;
    }

    let (status, again) = send("k", mixed).await;
    assert_eq!((status, &again["replayed"]), (StatusCode::OK, &json!(true)), "{again:#}");
    for index in [0, 2] {
        let (email, before) = (&again["data"][index]["email"], &first["data"][index]["email"]);
        assert_eq!((&email["id"], &email["status"]), (&before["id"], &json!("sent")), "{again:#}");
    }
    assert_eq!(again["data"][1], first["data"][1], "an error is told as it was first");
    let answer = send("k", batch(json!([email("a@mail.test")]))).await;
    assert_eq!(code(&answer), (422, "idempotency_key_reuse"), "{answer:?}");
    assert_eq!(client.all().await.len(), 2);
}
