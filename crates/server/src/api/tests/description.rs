use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use restante_sdk::calls::{CALLS, Class, named};

use super::*;
use crate::api::openapi;

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
        assert!(Class::ALL.iter().any(|known| known.name() == class), "{place}: {class}");
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

/// The client's table and the routes say the same, in both directions.
#[test]
fn the_clients_table_has_the_routes_and_their_classes() {
    let operations = operations();
    for (path, method, operation) in &operations {
        let name = text(operation, "operationId");
        let call = named(&name);
        let call =
            call.unwrap_or_else(|| panic!("{method} {path}: add {name} to crates/sdk/src/calls/table.rs"));
        let route = (call.method.as_ref().map(Method::as_str), call.path);
        assert_eq!(route, (Some(method.as_str()), Some(path.as_str())), "{name}");
        assert_eq!(call.class.name(), text(operation, "x-retry-class"), "{name}");
    }
    for call in CALLS {
        let Some(path) = call.path else { continue };
        let method = call.method.as_ref().map(Method::as_str).unwrap_or_default();
        let route = operations.iter().find(|(it, its_method, _)| it == path && its_method == method);
        let (_, _, operation) = route.unwrap_or_else(|| panic!("{}: there is no {method} {path}", call.name));
        assert_eq!(call.class.name(), text(operation, "x-retry-class"), "{}", call.name);
    }
}

/// What a call says of its failures stands beside what is said of those that all have.
#[test]
fn failures_of_a_call_and_of_all_calls_are_both_described() {
    let operations = operations();
    let (_, _, publish) =
        operations.iter().find(|(_, _, operation)| operation["operationId"] == "events.publish").unwrap();
    let described = text(&publish["responses"]["422"], "description");
    assert_eq!(
        described,
        "`idempotency_key_reuse`: the key was used for another call. \
         A field or parameter is not valid: `param` and `details` say which"
    );
}

/// What takes an idempotency key says so, and nothing else does.
#[test]
fn keyed_calls_and_no_others_take_a_key() {
    for (path, method, operation) in operations() {
        let params = operation["parameters"].as_array().cloned().unwrap_or_default();
        let takes = params.iter().any(|param| param["name"] == "Idempotency-Key");
        assert_eq!(takes, text(&operation, "x-retry-class") == Class::Keyed.name(), "{method} {path}");
    }
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

/// One schema would silently stand for both.
#[test]
fn no_two_shapes_have_the_same_name() {
    fn collect(directory: &Path, found: &mut BTreeMap<String, Vec<String>>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let derived = source.split("#[derive(").skip(1).filter_map(|rest| rest.split_once(")]\n"));
            for (_, item) in derived.filter(|(derives, _)| derives.contains("ToSchema")) {
                let (attributes, _) = item.split_once(" {").unwrap();
                let renamed = attributes.split_once("#[schema(as = ").and_then(|(_, it)| it.split_once(")]"));
                let declared = attributes.rsplit(' ').next().map(|name| name.split('<').next().unwrap());
                let name = renamed.map_or(declared.unwrap(), |(name, _)| name);
                found.entry(name.to_owned()).or_default().push(path.display().to_string());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api"), &mut found);
    assert!(found.len() > 80, "{found:?}");
    let twice: Vec<_> = found.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "give one of them another with #[schema(as = ..)]: {twice:?}");
}

/// An empty body is read as an empty object.
#[test]
fn a_body_is_required_only_for_the_fields_it_requires() {
    let required = |name: &str| {
        let operations = operations();
        let found = operations.iter().find(|(.., operation)| operation["operationId"] == name);
        found.unwrap().2["requestBody"]["required"].as_bool()
    };
    assert_eq!(required("events.publish"), Some(true));
    assert_eq!(required("templates.render"), Some(false));
    assert_eq!(required("workspace.update"), Some(false));
    assert_eq!(required("webhooks.get"), None);
}

#[test]
fn what_may_be_several_things_is_described_as_such() {
    let document: Value = serde_json::from_str(&openapi()).unwrap();
    let schema = |path: &str| document.pointer(&format!("/components/schemas/{path}")).unwrap();
    for any in ["EventInput/properties/data", "Event/properties/data"] {
        assert_eq!(schema(any)["type"], Value::Null, "{any}");
    }
    let deliveries: Vec<&Value> =
        schema("Deliveries/oneOf").as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(deliveries, ["integer", "array"]);
    // A whole email has all that is left of one that is gone, so it is the status that tells them apart.
    assert_eq!(schema("GoneStatus")["enum"], json!(["erased"]));
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_as_described() {
    let world = World::new().await;
    for (path, method, operation) in operations().iter().filter(|(path, ..)| path.contains('{')) {
        let parts = path.split(['{', '}']).enumerate();
        let broken: String = parts.map(|(at, part)| if at % 2 == 0 { part } else { "%FF" }).collect();
        let answer = world.call(&world.admin, method, &broken, json!({})).await;
        answer.refused(400, "malformed_path");
        let described = text(&operation["responses"]["400"], "description");
        assert!(described.contains("`malformed_path`"), "{method} {path}: {described}");
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
        let Some(scope) = scopes.first().and_then(Value::as_str) else {
            // Any key may, though it may find nothing.
            let answer = world.call(&powerless, &method, &filled(&path), Value::Null).await;
            assert!(matches!(answer.status.as_u16(), 200 | 404), "{method} {path}: {answer:?}");
            continue;
        };
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
