//! Reads JSON bodies.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::error::ApiError;

/// Largest body of an API call that does not say otherwise, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// A call's JSON body of at most `MAX` bytes, whatever its content type says. An empty body counts as `{}`.
pub(crate) struct Body<T, const MAX: usize = BODY_BYTES_MAX>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned, const MAX: usize> FromRequest<S> for Body<T, MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let bytes = match Limited::new(request.into_body(), MAX).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let message = format!("the body is larger than {MAX} bytes");
                return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
            }
            Err(error) => {
                let message = format!("the body broke off: {error}");
                return Err(ApiError::malformed("incomplete_body", message));
            }
        };
        parse(&bytes).map(Self)
    }
}

/// Parses a body.
///
/// # Errors
/// 400 for what is no JSON, 422 for what is not of this shape.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ApiError::malformed("malformed_json", format!("the body is not UTF-8: {error}")))?;
    let text = if text.trim_ascii().is_empty() { "{}" } else { text };
    // The syntax of the whole comes first: a wrong field in front must not hide that the rest is no JSON.
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| ApiError::malformed("malformed_json", format!("the body is not JSON: {error}")))?;
    // Structs would also be read from arrays, field by field.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(ApiError::invalid("invalid_body", "the body must be a JSON object"));
    }
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        let mut message = inner.to_string();
        // The place in the text says less than the path, and its numbers start anew inside buffered values.
        if inner.line() != 0
            && let Some(end) = message.rfind(" at line ")
        {
            message.truncate(end);
        }
        shape_fault(&path, &message)
    })
}

/// Turns what serde says about a value at `path` into an answer.
fn shape_fault(path: &str, message: &str) -> ApiError {
    let inside = |field: &str| if path == "." { field.to_owned() } else { format!("{path}.{field}") };
    if let Some(field) = quoted(message, "unknown field `") {
        // Where the reader buffers, the path ends at the object around the field.
        let known = path == field || path.ends_with(&format!(".{field}"));
        let param = if known { path.to_owned() } else { inside(field) };
        return ApiError::invalid("unknown_field", message).on(param);
    }
    if let Some(field) = quoted(message, "missing field `") {
        return ApiError::invalid("missing_field", format!("{field} is required")).on(inside(field));
    }
    ApiError::invalid("invalid_field", format!("{path}: {message}")).on(path)
}

fn quoted<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.split_once('`').map(|(field, _)| field)
}

/// A field of a change: absent, null, or a value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Change<T> {
    /// Absent: stays as it is, or takes its default in a new thing.
    #[default]
    Keep,
    /// Null: back to the default.
    Reset,
    Set(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Reset, Self::Set))
    }
}

impl<T> Change<T> {
    /// Makes `field` what the change says.
    pub(crate) fn apply(self, field: &mut T, default: T) {
        match self {
            Self::Keep => {}
            Self::Reset => *field = default,
            Self::Set(value) => *field = value,
        }
    }

    /// Makes a nullable `field` what the change says.
    pub(crate) fn apply_nullable(self, field: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Reset => *field = None,
            Self::Set(value) => *field = Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(default)]
        inner: Change<Inner>,
        #[serde(default)]
        count: Change<u32>,
    }

    #[derive(Debug, Clone, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        list: Vec<f64>,
    }

    #[test]
    fn absent_null_and_value_are_three_things() {
        let read = |text: &str| parse::<Outer>(text.as_bytes()).unwrap().count;
        assert_eq!(
            (read("{}"), read(r#"{"count": null}"#), read(r#"{"count": 3}"#)),
            (Change::Keep, Change::Reset, Change::Set(3))
        );
        assert_eq!(read(" \n"), Change::Keep);
    }

    #[test]
    fn faults_name_their_field() {
        let table = [
            ("{", 400, "malformed_json", None),
            ("{\"count\": \"x\", ]", 400, "malformed_json", None),
            ("{} {}", 400, "malformed_json", None),
            ("[1]", 422, "invalid_body", None),
            ("3", 422, "invalid_body", None),
            (r#"{"count": "3"}"#, 422, "invalid_field", Some("count")),
            (r#"{"count": -1}"#, 422, "invalid_field", Some("count")),
            (r#"{"other": 1}"#, 422, "unknown_field", Some("other")),
            (r#"{"inner": {"list": [1, 2.5], "x": 1}}"#, 422, "unknown_field", Some("inner.x")),
            (r#"{"inner": {}}"#, 422, "missing_field", Some("inner.list")),
            (r#"{"inner": {"list": [1, "2"]}}"#, 422, "invalid_field", Some("inner.list[1]")),
        ];
        for (text, status, code, param) in table {
            let error = parse::<Outer>(text.as_bytes()).unwrap_err();
            let body = serde_json::to_value(error.body("r")).unwrap();
            assert_eq!(
                (error.status.as_u16(), body["error"]["code"].as_str(), body["error"]["param"].as_str()),
                (status, Some(code), param),
                "{text}"
            );
        }
        assert_eq!(parse::<Outer>(b"\xff").unwrap_err().status, StatusCode::BAD_REQUEST);
    }
}
