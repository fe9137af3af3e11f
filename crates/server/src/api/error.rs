//! What a caller is told when a call fails.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use restante_core::id;
use serde::Serialize;
use utoipa::ToSchema;

use crate::rate_limit::Standing;

/// Seconds after which a caller may come back when the store does not answer.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// A call that failed: what the caller is told, and the cause for the log.
///
/// It travels as an extension of an empty response, because only `frame` knows the request's id that the body
/// must carry.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    code: Cow<'static, str>,
    message: String,
    param: Option<String>,
    details: Box<[Detail]>,
    pub(crate) cause: Option<String>,
}

/// One of several things that are wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Detail {
    /// Path of the field or name of the query parameter.
    pub(crate) param: String,
    pub(crate) message: String,
}

/// The body of every answer from 400 up.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorBody<'a> {
    error: ErrorShape<'a>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ErrorDetails)]
struct ErrorShape<'a> {
    /// `invalid_request_error`, `authentication_error`, `billing_error`, `permission_error`, `not_found_error`,
    /// `conflict_error`, `validation_error`, `rate_limit_error` or `api_error`: follows from the status.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What happened, for programs.
    code: &'a str,
    /// The code in PascalCase.
    name: String,
    /// What happened, for people.
    message: &'a str,
    /// The field or query parameter at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<&'a str>,
    /// All that is wrong, when there may be more than one thing.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    details: &'a [Detail],
    /// The id in `x-request-id`.
    request_id: &'a str,
}

impl ApiError {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            param: None,
            details: Box::default(),
            cause: None,
        }
    }

    /// Names the field or query parameter at fault.
    #[must_use]
    pub(crate) fn on(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// The same fault where the caller wrote the fields of `around` without it.
    #[must_use]
    pub(crate) fn outside(mut self, around: &str) -> Self {
        let outside = |param: &mut String| {
            if let Some(rest) = param.strip_prefix(around).and_then(|rest| rest.strip_prefix('.')) {
                *param = rest.to_owned();
            }
        };
        self.param.iter_mut().for_each(outside);
        self.details.iter_mut().for_each(|detail| outside(&mut detail.param));
        self
    }

    pub(crate) fn malformed(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn unauthorized(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, message)
    }

    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    pub(crate) fn insufficient_scope(scope: &str) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "insufficient_scope",
            format!("this needs a key with the scope {scope}"),
        )
    }

    /// There is no such thing, or it is another workspace's: the answer is the same.
    pub(crate) fn not_found<K: id::Kind>() -> Self {
        let code = format!("{}_not_found", K::NOUN.replace(' ', "_"));
        Self::new(StatusCode::NOT_FOUND, code, format!("there is no such {}", K::NOUN))
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    pub(crate) fn credits_exhausted() -> Self {
        let message = "the workspace's credits are used up; an administrator can grant more";
        Self::new(StatusCode::PAYMENT_REQUIRED, "credits_exhausted", message)
    }

    /// `who` comes more often than it may. `Standing::tell` adds the headers.
    pub(crate) fn rate_limited(who: &str, standing: &Standing) -> Self {
        let message = format!("too many requests of {who}; again in {} s", standing.next_seconds());
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
    }

    /// Something of ours is broken, and a person must look.
    pub(crate) fn broken(cause: impl Into<String>) -> Self {
        let error =
            Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "something is broken here");
        Self { cause: Some(cause.into()), ..error }
    }

    /// `details`, of which the first also becomes message and param.
    pub(crate) fn many(code: &'static str, details: Vec<Detail>) -> Self {
        let mut error = Self::invalid(code, "the request is not valid");
        if let Some(first) = details.first() {
            error.message = format!("{}: {}", first.param, first.message);
            error.param = Some(first.param.clone());
        }
        error.details = details.into();
        error
    }

    /// What the caller of a batch is told about one of its items, as JSON.
    pub(crate) fn as_item(&self) -> String {
        let mut item = serde_json::json!({
            "type": kind(self.status), "code": self.code, "name": pascal_case(&self.code), "message": self.message,
        });
        if let (Some(param), Some(fields)) = (&self.param, item.as_object_mut()) {
            fields.insert("param".to_owned(), param.clone().into());
        }
        item.to_string()
    }

    /// The body for a response with this request id.
    pub(crate) fn body<'a>(&'a self, request_id: &'a str) -> ErrorBody<'a> {
        ErrorBody {
            error: ErrorShape {
                kind: kind(self.status),
                code: &self.code,
                name: pascal_case(&self.code),
                message: &self.message,
                param: self.param.as_deref(),
                details: &self.details,
                request_id,
            },
        }
    }
}

impl From<restante_store::Error> for ApiError {
    fn from(error: restante_store::Error) -> Self {
        let (status, code, message) = match &error {
            restante_store::Error::Unavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", "the store does not answer; try again")
            }
            restante_store::Error::Damaged(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "something is wrong on our side")
            }
        };
        Self { cause: Some(error.to_string()), ..Self::new(status, code, message) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static(r#"Bearer realm="restante""#);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The wire's `type`.
fn kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        422 => "validation_error",
        429 => "rate_limit_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn pascal_case(code: &str) -> String {
    let words = code.split('_').filter_map(|word| word.split_at_checked(1));
    words.flat_map(|(first, rest)| [first.to_ascii_uppercase(), rest.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_code_in_pascal_case() {
        for (code, name) in [("not_found", "NotFound"), ("x", "X"), ("a__b", "AB"), ("", "")] {
            assert_eq!(pascal_case(code), name);
        }
    }

    #[test]
    fn the_type_follows_from_the_status() {
        let table = [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (402, "billing_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (405, "invalid_request_error"),
            (409, "conflict_error"),
            (413, "invalid_request_error"),
            (422, "validation_error"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (503, "api_error"),
        ];
        for (status, expected) in table {
            assert_eq!(kind(StatusCode::from_u16(status).unwrap()), expected);
        }
    }

    #[test]
    fn a_body_names_everything_and_leaves_out_what_does_not_apply() {
        let error = ApiError::conflict("name_taken", "taken").on("name");
        assert_eq!(
            serde_json::to_value(error.body("r1")).unwrap(),
            serde_json::json!({"error": {"type": "conflict_error", "code": "name_taken", "name": "NameTaken",
                "message": "taken", "param": "name", "request_id": "r1"}})
        );
    }
}
