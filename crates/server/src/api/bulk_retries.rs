//! Manual retries of many deliveries of one destination.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use restante_core::Timestamp;
use restante_core::endpoint::Destination;
use restante_core::id::{Key, Tail, WorkspaceId, kind};
use restante_store::BulkRetry;
use restante_store::record::{BulkRetryJob, BulkRetryState, Record};
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth::{Caller, DeliveriesRead, DeliveriesWrite};
use super::body::Body;
use super::error::ApiError;
use super::path::Within;
use super::query::{Listing, NoFilter, Paging, Query};
use super::records::{self, written};
use super::{Api, ApiState, destinations, wire};

/// Which deliveries to retry: the latest of each request, created within both bounds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkRetryInput {
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Now unless given.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// `failed` unless given.
    state: Option<Retryable>,
}

/// States from which a delivery can be retried.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Retryable {
    Failed,
    Cancelled,
    Delivered,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DryRun {
    /// Only count.
    pub(crate) dry_run: Option<bool>,
}

/// Retry many deliveries of a destination
///
/// In the background, for one credit each. With `dry_run` nothing happens but counting.
#[utoipa::path(
    post, path = "/v1/sources/{id}/destinations/{destination_id}/retry", operation_id = "destinations.retry",
    tag = "destinations",
    params(
        ("id" = String, Path, description = "`src_…`"),
        ("destination_id" = String, Path, description = "`dst_…`"),
        DryRun,
    ),
    request_body = BulkRetryInput,
    responses(
        (status = 202, body = wire::BulkRetry, description = "It runs"),
        (status = 200, body = wire::BulkRetryPreview, description = "With `dry_run`"),
    ),
    security(("key" = ["deliveries:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn retry(
    State(api): State<Api>,
    caller: Caller<DeliveriesWrite>,
    Within(source, id): Within<kind::Source, kind::Destination>,
    Query(query): Query<DryRun>,
    Body(input): Body<BulkRetryInput>,
) -> Result<Response, ApiError> {
    let destination = records::get(&api, &destinations::place(&caller, source, id)).await?;
    let bulk = input.read(api.clock.now())?;
    let total = api.store.count_bulk_retry(caller.workspace, destination.id, bulk.clone()).await?;
    if query.dry_run == Some(true) {
        let preview = wire::BulkRetryPreview { deliveries: total, credits: total };
        return Ok(Json(preview).into_response());
    }
    let job = start(&api, caller.workspace, &destination, bulk, total).await?;
    Ok((StatusCode::ACCEPTED, Json(wire::BulkRetry::from(job))).into_response())
}

/// List a destination's bulk retries
#[utoipa::path(
    get, path = "/v1/sources/{id}/destinations/{destination_id}/retries", operation_id = "destinations.list_retries",
    tag = "destinations",
    params(
        ("id" = String, Path, description = "`src_…`"),
        ("destination_id" = String, Path, description = "`dst_…`"),
        Paging,
    ),
    responses((status = 200, body = wire::Page<wire::BulkRetry>)),
    security(("key" = ["deliveries:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<DeliveriesRead>,
    Within(source, id): Within<kind::Source, kind::Destination>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::BulkRetry>>, ApiError> {
    let destination = records::get(&api, &destinations::place(&caller, source, id)).await?;
    let parent = Some(destination.id.uuid());
    let jobs = api.store.list::<BulkRetryJob>(Some(caller.workspace), parent, listing.page).await?;
    Ok(Json(wire::Page::new(jobs, listing.page.total, wire::BulkRetry::from)))
}

impl BulkRetryInput {
    fn read(self, now: Timestamp) -> Result<BulkRetry, ApiError> {
        let until = self.until.unwrap_or(now);
        if until < self.since {
            return Err(ApiError::invalid("invalid_field", "until lies before since").on("until"));
        }
        let state = match self.state.unwrap_or(Retryable::Failed) {
            Retryable::Failed => "failed",
            Retryable::Cancelled => "cancelled",
            Retryable::Delivered => "delivered",
        };
        Ok(BulkRetry { since: self.since, until, state: state.into() })
    }
}

/// Records the job, from where upkeep carries it out.
///
/// It must not meet the deliveries it creates itself. The record's own key bounds it, since keys rise, and is known
/// only once the record is made: so it is made as done and set running by a second write. A crash between the two
/// leaves a job that did nothing, of which nobody was told.
async fn start(
    api: &ApiState,
    workspace: WorkspaceId,
    destination: &Record<Destination>,
    bulk: BulkRetry,
    total: u64,
) -> Result<Record<BulkRetryJob>, ApiError> {
    let until = Timestamp::from_millis(bulk.until.millis().saturating_add(1));
    let job = BulkRetryJob {
        cursor: Key::first_at(bulk.since).value() - 1,
        end: Key::first_at(until).value(),
        bulk,
        total,
        created: 0,
        state: BulkRetryState::Done,
    };
    let (parent, tail) = (Some(destination.id.uuid()), Tail::from_bits(api.clock.draw()));
    let now = api.clock.now();
    let mut record = written(api.store.make(Some(workspace), parent, job, tail, now).await?)?;
    record.body.end = record.body.end.min(record.id.key().value());
    record.body.state = BulkRetryState::Running;
    written(api.store.put(record, now).await?)
}
