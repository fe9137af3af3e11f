//! Requests: what sources received.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use restante_core::id::{RequestId, SourceId, Tail, WorkspaceId, kind};
use restante_core::message::MessageId;
use restante_core::{Timestamp, limits};
use restante_store::Replayed;
use restante_store::row::{RequestFilter, RequestState};
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth::{Caller, RequestsRead, RequestsWrite};
use super::error::ApiError;
use super::frame::AS_BYTES;
use super::path::One;
use super::query::{Listing, Paging, check_span, invalid};
use super::{Api, ApiState, wire};

/// Which requests are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Of this source.
    #[param(value_type = Option<String>)]
    source: Option<SourceId>,
    /// Received at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Received at this time or earlier.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// Whose deliveries sum up to this.
    #[param(inline)]
    state: Option<StateInput>,
    /// With this method, exactly.
    method: Option<String>,
    /// With this in the path.
    path: Option<String>,
    /// With this in the body. Searches the last 24 hours, or a span of at most 7 days given by `since` and `until`.
    text: Option<String>,
}

/// What a request's deliveries can sum up to.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RequestState)]
enum StateInput {
    Pending,
    Delivered,
    Failed,
    Cancelled,
    None,
}

/// List requests
///
/// Newest first, without headers and deliveries.
#[utoipa::path(
    get, path = "/v1/requests", operation_id = "requests.list", tag = "requests",
    params(Wanted, Paging), responses((status = 200, body = wire::Page<wire::Request>)),
    security(("key" = ["requests:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<RequestsRead>,
    listing: Listing<Wanted>,
) -> Result<Json<wire::Page<wire::Request>>, ApiError> {
    let now = api.clock.now();
    let filter = listing.filter.read(now)?;
    let found = api.store.requests(caller.workspace, filter, listing.page, now).await?;
    Ok(Json(wire::Page::new(found, listing.page.total, wire::Request::brief)))
}

/// Get a request
///
/// With its headers, and with its deliveries and all their attempts.
#[utoipa::path(
    get, path = "/v1/requests/{id}", operation_id = "requests.get", tag = "requests",
    params(("id" = String, Path, description = "`req_…`")), responses((status = 200, body = wire::Request)),
    security(("key" = ["requests:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<RequestsRead>,
    One(id): One<kind::Request>,
) -> Result<Json<wire::Request>, ApiError> {
    read(&api, caller.workspace, id).await.map(Json)
}

/// Get a request's body
///
/// The bytes as received, under a content type that no browser interprets.
#[utoipa::path(
    get, path = "/v1/requests/{id}/body", operation_id = "requests.get_body", tag = "requests",
    params(("id" = String, Path, description = "`req_…`")),
    responses((status = 200, body = [u8], content_type = "application/octet-stream")),
    security(("key" = ["requests:read"])),
)]
pub(crate) async fn body(
    State(api): State<Api>,
    caller: Caller<RequestsRead>,
    One(id): One<kind::Request>,
) -> Result<impl IntoResponse, ApiError> {
    let body = api.store.request_body(caller.workspace, id, api.clock.now()).await?;
    let body = body.ok_or_else(ApiError::not_found::<kind::Request>)?;
    Ok((AS_BYTES, body))
}

/// Delete a request
///
/// Cancels what is pending and erases the request with its deliveries and attempts.
#[utoipa::path(
    delete, path = "/v1/requests/{id}", operation_id = "requests.delete", tag = "requests",
    params(("id" = String, Path, description = "`req_…`")), responses((status = 204, description = "Deleted")),
    security(("key" = ["requests:write"])), extensions(("x-retry-class" = json!("deletes"))),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller<RequestsWrite>,
    One(id): One<kind::Request>,
) -> Result<StatusCode, ApiError> {
    match api.store.erase(caller.workspace, id, api.clock.now()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::not_found::<kind::Request>()),
    }
}

/// Replay a request
///
/// A new request, copied from this one, with a new key, delivered to the destinations of now. Costs one credit.
#[utoipa::path(
    post, path = "/v1/requests/{id}/replay", operation_id = "requests.replay", tag = "requests",
    params(("id" = String, Path, description = "`req_…`")),
    responses(
        (status = 202, body = wire::Request),
        (status = 402, description = "`credits_exhausted`"),
        (status = 409, description = "`source_deleted`"),
    ),
    security(("key" = ["requests:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn replay(
    State(api): State<Api>,
    caller: Caller<RequestsWrite>,
    One(id): One<kind::Request>,
) -> Result<(StatusCode, Json<wire::Request>), ApiError> {
    let tail = Tail::from_bits(api.clock.draw());
    let judged = api.clock.monotonic();
    match api.store.replay(caller.workspace, id, api.clock.now(), tail).await? {
        Replayed::Fresh(new) => {
            caller.made(&api, std::iter::once(MessageId::Request(new)), judged);
            Ok((StatusCode::ACCEPTED, Json(read(&api, caller.workspace, new).await?)))
        }
        Replayed::NotFound => Err(ApiError::not_found::<kind::Request>()),
        Replayed::SourceDeleted => {
            Err(ApiError::conflict("source_deleted", "the source that received it was deleted"))
        }
        Replayed::CreditsExhausted => Err(ApiError::credits_exhausted()),
    }
}

async fn read(api: &ApiState, workspace: WorkspaceId, id: RequestId) -> Result<wire::Request, ApiError> {
    let now = api.clock.now();
    let request = api.store.request(workspace, id, now).await?;
    request.map(|it| wire::Request::full(it, now)).ok_or_else(ApiError::not_found::<kind::Request>)
}

impl Wanted {
    fn read(self, now: Timestamp) -> Result<RequestFilter, ApiError> {
        let (mut since, until) = (self.since, self.until);
        check_span(since, until)?;
        if let Some(text) = &self.text {
            if text.is_empty() {
                return Err(invalid("text", "must not be empty"));
            }
            // Bodies have no index: what a search may cost is the span.
            let end = until.unwrap_or(now);
            let start = since.unwrap_or(end - limits::TEXT_SEARCH_SPAN_DEFAULT);
            if end.since(start) > limits::TEXT_SEARCH_SPAN_MAX {
                return Err(invalid("text", "searches at most 7 days: give since and until accordingly"));
            }
            since = Some(start);
        }
        let state = self.state.map(|state| match state {
            StateInput::Pending => RequestState::Pending,
            StateInput::Delivered => RequestState::Delivered,
            StateInput::Failed => RequestState::Failed,
            StateInput::Cancelled => RequestState::Cancelled,
            StateInput::None => RequestState::None,
        });
        let Self { source, method, path, text, .. } = self;
        Ok(RequestFilter { source, since, until, state, method, path, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * 3600 * 1000;

    fn filter(since: Option<i64>, until: Option<i64>, text: Option<&str>) -> Result<RequestFilter, u16> {
        let at = |millis: Option<i64>| millis.map(Timestamp::from_millis);
        let (source, state, method, path) = (None, None, None, None);
        let text = text.map(str::to_owned);
        let wanted = Wanted { source, since: at(since), until: at(until), state, method, path, text };
        wanted.read(Timestamp::from_millis(100 * DAY_MS)).map_err(|error| error.status.as_u16())
    }

    #[test]
    fn a_text_search_covers_a_day_unless_given_and_a_week_at_most() {
        let since = |filter: Result<RequestFilter, u16>| filter.map(|it| it.since.map(Timestamp::millis));
        let week = 7 * DAY_MS;
        let table = [
            (None, None, Ok(Some(99 * DAY_MS))),
            (None, Some(50 * DAY_MS), Ok(Some(49 * DAY_MS))),
            (Some(93 * DAY_MS), None, Ok(Some(93 * DAY_MS))),
            (Some(93 * DAY_MS - 1), None, Err(422)),
            (Some(10), Some(10 + week), Ok(Some(10))),
            (Some(10), Some(11 + week), Err(422)),
            (Some(10), Some(9), Err(422)),
        ];
        for (from, until, expected) in table {
            assert_eq!(since(filter(from, until, Some("x"))), expected, "{from:?} {until:?}");
        }
        assert_eq!(since(filter(None, None, Some(""))), Err(422));
        assert_eq!(since(filter(Some(10), Some(11 + week), None)), Ok(Some(10)));
        assert_eq!(since(filter(None, None, None)), Ok(None));
    }
}
