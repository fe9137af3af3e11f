//! What templates give.

use axum::Json;
use axum::extract::State;
use restante_core::id::WorkspaceId;
use restante_store::record::TemplateText;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{TEMPLATE_REQUEST_BYTES_MAX, find, input, versions};
use crate::api::auth::{Caller, TemplatesRead};
use crate::api::body::Body;
use crate::api::emails::input::TemplateInput;
use crate::api::error::ApiError;
use crate::api::path::Named;
use crate::api::{Api, ApiState, wire};
use crate::mail::template::{self, Fault, Rendered, TemplateSource};

/// What a draft is rendered with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewInput {
    /// A JSON object; what it leaves out is taken from the draft's own.
    #[schema(value_type = Option<Object>)]
    props: Option<Box<RawValue>>,
}

/// What is rendered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenderInput {
    subject: Option<String>,
    html: Option<String>,
    text: Option<String>,
    #[schema(value_type = Option<Object>)]
    props: Option<Box<RawValue>>,
}

/// The parts of a template, owned.
#[derive(Debug)]
struct Parts {
    subject: Option<String>,
    html: Option<String>,
    text: Option<String>,
}

/// Preview a template
///
/// Renders the draft; nothing is stored.
#[utoipa::path(
    post, path = "/v1/templates/{id}/preview", operation_id = "templates.preview", tag = "templates",
    params(("id" = String, Path, description = "`tpl_…` or slug")), request_body = PreviewInput,
    responses(
        (status = 200, body = wire::TemplatePreview),
        (status = 422, description = "`template_not_renderable`: with these props"),
    ),
    security(("key" = ["templates:read"])), extensions(("x-retry-class" = json!("evaluate"))),
)]
pub(crate) async fn preview(
    State(api): State<Api>,
    caller: Caller<TemplatesRead>,
    Named(named): Named,
    Body(input): Body<PreviewInput>,
) -> Result<Json<wire::TemplatePreview>, ApiError> {
    let given = props(input.props.as_deref(), "props")?;
    let draft = find(&api, caller.workspace, &named).await?.body.draft;
    give_text(draft, given, "props").await.map(|rendered| Json(rendered.into()))
}

/// Render parts of a template
///
/// Those that are given; nothing is stored.
#[utoipa::path(
    post, path = "/v1/templates/render", operation_id = "templates.render", tag = "templates",
    request_body = RenderInput,
    responses(
        (status = 200, body = wire::TemplatePreview),
        (status = 422, description = "`template_syntax`, or `template_not_renderable` with these props"),
    ),
    security(("key" = ["templates:read"])), extensions(("x-retry-class" = json!("evaluate"))),
)]
pub(crate) async fn render(
    _: Caller<TemplatesRead>,
    Body(input): Body<RenderInput, TEMPLATE_REQUEST_BYTES_MAX>,
) -> Result<Json<wire::TemplatePreview>, ApiError> {
    let RenderInput { subject, html, text, props: given } = input;
    let given = props(given.as_deref(), "props")?;
    give(Parts { subject, html, text }, given, "props").await.map(|rendered| Json(rendered.into()))
}

/// What a template gives for an email, with its id and the version used.
///
/// # Errors
/// 404 when there is no such template or version, 422 when it gives no email.
pub(crate) async fn render_for(
    api: &ApiState,
    workspace: WorkspaceId,
    named: &TemplateInput,
) -> Result<(Rendered, (String, u32)), ApiError> {
    let record = find(api, workspace, &named.id).await?;
    let number = named.version.or(record.body.published).ok_or_else(|| {
        ApiError::invalid("template_not_published", "the template has no published version").on("template.id")
    })?;
    let given = props(named.props.as_deref(), "template.props")?;
    let version = versions::version(api, workspace, record.id, number).await?;
    let rendered = give_text(version.body.text, given, "template.props").await?;
    Ok((rendered, (record.id.to_string(), number)))
}

fn props(json: Option<&RawValue>, param: &str) -> Result<Map<String, Value>, ApiError> {
    input::props(json).map_err(|message| ApiError::invalid("invalid_field", message).on(param))
}

/// What a text gives, with its own props for those that are not given. `param`: where the caller wrote them.
async fn give_text(
    text: TemplateText,
    given: Map<String, Value>,
    param: &'static str,
) -> Result<Rendered, ApiError> {
    let TemplateText { subject, html, text, mut props } = text;
    props.extend(given);
    give(Parts { subject: Some(subject), html, text }, props, param).await
}

/// Where threads may block: a template may take some 100 ms.
async fn give(parts: Parts, props: Map<String, Value>, param: &'static str) -> Result<Rendered, ApiError> {
    let work = move || {
        let Parts { subject, html, text } = &parts;
        let source =
            TemplateSource { subject: subject.as_deref(), html: html.as_deref(), text: text.as_deref() };
        template::render(&source, &props)
    };
    let rendered = tokio::task::spawn_blocking(work).await;
    let rendered = rendered.map_err(|error| ApiError::broken(format!("rendering a template: {error}")))?;
    rendered.map_err(|it| fault(&it, param))
}

pub(super) fn source(text: &TemplateText) -> TemplateSource<'_> {
    TemplateSource { subject: Some(&text.subject), html: text.html.as_deref(), text: text.text.as_deref() }
}

/// A fault of a template as it is answered. `props`: where the caller wrote what it was rendered with.
pub(super) fn fault(fault: &Fault, props: &str) -> ApiError {
    let (code, param) = match fault {
        Fault::Syntax { part, .. } => ("template_syntax", part.name()),
        Fault::Undefined { .. }
        | Fault::Render { .. }
        | Fault::TooMuchWork { .. }
        | Fault::TooLong { .. } => ("template_not_renderable", props),
    };
    ApiError::invalid(code, fault.to_string()).on(param)
}
