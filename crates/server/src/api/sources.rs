//! Sources: permanent URLs that receive webhooks.

pub(crate) mod input;
pub(crate) mod rules;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::endpoint::Source;
use restante_core::id::{Tail, WorkspaceId, kind};
use restante_core::limits;
use restante_store::record::Workspace;

use super::auth::{Caller, SourcesRead, SourcesWrite};
use super::body::{Body, Change};
use super::error::ApiError;
use super::path::One;
use super::query::{Listing, NoFilter, Paging};
use super::records::{self, Place, written};
use super::{Api, ApiState, token, wire};
use input::SourceInput;

/// Create a source
#[utoipa::path(
    post, path = "/v1/sources", operation_id = "sources.create", tag = "sources",
    request_body = SourceInput,
    responses((status = 201, body = wire::Source), (status = 409, description = "`name_taken`")),
    security(("key" = ["sources:write"])), extensions(("x-retry-class" = json!("creates"))),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller<SourcesWrite>,
    Body(input): Body<SourceInput>,
) -> Result<(StatusCode, Json<wire::Source>), ApiError> {
    let retention_days_max = retention_days_max(&api, caller.workspace).await?;
    let source = input.create(token::secret(&*api.clock), retention_days_max, api.judge())?;
    let tail = Tail::from_bits(api.clock.draw());
    let made = api.store.make(Some(caller.workspace), None, source, tail, api.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(wire::Source::new(written(made)?, &api))))
}

/// List sources
#[utoipa::path(
    get, path = "/v1/sources", operation_id = "sources.list", tag = "sources",
    params(Paging), responses((status = 200, body = wire::Page<wire::Source>)),
    security(("key" = ["sources:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<SourcesRead>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Source>>, ApiError> {
    let sources = api.store.list::<Source>(Some(caller.workspace), None, listing.page).await?;
    let wire = |source| wire::Source::new(source, &api);
    Ok(Json(wire::Page::new(sources, listing.page.total, wire)))
}

/// Get a source
#[utoipa::path(
    get, path = "/v1/sources/{id}", operation_id = "sources.get", tag = "sources",
    params(("id" = String, Path, description = "`src_…`")), responses((status = 200, body = wire::Source)),
    security(("key" = ["sources:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<SourcesRead>,
    One(id): One<kind::Source>,
) -> Result<Json<wire::Source>, ApiError> {
    let source = records::get(&api, &caller.place::<Source>(id)).await?;
    Ok(Json(wire::Source::new(source, &api)))
}

/// Change a source
///
/// What is absent stays; what is null goes back to its default.
#[utoipa::path(
    patch, path = "/v1/sources/{id}", operation_id = "sources.update", tag = "sources",
    params(("id" = String, Path, description = "`src_…`")), request_body = SourceInput,
    responses((status = 200, body = wire::Source), (status = 409, description = "`name_taken`")),
    security(("key" = ["sources:write"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn update(
    State(api): State<Api>,
    caller: Caller<SourcesWrite>,
    One(id): One<kind::Source>,
    Body(input): Body<SourceInput>,
) -> Result<Json<wire::Source>, ApiError> {
    let retention_days_max = match input.retention_days {
        Change::Keep => *limits::RETENTION_DAYS.end(),
        Change::Reset | Change::Set(_) => retention_days_max(&api, caller.workspace).await?,
    };
    let apply = |source: &mut Source| input.clone().apply(source, retention_days_max, api.judge());
    let source = records::change(&api, &caller.place::<Source>(id), apply).await?;
    Ok(Json(wire::Source::new(source, &api)))
}

/// Delete a source
///
/// Its URL stops working at once, its destinations go with it, and what is pending is cancelled. Its requests stay
/// readable until they expire.
#[utoipa::path(
    delete, path = "/v1/sources/{id}", operation_id = "sources.delete", tag = "sources",
    params(("id" = String, Path, description = "`src_…`")), responses((status = 204, description = "Deleted")),
    security(("key" = ["sources:write"])), extensions(("x-retry-class" = json!("deletes"))),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller<SourcesWrite>,
    One(id): One<kind::Source>,
) -> Result<StatusCode, ApiError> {
    records::delete(&api, &caller.place::<Source>(id)).await?;
    api.tunnel.look_again(id);
    Ok(StatusCode::NO_CONTENT)
}

/// Give a source a new token
///
/// The old URL stops working at once.
#[utoipa::path(
    post, path = "/v1/sources/{id}/rotate-token", operation_id = "sources.rotate_token", tag = "sources",
    params(("id" = String, Path, description = "`src_…`")), responses((status = 200, body = wire::Source)),
    security(("key" = ["sources:write"])), extensions(("x-retry-class" = json!("rotates"))),
)]
pub(crate) async fn rotate_token(
    State(api): State<Api>,
    caller: Caller<SourcesWrite>,
    One(id): One<kind::Source>,
) -> Result<Json<wire::Source>, ApiError> {
    let token = token::secret(&*api.clock);
    let apply = |source: &mut Source| {
        source.token.clone_from(&token);
        Ok(())
    };
    let source = records::change(&api, &caller.place::<Source>(id), apply).await?;
    // Whoever has come in with the old one must not go on receiving.
    api.tunnel.look_again(id);
    Ok(Json(wire::Source::new(source, &api)))
}

/// Upper bound of `retention_days` in a workspace.
async fn retention_days_max(api: &ApiState, workspace: WorkspaceId) -> Result<u32, ApiError> {
    let place = Place::<Workspace> { workspace, parent: None, id: workspace };
    Ok(records::get(api, &place).await?.body.retention_days_max)
}
