//! Statistics: what went through in the last hours, and what waits.

use axum::Json;
use axum::extract::State;
use restante_core::id::{DestinationId, SourceId, WebhookId, kind};
use restante_core::stats::{Breadth, Span, hours_max};
use restante_store::stats::Scope;
use serde::Deserialize;

use super::auth::{Caller, DeliveriesRead};
use super::error::ApiError;
use super::query::{Query, invalid};
use super::{Api, wire};

/// Of what statistics are wanted, and of how many hours.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// The last hours, up to now: 1 to 168, of a part of the workspace 1 to 48; 1 unless given.
    #[param(minimum = 1, maximum = 168)]
    hours: Option<u32>,
    /// Of the requests to this source.
    #[param(value_type = Option<String>)]
    source: Option<SourceId>,
    /// Of the deliveries to this destination.
    #[param(value_type = Option<String>)]
    destination: Option<DestinationId>,
    /// Of the deliveries to this webhook.
    #[param(value_type = Option<String>)]
    webhook: Option<WebhookId>,
}

/// Of how many hours endpoints are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WantedEndpoints {
    /// The last hours, up to now: 1 to 48; 24 unless given.
    #[param(minimum = 1, maximum = 48)]
    hours: Option<u32>,
}

/// Get statistics
///
/// Of the workspace, or of one of its sources, destinations and webhooks. In steps of a minute up to three hours, of ten
/// minutes up to a day and for parts of the workspace, else of an hour; each step is there. What other nodes counted in
/// the last seconds may be missing, and what one counted that crashed.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "stats.get", tag = "stats",
    params(Wanted),
    responses(
        (status = 200, body = wire::Stats),
        (status = 404, description = "There is no such source, destination or webhook"),
    ),
    security(("key" = ["deliveries:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<DeliveriesRead>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<wire::Stats>, ApiError> {
    let scope = wanted.scope()?;
    let hours = hours(wanted.hours.unwrap_or(1), scope.breadth())?;
    let now = api.clock.now();
    let span = Span::last(hours, scope.breadth(), now);
    let Some(stats) = api.store.stats(caller.workspace, scope, span).await? else {
        return Err(match scope {
            Scope::Workspace => ApiError::not_found::<kind::Workspace>(),
            Scope::Source(_) => ApiError::not_found::<kind::Source>(),
            Scope::Destination(_) => ApiError::not_found::<kind::Destination>(),
            Scope::Webhook(_) => ApiError::not_found::<kind::Webhook>(),
        });
    };
    Ok(Json(wire::Stats::new(&span, now, &stats)))
}

/// List endpoints by how they do
///
/// Destinations and webhooks with attempts in the last hours or with something pending, those with the largest share of
/// failed attempts first, at most 100.
#[utoipa::path(
    get, path = "/v1/stats/endpoints", operation_id = "stats.endpoints", tag = "stats",
    params(WantedEndpoints), responses((status = 200, body = wire::EndpointList)),
    security(("key" = ["deliveries:read"])),
)]
pub(crate) async fn endpoints(
    State(api): State<Api>,
    caller: Caller<DeliveriesRead>,
    Query(wanted): Query<WantedEndpoints>,
) -> Result<Json<wire::EndpointList>, ApiError> {
    let hours = hours(wanted.hours.unwrap_or(24), Breadth::Part)?;
    let now = api.clock.now();
    let span = Span::last(hours, Breadth::Part, now);
    let endpoints = api.store.endpoint_stats(caller.workspace, span).await?;
    Ok(Json(wire::EndpointList::new(&span, now, &endpoints)))
}

impl Wanted {
    fn scope(&self) -> Result<Scope, ApiError> {
        match (self.source, self.destination, self.webhook) {
            (None, None, None) => Ok(Scope::Workspace),
            (Some(id), None, None) => Ok(Scope::Source(id)),
            (None, Some(id), None) => Ok(Scope::Destination(id)),
            (None, None, Some(id)) => Ok(Scope::Webhook(id)),
            (_, _, Some(_)) => Err(invalid("webhook", ONE_ONLY)),
            (Some(_), Some(_), None) => Err(invalid("destination", ONE_ONLY)),
        }
    }
}

const ONE_ONLY: &str = "only one of source, destination and webhook may be given";

fn hours(hours: u32, breadth: Breadth) -> Result<u32, ApiError> {
    let most = hours_max(breadth);
    if (1..=most).contains(&hours) {
        Ok(hours)
    } else {
        Err(invalid("hours", &format!("must be 1 to {most}")))
    }
}
