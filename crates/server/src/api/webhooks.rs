//! Webhooks: customers' endpoints, subscribed to event types.

mod input;
pub(super) mod listing;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use restante_core::endpoint::{SigningSecret, Webhook};
use restante_core::event::{self, EventType};
use restante_core::id::{EventId, Key, Tail, WebhookId, WorkspaceId, kind};
use restante_core::message::Published;
use restante_core::{Outcome, Timestamp, limits};
use restante_store::record::Record;
use restante_store::{Page, Start};
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth::{Caller, DeliveriesRead, WebhooksRead, WebhooksWrite};
use super::body::Body;
use super::deliveries::{self, StateInput};
use super::error::ApiError;
use super::path::One;
use super::query::{Listing, Paging, Query, check_span};
use super::records::{self, written};
use super::{Api, ApiState, wire};
use crate::signature::new_secret;
use crate::vault::Purpose;
use input::WebhookInput;
use listing::WebhookListing;

/// The type of a test event where the webhook is subscribed to none exactly.
const TEST_TYPE: &str = "webhook.test";

/// Create a webhook
///
/// The signing secret is shown only in this answer.
#[utoipa::path(
    post, path = "/v1/webhooks", operation_id = "webhooks.create", tag = "webhooks",
    request_body = WebhookInput,
    responses((status = 201, body = wire::Webhook), (status = 409, description = "`limit_reached`")),
    security(("key" = ["webhooks:write"])), extensions(("x-retry-class" = json!("creates"))),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller<WebhooksWrite>,
    Body(input): Body<WebhookInput>,
) -> Result<(StatusCode, Json<wire::Webhook>), ApiError> {
    let secret = new_secret(&*api.clock);
    let sealed = api.vault.seal(Purpose::SigningSecret, &secret, &*api.clock);
    let webhook = input.create(SigningSecret { secret: sealed, until: None }, api.judge())?;
    let tail = Tail::from_bits(api.clock.draw());
    let made = api.store.make(Some(caller.workspace), None, webhook, tail, api.clock.now()).await?;
    let shown = show(&api, written(made)?).await?;
    Ok((StatusCode::CREATED, Json(shown.with_secret(secret))))
}

/// List webhooks
#[utoipa::path(
    get, path = "/v1/webhooks", operation_id = "webhooks.list", tag = "webhooks",
    params(WebhookListing), responses((status = 200, body = wire::Page<wire::Webhook>)),
    security(("key" = ["webhooks:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<WebhooksRead>,
    Query(wanted): Query<WebhookListing>,
) -> Result<Json<wire::Page<wire::Webhook>>, ApiError> {
    let page = wanted.cut(all(&api, caller.workspace).await?)?;
    let shown = show_all(&api, page.items).await?;
    Ok(Json(wire::Page {
        data: shown,
        has_more: page.next.is_some(),
        next_cursor: page.next,
        prev_cursor: page.prev,
        total: page.total.map(Some),
    }))
}

/// Get a webhook
#[utoipa::path(
    get, path = "/v1/webhooks/{id}", operation_id = "webhooks.get", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`")), responses((status = 200, body = wire::Webhook)),
    security(("key" = ["webhooks:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<WebhooksRead>,
    One(id): One<kind::Webhook>,
) -> Result<Json<wire::Webhook>, ApiError> {
    let webhook = records::get(&api, &caller.place::<Webhook>(id)).await?;
    show(&api, webhook).await.map(Json)
}

/// Change a webhook
///
/// What is absent stays; what is null goes back to its default. `status` is `active` or `paused`: pausing ends what
/// is pending, and what comes meanwhile is skipped. A new URL starts without failures.
#[utoipa::path(
    patch, path = "/v1/webhooks/{id}", operation_id = "webhooks.update", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`")), request_body = WebhookInput,
    responses((status = 200, body = wire::Webhook)),
    security(("key" = ["webhooks:write"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn update(
    State(api): State<Api>,
    caller: Caller<WebhooksWrite>,
    One(id): One<kind::Webhook>,
    Body(input): Body<WebhookInput>,
) -> Result<Json<wire::Webhook>, ApiError> {
    let apply = |webhook: &mut Webhook| input.clone().update(webhook, api.judge());
    let webhook = records::change(&api, &caller.place::<Webhook>(id), apply).await?;
    show(&api, webhook).await.map(Json)
}

/// Delete a webhook
///
/// Its pending deliveries are cancelled, and replays of it end.
#[utoipa::path(
    delete, path = "/v1/webhooks/{id}", operation_id = "webhooks.delete", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`")), responses((status = 204, description = "Deleted")),
    security(("key" = ["webhooks:write"])), extensions(("x-retry-class" = json!("deletes"))),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller<WebhooksWrite>,
    One(id): One<kind::Webhook>,
) -> Result<StatusCode, ApiError> {
    records::delete(&api, &caller.place::<Webhook>(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a webhook a new signing secret
///
/// It is shown only here. The old one goes on signing beside it for 24 hours.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/rotate-secret", operation_id = "webhooks.rotate_secret", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`")),
    responses((status = 200, body = wire::Secret), (status = 409, description = "`too_many_secrets`")),
    security(("key" = ["webhooks:write"])), extensions(("x-retry-class" = json!("rotates"))),
)]
pub(crate) async fn rotate_secret(
    State(api): State<Api>,
    caller: Caller<WebhooksWrite>,
    One(id): One<kind::Webhook>,
) -> Result<Json<wire::Secret>, ApiError> {
    let secret = new_secret(&*api.clock);
    let sealed = api.vault.seal(Purpose::SigningSecret, &secret, &*api.clock);
    let now = api.clock.now();
    let rotate = |webhook: &mut Webhook| {
        let mut secrets: Vec<SigningSecret> = webhook.signing_secrets(now).cloned().collect();
        if secrets.len() >= limits::SECRETS_MAX {
            let message = "five secrets sign already; an old one stops 24 hours after it was replaced";
            return Err(ApiError::conflict("too_many_secrets", message));
        }
        for old in &mut secrets {
            old.until.get_or_insert(now + limits::SECRET_OVERLAP);
        }
        secrets.insert(0, SigningSecret { secret: sealed.clone(), until: None });
        webhook.secrets = secrets;
        Ok(())
    };
    records::change(&api, &caller.place::<Webhook>(id), rotate).await?;
    Ok(Json(wire::Secret { secret }))
}

/// What a test sends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestInput {
    /// The first type the webhook is subscribed to exactly, unless given; else `webhook.test`.
    event_type: Option<String>,
}

/// Send a test event
///
/// At once, signed, outside of the attempts log, also to a paused webhook, which stays paused. A delivered test
/// clears a failing run.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/test", operation_id = "webhooks.test", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`")), request_body = TestInput,
    responses((status = 200, body = wire::WebhookTest)),
    security(("key" = ["webhooks:write"])), extensions(("x-retry-class" = json!("repeats_effect"))),
)]
pub(crate) async fn test(
    State(api): State<Api>,
    caller: Caller<WebhooksWrite>,
    One(id): One<kind::Webhook>,
    Body(input): Body<TestInput>,
) -> Result<Json<wire::WebhookTest>, ApiError> {
    let webhook = records::get(&api, &caller.place::<Webhook>(id)).await?.body;
    let event_type = match input.event_type {
        Some(text) => EventType::parse(&text)
            .map_err(|fault| ApiError::invalid("invalid_field", fault.to_string()).on("event_type"))?,
        None => match event::first_exact(&webhook.events) {
            Some(exact) => exact.clone(),
            None => EventType::parse(TEST_TYPE).map_err(|fault| ApiError::broken(fault.to_string()))?,
        },
    };
    let now = api.clock.now();
    let payload = event::body(&event_type, now, "{}");
    let event = EventId::new(Key::first_at(now), Tail::from_bits(api.clock.draw()));
    let published = Published { event_type, body: Bytes::from(payload.clone()) };
    let probed = api.prober.send(webhook, event, published).await;
    let probed = probed.map_err(|fault| ApiError::broken(format!("a webhook's secrets: {fault}")))?;
    if matches!(probed.outcome, Outcome::Delivered { .. }) {
        api.store.clear_run(caller.workspace, id).await?;
    }
    Ok(Json(wire::WebhookTest::new(probed, payload)))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WantedDeliveries {
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

/// List a webhook's deliveries
///
/// Newest first, without attempts.
#[utoipa::path(
    get, path = "/v1/webhooks/{id}/deliveries", operation_id = "webhooks.list_deliveries", tag = "webhooks",
    params(("id" = String, Path, description = "`whk_…`"), WantedDeliveries, Paging),
    responses((status = 200, body = wire::Page<wire::Delivery>)),
    security(("key" = ["deliveries:read"])),
)]
pub(crate) async fn list_deliveries(
    State(api): State<Api>,
    caller: Caller<DeliveriesRead>,
    One(id): One<kind::Webhook>,
    listing: Listing<WantedDeliveries>,
) -> Result<Json<wire::Page<wire::Delivery>>, ApiError> {
    records::get(&api, &caller.place::<Webhook>(id)).await?;
    let WantedDeliveries { state, since, until } = listing.filter;
    check_span(since, until)?;
    let filter = restante_store::row::DeliveryFilter {
        webhook: Some(id),
        state: state.map(|state| state.name().to_owned()),
        since,
        until,
        ..Default::default()
    };
    deliveries::page(&api, caller.workspace, filter, listing.page).await.map(Json)
}

/// A webhook as it is shown, with how it stands.
pub(crate) async fn show(api: &ApiState, webhook: Record<Webhook>) -> Result<wire::Webhook, ApiError> {
    let mut shown = show_all(api, vec![webhook]).await?;
    shown.pop().ok_or_else(ApiError::not_found::<kind::Webhook>)
}

async fn show_all(api: &ApiState, webhooks: Vec<Record<Webhook>>) -> Result<Vec<wire::Webhook>, ApiError> {
    let ids: Vec<WebhookId> = webhooks.iter().map(|webhook| webhook.id).collect();
    let healths = api.store.healths(ids).await?;
    let shown = webhooks.into_iter().zip(healths);
    Ok(shown.map(|(webhook, health)| wire::Webhook::new(webhook, health, &api.health_limits)).collect())
}

/// All webhooks of a workspace, which are at most [`limits::WEBHOOKS_PER_WORKSPACE_MAX`].
async fn all(api: &ApiState, workspace: WorkspaceId) -> Result<Vec<Record<Webhook>>, ApiError> {
    let (mut found, mut page) = (Vec::new(), Page::newest(limits::PAGE_MAX));
    loop {
        let paged = api.store.list::<Webhook>(Some(workspace), None, page).await?;
        found.extend(paged.items);
        match paged.next {
            Some(next) => page.start = Start::After(next),
            None => return Ok(found),
        }
    }
}
