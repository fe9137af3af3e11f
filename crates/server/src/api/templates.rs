//! Templates: what emails are made from.
//!
//! A template has a draft that is worked on, and versions that were published of it. Emails are made of versions only.

mod input;
pub(crate) mod rendering;
pub(crate) mod sending;
pub(crate) mod versions;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::id::{Tail, TemplateId, WorkspaceId, kind};
use restante_core::limits;
use restante_store::record::{Record, Template, Written};
use restante_store::{Page, Paged, Start};

use super::auth::{Caller, TemplatesRead, TemplatesWrite};
use super::body::Body;
use super::error::ApiError;
use super::path::Named;
use super::query::{Listing, NoFilter, Paging};
use super::records::{self, written};
use super::{Api, ApiState, wire};
use input::{ContentInput, CopyInput, NewTemplate, TemplateChange};

pub(crate) use rendering::render_for;

/// Largest body of a call that carries a template, in bytes: its parts, as JSON may write them.
const TEMPLATE_REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Create a template
///
/// As a draft, or published at once.
#[utoipa::path(
    post, path = "/v1/templates", operation_id = "templates.create", tag = "templates",
    request_body = NewTemplate,
    responses((status = 201, body = wire::Template), (status = 409, description = "`name_taken`: of the slug")),
    security(("key" = ["templates:write"])), extensions(("x-retry-class" = json!("creates"))),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller<TemplatesWrite>,
    Body(new): Body<NewTemplate, TEMPLATE_REQUEST_BYTES_MAX>,
) -> Result<(StatusCode, Json<wire::Template>), ApiError> {
    let publish = new.publish;
    let template = new.read()?;
    if publish {
        input::check_publishable(&template.draft)?;
    }
    let tail = Tail::from_bits(api.clock.draw());
    let made = api.store.make(Some(caller.workspace), None, template, tail, api.clock.now()).await?;
    let mut made = written(made)?;
    if publish {
        made = versions::publish_draft(&api, made).await?.template;
    }
    Ok((StatusCode::CREATED, Json(show(&api, made).await?)))
}

/// List templates
///
/// Newest first, without `latest`.
#[utoipa::path(
    get, path = "/v1/templates", operation_id = "templates.list", tag = "templates",
    params(Paging), responses((status = 200, body = wire::Page<wire::Template>)),
    security(("key" = ["templates:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<TemplatesRead>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Template>>, ApiError> {
    let NoFilter {} = listing.filter;
    let Paged { items, next, prev, total } =
        api.store.list::<Template>(Some(caller.workspace), None, listing.page).await?;
    let mut shown = Vec::with_capacity(items.len());
    for template in items {
        shown.push(show(&api, template).await?.in_list());
    }
    let shown = Paged { items: shown, next, prev, total };
    Ok(Json(wire::Page::new(shown, listing.page.total, |template| template)))
}

/// Get a template
#[utoipa::path(
    get, path = "/v1/templates/{id}", operation_id = "templates.get", tag = "templates",
    params(("id" = String, Path, description = "`tpl_…` or slug")),
    responses((status = 200, body = wire::Template)), security(("key" = ["templates:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<TemplatesRead>,
    Named(named): Named,
) -> Result<Json<wire::Template>, ApiError> {
    let template = find(&api, caller.workspace, &named).await?;
    show(&api, template).await.map(Json)
}

/// Change a template
///
/// What it is called, not what it says.
#[utoipa::path(
    patch, path = "/v1/templates/{id}", operation_id = "templates.update", tag = "templates",
    params(("id" = String, Path, description = "`tpl_…` or slug")), request_body = TemplateChange,
    responses((status = 200, body = wire::Template), (status = 409, description = "`name_taken`: of the slug")),
    security(("key" = ["templates:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn update(
    State(api): State<Api>,
    caller: Caller<TemplatesWrite>,
    Named(named): Named,
    Body(input): Body<TemplateChange>,
) -> Result<Json<wire::Template>, ApiError> {
    let apply = |template: &mut Template| input.clone().apply(template);
    change(&api, caller.workspace, &named, apply).await.map(Json)
}

/// Delete a template
///
/// With its versions. Emails that were made of it stay as they are.
#[utoipa::path(
    delete, path = "/v1/templates/{id}", operation_id = "templates.delete", tag = "templates",
    params(("id" = String, Path, description = "`tpl_…` or slug")),
    responses((status = 204, description = "Deleted")),
    security(("key" = ["templates:write"])), extensions(("x-retry-class" = json!("deletes"))),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller<TemplatesWrite>,
    Named(named): Named,
) -> Result<StatusCode, ApiError> {
    let id = find(&api, caller.workspace, &named).await?.id;
    records::delete(&api, &caller.place::<Template>(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Duplicate a template
///
/// The copy has the draft, and no versions. Its slug is made of the original's unless given.
#[utoipa::path(
    post, path = "/v1/templates/{id}/duplicate", operation_id = "templates.duplicate", tag = "templates",
    params(("id" = String, Path, description = "`tpl_…` or slug")), request_body = CopyInput,
    responses((status = 201, body = wire::Template), (status = 409, description = "`name_taken`: of the slug")),
    security(("key" = ["templates:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn duplicate(
    State(api): State<Api>,
    caller: Caller<TemplatesWrite>,
    Named(named): Named,
    Body(input): Body<CopyInput>,
) -> Result<(StatusCode, Json<wire::Template>), ApiError> {
    let original = find(&api, caller.workspace, &named).await?.body;
    let mut taken = Written::NameTaken;
    for copy in input.copies(&original)? {
        let tail = Tail::from_bits(api.clock.draw());
        taken = api.store.make(Some(caller.workspace), None, copy, tail, api.clock.now()).await?;
        if !matches!(taken, Written::NameTaken) {
            break;
        }
    }
    Ok((StatusCode::CREATED, Json(show(&api, written(taken)?).await?)))
}

/// Replace a template's draft
///
/// What was published stays until the draft is.
#[utoipa::path(
    post, path = "/v1/templates/{id}/content", operation_id = "templates.set_content", tag = "templates",
    params(("id" = String, Path, description = "`tpl_…` or slug")), request_body = ContentInput,
    responses(
        (status = 200, body = wire::Template),
        (status = 422, description = "`template_syntax`: the message says where"),
    ),
    security(("key" = ["templates:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn set_content(
    State(api): State<Api>,
    caller: Caller<TemplatesWrite>,
    Named(named): Named,
    Body(input): Body<ContentInput, TEMPLATE_REQUEST_BYTES_MAX>,
) -> Result<Json<wire::Template>, ApiError> {
    let draft = input.read()?;
    let apply = |template: &mut Template| {
        template.draft = draft.clone();
        Ok(())
    };
    change(&api, caller.workspace, &named, apply).await.map(Json)
}

/// A template by its id or slug.
///
/// # Errors
/// 404 when there is none.
pub(crate) async fn find(
    api: &ApiState,
    workspace: WorkspaceId,
    named: &str,
) -> Result<Record<Template>, ApiError> {
    if let Ok(id) = named.parse::<TemplateId>() {
        let found = api.store.get::<Template>(workspace, id).await?;
        return found.ok_or_else(ApiError::not_found::<kind::Template>);
    }
    let mut page = Page::newest(limits::PAGE_MAX);
    loop {
        let paged = api.store.list::<Template>(Some(workspace), None, page).await?;
        if let Some(found) = paged.items.into_iter().find(|it| it.body.slug == named) {
            return Ok(found);
        }
        let Some(next) = paged.next else { return Err(ApiError::not_found::<kind::Template>()) };
        page.start = Start::After(next);
    }
}

async fn change(
    api: &ApiState,
    workspace: WorkspaceId,
    named: &str,
    apply: impl Fn(&mut Template) -> Result<(), ApiError> + Send + Sync,
) -> Result<wire::Template, ApiError> {
    let id = find(api, workspace, named).await?.id;
    let place = records::Place { workspace, parent: None, id };
    show(api, records::change(api, &place, apply).await?).await
}

/// A template as it is shown, with what is newest of it.
async fn show(api: &ApiState, template: Record<Template>) -> Result<wire::Template, ApiError> {
    let latest = versions::latest(api, &template).await?;
    Ok(wire::Template::new(template, latest))
}
