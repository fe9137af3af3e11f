//! Changes of emails that wait for their time.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use restante_core::email::{Address, Email, EmailStatus, Role, Scheduled, form};
use restante_core::id::kind;
use restante_core::limits;
use restante_store::email::{Details, EmailChange, EmailChanged, Mailbox};
use restante_store::record::Mode;
use restante_store::row;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::input::{self, Many, One as AddressInput};
use super::{changed, freeze, show};
use crate::api::auth::{Caller, EmailsSend};
use crate::api::body::{Body, Change};
use crate::api::error::ApiError;
use crate::api::fault::Faults;
use crate::api::path::One;
use crate::api::{Api, wire};
use crate::mail::parse::{attachments_of, texts_of};

/// What is to change in a scheduled email. What is absent stays, null takes away.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmailChangeInput {
    /// Not before this, at most 30 days ahead; at once if it is past.
    #[schema(value_type = String, format = DateTime)]
    #[serde(default)]
    scheduled_at: Change<String>,
    #[schema(value_type = AddressInput)]
    #[serde(default)]
    from: Change<AddressInput>,
    #[schema(value_type = Many)]
    #[serde(default)]
    reply_to: Change<Many>,
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    subject: Change<String>,
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    html: Change<String>,
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    text: Change<String>,
    /// Replaces all further header lines.
    #[schema(value_type = Option<HashMap<String, String>>)]
    #[serde(default)]
    headers: Change<BTreeMap<String, String>>,
    /// Replaces all tags.
    #[schema(value_type = Option<HashMap<String, String>>)]
    #[serde(default)]
    tags: Change<BTreeMap<String, String>>,
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    metadata: Change<Box<RawValue>>,
    /// Never: those it goes to cannot change.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    to: Change<IgnoredAny>,
    /// Never.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    cc: Change<IgnoredAny>,
    /// Never.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    bcc: Change<IgnoredAny>,
}

/// A change that was read and checked by itself.
#[derive(Debug, Default)]
struct Read {
    scheduled_at: Option<Scheduled>,
    from: Option<Address>,
    reply_to: Option<Vec<Address>>,
    subject: Change<String>,
    html: Change<String>,
    text: Change<String>,
    headers: Option<BTreeMap<String, String>>,
    tags: Option<BTreeMap<String, String>>,
    metadata: Change<String>,
}

/// Change an email
///
/// One that is scheduled: its time, what it says, or both. Those it goes to and what is attached stay.
#[utoipa::path(
    patch, path = "/v1/emails/{id}", operation_id = "emails.update", tag = "emails",
    params(("id" = String, Path, description = "`em_…`")), request_body = EmailChangeInput,
    responses(
        (status = 200, body = wire::Email),
        (status = 403, description = "`domain_not_verified`: of the new sender"),
        (status = 409, description = "`not_changeable`: it is not scheduled any more"),
    ),
    security(("key" = ["emails:send"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn update(
    State(api): State<Api>,
    caller: Caller<EmailsSend>,
    One(id): One<kind::Email>,
    Body(input): Body<EmailChangeInput, { limits::EMAIL_REQUEST_BYTES_MAX }>,
) -> Result<Json<wire::Email>, ApiError> {
    let idle = input.is_idle();
    let read = input.read()?;
    let (workspace, now) = (caller.workspace, api.clock.now());
    let stored = api.store.email(workspace, id, now).await?;
    let stored = stored.filter(|email| email.test == (caller.mode() == Mode::Test));
    let stored = stored.ok_or_else(ApiError::not_found::<kind::Email>)?;
    let status = stored.status(now);
    if status != EmailStatus::Scheduled {
        changed(EmailChanged::Conflict(status), "not_changeable", "changed")?;
    }
    if idle {
        return Ok(Json(show(&api, &caller, id).await?));
    }
    super::check_time(read.scheduled_at.as_ref(), now)?;
    let scheduled_at = read.scheduled_at.as_ref().map(|scheduled| scheduled.at);
    let date = scheduled_at.or(stored.scheduled_at).unwrap_or(now);
    // The time that it has is no news for webhooks: a repeat of the call must not tell them again.
    let scheduled_at = scheduled_at.filter(|at| stored.scheduled_at != Some(*at));
    // What a template made is no longer that once somebody rewrites it.
    let template = stored.details.template.clone().filter(|_| !read.rewrites());
    let new_sender = read.from.is_some();
    let mime = api.store.email_mime(workspace, id, now).await?;
    let mut email = read_back(stored, mime.ok_or_else(ApiError::not_found::<kind::Email>)?).await?;
    read.apply(&mut email);
    input::check(&email, form::Content::Own)?;
    if new_sender {
        freeze::check_sender(&api, workspace, &email).await?;
    }
    let frozen = freeze::freeze(email, template, date).await?;
    let change = EmailChange { frozen: Some(frozen), scheduled_at };
    let done = api.store.change_email(workspace, id, change, api.clock.now()).await?;
    changed(done, "not_changeable", "changed")?;
    Ok(Json(show(&api, &caller, id).await?))
}

impl EmailChangeInput {
    /// Whether it changes nothing.
    fn is_idle(&self) -> bool {
        fn absent<T>(change: &Change<T>) -> bool {
            matches!(change, Change::Keep)
        }
        let texts = [&self.scheduled_at, &self.subject, &self.html, &self.text];
        let maps = [&self.headers, &self.tags];
        let nobody = [&self.to, &self.cc, &self.bcc];
        texts.into_iter().all(absent)
            && maps.into_iter().all(absent)
            && nobody.into_iter().all(absent)
            && absent(&self.from)
            && absent(&self.reply_to)
            && absent(&self.metadata)
    }

    /// # Errors
    /// 422 with all that is wrong.
    fn read(self) -> Result<Read, ApiError> {
        let mut faults = Faults::default();
        for (param, list) in [("to", &self.to), ("cc", &self.cc), ("bcc", &self.bcc)] {
            let message = "those an email goes to cannot change: cancel it and send another";
            faults.unless(matches!(list, Change::Keep), param, message);
        }
        let scheduled_at = match self.scheduled_at {
            Change::Keep => None,
            Change::Reset => {
                faults.add("scheduled_at", "must not be null: to send it now, give a time that is past");
                None
            }
            Change::Set(text) => {
                Scheduled::parse(&text).map_err(|fault| faults.add("scheduled_at", fault.to_string())).ok()
            }
        };
        let mut fault = |param: String, message: String| faults.add(param, message);
        let from = match self.from {
            Change::Keep => None,
            Change::Reset => {
                fault("from".into(), "must not be null".into());
                None
            }
            Change::Set(from) => from.read("from", &mut fault),
        };
        let reply_to = match self.reply_to {
            Change::Keep => None,
            Change::Reset => Some(Vec::new()),
            Change::Set(list) => Some(list.read("reply_to", &mut fault)),
        };
        let metadata = match self.metadata {
            Change::Keep => Change::Keep,
            Change::Reset => Change::Reset,
            Change::Set(json) => match form::metadata(json.get()) {
                Ok(metadata) => Change::Set(metadata),
                Err(it) => {
                    fault(it.param, it.message);
                    Change::Keep
                }
            },
        };
        faults.finish()?;
        let (headers, tags) = (whole(self.headers), whole(self.tags));
        let (subject, html, text) = (self.subject, self.html, self.text);
        Ok(Read { scheduled_at, from, reply_to, subject, html, text, headers, tags, metadata })
    }
}

/// What a map becomes; `None`: it stays.
fn whole(change: Change<BTreeMap<String, String>>) -> Option<BTreeMap<String, String>> {
    match change {
        Change::Keep => None,
        Change::Reset => Some(BTreeMap::new()),
        Change::Set(map) => Some(map),
    }
}

impl Read {
    /// Whether it says what the email says.
    fn rewrites(&self) -> bool {
        [&self.subject, &self.html, &self.text].into_iter().any(|it| !matches!(it, Change::Keep))
    }

    fn apply(self, email: &mut Email) {
        if let Some(from) = self.from {
            email.from = from;
        }
        if let Some(reply_to) = self.reply_to {
            email.reply_to = reply_to;
        }
        self.subject.apply_nullable(&mut email.subject);
        self.html.apply_nullable(&mut email.html);
        self.text.apply_nullable(&mut email.text);
        if let Some(headers) = self.headers {
            email.headers = headers.into_iter().collect();
        }
        if let Some(tags) = self.tags {
            email.tags = tags;
        }
        self.metadata.apply_nullable(&mut email.metadata);
    }
}

/// The email that was stored, as it was before it was composed.
async fn read_back(stored: row::Email, mime: Bytes) -> Result<Email, ApiError> {
    let broken = |cause: String| ApiError::broken(format!("reading {} back: {cause}", stored.id));
    // Where threads may block: decoding 25 MiB takes a while.
    let reading = tokio::task::spawn_blocking(move || Ok((texts_of(&mime)?, attachments_of(&mime)?)));
    let read = reading.await.map_err(|error| broken(error.to_string()))?;
    let (texts, attachments) =
        read.map_err(|error: crate::mail::parse::Damaged| broken(error.to_string()))?;
    let of = |role: Role| {
        let recipients = stored.recipients.iter().filter(move |it| it.role == role);
        recipients.map(|it| address(it.mailbox.clone())).collect()
    };
    let (to, cc, bcc) = (of(Role::To), of(Role::Cc), of(Role::Bcc));
    let Details { from, reply_to, subject, headers, tags, metadata, has_html, has_text, .. } = stored.details;
    Ok(Email {
        from: address(from),
        to,
        cc,
        bcc,
        reply_to: reply_to.into_iter().map(address).collect(),
        subject,
        html: texts.html.filter(|_| has_html),
        text: texts.text.filter(|_| has_text),
        headers,
        attachments,
        tags,
        metadata: metadata.map(|json| json.get().to_owned()),
        scheduled_at: None,
    })
}

fn address(mailbox: Mailbox) -> Address {
    Address { email: mailbox.email, name: mailbox.name }
}
