//! Publishing templates, and what was published.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::Id;
use restante_core::id::{Tail, TemplateId, WorkspaceId, kind};
use restante_core::limits;
use restante_store::record::{Draft, Kept, Raw, Record, Template, TemplateVersion};
use restante_store::{Created, Page, Start};

use super::{find, input};
use crate::api::auth::{Caller, TemplatesRead, TemplatesWrite};
use crate::api::error::ApiError;
use crate::api::path::Named;
use crate::api::query::{Listing, NoFilter, Paging};
use crate::api::records::{self, Place};
use crate::api::{Api, ApiState, wire};

/// How often a number is tried that somebody else was faster to take.
const TRIES: usize = 8;

/// What publishing came to.
pub(super) struct Published {
    pub(super) template: Record<Template>,
    version: Record<TemplateVersion>,
    /// It was what is published already.
    unchanged: bool,
}

/// Publish a template
///
/// The draft becomes the version that is sent. A draft that is published already is answered as it was.
#[utoipa::path(
    post, path = "/v1/templates/{id}/versions", operation_id = "templates.publish", tag = "templates",
    params(("id" = String, Path, description = "`tpl_…` or slug")),
    responses(
        (status = 201, body = wire::TemplateVersion),
        (status = 200, body = wire::TemplateVersion, description = "It was published already"),
        (status = 422, description = "The draft has neither html nor text"),
    ),
    security(("key" = ["templates:write"])), extensions(("x-retry-class" = json!("no_op_when_done"))),
)]
pub(crate) async fn publish(
    State(api): State<Api>,
    caller: Caller<TemplatesWrite>,
    Named(named): Named,
) -> Result<(StatusCode, Json<wire::TemplateVersion>), ApiError> {
    let template = find(&api, caller.workspace, &named).await?;
    let published = publish_draft(&api, template).await?;
    let status = if published.unchanged { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(wire::TemplateVersion::published(published.version))))
}

/// List a template's versions
///
/// What was published, newest first.
#[utoipa::path(
    get, path = "/v1/templates/{id}/versions", operation_id = "templates.list_versions", tag = "templates",
    params(("id" = String, Path, description = "`tpl_…` or slug"), Paging),
    responses((status = 200, body = wire::Page<wire::TemplateVersion>)),
    security(("key" = ["templates:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<TemplatesRead>,
    Named(named): Named,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::TemplateVersion>>, ApiError> {
    let NoFilter {} = listing.filter;
    let template = find(&api, caller.workspace, &named).await?;
    let parent = Some(template.id.uuid());
    let found = api.store.list::<TemplateVersion>(Some(caller.workspace), parent, listing.page).await?;
    Ok(Json(wire::Page::new(found, listing.page.total, wire::TemplateVersion::published)))
}

/// Publishes a template's draft, unless it is what was published last.
///
/// The version comes first and then the template that points to it: who dies in between has published nothing, and a
/// repeat finds the version and finishes.
pub(super) async fn publish_draft(api: &ApiState, template: Record<Template>) -> Result<Published, ApiError> {
    input::check_publishable(&template.body.draft)?;
    let mut number = template.body.published.unwrap_or(0);
    for _ in 0..TRIES {
        let newest = newest(api, &template).await?;
        let version = match newest {
            Some(newest) if newest.body.text == template.body.draft => Some(newest),
            Some(newest) => {
                number = number.max(newest.body.version) + 1;
                make(api, &template, number).await?
            }
            None => {
                number += 1;
                make(api, &template, number).await?
            }
        };
        let Some(version) = version else { continue };
        let unchanged = template.body.published == Some(version.body.version);
        let template = point_to(api, &template, version.body.version).await?;
        return Ok(Published { template, version, unchanged });
    }
    Err(ApiError::conflict("conflict", "others are publishing this at the same time; try again"))
}

/// Stores the draft as a version; `None`: there is one of this number.
async fn make(
    api: &ApiState,
    template: &Record<Template>,
    number: u32,
) -> Result<Option<Record<TemplateVersion>>, ApiError> {
    let body = TemplateVersion { version: number, text: template.body.draft.clone() };
    let json = serde_json::to_string(&body).map_err(|error| ApiError::broken(error.to_string()))?;
    let draft = Draft {
        kind: TemplateVersion::KIND,
        workspace: Some(template.workspace),
        parent: Some(template.id.uuid()),
        // Unique, so that of those who publish at the same time one gets the number.
        name: Some(format!("{}/{number}", template.id)),
        lookup: None,
        body: json,
        tail: Tail::from_bits(api.clock.draw()),
    };
    match api.store.create(draft, api.clock.now()).await? {
        Created::Done(raw) => {
            let Raw { uuid, workspace, parent, version, created_at, updated_at, .. } = raw;
            let id = Id::from_uuid(uuid);
            Ok(Some(Record { id, workspace, parent, version, created_at, updated_at, body }))
        }
        Created::NameTaken => Ok(None),
        Created::ParentGone => Err(ApiError::not_found::<kind::Template>()),
        Created::TooMany => Err(ApiError::conflict("limit_reached", "there are as many as there may be")),
    }
}

/// Makes a version the one that is sent, unless a newer one is.
async fn point_to(
    api: &ApiState,
    template: &Record<Template>,
    number: u32,
) -> Result<Record<Template>, ApiError> {
    let place = Place::<Template> { workspace: template.workspace, parent: None, id: template.id };
    let point = |template: &mut Template| {
        template.published = template.published.max(Some(number));
        Ok(())
    };
    records::change(api, &place, point).await
}

/// What is newest of a template: its draft, or the version as which that was published.
pub(super) async fn latest(
    api: &ApiState,
    template: &Record<Template>,
) -> Result<wire::TemplateVersion, ApiError> {
    let Some(published) = template.body.published else {
        return Ok(wire::TemplateVersion::draft(template, 1));
    };
    match newest(api, template).await? {
        Some(newest) if newest.body.text == template.body.draft && newest.body.version <= published => {
            Ok(wire::TemplateVersion::published(newest))
        }
        Some(_) | None => Ok(wire::TemplateVersion::draft(template, published + 1)),
    }
}

async fn newest(
    api: &ApiState,
    template: &Record<Template>,
) -> Result<Option<Record<TemplateVersion>>, ApiError> {
    let parent = Some(template.id.uuid());
    let page = Page::newest(1);
    let paged = api.store.list::<TemplateVersion>(Some(template.workspace), parent, page).await?;
    Ok(paged.items.into_iter().next())
}

/// A published version.
///
/// # Errors
/// 404 when there is none of this number.
pub(super) async fn version(
    api: &ApiState,
    workspace: WorkspaceId,
    template: TemplateId,
    number: u32,
) -> Result<Record<TemplateVersion>, ApiError> {
    let mut page = Page::newest(limits::PAGE_MAX);
    loop {
        let paged = api.store.list::<TemplateVersion>(Some(workspace), Some(template.uuid()), page).await?;
        if let Some(found) = paged.items.into_iter().find(|it| it.body.version == number) {
            return Ok(found);
        }
        let Some(next) = paged.next else { return Err(ApiError::not_found::<kind::TemplateVersion>()) };
        page.start = Start::After(next);
    }
}
