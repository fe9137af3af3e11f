use super::*;

async fn create(world: &World, more: Value) -> Value {
    let mut body = json!({"url": "https://a.example/hook", "events": ["order.paid"]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.post("/v1/webhooks", body).await.expect(201)
}

fn path(webhook: &Value) -> String {
    format!("/v1/webhooks/{}", text(webhook, "id"))
}

#[tokio::test]
async fn a_webhook_is_made_read_changed_and_deleted() {
    let world = World::new().await;
    let headers = json!({"X-Key": "header-canary"});
    let made = create(&world, json!({"headers": headers, "description": "ours", "events": ["order.*", "*"]}));
    let made = made.await;
    let secret = text(&made, "secret");
    assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
    let mut expected = json!({"object": "webhook", "id": made["id"], "url": "https://a.example/hook",
        "description": "ours", "filter": null, "events": ["order.*", "*"], "status": "active",
        "schedule": {"kind": "standard"}, "headers": {"X-Key": null}, "max_in_flight": 64,
        "rate_per_second": null, "timeout_seconds": 15, "failing_since": null, "consecutive_failures": 0,
        "pauses_at": null, "created_at": "2026-11-29T23:19:41.000Z", "updated_at": "2026-11-29T23:19:41.000Z",
        "secret": secret});
    assert_eq!(made, expected);
    assert!(text(&made, "id").starts_with("whk_"));

    expected.as_object_mut().unwrap().remove("secret");
    let path = path(&made);
    assert_eq!(world.get(&path).await.expect(200), expected);
    assert_eq!(world.get("/v1/webhooks").await.expect(200)["data"], json!([expected]));
    assert_eq!(world.patch(&path, json!({})).await.expect(200), expected);

    world.clock.advance(std::time::Duration::from_secs(1));
    let change = json!({"url": "https://b.example", "events": ["user.made"], "description": null,
        "status": "paused", "schedule": {"kind": "custom", "waits_seconds": [1.5], "jitter": 0.1},
        "headers": {}, "max_in_flight": 1, "rate_per_second": 0.5, "timeout_seconds": 60});
    let changed = world.patch(&path, change.clone()).await.expect(200);
    for (name, value) in change.as_object().unwrap() {
        match name.as_str() {
            // Absent, not empty, when there is none.
            "description" => assert_eq!(changed.get(name), None),
            "url" => assert_eq!(changed[name], "https://b.example/"),
            _ => assert_eq!(changed[name], *value, "{name}"),
        }
    }
    assert_eq!(changed["updated_at"], "2026-11-29T23:19:42.000Z");
    assert_eq!(world.get(&path).await.expect(200), changed);

    world.delete(&path).await.expect(204);
    world.get(&path).await.refused(404, "webhook_not_found");
    world.patch(&path, json!({"status": "active"})).await.refused(404, "webhook_not_found");
    world.delete(&path).await.refused(404, "webhook_not_found");
    assert_eq!(world.get("/v1/webhooks").await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn no_answer_shows_a_secret_or_a_headers_value_again() {
    let world = World::new().await;
    let made = create(&world, json!({"headers": {"X-Key": "header-canary"}})).await;
    let path = path(&made);
    let rotated = world.post(&format!("{path}/rotate-secret"), Value::Null).await.expect(200);
    assert_eq!(rotated.as_object().unwrap().keys().collect::<Vec<_>>(), ["secret"]);
    let secrets = [text(&made, "secret"), text(&rotated, "secret")];
    assert_ne!(secrets[0], secrets[1]);
    for answer in [
        world.get(&path).await,
        world.get("/v1/webhooks").await,
        world.patch(&path, json!({"description": "d"})).await,
        world.patch(&path, json!({"headers": {"X-Key": null, "X-More": "header-canary"}})).await,
    ] {
        let shown = std::str::from_utf8(&answer.body).unwrap().to_owned();
        assert!(!shown.contains("canary") && !shown.contains("whsec_"), "{shown}");
        assert!(!shown.contains("s1."), "nor what is sealed: {shown}");
    }
}

#[tokio::test]
async fn five_secrets_may_be_valid_at_once_and_a_sixth_is_409() {
    let world = World::new().await;
    let path = format!("{}/rotate-secret", path(&create(&world, json!({})).await));
    let rotate = async || world.post(&path, Value::Null).await;
    for _ in 0..4 {
        world.clock.advance(std::time::Duration::from_secs(60));
        rotate().await.expect(200);
    }
    let error = rotate().await.refused(409, "too_many_secrets");
    assert_eq!(error["type"], "conflict_error");
    // The first one was replaced in the first minute: 24 hours later it is valid no more.
    world
        .clock
        .advance(std::time::Duration::from_secs(24 * 3600 - 3 * 60) - std::time::Duration::from_millis(1));
    rotate().await.refused(409, "too_many_secrets");
    world.clock.advance(std::time::Duration::from_millis(1));
    rotate().await.expect(200);
    rotate().await.refused(409, "too_many_secrets");
}

#[tokio::test]
async fn another_workspaces_webhooks_and_events_are_not_found() {
    let world = World::new().await;
    let webhook = path(&create(&world, json!({"events": ["*"]})).await);
    let event = text(&world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202), "id");
    let delivery = text(&world.get("/v1/deliveries").await.expect(200)["data"][0], "id");
    let stranger = world.stranger().await;
    let refused = async |method: &str, path: &str, body: Value, code: &str| {
        world.call(&stranger, method, path, body).await.refused(404, code);
    };
    for below in ["", "/deliveries", "/attempts", "/replays"] {
        refused("GET", &format!("{webhook}{below}"), Value::Null, "webhook_not_found").await;
    }
    for below in ["/rotate-secret", "/test", "/replay", "/replay?dry_run=true", "/recover"] {
        refused("POST", &format!("{webhook}{below}"), Value::Null, "webhook_not_found").await;
    }
    refused("PATCH", &webhook, json!({"status": "paused"}), "webhook_not_found").await;
    refused("DELETE", &webhook, Value::Null, "webhook_not_found").await;
    let one = format!("{webhook}/deliveries/{delivery}/replay");
    refused("POST", &one, Value::Null, "webhook_not_found").await;
    refused("GET", &format!("/v1/events/{event}"), Value::Null, "event_not_found").await;
    for list in ["/v1/webhooks", "/v1/events", "/v1/notices", "/v1/deliveries"] {
        let page = world.call(&stranger, "GET", list, Value::Null).await.expect(200);
        assert_eq!(page["data"], json!([]), "{list}");
    }
    let theirs = world.call(&stranger, "POST", "/v1/events", json!({"type": "a.b", "data": 1})).await;
    assert_eq!(theirs.expect(202)["deliveries"], 0, "nothing crosses workspaces");
    assert_eq!(world.get(&webhook).await.expect(200)["status"], "active");
}

#[tokio::test]
async fn a_delivery_is_replayed_only_below_its_own_webhook() {
    let world = World::new().await;
    let own = path(&create(&world, json!({"events": ["*"]})).await);
    let other = path(&create(&world, json!({"events": ["user.made"]})).await);
    world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202);
    let delivery = text(&world.get("/v1/deliveries").await.expect(200)["data"][0], "id");
    let replay = async |webhook: &str, delivery: &str| {
        world.post(&format!("{webhook}/deliveries/{delivery}/replay"), Value::Null).await
    };
    replay(&other, &delivery).await.refused(404, "delivery_not_found");
    replay(&own, "dlv_01abcdefghe0080000000000ab").await.refused(404, "delivery_not_found");
    assert_eq!(replay(&own, &delivery).await.expect(202)["id"], delivery);
}

#[tokio::test]
async fn a_recovery_begins_at_the_last_pause_unless_told_otherwise() {
    let world = World::new().await;
    let path = path(&create(&world, json!({"events": ["*"]})).await);
    let publish = async || world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202);
    let set = async |status: &str| world.patch(&path, json!({"status": status})).await.expect(200);
    for _ in 0..2 {
        set("paused").await;
        publish().await;
        world.clock.advance(std::time::Duration::from_secs(60));
        publish().await;
        set("active").await;
        world.clock.advance(std::time::Duration::from_secs(60));
    }
    let recover = async |body: Value| {
        let started = world.post(&format!("{path}/recover"), body).await.expect(202);
        let listed = world.get(&format!("{path}/replays?limit=1")).await.expect(200)["data"][0].clone();
        assert_eq!(listed["id"], started["id"]);
        (started["events"].clone(), listed["since"].clone(), listed["until"].clone())
    };
    let (paused, now) = ("2026-11-29T23:21:41.000Z", "2026-11-29T23:23:41.000Z");
    // Nothing is sent yet: there is no dispatcher.
    for (body, events, since, until) in [
        (json!({"until": paused}), 1, paused, paused),
        (json!({"until": now}), 2, paused, now),
        (json!({}), 2, paused, now),
        (json!({"since": "2026-11-29T23:19:41Z"}), 4, "2026-11-29T23:19:41.000Z", now),
        (json!({"until": "2026-11-29T23:19:41Z"}), 0, paused, "2026-11-29T23:19:41.000Z"),
    ] {
        assert_eq!(recover(body.clone()).await, (json!(events), json!(since), json!(until)), "{body}");
    }
}

#[tokio::test]
async fn the_bodies_of_calls_that_send_again_are_checked() {
    let world = World::new().await;
    let path = path(&create(&world, json!({})).await);
    for (below, body, code, param) in [
        ("replay", json!({"since": "yesterday"}), "invalid_field", "since"),
        ("replay", json!({"until": 5}), "invalid_field", "until"),
        ("replay", json!({"from": "2026-11-29T00:00:00Z"}), "unknown_field", "from"),
        ("replay?dry_run=perhaps", json!({}), "invalid_parameter", "dry_run"),
        ("replay?dry=true", json!({}), "unknown_parameter", "dry"),
        ("recover", json!({"since": "2026-11-29T23:19:41.001Z"}), "invalid_field", "since"),
        ("recover", json!({"until": "x"}), "invalid_field", "until"),
        ("recover", json!({"x": 1}), "unknown_field", "x"),
        ("test", json!({"event_type": "test"}), "invalid_field", "event_type"),
        ("test", json!({"event_type": "a.*"}), "invalid_field", "event_type"),
        ("test", json!({"type": "a.b"}), "unknown_field", "type"),
    ] {
        let error = world.post(&format!("{path}/{below}"), body.clone()).await.refused(422, code);
        assert_eq!(error["param"], param, "{below} {body}");
    }
    for (query, code, param) in [
        ("limit=0", "invalid_parameter", "limit"),
        ("limit=101", "invalid_parameter", "limit"),
        ("cursor=0100000000000000aa", "invalid_parameter", "cursor"),
        ("status=lost", "invalid_parameter", "status"),
        ("before=now", "invalid_parameter", "before"),
        ("starting_after=x", "unknown_parameter", "starting_after"),
    ] {
        let error = world.get(&format!("{path}/attempts?{query}")).await.refused(422, code);
        assert_eq!(error["param"], param, "{query}");
    }
}

#[tokio::test]
async fn the_list_is_searched_by_url_sorted_and_counted() {
    let world = World::new().await;
    for url in ["https://b.example/", "https://a.example/", "https://b.example/"] {
        create(&world, json!({"url": url})).await;
    }
    let urls = async |query: &str| {
        let page = world.get(&format!("/v1/webhooks?{query}")).await.expect(200);
        (column(&page, "url"), page["total"].clone(), page["has_more"].clone())
    };
    let (a, b) = (json!("https://a.example/"), json!("https://b.example/"));
    assert_eq!(urls("").await, (vec![b.clone(), a.clone(), b.clone()], Value::Null, json!(false)));
    assert_eq!(
        urls("sort=url&order=asc&limit=2&include_total=true").await,
        (vec![a.clone(), b.clone()], json!(3), json!(true))
    );
    assert_eq!(urls("url=https://b.example/&include_total=true").await.1, 2);
    for (query, param) in
        [("sort=name", "sort"), ("order=up", "order"), ("cursor=x", "cursor"), ("limit=0", "limit")]
    {
        let error = world.get(&format!("/v1/webhooks?{query}")).await.refused(422, "invalid_parameter");
        assert_eq!(error["param"], param, "{query}");
    }
}

#[tokio::test]
async fn a_paused_webhook_that_is_made_so_gets_nothing() {
    let world = World::new().await;
    let webhook = create(&world, json!({"events": ["*"], "status": "paused"})).await;
    assert_eq!(webhook["status"], "paused");
    let answer = world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202);
    assert_eq!(answer["deliveries"], 1);
    let shown = world.get(&format!("/v1/events/{}", text(&answer, "id"))).await.expect(200);
    let delivery = &shown["deliveries"][0];
    assert_eq!((&delivery["state"], &delivery["reason"]), (&json!("skipped"), &Value::Null));
    assert_eq!((&delivery["ended_at"], &delivery["attempts"]), (&shown["created_at"], &json!([])));
}

#[tokio::test]
async fn a_delivery_of_an_event_is_not_retried_by_hand_and_the_error_names_the_call_that_is_right() {
    let world = World::new().await;
    create(&world, json!({"events": ["*"]})).await;
    world.attach().await;
    world.post("/v1/events", json!({"type": "a.b", "data": 1})).await.expect(202);
    let delivery = text(&world.get("/v1/deliveries").await.expect(200)["data"][0], "id");
    for state in ["sending", "delivered"] {
        let error = world.post(&format!("/v1/deliveries/{delivery}/retry"), Value::Null).await;
        let error = error.refused(409, "not_retryable");
        assert!(
            text(&error, "message").contains("/v1/webhooks/{id}/deliveries/{id}/replay"),
            "{state}: {error}"
        );
        world.settle(Outcome::of_status(200, None)).await;
    }
}
