//! Deliveries: one message to one endpoint each.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::id::{
    DeliveryId, DestinationId, EmailId, EventId, Key, RequestId, SourceId, WebhookId, WorkspaceId, kind,
};
use restante_core::{State as Standing, Timestamp};
use restante_store::row::{self, DeliveryFilter};
use restante_store::{Cancelled, Page, Paged, Retried, Start};
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth::{Caller, DeliveriesRead, DeliveriesWrite};
use super::error::ApiError;
use super::path::One;
use super::query::{Listing, NoFilter, Paging, check_span};
use super::{Api, ApiState, wire};

/// Which deliveries are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Of this request.
    #[param(value_type = Option<String>)]
    request: Option<RequestId>,
    /// Of this event.
    #[param(value_type = Option<String>)]
    event: Option<EventId>,
    /// Of this email.
    #[param(value_type = Option<String>)]
    email: Option<EmailId>,
    /// Of requests to this source.
    #[param(value_type = Option<String>)]
    source: Option<SourceId>,
    /// To this destination.
    #[param(value_type = Option<String>)]
    destination: Option<DestinationId>,
    /// To this webhook.
    #[param(value_type = Option<String>)]
    webhook: Option<WebhookId>,
    /// In this state.
    #[param(inline)]
    state: Option<StateInput>,
    /// Created at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Created at this time or earlier.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// States of a delivery.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DeliveryState)]
pub(crate) enum StateInput {
    Pending,
    Sending,
    Delivered,
    Failed,
    Cancelled,
    Skipped,
}

impl StateInput {
    /// The wire's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }
}

/// List deliveries
///
/// Newest first, without attempts.
#[utoipa::path(
    get, path = "/v1/deliveries", operation_id = "deliveries.list", tag = "deliveries",
    params(Wanted, Paging), responses((status = 200, body = wire::Page<wire::Delivery>)),
    security(("key" = ["deliveries:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<DeliveriesRead>,
    listing: Listing<Wanted>,
) -> Result<Json<wire::Page<wire::Delivery>>, ApiError> {
    let filter = listing.filter.read()?;
    page(&api, caller.workspace, filter, listing.page).await.map(Json)
}

/// A page of deliveries.
pub(crate) async fn page(
    api: &ApiState,
    workspace: WorkspaceId,
    filter: DeliveryFilter,
    page: Page,
) -> Result<wire::Page<wire::Delivery>, ApiError> {
    let now = api.clock.now();
    let found = api.store.deliveries(workspace, filter, page, now).await?;
    Ok(wire::Page::new(found, page.total, |delivery| wire::Delivery::brief(delivery, now)))
}

/// Get a delivery
///
/// With all its attempts.
#[utoipa::path(
    get, path = "/v1/deliveries/{id}", operation_id = "deliveries.get", tag = "deliveries",
    params(("id" = String, Path, description = "`dlv_…`")), responses((status = 200, body = wire::Delivery)),
    security(("key" = ["deliveries:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<DeliveriesRead>,
    One(id): One<kind::Delivery>,
) -> Result<Json<wire::Delivery>, ApiError> {
    show(&api, caller.workspace, id).await.map(Json)
}

/// List a delivery's attempts
///
/// Newest first.
#[utoipa::path(
    get, path = "/v1/deliveries/{id}/attempts", operation_id = "deliveries.list_attempts", tag = "deliveries",
    params(("id" = String, Path, description = "`dlv_…`"), Paging),
    responses((status = 200, body = wire::Page<wire::Attempt>)),
    security(("key" = ["deliveries:read"])),
)]
pub(crate) async fn attempts(
    State(api): State<Api>,
    caller: Caller<DeliveriesRead>,
    One(id): One<kind::Delivery>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Attempt>>, ApiError> {
    let mut delivery = read(&api, caller.workspace, id, api.clock.now()).await?;
    let attempts = std::mem::take(&mut delivery.attempts);
    let wire = |attempt| wire::Attempt::new(attempt, &delivery);
    Ok(Json(wire::Page::new(cut(attempts, listing.page), listing.page.total, wire)))
}

/// Cancel a delivery
///
/// What is in flight cannot be called back: `cancel_requested` is then true, and its result ends the delivery.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/cancel", operation_id = "deliveries.cancel", tag = "deliveries",
    params(("id" = String, Path, description = "`dlv_…`")),
    responses((status = 200, body = wire::Delivery), (status = 409, description = "`not_cancellable`")),
    security(("key" = ["deliveries:write"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn cancel(
    State(api): State<Api>,
    caller: Caller<DeliveriesWrite>,
    One(id): One<kind::Delivery>,
) -> Result<Json<wire::Delivery>, ApiError> {
    match api.store.cancel(caller.workspace, id, api.clock.now()).await? {
        Cancelled::Done => show(&api, caller.workspace, id).await.map(Json),
        Cancelled::NotFound => Err(ApiError::not_found::<kind::Delivery>()),
        Cancelled::Conflict(state) => Err(in_state("not_cancellable", "cancelled", state)),
    }
}

/// Retry a delivery
///
/// A new delivery of the same request to the same destination, with a fresh budget. Costs one credit.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/retry", operation_id = "deliveries.retry", tag = "deliveries",
    params(("id" = String, Path, description = "`dlv_…`")),
    responses(
        (status = 202, body = wire::Delivery),
        (status = 402, description = "`credits_exhausted`"),
        (status = 409, description = "`not_retryable` or `destination_deleted`"),
    ),
    security(("key" = ["deliveries:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn retry(
    State(api): State<Api>,
    caller: Caller<DeliveriesWrite>,
    One(id): One<kind::Delivery>,
) -> Result<(StatusCode, Json<wire::Delivery>), ApiError> {
    match api.store.retry(caller.workspace, id, api.clock.now()).await? {
        Retried::Fresh(new) => Ok((StatusCode::ACCEPTED, Json(show(&api, caller.workspace, new).await?))),
        Retried::NotFound => Err(ApiError::not_found::<kind::Delivery>()),
        Retried::Conflict(state) => Err(in_state("not_retryable", "retried", state)),
        Retried::OfAnEvent => {
            let message = "only deliveries of requests are retried by hand; POST \
                           /v1/webhooks/{id}/deliveries/{id}/replay sends an event again, another POST /v1/emails an email";
            Err(ApiError::conflict("not_retryable", message))
        }
        Retried::DestinationDeleted => {
            Err(ApiError::conflict("destination_deleted", "the destination of this delivery was deleted"))
        }
        Retried::CreditsExhausted => Err(ApiError::credits_exhausted()),
    }
}

fn in_state(code: &'static str, done: &str, state: Standing) -> ApiError {
    ApiError::conflict(code, format!("a delivery that is {} cannot be {done}", state.name()))
}

async fn read(
    api: &ApiState,
    workspace: WorkspaceId,
    id: DeliveryId,
    now: Timestamp,
) -> Result<row::Delivery, ApiError> {
    let delivery = api.store.delivery(workspace, id, now).await?;
    delivery.ok_or_else(ApiError::not_found::<kind::Delivery>)
}

pub(crate) async fn show(
    api: &ApiState,
    workspace: WorkspaceId,
    id: DeliveryId,
) -> Result<wire::Delivery, ApiError> {
    let now = api.clock.now();
    Ok(wire::Delivery::full(read(api, workspace, id, now).await?, now))
}

/// Cuts a page out of all attempts of a delivery, oldest first. Their numbers are the keys.
fn cut(mut attempts: Vec<row::Attempt>, page: Page) -> Paged<row::Attempt> {
    let key = |attempt: &row::Attempt| Key::from_value(i64::from(attempt.number));
    let total = attempts.len() as u64;
    match page.start {
        Start::Newest => attempts.reverse(),
        Start::After(last) => {
            attempts.retain(|attempt| key(attempt) < last);
            attempts.reverse();
        }
        Start::Before(first) => attempts.retain(|attempt| key(attempt) > first),
    }
    Paged { total: Some(total), ..Paged::cut(attempts, page, key) }
}

impl Wanted {
    fn read(self) -> Result<DeliveryFilter, ApiError> {
        check_span(self.since, self.until)?;
        let Self { request, event, email, source, destination, webhook, state, since, until } = self;
        let state = state.map(|state| state.name().to_owned());
        Ok(DeliveryFilter { request, event, email, source, destination, webhook, state, since, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_paged_by_number() {
        let all = |count| {
            let one = |number| row::Attempt {
                number,
                trigger: row::Trigger::Automatic,
                url: String::new(),
                started_at: Timestamp::from_millis(0),
                result: None,
            };
            (1..=count).map(one).collect::<Vec<_>>()
        };
        let numbers = |start| {
            let paged = cut(all(5), Page { limit: 2, start, total: false });
            let (next, prev) = (paged.next.map(Key::value), paged.prev.map(Key::value));
            (paged.items.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), next, prev)
        };
        let key = Key::from_value;
        assert_eq!(numbers(Start::Newest), (vec![5, 4], Some(4), None));
        assert_eq!(numbers(Start::After(key(4))), (vec![3, 2], Some(2), Some(3)));
        assert_eq!(numbers(Start::After(key(2))), (vec![1], None, Some(1)));
        assert_eq!(numbers(Start::Before(key(1))), (vec![3, 2], Some(2), Some(3)));
    }
}
