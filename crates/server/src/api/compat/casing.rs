//! camelCase and snake_case, for keys of objects and names of parameters.

use serde_json::{Map, Value, json};
use url::form_urlencoded;

/// What is inside these is the caller's own.
const FREE: [&str; 6] = ["tags", "headers", "props", "metadata", "data", "payload"];

/// The client's spelling to ours.
pub(super) fn snake(value: Value) -> Value {
    spelled(value, &snake_word)
}

/// Ours to the client's.
pub(super) fn camel(value: Value) -> Value {
    spelled(value, &camel_word)
}

fn spelled(value: Value, word: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(key, value)| {
                    // A list's `data` holds what is listed; an object there is somebody's own.
                    let free = FREE.contains(&key.as_str()) && !(key == "data" && value.is_array());
                    let value = if free { value } else { spelled(value, word) };
                    (word(&key), value)
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| spelled(item, word)).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

pub(super) fn snake_word(word: &str) -> String {
    let mut snake = String::with_capacity(word.len() + 4);
    for char in word.chars() {
        if char.is_ascii_uppercase() {
            snake.push('_');
            snake.push(char.to_ascii_lowercase());
        } else {
            snake.push(char);
        }
    }
    snake
}

pub(super) fn camel_word(word: &str) -> String {
    let mut camel = String::with_capacity(word.len());
    let mut raised = false;
    for char in word.chars() {
        match char {
            '_' if !camel.is_empty() => raised = true,
            char if raised => {
                camel.push(char.to_ascii_uppercase());
                raised = false;
            }
            char => camel.push(char),
        }
    }
    camel
}

/// A query string in our spelling, with its question mark; empty when there is none.
pub(super) fn query(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        query.append_pair(&snake_word(&name), &value);
    }
    format!("?{}", query.finish())
}

/// One of our errors, as the client reads it.
pub(super) fn error(body: &Value) -> Value {
    let error = &body["error"];
    let text = |name: &str| error.get(name).cloned().unwrap_or(Value::Null);
    let field = |detail: &Value| {
        let key = detail["param"].as_str().map(camel_path).unwrap_or_default();
        json!({"key": key, "error": detail["message"]})
    };
    let mut fields: Vec<Value> = error["details"].as_array().into_iter().flatten().map(field).collect();
    if fields.is_empty() && error["param"].is_string() {
        fields.push(field(&json!({"param": error["param"], "message": error["message"]})));
    }
    json!({"error": {
        "type": text("type"),
        "code": text("code"),
        "message": text("message"),
        "param": error["param"].as_str().map(camel_path),
        "docUrl": text("doc_url"),
        "requestId": text("request_id"),
        "fields": fields,
    }})
}

/// `attachments[0].content_type` as `attachments[0].contentType`. What is inside a free field stays.
fn camel_path(path: &str) -> String {
    let mut free = false;
    let parts = path.split('.').map(|part| {
        let spelled = if free { part.to_owned() } else { camel_word(part) };
        free |= FREE.contains(&part);
        spelled
    });
    parts.collect::<Vec<_>>().join(".")
}

/// The fields of an object, to be taken apart.
pub(super) fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_spelled_both_ways() {
        for (ours, theirs) in
            [("scheduled_at", "scheduledAt"), ("id", "id"), ("key_last4", "keyLast4"), ("", "")]
        {
            assert_eq!((camel_word(ours).as_str(), snake_word(theirs).as_str()), (theirs, ours));
        }
    }

    #[test]
    fn what_is_somebodys_own_stays_as_it_is() {
        let ours = json!({"reply_to": [{"e_mail": 1}], "tags": {"a_b": "c_d"}, "metadata": {"x_y": {"z_z": 1}},
            "data": {"in_it": 1}, "next_cursor": null});
        let theirs = json!({"replyTo": [{"eMail": 1}], "tags": {"a_b": "c_d"}, "metadata": {"x_y": {"z_z": 1}},
            "data": {"in_it": 1}, "nextCursor": null});
        assert_eq!((camel(ours.clone()), snake(theirs.clone())), (theirs, ours));
        assert_eq!(camel(json!({"data": [{"a_b": 1}]})), json!({"data": [{"aB": 1}]}));
    }

    #[test]
    fn errors_name_fields_as_the_client_does() {
        let ours = json!({"error": {"type": "validation_error", "code": "invalid_field", "name": "InvalidField",
            "message": "scheduled_at: no", "param": "scheduled_at", "request_id": "r",
            "details": [{"param": "scheduled_at", "message": "no"}, {"param": "attachments[0].content_type",
            "message": "no"}, {"param": "tags.a_b", "message": "no"}]}});
        let theirs = error(&ours);
        assert_eq!(theirs["error"]["param"], "scheduledAt");
        assert_eq!(theirs["error"]["requestId"], "r");
        let keys: Vec<&str> = theirs["error"]["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["key"].as_str().unwrap())
            .collect();
        assert_eq!(keys, ["scheduledAt", "attachments[0].contentType", "tags.a_b"]);
    }

    #[test]
    fn parameters_are_spelled_our_way() {
        assert_eq!(
            query("scheduledFrom=2026-01-01T00%3A00%3A00Z&limit=2"),
            "?scheduled_from=2026-01-01T00%3A00%3A00Z&limit=2"
        );
        assert_eq!(query(""), "");
    }
}
