//! What an email says: its texts, its headers, what is attached, and its bytes.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use bytes::Bytes;
use restante_core::id::{EmailId, kind};

use super::show;
use crate::api::auth::{Caller, EmailsRead};
use crate::api::error::ApiError;
use crate::api::frame::AS_BYTES;
use crate::api::path::{One, Part};
use crate::api::{Api, ApiState, wire};
use crate::mail::parse::{Texts, attachments_of, headers_of, texts_of};

/// Get what an email says
///
/// Its headers and texts as they leave, but for what signs them, and a list of what is attached.
#[utoipa::path(
    get, path = "/v1/emails/{id}/content", operation_id = "emails.get_content", tag = "emails",
    params(("id" = String, Path, description = "`em_…`")), responses((status = 200, body = wire::EmailContent)),
    security(("key" = ["emails:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<EmailsRead>,
    One(id): One<kind::Email>,
) -> Result<Json<wire::EmailContent>, ApiError> {
    let mime = read(&api, &caller, id).await?;
    let broken = |what: &str| ApiError::broken(format!("the {what} of {id} cannot be read back"));
    let Texts { html, text } = texts_of(&mime).map_err(|_| broken("texts"))?;
    let attachments = attachments_of(&mime).map_err(|_| broken("attachments"))?;
    let headers = headers_of(&mime).map_err(|_| broken("headers"))?;
    Ok(Json(wire::EmailContent::new(id, headers, (html, text), &attachments, mime.len())))
}

/// Get an email's source
///
/// Its bytes as they leave, but for what signs them, under a content type that no browser interprets.
#[utoipa::path(
    get, path = "/v1/emails/{id}/source", operation_id = "emails.get_source", tag = "emails",
    params(("id" = String, Path, description = "`em_…`")),
    responses((status = 200, body = [u8], content_type = "application/octet-stream")),
    security(("key" = ["emails:read"])),
)]
pub(crate) async fn source(
    State(api): State<Api>,
    caller: Caller<EmailsRead>,
    One(id): One<kind::Email>,
) -> Result<impl IntoResponse, ApiError> {
    Ok((AS_BYTES, read(&api, &caller, id).await?))
}

/// Get an attachment
///
/// Its bytes, under a content type that no browser interprets.
#[utoipa::path(
    get, path = "/v1/emails/{id}/attachments/{index}", operation_id = "emails.get_attachment", tag = "emails",
    params(
        ("id" = String, Path, description = "`em_…`"),
        ("index" = u32, Path, description = "As the email's content lists it, from 0"),
    ),
    responses((status = 200, body = [u8], content_type = "application/octet-stream")),
    security(("key" = ["emails:read"])),
)]
pub(crate) async fn attachment(
    State(api): State<Api>,
    caller: Caller<EmailsRead>,
    Part(id, index): Part<kind::Email>,
) -> Result<impl IntoResponse, ApiError> {
    let mime = read(&api, &caller, id).await?;
    let attachments = attachments_of(&mime);
    let attachments = attachments.map_err(|_| ApiError::broken(format!("{id} cannot be read back")))?;
    let wanted = attachments.into_iter().nth(index).ok_or_else(|| {
        ApiError::new(StatusCode::NOT_FOUND, "attachment_not_found", "the email has no such attachment")
    })?;
    Ok((AS_BYTES, wanted.content))
}

async fn read(api: &ApiState, caller: &Caller<EmailsRead>, id: EmailId) -> Result<Bytes, ApiError> {
    show(api, caller, id).await?;
    let mime = api.store.email_mime(caller.workspace, id, api.clock.now()).await?;
    mime.ok_or_else(ApiError::not_found::<kind::Email>)
}
