//! Changes of emails that wait for their time.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use restante_core::email::{Address, Email, EmailStatus, Role, Scheduled, form};
use restante_core::id::kind;
use restante_core::limits;
use restante_store::email::{Details, EmailChange, Frozen, ID_TEXT_BYTES, Mailbox};
use restante_store::record::Mode;
use restante_store::row;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::input::{self, Many, One as AddressInput};
use super::{changed, freeze, in_status, show};
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
/// One that is scheduled: its time, what it says, or both. Those it goes to and what is attached stay. One that is what
/// it would become is answered as it stands, also when it has left.
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
    let read = input.read()?;
    let (workspace, now) = (caller.workspace, api.clock.now());
    let stored = api.store.email(workspace, id, now).await?;
    let stored = stored.filter(|email| email.test == (caller.mode() == Mode::Test));
    let stored = stored.ok_or_else(ApiError::not_found::<kind::Email>)?;
    let status = stored.status(now);
    let refusal = || in_status(status, "not_changeable", "changed");
    let planned = stored.scheduled_at.ok_or_else(refusal)?;
    super::check_time(read.scheduled_at.as_ref(), now)?;
    let scheduled_at = read.scheduled_at.as_ref().map(|scheduled| scheduled.at);
    let date = scheduled_at.unwrap_or(planned);
    // The time that it has is no news for webhooks: a repeat of the call must not tell them again.
    let scheduled_at = scheduled_at.filter(|at| *at != planned);
    let details = stored.details.clone();
    // What a template made is no longer that once somebody rewrites it.
    let template = details.template.clone().filter(|_| !read.rewrites());
    let new_sender = read.from.clone();
    let mime = api.store.email_mime(workspace, id, now).await?;
    let mime = mime.ok_or_else(ApiError::not_found::<kind::Email>)?;
    let mut email = read_back(stored, mime.clone()).await?;
    read.apply(&mut email);
    input::check(&email, form::Content::Own)?;
    let frozen = freeze::freeze(email, template, date).await?;
    // The repeat of a call whose answer was lost finds it done, and perhaps the email gone with it. What somebody
    // cancelled in between is another end than the one asked for.
    let done = scheduled_at.is_none() && is_same(&frozen, &mime, &details)?;
    if done && status != EmailStatus::Cancelled {
        return Ok(Json(show(&api, &caller, id).await?));
    }
    if status != EmailStatus::Scheduled {
        return Err(refusal());
    }
    if let Some(sender) = new_sender {
        freeze::check_sender(&api, workspace, &sender).await?;
    }
    let change = EmailChange { frozen: Some(frozen), scheduled_at };
    let made = api.store.change_email(workspace, id, change, api.clock.now()).await?;
    changed(made, "not_changeable", "changed")?;
    Ok(Json(show(&api, &caller, id).await?))
}

/// Whether an email is what it would become: its bytes but for its id, and what is shown of it.
fn is_same(new: &Frozen, mime: &[u8], details: &Details) -> Result<bool, ApiError> {
    fn around(mime: &[u8], id_at: usize) -> Option<(&[u8], &[u8])> {
        let (before, rest) = mime.split_at_checked(id_at)?;
        Some((before, rest.get(ID_TEXT_BYTES..)?))
    }
    let text = |details: &Details| {
        serde_json::to_string(details)
            .map_err(|error| ApiError::broken(format!("details of an email: {error}")))
    };
    Ok(around(&new.mime, new.id_at) == around(mime, new.id_at) && text(&new.details)? == text(details)?)
}

impl EmailChangeInput {
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
