use super::*;

#[tokio::test]
async fn a_source_is_made_read_changed_and_deleted() {
    let world = World::new().await;
    let source = world.source("orders").await;
    let token = text(&source, "token");
    assert!(token.len() >= 32 && token.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let mut expected = json!({"object": "source", "id": source["id"], "name": "orders",
        "url": format!("https://hooks.example/in/{token}"), "token": token, "response": null,
        "deliver_pending_on_connect": true, "retention_days": 30, "dedupe": null, "verification": null,
        "clients_connected": 0, "created_at": "2026-11-29T23:19:41.000Z",
        "updated_at": "2026-11-29T23:19:41.000Z"});
    assert_eq!(source, expected);

    let path = format!("/v1/sources/{}", text(&source, "id"));
    world.clock.advance(std::time::Duration::from_secs(1));
    let answer = json!({"status": 202, "content_type": "text/plain", "body": "thanks"});
    let changed = world.patch(&path, json!({"response": answer, "retention_days": 7})).await.expect(200);
    expected["response"] = answer;
    expected["retention_days"] = json!(7);
    expected["updated_at"] = json!("2026-11-29T23:19:42.000Z");
    assert_eq!(changed, expected);
    assert_eq!(world.get(&path).await.expect(200), expected);

    let reset = world.patch(&path, json!({"response": null, "retention_days": null})).await.expect(200);
    assert_eq!((&reset["response"], &reset["retention_days"]), (&Value::Null, &json!(30)));

    assert_eq!(world.delete(&path).await.expect(204), Value::Null);
    world.get(&path).await.refused(404, "source_not_found");
    world.delete(&path).await.refused(404, "source_not_found");
    world.source("orders").await;
}

#[tokio::test]
async fn names_of_sources_are_unique() {
    let world = World::new().await;
    world.source("a").await;
    let error = world.post("/v1/sources", json!({"name": "a"})).await.refused(409, "name_taken");
    assert_eq!((&error["type"], &error["param"]), (&json!("conflict_error"), &json!("name")));
    let path = format!("/v1/sources/{}", text(&world.source("b").await, "id"));
    world.patch(&path, json!({"name": "a"})).await.refused(409, "name_taken");
    world.patch(&path, json!({"name": "b"})).await.expect(200);
}

#[tokio::test]
async fn the_rules_of_a_source_are_shown_without_their_secret() {
    let world = World::new().await;
    let dedupe = json!({"json_pointer": "/id", "hours": 24});
    let custom = json!({"kind": "hmac", "header": "X-Sign", "algorithm": "sha1", "encoding": "base64", "prefix": "p="});
    let mut with_secret = custom.clone();
    with_secret["secret"] = json!(["canary-1", "canary-2"]);
    let body = json!({"name": "n", "dedupe": dedupe, "verification": with_secret});
    let source = world.post("/v1/sources", body).await.expect(201);
    assert_eq!((&source["dedupe"], &source["verification"]), (&dedupe, &custom));
    let path = format!("/v1/sources/{}", text(&source, "id"));
    let kept = world.patch(&path, json!({"retention_days": 7})).await.expect(200);
    assert_eq!((&kept["dedupe"], &kept["verification"]), (&dedupe, &custom));
    let github = json!({"kind": "github", "secret": "canary-3"});
    let other = json!({"dedupe": {"header": "X-GitHub-Delivery", "hours": 1}, "verification": github});
    let changed = world.patch(&path, other).await.expect(200);
    assert_eq!(changed["verification"], json!({"kind": "github"}));
    assert_eq!(changed["dedupe"], json!({"header": "X-GitHub-Delivery", "hours": 1}));
    for shown in [source, kept, changed] {
        assert!(!shown.to_string().contains("canary"), "{shown}");
    }
    let none = world.patch(&path, json!({"dedupe": null, "verification": null})).await.expect(200);
    assert_eq!((&none["dedupe"], &none["verification"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_rotated_token_replaces_the_old_one() {
    let world = World::new().await;
    let source = world.source("s").await;
    let path = format!("/v1/sources/{}/rotate-token", text(&source, "id"));
    let rotated = world.post(&path, Value::Null).await.expect(200);
    assert_ne!(rotated["token"], source["token"]);
    assert!(text(&rotated, "url").ends_with(&text(&rotated, "token")));
    world.receive(&rotated, "x").await;
    let store: &dyn Store = &*world.store;
    let old = store.find::<restante_core::endpoint::Source>(&text(&source, "token")).await.unwrap();
    assert_eq!(old, None);
}

#[tokio::test]
async fn a_destination_is_made_read_changed_and_deleted() {
    let world = World::new().await;
    let source = world.source("s").await;
    let list = format!("/v1/sources/{}/destinations", text(&source, "id"));
    let body = json!({"kind": "http", "url": "https://a.example", "attempts": 3, "headers": {"X-Key": "secret"},
        "idempotency_header": true, "rate_per_second": 2.5});
    let made = world.post(&list, body).await.expect(201);
    let expected = json!({"object": "destination", "id": made["id"], "source_id": source["id"], "kind": "http",
        "url": "https://a.example/", "attempts": 3, "schedule": {"kind": "quadratic", "attempts": 3},
        "idempotency_header": true, "paused": false, "headers": {"X-Key": null}, "max_in_flight": 64,
        "rate_per_second": 2.5, "timeout_seconds": 30, "created_at": "2026-11-29T23:19:41.000Z",
        "updated_at": "2026-11-29T23:19:41.000Z"});
    assert_eq!(made, expected);

    let path = format!("{list}/{}", text(&made, "id"));
    assert_eq!(world.get(&path).await.expect(200), expected);
    let change = json!({"headers": {"X-Key": null, "X-More": "1"}, "paused": true, "schedule": null});
    let changed = world.patch(&path, change).await.expect(200);
    assert_eq!(changed["headers"], json!({"X-Key": null, "X-More": null}));
    assert_eq!((&changed["paused"], &changed["attempts"]), (&json!(true), &json!(5)));
    let error = world.patch(&path, json!({"url": "https://10.1.2.3"})).await.refused(422, "invalid_field");
    assert_eq!(error["details"][0]["param"], "url");

    world.delete(&path).await.expect(204);
    world.get(&path).await.refused(404, "destination_not_found");
    assert_eq!(world.get(&list).await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn a_destination_is_found_only_below_its_own_source() {
    let world = World::new().await;
    let (_, path) = world.source_with_destination().await;
    let other = world.source("other").await;
    let id = path.rsplit('/').next().unwrap();
    let elsewhere = format!("/v1/sources/{}/destinations/{id}", text(&other, "id"));
    world.get(&elsewhere).await.refused(404, "destination_not_found");
    world.patch(&elsewhere, json!({"paused": true})).await.refused(404, "destination_not_found");
    world.delete(&elsewhere).await.refused(404, "destination_not_found");
    world.get(&path).await.expect(200);
}

#[tokio::test]
async fn another_workspaces_things_are_not_found() {
    let world = World::new().await;
    let (source, destination) = world.source_with_destination().await;
    let request = world.receive(&source, "x").await;
    let delivery = column(&world.get("/v1/deliveries").await.expect(200), "id")[0].clone();
    let delivery = format!("/v1/deliveries/{}", delivery.as_str().unwrap());
    let request = format!("/v1/requests/{request}");
    let source = format!("/v1/sources/{}", text(&source, "id"));
    let stranger = world.stranger().await;
    let refused = async |method: &str, path: &str, body: Value, code: &str| {
        world.call(&stranger, method, path, body).await.refused(404, code);
    };
    refused("GET", &source, Value::Null, "source_not_found").await;
    refused("PATCH", &source, json!({"name": "mine"}), "source_not_found").await;
    refused("DELETE", &source, Value::Null, "source_not_found").await;
    refused("POST", &format!("{source}/rotate-token"), Value::Null, "source_not_found").await;
    refused("GET", &format!("{source}/destinations"), Value::Null, "source_not_found").await;
    refused("GET", &destination, Value::Null, "destination_not_found").await;
    refused("POST", &format!("{destination}/retry"), json!({"since": START}), "destination_not_found").await;
    refused("GET", &request, Value::Null, "request_not_found").await;
    refused("GET", &format!("{request}/body"), Value::Null, "request_not_found").await;
    refused("POST", &format!("{request}/replay"), Value::Null, "request_not_found").await;
    refused("DELETE", &request, Value::Null, "request_not_found").await;
    refused("GET", &delivery, Value::Null, "delivery_not_found").await;
    refused("GET", &format!("{delivery}/attempts"), Value::Null, "delivery_not_found").await;
    refused("POST", &format!("{delivery}/cancel"), Value::Null, "delivery_not_found").await;
    refused("POST", &format!("{delivery}/retry"), Value::Null, "delivery_not_found").await;
    for path in ["/v1/sources", "/v1/requests", "/v1/deliveries"] {
        let page = world.call(&stranger, "GET", path, Value::Null).await.expect(200);
        assert_eq!(page["data"], json!([]), "{path}");
    }
}

#[tokio::test]
async fn a_workspace_is_read_and_changed() {
    let world = World::new().await;
    let workspace = world.get("/v1/workspace").await.expect(200);
    assert_eq!(
        workspace,
        json!({"object": "workspace", "id": workspace["id"], "name": "Default", "owners": ["ops@a.example"],
            "credits": null, "retention_days_max": 365,
            "quotas": {"sources": null, "webhooks": null, "domains": null, "templates": null},
            "created_at": "2026-11-29T23:19:41.000Z"})
    );
    let change = json!({"name": "Ours", "owners": ["a@b.example"], "retention_days_max": 60});
    let changed = world.patch("/v1/workspace", change).await.expect(200);
    assert_eq!((&changed["name"], &changed["retention_days_max"]), (&json!("Ours"), &json!(60)));
    for (body, param) in [
        (json!({"name": null}), "name"),
        (json!({"owners": ["nobody"]}), "owners[0]"),
        (json!({"owners": ["a@b", "a b@c"]}), "owners[1]"),
        (json!({"retention_days_max": 0}), "retention_days_max"),
        (json!({"quotas": {"sources": -1}}), "quotas.sources"),
    ] {
        assert_eq!(world.patch("/v1/workspace", body).await.refused(422, "invalid_field")["param"], param);
    }
    let unknown = world.patch("/v1/workspace", json!({"quotas": {"mailboxes": 1}})).await;
    assert_eq!(unknown.refused(422, "unknown_field")["param"], "quotas.mailboxes");
    let error = world.post("/v1/sources", json!({"name": "n", "retention_days": 61})).await;
    assert_eq!(error.refused(422, "invalid_field")["param"], "retention_days");
}

#[tokio::test]
async fn an_administrator_sets_how_many_there_may_be() {
    let world = World::new().await;
    let quotas = json!({"quotas": {"sources": 1}});
    let changed = world.patch("/v1/workspace", quotas.clone()).await.expect(200);
    assert_eq!(
        changed["quotas"],
        json!({"sources": 1, "webhooks": null, "domains": null, "templates": null})
    );
    world.post("/v1/sources", json!({"name": "one"})).await.expect(201);
    let error = world.post("/v1/sources", json!({"name": "two"})).await.refused(409, "limit_reached");
    assert!(text(&error, "message").contains("quotas"), "{error}");
    let key = world.key(json!(["workspace:write"])).await;
    world.call(&key, "PATCH", "/v1/workspace", quotas).await.refused(403, "insufficient_scope");
    world.patch("/v1/workspace", json!({"quotas": null})).await.expect(200);
    world.post("/v1/sources", json!({"name": "two"})).await.expect(201);
}

#[tokio::test]
async fn retention_stays_below_the_workspaces() {
    let world = World::new().await;
    world.post("/v1/sources", json!({"name": "long", "retention_days": 90})).await.expect(201);
    let shorten = json!({"retention_days_max": 60});
    let error = world.patch("/v1/workspace", shorten.clone()).await.refused(409, "retention_in_use");
    assert!(text(&error, "message").contains("long"));
    let key = world.key(json!(["workspace:write"])).await;
    world.call(&key, "PATCH", "/v1/workspace", shorten).await.refused(403, "insufficient_scope");
    world.call(&key, "PATCH", "/v1/workspace", json!({"name": "n"})).await.expect(200);
}

#[tokio::test]
async fn a_new_workspace_comes_with_a_key() {
    let world = World::new().await;
    let made = world.post("/v1/workspaces", json!({"name": "other"})).await.expect(201);
    let key = text(&made["key"], "token");
    assert!(!made["key"]["scopes"].as_array().unwrap().contains(&json!("admin")));
    let seen = world.call(&key, "GET", "/v1/workspace", Value::Null).await.expect(200);
    assert_eq!((&seen["id"], &seen["key"]), (&made["id"], &Value::Null));
    let names = column(&world.get("/v1/workspaces").await.expect(200), "name");
    assert_eq!(names, ["other", "Default"]);
    assert_eq!(world.post("/v1/workspaces", json!({})).await.refused(422, "missing_field")["param"], "name");
}

#[tokio::test]
async fn credits_are_granted_and_used_up() {
    let world = World::new().await;
    let (source, _) = world.source_with_destination().await;
    let id = text(&world.get("/v1/workspace").await.expect(200), "id");
    let grant = format!("/v1/workspaces/{id}/credits");
    let credits = world.post(&grant, json!({"delta": 2, "note": "welcome"})).await.expect(200);
    assert_eq!(credits["balance"], 2);
    assert_eq!(column(&credits["ledger"], "reason"), ["grant"]);
    assert_eq!(column(&credits["ledger"], "ref"), ["welcome"]);

    let request = world.receive(&source, "x").await;
    let replay = format!("/v1/requests/{request}/replay");
    world.post(&replay, Value::Null).await.expect(202);
    let error = world.post(&replay, Value::Null).await.refused(402, "credits_exhausted");
    assert_eq!(error["type"], "billing_error");
    let credits = world.get("/v1/workspace/credits?limit=2&include_total=true").await.expect(200);
    assert_eq!((&credits["balance"], &credits["ledger"]["total"]), (&json!(0), &json!(3)));
    assert_eq!(column(&credits["ledger"], "reason"), ["replay", "request"]);

    assert_eq!(world.post(&grant, json!({"balance": null})).await.expect(200)["balance"], Value::Null);
    world.post(&grant, json!({})).await.refused(422, "invalid_field");
    world.post(&grant, json!({"delta": 1, "balance": null})).await.refused(422, "invalid_field");
    let gone = grant.replace(&id, "ws_00000000000000000000000000");
    world.post(&gone, json!({"delta": 1})).await.refused(404, "workspace_not_found");
}

#[tokio::test]
async fn a_key_is_made_changed_rotated_revoked_and_deleted() {
    let world = World::new().await;
    let body = json!({"name": "ci", "scopes": ["sources:read"], "mode": "test"});
    let made = world.post("/v1/keys", body).await.expect(201);
    let token = text(&made, "token");
    assert!(token.starts_with("rst_test_") && token.ends_with(&text(&made, "last4")));
    let path = format!("/v1/keys/{}", text(&made, "id"));
    let seen = world.get(&path).await.expect(200);
    assert_eq!(
        seen,
        json!({"object": "api_key", "id": made["id"], "name": "ci", "mode": "test", "scopes": ["sources:read"],
            "last4": made["last4"], "created_at": "2026-11-29T23:19:41.000Z", "last_used_at": null,
            "revoked_at": null})
    );
    for (body, param) in [
        (json!({"scopes": []}), "scopes"),
        (json!({"scopes": ["everything"]}), "scopes[0]"),
        (json!({"scopes": ["sources:read", "sources:read"]}), "scopes[1]"),
        (json!({"name": ""}), "name"),
    ] {
        assert_eq!(world.patch(&path, body).await.refused(422, "invalid_field")["param"], param);
    }
    let rotated = world.post(&format!("{path}/rotate"), Value::Null).await.expect(200);
    let fresh = text(&rotated, "token");
    assert!(fresh.starts_with("rst_test_"));
    world.call(&token, "GET", "/v1/sources", Value::Null).await.refused(401, "invalid_api_key");
    world.call(&fresh, "GET", "/v1/sources", Value::Null).await.expect(200);

    let revoked = world.post(&format!("{path}/revoke"), Value::Null).await.expect(200);
    world.clock.advance(std::time::Duration::from_secs(1));
    let again = world.post(&format!("{path}/revoke"), Value::Null).await.expect(200);
    assert_eq!(again["revoked_at"], revoked["revoked_at"]);
    world.post(&format!("{path}/rotate"), Value::Null).await.refused(409, "key_revoked");
    world.delete(&path).await.expect(204);
    world.get(&path).await.refused(404, "key_not_found");
}
