//! What monitoring asks. No key is needed.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::error::ApiError;

/// How long the page of metrics waits for the store: less than Prometheus waits for the page.
const STORE_TIME: Duration = Duration::from_secs(3);

/// How the process is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether the process lives
///
/// Touches nothing.
#[utoipa::path(
    get, path = "/healthz", operation_id = "system.health", tag = "system",
    responses((status = 200, body = Health)),
)]
pub(crate) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether it can take requests
///
/// The store answers, the disk has room, and the node is not stopping.
#[utoipa::path(
    get, path = "/readyz", operation_id = "system.ready", tag = "system",
    responses((status = 200, body = Health), (status = 503, description = "`not_ready`")),
)]
pub(crate) async fn ready(State(api): State<Api>) -> Result<Json<Health>, ApiError> {
    let not_ready = |reason| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", reason);
    if *api.stopping.borrow() {
        return Err(not_ready("the node is stopping".into()));
    }
    api.store.health().await.map_err(|error| not_ready(error.to_string()))?;
    (api.disk)().map_err(not_ready)?;
    Ok(Json(Health { status: "ready" }))
}

/// Metrics in Prometheus' text format
#[utoipa::path(
    get, path = "/metrics", operation_id = "system.metrics", tag = "system",
    responses((status = 200, body = String, content_type = "text/plain")),
)]
pub(crate) async fn metrics(State(api): State<Api>) -> ([(HeaderName, &'static str); 1], String) {
    // A page that does not come tells less than one that says that the store does not answer.
    let answered = tokio::time::timeout(STORE_TIME, api.store.health()).await;
    let vitals = answered.ok().and_then(Result::ok);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], (api.metrics)(vitals))
}
