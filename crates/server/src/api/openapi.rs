//! The description of the API, made of the routes themselves.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::error::ErrorBody;

/// What is the same for all calls; the rest comes from the routes.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Restante",
        description = "Answers for messages until they arrive.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ErrorBody))
)]
pub(crate) struct Base;

static DOCUMENT: LazyLock<String> = LazyLock::new(openapi);

/// The OpenAPI 3.1 document, as `/v1/openapi.json` serves it.
///
/// Each operation's id is the name of a client's call, and `x-retry-class` says whether a client may repeat it.
pub fn openapi() -> String {
    let mut document = json!(super::routes().into_openapi());
    document["components"]["securitySchemes"] = json!({
        "key": {"type": "http", "scheme": "bearer", "description": "An API key: `rst_live_…` or `rst_test_…`."}
    });
    let schemas = document["components"]["schemas"].clone();
    let paths = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.iter_mut());
    for (_, item) in paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            if method == "get" {
                operation["x-retry-class"] = json!("read");
            }
            say_whether_a_body_is_required(operation, &schemas);
            add_common_errors(operation);
        }
    }
    document.to_string()
}

/// Without a body a call is read as if it had an empty object, so it needs one only for the fields it requires.
fn say_whether_a_body_is_required(operation: &mut Value, schemas: &Value) {
    let Some(body) = operation.get_mut("requestBody") else { return };
    let schema = body["content"]["application/json"]["schema"]["$ref"].as_str();
    if let Some(schema) = schema.and_then(|it| it.rsplit('/').next()).and_then(|name| schemas.get(name)) {
        body["required"] = json!(!schema["required"].is_null());
    }
}

/// Adds the failures that follow from what an operation takes, and gives all failures their shape.
fn add_common_errors(operation: &mut Value) {
    let body = !operation["requestBody"].is_null();
    let takes = |place: &str| {
        let params = operation["parameters"].as_array().into_iter().flatten();
        params.into_iter().any(|param| param["in"] == place)
    };
    let key = !operation["security"].is_null();
    let common = [
        ("400", body, "`malformed_json`"),
        ("400", takes("path"), "`malformed_path`"),
        ("401", key, "`missing_api_key`, `invalid_api_key` or `revoked_api_key`"),
        ("403", key, "`insufficient_scope`"),
        ("404", takes("path"), "There is no such thing in this workspace"),
        ("413", body, "`body_too_large`"),
        ("422", body || takes("query"), "A field or parameter is not valid: `param` and `details` say which"),
        (
            "429",
            key,
            "`rate_limited`: the key calls too often for `RESTANTE_RATE_LIMIT_KEY_PER_SECOND`; try again after `Retry-After`",
        ),
        ("503", key, "`store_unavailable`: try again after `Retry-After`"),
    ];
    for (status, applies, description) in common {
        if applies {
            let own = operation["responses"][status]["description"].as_str();
            let description = own.map_or(description.to_owned(), |own| format!("{own}. {description}"));
            operation["responses"][status] = json!({"description": description});
        }
    }
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        if status.as_str() >= "400" {
            let schema = json!({"$ref": "#/components/schemas/Error"});
            response["content"] = json!({"application/json": {"schema": schema}});
        }
    }
}

/// Get this description
#[utoipa::path(
    get, path = "/v1/openapi.json", operation_id = "system.openapi", tag = "system",
    responses((status = 200, body = Object, content_type = "application/json")),
)]
pub(crate) async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}
