//! `/compat/openemail`: the API as an existing client speaks it.
//!
//! A call is turned into one of ours, answered by the same handlers, and its answer turned back: `casing` does that for
//! all alike, `shapes` holds what is called otherwise or looks otherwise. Nothing is decided here.

mod casing;
mod shapes;
mod webhooks;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use restante_core::limits;
use serde_json::Value;
use tower::ServiceExt;

use crate::rate_limit::Counted;
use casing::{camel, snake};
use shapes::{Call, find};

/// Where the layer is.
pub(super) const PREFIX: &str = "/compat/openemail";

/// Headers of a call that ours gets, too.
const FORWARDED: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("x-workspace-id"),
];

/// Our API, as this layer calls it.
#[derive(Clone)]
pub(super) struct Ours {
    router: Router,
    /// Of the call that is answered.
    headers: HeaderMap,
    /// What the client calls once counts once.
    counted: Counted,
}

/// An answer of ours: its status, headers, and body, null when there is none.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    headers: Box<HeaderMap>,
    pub(super) body: Value,
}

/// The routes of the layer, over ours.
pub(super) fn over(router: Router) -> Router {
    Router::new().fallback(serve).with_state(router)
}

async fn serve(State(router): State<Router>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let ours = Ours { router, headers: forwarded(&parts), counted: Counted::default() };
    match answer(&ours, &parts, body).await {
        Ok(answer) => answer.into_response(),
        Err(failed) => failed.into_response(),
    }
}

/// # Errors
/// An answer that says what is wrong, in the client's shape.
async fn answer(ours: &Ours, parts: &Parts, body: Body) -> Result<Answer, Answer> {
    let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or(parts.uri.path());
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let query = casing::query(parts.uri.query().unwrap_or_default());
    let bytes = Limited::new(body, limits::EMAIL_REQUEST_BYTES_MAX).collect().await;
    let bytes = bytes.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let sent = match serde_json::from_slice::<Value>(&bytes) {
        Ok(value) => value,
        Err(_) if bytes.is_empty() => Value::Null,
        // Our own door says what is wrong with it.
        Err(_) => return ours.raw(parts.method.clone(), &format!("/v1{path}"), bytes).await.checked(),
    };
    let sent = snake(sent);
    match find(&parts.method, &segments) {
        Call::Plain(resource) => {
            let target = format!("/v1/{}{query}", segments.join("/"));
            let body = shapes::request(resource, sent);
            let answer = ours.call(parts.method.clone(), &target, body).await.checked()?;
            Ok(answer.map(|body| camel(shapes::response(resource, body))))
        }
        Call::Delete(resource, id) => {
            let target = format!("/v1/{}", segments.join("/"));
            let answer = ours.call(Method::DELETE, &target, Value::Null).await.checked()?;
            let body = serde_json::json!({"object": resource.object(), "id": id, "deleted": true});
            Ok(Answer { status: StatusCode::OK, body, headers: answer.headers })
        }
        Call::Webhook(call) => webhooks::answer(ours, call, sent, &query).await,
    }
}

fn forwarded(parts: &Parts) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in FORWARDED {
        for value in parts.headers.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

impl Ours {
    /// Makes a call of ours. `body: Null`: without one.
    pub(super) async fn call(&self, method: Method, target: &str, body: Value) -> Answer {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.raw(method, target, bytes.into()).await
    }

    async fn raw(&self, method: Method, target: &str, body: bytes::Bytes) -> Answer {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().unwrap_or_default();
        *request.headers_mut() = self.headers.clone();
        request.extensions_mut().insert(self.counted.clone());
        // Our router does not fail; it answers.
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status: parts.status, headers: Box::new(parts.headers), body }
    }
}

impl Answer {
    /// # Errors
    /// The answer, in the client's shape, when it is one to a call that failed.
    pub(super) fn checked(self) -> Result<Self, Self> {
        if self.status.is_success() { Ok(self) } else { Err(self.map(|body| casing::error(&body))) }
    }

    pub(super) fn map(self, shape: impl FnOnce(Value) -> Value) -> Self {
        Self { body: shape(self.body), ..self }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let body = if self.body.is_null() { Vec::new() } else { self.body.to_string().into_bytes() };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        for (name, value) in self.headers.iter() {
            // This API sends no Retry-After; its client waits by a schedule of its own.
            if *name != header::CONTENT_LENGTH && *name != header::RETRY_AFTER {
                response.headers_mut().append(name, value.clone());
            }
        }
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
