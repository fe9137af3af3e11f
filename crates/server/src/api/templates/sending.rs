//! Sends emails that templates make.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::email::fingerprint;
use restante_core::limits;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::auth::{Caller, EmailsSend};
use crate::api::body::Body;
use crate::api::emails;
use crate::api::emails::input::{AttachmentInput, EmailInput, Many, One, TemplateInput};
use crate::api::error::ApiError;
use crate::api::events::Key;
use crate::api::path::Named;
use crate::api::{Api, wire};

/// An email that a template makes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplateEmailInput {
    from: One,
    /// At most 50; so are `cc` and `bcc`.
    #[serde(default)]
    to: Many,
    #[serde(default)]
    cc: Many,
    /// They are in no header.
    #[serde(default)]
    bcc: Many,
    #[serde(default)]
    reply_to: Many,
    /// The template's unless given.
    subject: Option<String>,
    /// A JSON object: values for what the template names.
    #[schema(value_type = Option<Object>)]
    props: Option<Box<RawValue>>,
    /// The published one unless given.
    version: Option<u32>,
    /// Not before this, at most 30 days ahead; at once if it is past.
    #[schema(format = DateTime)]
    scheduled_at: Option<String>,
    /// Further header lines.
    headers: Option<BTreeMap<String, String>>,
    /// At most 20.
    attachments: Option<Vec<AttachmentInput>>,
    tags: Option<BTreeMap<String, String>>,
    /// A JSON object of yours, shown again and told to webhooks.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
}

/// Send a template
///
/// As an email: stored before it is answered. With a key, the same call again gives the same email as it is then.
#[utoipa::path(
    post, path = "/v1/templates/{id}/send", operation_id = "templates.send", tag = "templates",
    params(
        ("id" = String, Path, description = "`tpl_…` or slug"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 of A-Z a-z 0-9 _ . : -"),
    ),
    request_body = TemplateEmailInput,
    responses(
        (status = 202, body = wire::SentEmail, description = "Accepted"),
        (status = 200, body = wire::SentEmail, description = "Accepted by an earlier call with this key"),
        (status = 422, description = "`idempotency_key_reuse`: the key was used for another call"),
    ),
    security(("key" = ["emails:send"])), extensions(("x-retry-class" = json!("keyed"))),
)]
pub(crate) async fn send(
    State(api): State<Api>,
    caller: Caller<EmailsSend>,
    Key(key): Key,
    Named(named): Named,
    Body(input): Body<TemplateEmailInput, { limits::EMAIL_REQUEST_BYTES_MAX }>,
) -> Result<(StatusCode, Json<wire::SentEmail>), ApiError> {
    let read = input.with(named).read()?;
    let template = read.named().ok_or_else(|| ApiError::broken("an email has lost its template"))?;
    let claim = emails::claim(key, || fingerprint::of_template(&read.email, template))?;
    // Here the fields of `template` are those of the body.
    emails::send_one(&api, &caller, read, claim).await.map_err(|error| error.outside("template"))
}

impl TemplateEmailInput {
    /// The email that names this template.
    fn with(self, template: String) -> EmailInput {
        let Self { from, to, cc, bcc, reply_to, subject, props, version, .. } = self;
        EmailInput {
            from,
            to,
            cc,
            bcc,
            reply_to,
            subject,
            html: None,
            text: None,
            headers: self.headers,
            attachments: self.attachments,
            tags: self.tags,
            metadata: self.metadata,
            scheduled_at: self.scheduled_at,
            template: Some(TemplateInput { id: template, version, props }),
        }
    }
}
