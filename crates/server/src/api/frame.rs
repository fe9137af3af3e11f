//! What every answer has in common: a request id, and a body in our shape when it is an error.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Api;
use super::error::ApiError;
use crate::clock::Clock;
use crate::rate_limit::Counted;

/// What stored bytes are shown under: no browser interprets them.
pub(crate) const AS_BYTES: [(HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "application/octet-stream"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_DISPOSITION, "attachment"),
];

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Gives each answer its `x-request-id`, how its key stands where that is counted, and each [`ApiError`] its body, and
/// logs what broke.
///
/// The id is always ours: one that a caller made up could point support at somebody else's request.
pub(crate) async fn frame(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let request_id = new_request_id(api.clock.as_ref());
    let browser = request.headers().contains_key(header::COOKIE);
    let limited = api.limits.keys.is_some();
    // A call that is a part of another one brings what was counted for that.
    let counted = limited.then(|| request.extensions_mut().get_or_insert_default::<Counted>().clone());
    let called = api.tracer.as_ref().and_then(|tracer| tracer.call(&mut request));
    let mut response = next.run(request).await;
    if let Some(standing) = counted.and_then(|counted| counted.standing()) {
        standing.tell(response.headers_mut());
    }
    if browser {
        keep_out_of_caches(&mut response);
    }
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        log(&error, &request_id);
        response = with_body(response, &error, &request_id);
    }
    name(&mut response, &request_id);
    if let (Some(tracer), Some(called)) = (&api.tracer, called) {
        tracer.called(called, response.status(), &request_id);
    }
    response
}

/// A whole error answer, for doors outside the router.
pub(crate) fn answer(error: ApiError, clock: &dyn Clock) -> Response {
    answer_as(error, &new_request_id(clock))
}

/// A whole error answer to what has an id already.
pub(crate) fn answer_as(error: ApiError, request_id: &str) -> Response {
    log(&error, request_id);
    let mut response = with_body(error.clone().into_response(), &error, request_id);
    response.extensions_mut().remove::<ApiError>();
    name(&mut response, request_id);
    response
}

/// What a session was answered is for its pages, and must not lie in a cache behind them.
fn keep_out_of_caches(response: &mut Response) {
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
}

fn new_request_id(clock: &dyn Clock) -> String {
    format!("{:016x}{:016x}", clock.draw(), clock.draw())
}

fn name(response: &mut Response, request_id: &str) {
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
}

/// Fills an empty error response; its headers (`Allow`, `Retry-After`) stay.
fn with_body(response: Response, error: &ApiError, request_id: &str) -> Response {
    let (mut parts, _) = response.into_parts();
    let body = serde_json::to_vec(&error.body(request_id)).unwrap_or_default();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(body))
}

fn log(error: &ApiError, request_id: &str) {
    let Some(cause) = &error.cause else { return };
    if error.status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(request.id = request_id, cause, "a call failed and a person must look");
    } else {
        tracing::warn!(request.id = request_id, status = error.status.as_u16(), cause, "a call failed");
    }
}

/// The answer to a path that does not exist.
pub(crate) async fn no_such_path(uri: Uri) -> ApiError {
    let message = format!("there is nothing at {}; /v1/openapi.json lists all paths", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
}

/// The answer to a method that a path does not have. The router adds `Allow`.
pub(crate) async fn no_such_method() -> ApiError {
    let message = "this path does not take this method; see the Allow header";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
