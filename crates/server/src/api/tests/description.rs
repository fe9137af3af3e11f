use std::collections::BTreeSet;

use super::*;
use crate::api::openapi;

const CLASSES: [&str; 10] = [
    "read",
    "keyed",
    "set",
    "no_op_when_done",
    "evaluate",
    "creates",
    "deletes",
    "rotates",
    "repeats_effect",
    "once",
];

/// Path, method and description of every operation.
fn operations() -> Vec<(String, String, Value)> {
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push((path.clone(), method.to_uppercase(), operation.clone()));
        }
    }
    operations
}

/// A path with ids in it that name nothing.
fn filled(path: &str) -> String {
    let id = |prefix: &str| format!("{prefix}_01abcdefghe0080000000000ab");
    let path = path.replace("{destination_id}", &id("dst")).replace("{delivery_id}", &id("dlv"));
    let prefix = path.split('/').nth(2).map(|noun| match noun {
        "sources" => "src",
        "requests" => "req",
        "deliveries" => "dlv",
        "keys" => "key",
        "events" => "whe",
        "webhooks" => "whk",
        "emails" => "em",
        "templates" => "tpl",
        "domains" => "dom",
        "suppressions" => "sup",
        _ => "ws",
    });
    path.replace("{id}", &id(prefix.unwrap_or_default()))
}

#[test]
fn every_operation_is_described() {
    let mut names = BTreeSet::new();
    for (path, method, operation) in operations() {
        let place = format!("{method} {path}");
        assert!(operation["summary"].is_string(), "{place}");
        let name = text(&operation, "operationId");
        assert!(name.contains('.') && names.insert(name.clone()), "{place}: {name}");
        let class = text(&operation, "x-retry-class");
        assert!(CLASSES.contains(&class.as_str()), "{place}: {class}");
        assert_eq!(class == "read", method == "GET", "{place}");
        let params = operation["parameters"].as_array().cloned().unwrap_or_default();
        for id in path.split(['{', '}']).skip(1).step_by(2) {
            assert!(params.iter().any(|it| it["name"] == id && it["in"] == "path"), "{place}: {id}");
        }
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{place}");
        for (status, response) in responses {
            if status.as_str() >= "400" {
                let schema = &response["content"]["application/json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Error", "{place}");
            }
        }
    }
    assert!(names.len() > 50);
}

#[test]
fn classes_follow_the_clients_table() {
    let table = [
        ("events.publish", "keyed"),
        ("events.publish_batch", "keyed"),
        ("emails.send", "keyed"),
        ("emails.send_batch", "keyed"),
        ("emails.cancel", "set"),
        ("emails.update", "set"),
        ("templates.send", "keyed"),
        ("templates.create", "creates"),
        ("templates.update", "once"),
        ("templates.delete", "deletes"),
        ("templates.duplicate", "once"),
        ("templates.set_content", "once"),
        ("templates.publish", "no_op_when_done"),
        ("templates.preview", "evaluate"),
        ("templates.render", "evaluate"),
        ("domains.create", "once"),
        ("domains.update", "set"),
        ("domains.delete", "once"),
        ("domains.verify", "evaluate"),
        ("suppressions.add", "no_op_when_done"),
        ("suppressions.delete", "once"),
        ("webhooks.create", "creates"),
        ("webhooks.update", "set"),
        ("webhooks.delete", "deletes"),
        ("webhooks.rotate_secret", "rotates"),
        ("webhooks.test", "repeats_effect"),
        ("webhooks.replay", "once"),
        ("webhooks.replay_delivery", "repeats_effect"),
        ("webhooks.recover", "once"),
        ("deliveries.cancel", "set"),
        ("sources.update", "set"),
        ("destinations.update", "set"),
        ("workspace.update", "set"),
        ("keys.update", "set"),
        ("keys.revoke", "set"),
        ("sources.create", "creates"),
        ("destinations.create", "creates"),
        ("keys.create", "creates"),
        ("workspaces.create", "creates"),
        ("sources.delete", "deletes"),
        ("destinations.delete", "deletes"),
        ("requests.delete", "deletes"),
        ("keys.delete", "deletes"),
        ("sources.rotate_token", "rotates"),
        ("keys.rotate", "rotates"),
        ("deliveries.retry", "once"),
        ("destinations.retry", "once"),
        ("requests.replay", "once"),
        ("workspaces.grant_credits", "once"),
    ];
    let described: BTreeSet<(String, String)> = operations()
        .iter()
        .map(|(_, _, operation)| (text(operation, "operationId"), text(operation, "x-retry-class")))
        .filter(|(_, class)| class != "read")
        .collect();
    let expected = table.iter().map(|(name, class)| ((*name).to_owned(), (*class).to_owned())).collect();
    assert_eq!(described, expected);
}

#[test]
fn no_reference_dangles() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 10);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn what_is_described_is_what_answers() {
    let world = World::new().await;
    let operations = operations();
    for (path, method, operation) in &operations {
        let request = Request::builder().method(method.as_str()).uri(filled(path)).body(Body::empty());
        let status = world.send(request.unwrap()).await.status.as_u16();
        let expected = if operation["security"].is_null() { 200 } else { 401 };
        assert_eq!(status, expected, "{method} {path}");
    }
    let paths: BTreeSet<&String> = operations.iter().map(|(path, ..)| path).collect();
    for path in paths {
        let request = Request::builder().method("TRACE").uri(filled(path)).body(Body::empty());
        let answer = world.send(request.unwrap()).await;
        let allowed: BTreeSet<&str> = answer.header("allow").split(',').filter(|it| *it != "HEAD").collect();
        let described =
            operations.iter().filter(|it| it.0 == *path).map(|(_, method, _)| method.as_str()).collect();
        assert_eq!(allowed, described, "{path}");
    }
    let served = world.get("/v1/openapi.json").await;
    assert_eq!(served.header("content-type"), "application/json");
    assert_eq!(served.body, openapi());
}

#[tokio::test]
async fn every_operation_wants_the_scopes_it_names() {
    let world = World::new().await;
    // So that the stream ends at once.
    world.stop.send_replace(true);
    let powerless = world.key(json!(["workspace:read"])).await;
    let workspace_reader = "workspace:read";
    for (path, method, operation) in operations() {
        let Some(scopes) = operation["security"][0]["key"].as_array() else { continue };
        let scope = scopes[0].as_str().unwrap();
        if scope == workspace_reader {
            continue;
        }
        let answer = world.call(&powerless, &method, &filled(&path), Value::Null).await;
        let error = answer.refused(403, "insufficient_scope");
        assert!(text(&error, "message").ends_with(scope), "{method} {path}: {error}");
        if scope == "admin" {
            continue;
        }
        let key = world.key(json!(scopes)).await;
        let answer = world.call(&key, &method, &filled(&path), Value::Null).await;
        assert_ne!(answer.status, 403, "{method} {path}");
    }
}
