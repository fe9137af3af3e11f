use super::*;
use restante_core::message::Content;

/// Publishes with these `Idempotency-Key` headers.
async fn keyed(world: &World, keys: &[&[u8]], path: &str, body: impl Into<Body>) -> Answer {
    let mut request = Request::builder()
        .method("POST")
        .uri(path)
        .header("authorization", format!("Bearer {}", world.admin));
    for key in keys {
        request = request.header("idempotency-key", *key);
    }
    world.send(request.body(body.into()).unwrap()).await
}

async fn publish(world: &World, key: &str, body: &str) -> Answer {
    keyed(world, &[key.as_bytes()], "/v1/events", body.to_owned()).await
}

async fn webhook(world: &World, events: Value) -> String {
    let body = json!({"url": "https://a.example/hook", "events": events});
    text(&world.post("/v1/webhooks", body).await.expect(201), "id")
}

async fn count(world: &World) -> usize {
    world.get("/v1/events?limit=100").await.expect(200)["data"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_event_is_published_shown_and_listed() {
    let world = World::new().await;
    webhook(&world, json!(["order.*"])).await;
    let body = json!({"type": "order.paid", "data": {"n": 1}, "timestamp": "2026-11-29T12:00:00+02:00"});
    let answer = world.post("/v1/events", body).await.expect(202);
    let id = text(&answer, "id");
    assert!(id.starts_with("whe_") && id.len() == 30);
    assert_eq!(answer, json!({"id": id, "deliveries": 1, "replayed": false}));

    let event = world.get(&format!("/v1/events/{id}")).await.expect(200);
    let delivery = event["deliveries"][0].clone();
    let mut expected = json!({"object": "event", "id": id, "type": "order.paid",
        "timestamp": "2026-11-29T10:00:00.000Z", "data": {"n": 1}, "created_at": "2026-11-29T23:19:41.000Z",
        "deliveries": [delivery]});
    assert_eq!(event, expected);
    assert_eq!((&delivery["event_id"], delivery.get("request_id")), (&json!(id), None));
    assert!(text(&delivery, "webhook_id").starts_with("whk_") && delivery.get("destination_id").is_none());
    assert_eq!((&delivery["state"], &delivery["attempts_max"]), (&json!("pending"), &json!(8)));

    expected["deliveries"] = json!(1);
    assert_eq!(world.get("/v1/events").await.expect(200)["data"], json!([expected]));
    let other = world.post("/v1/events", json!({"type": "user.made", "data": null})).await.expect(202);
    assert_eq!(other["deliveries"], 0);
    let shown = world.get(&format!("/v1/events/{}", text(&other, "id"))).await.expect(200);
    assert_eq!((&shown["deliveries"], &shown["data"]), (&json!([]), &Value::Null));
    assert_eq!(shown["timestamp"], "2026-11-29T23:19:41.000Z", "now, unless given");
}

#[tokio::test]
async fn the_body_that_receivers_get_is_what_was_written_less_white_space() {
    let world = World::new().await;
    webhook(&world, json!(["*"])).await;
    world.attach().await;
    for (data, sent) in [
        (
            "{ \"b\" : 1 ,\n\t\"a\" : [ 1.0 , 1e+5, -0, 12345678901234567890.10 ] }",
            r#"{"b":1,"a":[1.0,1e+5,-0,12345678901234567890.10]}"#,
        ),
        (r#"{"a": 1, "a": 2}"#, r#"{"a":1,"a":2}"#),
        (r#""  \u00e4 ä \/ \n ""#, r#""  \u00e4 ä \/ \n ""#),
        ("null", "null"),
        ("[ ]", "[]"),
        ("\"\"", "\"\""),
        ("0.10", "0.10"),
    ] {
        let body =
            format!("{{\"data\": {data}, \"timestamp\": \"2026-01-02T03:04:05Z\", \"type\": \"a.b\" }}");
        keyed(&world, &[], "/v1/events", body).await.expect(202);
        let parcel = world.leased.0.lock().unwrap().pop().unwrap();
        let Content::Event(published) = &parcel.content.message else { panic!("{parcel:?}") };
        let expected = format!(r#"{{"type":"a.b","timestamp":"2026-01-02T03:04:05.000Z","data":{sent}}}"#);
        assert_eq!(published.body, expected);
        let shown = world.get("/v1/events?limit=1").await.body;
        let shown = std::str::from_utf8(&shown).unwrap();
        assert!(shown.contains(&format!(r#""data":{sent},"created_at""#)), "numbers as written: {shown}");
    }
}

#[tokio::test]
async fn an_event_that_is_not_valid_is_refused_by_name_and_not_stored() {
    let world = World::new().await;
    for (body, code, param) in [
        (json!({"data": 1}), "missing_field", "type"),
        (json!({"type": "a.b"}), "missing_field", "data"),
        (json!({"type": "a", "data": 1}), "invalid_field", "type"),
        (json!({"type": "A.b", "data": 1}), "invalid_field", "type"),
        (json!({"type": "a..b", "data": 1}), "invalid_field", "type"),
        (json!({"type": "a.b.", "data": 1}), "invalid_field", "type"),
        (json!({"type": "a.*", "data": 1}), "invalid_field", "type"),
        (json!({"type": format!("a.{}", "b".repeat(127)), "data": 1}), "invalid_field", "type"),
        (json!({"type": 1, "data": 1}), "invalid_field", "type"),
        (json!({"type": "a.b", "data": 1, "timestamp": "yesterday"}), "invalid_field", "timestamp"),
        (json!({"type": "a.b", "data": 1, "timestamp": 1_795_994_381}), "invalid_field", "timestamp"),
        (json!({"type": "a.b", "data": 1, "id": "whe_1"}), "unknown_field", "id"),
    ] {
        assert_eq!(world.post("/v1/events", body.clone()).await.refused(422, code)["param"], param, "{body}");
        let batch = json!({"events": [{"type": "a.b", "data": 1}, body]});
        let error = world.post("/v1/events/batch", batch).await.refused(422, code);
        assert_eq!(error["param"], format!("events[1].{param}"), "all or nothing: {body}");
    }
    let deep = format!(r#"{{"type": "a.b", "data": {}{}}}"#, "[".repeat(129), "]".repeat(129));
    let error = keyed(&world, &[], "/v1/events", deep).await.refused(422, "invalid_field");
    assert_eq!(error["param"], "data");
    for broken in [r#"{"type": "a.b", "data": }"#, r#"{"type": "a.b", "data": 01}"#, r#"{"type": "a.b""#] {
        keyed(&world, &[], "/v1/events", broken).await.refused(400, "malformed_json");
    }
    assert_eq!(count(&world).await, 0);
    world.post("/v1/events", json!({"type": format!("a.{}", "b".repeat(126)), "data": 1})).await.expect(202);
}

/// An event whose body for receivers has so many bytes.
fn sized(bytes: usize) -> Value {
    let empty = r#"{"type":"a.b","timestamp":"2026-01-02T03:04:05.000Z","data":""}"#;
    json!({"type": "a.b", "timestamp": "2026-01-02T03:04:05Z", "data": "x".repeat(bytes - empty.len())})
}

#[tokio::test]
async fn an_event_of_256_kib_is_taken_and_one_byte_more_is_413() {
    let world = World::new().await;
    world.post("/v1/events", sized(256 * 1024)).await.expect(202);
    let error = world.post("/v1/events", sized(256 * 1024 + 1)).await.refused(413, "event_too_large");
    assert_eq!((&error["param"], &error["type"]), (&json!("data"), &json!("invalid_request_error")));
    let batch = json!({"events": [sized(100), sized(256 * 1024 + 1)]});
    let error = world.post("/v1/events/batch", batch).await.refused(413, "event_too_large");
    assert_eq!(error["param"], "events[1].data");
    assert_eq!(count(&world).await, 1);
    let blank = vec![b' '; 1024 * 1024 + 1];
    keyed(&world, &[], "/v1/events", blank).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn a_batch_has_1_to_500_events_and_8_mib() {
    let world = World::new().await;
    webhook(&world, json!(["a.b"])).await;
    let batch = |count: usize| {
        let event = |n| json!({"type": if n % 2 == 0 { "a.b" } else { "c.d" }, "data": n});
        json!({"events": (0..count).map(event).collect::<Vec<_>>()})
    };
    for wrong in [0, 501] {
        let error = world.post("/v1/events/batch", batch(wrong)).await.refused(422, "invalid_field");
        assert_eq!(error["param"], "events", "{wrong}");
    }
    let error = world.post("/v1/events/batch", json!({})).await.refused(422, "missing_field");
    assert_eq!(error["param"], "events");
    assert_eq!(count(&world).await, 0);

    let answer = world.post("/v1/events/batch", batch(500)).await.expect(202);
    assert_eq!((column(&answer, "id").len(), &answer["replayed"]), (500, &json!(false)));
    assert_eq!(column(&answer, "deliveries")[..4], [json!(1), json!(0), json!(1), json!(0)]);
    for index in [0, 1, 499] {
        let id = answer["data"][index]["id"].as_str().unwrap();
        let event = world.get(&format!("/v1/events/{id}")).await.expect(200);
        assert_eq!(event["data"], index, "ids are in the order of the call");
    }

    let padded = |bytes: usize| {
        let mut body = batch(1).to_string().into_bytes();
        body.resize(bytes, b' ');
        body
    };
    keyed(&world, &[], "/v1/events/batch", padded(8 * 1024 * 1024)).await.expect(202);
    let answer = keyed(&world, &[], "/v1/events/batch", padded(8 * 1024 * 1024 + 1)).await;
    answer.refused(413, "body_too_large");
}

#[tokio::test]
async fn a_key_that_is_none_is_400_and_so_are_two() {
    let world = World::new().await;
    let body = json!({"type": "a.b", "data": 1}).to_string();
    let long = "k".repeat(256);
    let unusable: [&[&[u8]]; 9] = [
        &[b""],
        &[b"a b"],
        &[b"a/b"],
        &[b"a,b"],
        &[b"\xc3\xa4"],
        &[b"\xff"],
        &[long.as_bytes()],
        &[b"a", b"a"],
        &[b"a", b"b"],
    ];
    for keys in unusable {
        for path in ["/v1/events", "/v1/events/batch"] {
            let error = keyed(&world, keys, path, body.clone()).await.refused(400, "invalid_idempotency_key");
            assert_eq!(error["name"], "InvalidIdempotencyKey", "{keys:?}");
            assert_eq!(error["type"], "invalid_request_error");
        }
    }
    assert_eq!(count(&world).await, 0);
    for key in ["a", &long[1..], "AZaz09_.:-", "oe-0b5c6ed2-6f4a-4f3c-9d5e-0d4c8f9b1a2c"] {
        publish(&world, key, &body).await.expect(202);
    }
    // Every other route ignores the header.
    keyed(&world, &[b"a b", b"c"], "/v1/sources", r#"{"name": "s"}"#).await.expect(201);
}

#[tokio::test]
async fn first_comes_who_calls_then_the_key_then_the_shape_and_then_what_the_key_knows() {
    let world = World::new().await;
    let unsigned = Request::builder().method("POST").uri("/v1/events").header("idempotency-key", "a b");
    world.send(unsigned.body(Body::from("{")).unwrap()).await.refused(401, "missing_api_key");
    publish(&world, "a b", "{").await.refused(400, "invalid_idempotency_key");
    publish(&world, "k", r#"{"type": "a.b", "data": 1}"#).await.expect(202);
    publish(&world, "k", "{").await.refused(400, "malformed_json");
    publish(&world, "k", r#"{"type": "a", "data": 1}"#).await.refused(422, "invalid_field");
    publish(&world, "k", r#"{"type": "a.b", "data": 2}"#).await.refused(422, "idempotency_key_reuse");
    publish(&world, "k", &sized(256 * 1024 + 1).to_string()).await.refused(413, "event_too_large");
    publish(&world, "k", r#"{"type": "a.b", "data": 1}"#).await.expect(200);
    assert_eq!(count(&world).await, 1);
}

#[tokio::test]
async fn the_same_call_is_told_by_what_it_means() {
    let world = World::new().await;
    let first = r#"{"type": "a.b", "data": {"x": [1, {"y": "ä"}], "z": null}}"#;
    let id = text(&publish(&world, "k", first).await.expect(202), "id");
    for same in [
        r#"{"data":{"x":[1,{"y":"ä"}],"z":null},"type":"a.b"}"#,
        r#" { "type" : "a.b" , "timestamp" : null , "data" : { "z" : null , "x" : [ 1 , { "y" : "\u00e4" } ] } } "#,
    ] {
        let answer = publish(&world, "k", same).await.expect(200);
        assert_eq!(answer, json!({"id": id, "deliveries": 0, "replayed": true}), "{same}");
    }
    for other in [
        r#"{"type": "a.c", "data": {"x": [1, {"y": "ä"}], "z": null}}"#,
        r#"{"type": "a.b", "data": {"x": [1.0, {"y": "ä"}], "z": null}}"#,
        r#"{"type": "a.b", "data": {"x": [{"y": "ä"}, 1], "z": null}}"#,
        r#"{"type": "a.b", "data": {"x": [1, {"y": "ä"}]}}"#,
        r#"{"type": "a.b", "data": null}"#,
        r#"{"type": "a.b", "timestamp": "2026-11-29T23:19:41Z", "data": {"x": [1, {"y": "ä"}], "z": null}}"#,
    ] {
        let error = publish(&world, "k", other).await.refused(422, "idempotency_key_reuse");
        assert_eq!(
            (&error["type"], &error["name"]),
            (&json!("validation_error"), &json!("IdempotencyKeyReuse"))
        );
    }
    let batch = format!(r#"{{"events": [{first}]}}"#);
    let reuse = keyed(&world, &[b"k"], "/v1/events/batch", batch).await;
    reuse.refused(422, "idempotency_key_reuse");
    publish(&world, "K", first).await.expect(202);
    assert_eq!(count(&world).await, 2);
}

#[tokio::test]
async fn one_key_covers_a_whole_batch() {
    let world = World::new().await;
    let send = async |body: &Value| keyed(&world, &[b"k"], "/v1/events/batch", body.to_string()).await;
    let (one, other) = (json!({"type": "a.b", "data": 1}), json!({"type": "a.b", "data": 2}));
    let body = json!({"events": [one, other]});
    let first = send(&body).await.expect(202);
    let again = send(&body).await.expect(200);
    assert_eq!((&again["data"], &again["replayed"]), (&first["data"], &json!(true)));
    for changed in [json!([other, one]), json!([one]), json!([one, other, other]), json!([one, one])] {
        send(&json!({"events": changed})).await.refused(422, "idempotency_key_reuse");
    }
    assert_eq!(count(&world).await, 2);
}

#[tokio::test]
async fn a_refused_call_leaves_its_key_free() {
    let world = World::new().await;
    publish(&world, "k", r#"{"type": "a", "data": 1}"#).await.refused(422, "invalid_field");
    publish(&world, "k", &sized(256 * 1024 + 1).to_string()).await.refused(413, "event_too_large");
    publish(&world, "k", r#"{"type": "a.b", "data": 1}"#).await.expect(202);
}

#[tokio::test]
async fn a_key_belongs_to_its_workspace() {
    let world = World::new().await;
    let stranger = world.stranger().await;
    let body = r#"{"type": "a.b", "data": 1}"#;
    let ours = publish(&world, "k", body).await.expect(202);
    let request = Request::builder()
        .method("POST")
        .uri("/v1/events")
        .header("authorization", format!("Bearer {stranger}"))
        .header("idempotency-key", "k");
    let theirs = world.send(request.body(Body::from(body)).unwrap()).await.expect(202);
    assert_ne!(ours["id"], theirs["id"]);
}

#[tokio::test]
async fn events_are_filtered() {
    let world = World::new().await;
    let publish = async |name: &str| {
        text(&world.post("/v1/events", json!({"type": name, "data": 1})).await.expect(202), "id")
    };
    let first = publish("a.b").await;
    world.clock.advance(std::time::Duration::from_secs(3600));
    let second = publish("a.c").await;
    for (query, expected) in [
        ("", vec![&second, &first]),
        ("type=a.b", vec![&first]),
        ("type=a.d", vec![]),
        ("since=2026-11-30T00:19:41Z", vec![&second]),
        ("since=2026-11-30T00:19:41.001Z", vec![]),
        ("until=2026-11-29T23:19:41Z", vec![&first]),
        ("until=2026-11-29T23:19:40.999Z", vec![]),
    ] {
        let page = world.get(&format!("/v1/events?{query}")).await.expect(200);
        assert_eq!(json!(column(&page, "id")), json!(expected), "{query}");
    }
    for (query, code, param) in [
        ("type=a", "invalid_parameter", "type"),
        ("type=a.*", "invalid_parameter", "type"),
        ("since=soon", "invalid_parameter", "since"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "invalid_parameter", "until"),
        ("webhook=x", "unknown_parameter", "webhook"),
    ] {
        let error = world.get(&format!("/v1/events?{query}")).await.refused(422, code);
        assert_eq!(error["param"], param, "{query}");
    }
}
