use super::*;
use crate::api::FirstKeyFault;

#[tokio::test]
async fn only_valid_keys_open() {
    let world = World::new().await;
    for (header, code) in [
        ("Basic abc", "invalid_api_key"),
        ("Bearer", "invalid_api_key"),
        ("Bearer rst_live_unknown", "invalid_api_key"),
    ] {
        let request = Request::builder().uri("/v1/workspace").header("authorization", header);
        world.send(request.body(Body::empty()).unwrap()).await.refused(401, code);
    }
    let key = world.key(json!(["workspace:read"])).await;
    world.call(&key, "GET", "/v1/workspace", Value::Null).await.expect(200);
    let id = column(&world.get("/v1/keys").await.expect(200), "id")[0].as_str().unwrap().to_owned();
    world.post(&format!("/v1/keys/{id}/revoke"), Value::Null).await.expect(200);
    world.call(&key, "GET", "/v1/workspace", Value::Null).await.refused(401, "revoked_api_key");
}

#[tokio::test]
async fn a_key_that_was_just_used_is_refused_at_once_when_it_is_revoked_deleted_rotated_or_narrowed() {
    let world = World::new().await;
    for change in ["revoke", "delete", "rotate", "narrow"] {
        let body = json!({"name": change, "scopes": ["workspace:read"]});
        let made = world.post("/v1/keys", body).await.expect(201);
        let (token, path) = (text(&made, "token"), format!("/v1/keys/{}", text(&made, "id")));
        let read = async || world.call(&token, "GET", "/v1/workspace", Value::Null).await;
        // The clock stands: whatever is remembered of the key is as fresh as can be.
        read().await.expect(200);
        read().await.expect(200);
        match change {
            "revoke" => {
                world.post(&format!("{path}/revoke"), Value::Null).await.expect(200);
                read().await.refused(401, "revoked_api_key");
            }
            "delete" => {
                world.delete(&path).await.expect(204);
                read().await.refused(401, "invalid_api_key");
            }
            "rotate" => {
                world.post(&format!("{path}/rotate"), Value::Null).await.expect(200);
                read().await.refused(401, "invalid_api_key");
            }
            _ => {
                world.patch(&path, json!({"scopes": ["sources:read"]})).await.expect(200);
                read().await.refused(403, "insufficient_scope");
            }
        }
    }
}

#[tokio::test]
async fn a_key_that_another_node_revoked_is_refused_after_a_second() {
    let world = World::new().await;
    let key = world.key(json!(["workspace:read"])).await;
    let read = async || world.call(&key, "GET", "/v1/workspace", Value::Null).await;
    read().await.expect(200);
    let hash = crate::api::token::hash(&key);
    let store: &dyn Store = &*world.store;
    let mut record = store.find::<restante_store::record::ApiKey>(&hash).await.unwrap().unwrap();
    record.body.revoked_at = Some(START);
    store.put(record, START).await.unwrap();
    world.clock.advance(std::time::Duration::from_secs(1));
    read().await.refused(401, "revoked_api_key");
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say() {
    let world = World::new().await;
    let key = world.key(json!(["sources:read"])).await;
    world.call(&key, "GET", "/v1/sources", Value::Null).await.expect(200);
    let error = world.call(&key, "POST", "/v1/sources", json!({"name": "x"})).await;
    let error = error.refused(403, "insufficient_scope");
    assert_eq!(error["type"], "permission_error");
    assert!(text(&error, "message").contains("sources:write"));
}

#[tokio::test]
async fn who_manages_keys_does_not_become_an_administrator() {
    let world = World::new().await;
    let manager = world.key(json!(["keys:manage"])).await;
    let call = async |method: &str, path: &str, body: Value| world.call(&manager, method, path, body).await;
    let admin_key = {
        let keys = world.get("/v1/keys").await.expect(200);
        let keys = keys["data"].as_array().unwrap().clone();
        text(keys.iter().find(|key| key["scopes"] == json!(["admin"])).unwrap(), "id")
    };
    let path = format!("/v1/keys/{admin_key}");
    call("POST", "/v1/keys", json!({"name": "n", "scopes": ["admin"]}))
        .await
        .refused(403, "insufficient_scope");
    call("PATCH", &path, json!({"name": "n"})).await.refused(403, "insufficient_scope");
    call("POST", &format!("{path}/rotate"), Value::Null).await.refused(403, "insufficient_scope");
    call("POST", &format!("{path}/revoke"), Value::Null).await.refused(403, "insufficient_scope");
    call("DELETE", &path, Value::Null).await.refused(403, "insufficient_scope");

    let own = call("POST", "/v1/keys", json!({"name": "n", "scopes": ["sources:read"]})).await.expect(201);
    let own = format!("/v1/keys/{}", text(&own, "id"));
    call("PATCH", &own, json!({"scopes": ["admin"]})).await.refused(403, "insufficient_scope");
    call("PATCH", &own, json!({"scopes": ["sources:write"]})).await.expect(200);
}

#[tokio::test]
async fn an_administrator_acts_in_any_workspace() {
    let world = World::new().await;
    let other = world.post("/v1/workspaces", json!({"name": "other"})).await.expect(201);
    let call = async |key: &str, workspace: &str| {
        let request = Request::builder()
            .uri("/v1/workspace")
            .header("authorization", format!("Bearer {key}"))
            .header("x-workspace-id", workspace);
        world.send(request.body(Body::empty()).unwrap()).await
    };
    let id = text(&other, "id");
    assert_eq!(call(&world.admin, &id).await.expect(200)["name"], "other");
    call(&world.admin, "ws_x").await.refused(404, "workspace_not_found");
    let key = text(&other["key"], "token");
    call(&key, &id).await.refused(403, "insufficient_scope");
    world.call(&key, "GET", "/v1/workspaces", Value::Null).await.refused(403, "insufficient_scope");
}

#[tokio::test]
async fn the_last_use_of_a_key_is_written_down_later() {
    let world = World::new().await;
    let of_admin = async |world: &World| world.get("/v1/keys").await.expect(200)["data"][0].clone();
    assert_eq!(of_admin(&world).await["last_used_at"], "2026-11-29T23:19:41.000Z");
    world.clock.advance(std::time::Duration::from_secs(5));
    world.get("/v1/workspace").await.expect(200);
    world.state.flush_last_used().await.unwrap();
    let hash = crate::api::token::hash(&world.admin);
    let store: &dyn Store = &*world.store;
    let key = store.find::<restante_store::record::ApiKey>(&hash).await.unwrap().unwrap();
    assert_eq!(key.body.last_used_at, Some(START + std::time::Duration::from_secs(5)));
}

#[tokio::test]
async fn use_that_could_not_be_written_is_kept() {
    let world = World::new().await;
    world.get("/v1/workspace").await.expect(200);
    world.store.close();
    world.state.flush_last_used().await.unwrap_err();
    let hash = crate::api::token::hash(&world.admin);
    let store: &dyn Store = &*world.store;
    let key = store.find::<restante_store::record::ApiKey>(&hash).await.unwrap().unwrap();
    assert_eq!(world.state.last_used.get(key.id), Some(START));
}

#[tokio::test]
async fn the_first_key_is_made_once_and_a_given_one_is_added() {
    let world = World::new().await;
    let first = async |given: Option<&str>| first_key(&*world.store, &*world.clock, given, None).await;
    let opens = async |key: &str| world.call(key, "GET", "/v1/workspaces", Value::Null).await.status == 200;
    assert_eq!(first(None).await.unwrap(), None);

    let given = "an-operators-own-secret";
    assert!(!opens(given).await);
    assert_eq!(first(Some(given)).await.unwrap(), None);
    assert_eq!(first(Some(given)).await.unwrap(), None);
    assert!(opens(given).await && opens(&world.admin).await);
    let workspaces = world.get("/v1/workspaces").await.expect(200);
    assert_eq!(column(&workspaces, "owners"), [json!(["ops@a.example"])]);
    assert_eq!(column(&world.get("/v1/keys").await.expect(200), "name").len(), 2);

    for bad in ["short", "a key with white space", "ein-schlüssel-mit-umlaut"] {
        assert!(matches!(first(Some(bad)).await, Err(FirstKeyFault::Unusable)), "{bad}");
    }
}
