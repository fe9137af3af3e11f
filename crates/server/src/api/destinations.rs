//! Destinations: the receivers of a source.

pub(crate) mod input;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::endpoint::{Destination, Source};
use restante_core::id::{DestinationId, SourceId, Tail, kind};

use super::auth::{Caller, Scope, SourcesRead, SourcesWrite};
use super::body::Body;
use super::error::ApiError;
use super::path::{One, Within};
use super::query::{Listing, NoFilter, Paging};
use super::records::{self, Place, written};
use super::{Api, wire};
use input::DestinationInput;

/// Create a destination
///
/// It receives what the source takes in from now on.
#[utoipa::path(
    post, path = "/v1/sources/{id}/destinations", operation_id = "destinations.create", tag = "destinations",
    params(("id" = String, Path, description = "`src_…`")), request_body = DestinationInput,
    responses((status = 201, body = wire::Destination), (status = 409, description = "`limit_reached`")),
    security(("key" = ["sources:write"])), extensions(("x-retry-class" = json!("creates"))),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller<SourcesWrite>,
    One(source): One<kind::Source>,
    Body(input): Body<DestinationInput>,
) -> Result<(StatusCode, Json<wire::Destination>), ApiError> {
    let source = records::get(&api, &caller.place::<Source>(source)).await?;
    let destination = input.create(api.judge())?;
    let (parent, tail) = (Some(source.id.uuid()), Tail::from_bits(api.clock.draw()));
    let made = api.store.make(Some(caller.workspace), parent, destination, tail, api.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(written(made)?.into())))
}

/// List a source's destinations
#[utoipa::path(
    get, path = "/v1/sources/{id}/destinations", operation_id = "destinations.list", tag = "destinations",
    params(("id" = String, Path, description = "`src_…`"), Paging),
    responses((status = 200, body = wire::Page<wire::Destination>)),
    security(("key" = ["sources:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<SourcesRead>,
    One(source): One<kind::Source>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Destination>>, ApiError> {
    let source = records::get(&api, &caller.place::<Source>(source)).await?;
    let parent = Some(source.id.uuid());
    let found = api.store.list::<Destination>(Some(caller.workspace), parent, listing.page).await?;
    Ok(Json(wire::Page::new(found, listing.page.total, wire::Destination::from)))
}

/// Get a destination
#[utoipa::path(
    get, path = "/v1/sources/{id}/destinations/{destination_id}", operation_id = "destinations.get",
    tag = "destinations",
    params(
        ("id" = String, Path, description = "`src_…`"),
        ("destination_id" = String, Path, description = "`dst_…`"),
    ),
    responses((status = 200, body = wire::Destination)),
    security(("key" = ["sources:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<SourcesRead>,
    Within(source, id): Within<kind::Source, kind::Destination>,
) -> Result<Json<wire::Destination>, ApiError> {
    Ok(Json(records::get(&api, &place(&caller, source, id)).await?.into()))
}

/// Change a destination
///
/// What is absent stays; what is null goes back to its default. A new URL counts from the next attempt's start, a
/// new schedule from the next failure.
#[utoipa::path(
    patch, path = "/v1/sources/{id}/destinations/{destination_id}", operation_id = "destinations.update",
    tag = "destinations",
    params(
        ("id" = String, Path, description = "`src_…`"),
        ("destination_id" = String, Path, description = "`dst_…`"),
    ),
    request_body = DestinationInput, responses((status = 200, body = wire::Destination)),
    security(("key" = ["sources:write"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn update(
    State(api): State<Api>,
    caller: Caller<SourcesWrite>,
    Within(source, id): Within<kind::Source, kind::Destination>,
    Body(input): Body<DestinationInput>,
) -> Result<Json<wire::Destination>, ApiError> {
    let apply = |destination: &mut Destination| input.clone().update(destination, api.judge());
    Ok(Json(records::change(&api, &place(&caller, source, id), apply).await?.into()))
}

/// Delete a destination
///
/// Its pending deliveries are cancelled.
#[utoipa::path(
    delete, path = "/v1/sources/{id}/destinations/{destination_id}", operation_id = "destinations.delete",
    tag = "destinations",
    params(
        ("id" = String, Path, description = "`src_…`"),
        ("destination_id" = String, Path, description = "`dst_…`"),
    ),
    responses((status = 204, description = "Deleted")),
    security(("key" = ["sources:write"])), extensions(("x-retry-class" = json!("deletes"))),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller<SourcesWrite>,
    Within(source, id): Within<kind::Source, kind::Destination>,
) -> Result<StatusCode, ApiError> {
    records::delete(&api, &place(&caller, source, id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A destination of the caller's, below its source.
pub(crate) fn place<S: Scope>(
    caller: &Caller<S>,
    source: SourceId,
    destination: DestinationId,
) -> Place<Destination> {
    Place { parent: Some(source.uuid()), ..caller.place(destination) }
}
