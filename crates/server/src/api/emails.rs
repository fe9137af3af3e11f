//! Emails: what a workspace sends to mailboxes.

pub(crate) mod change;
pub(crate) mod content;
pub(crate) mod freeze;
pub(crate) mod input;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::email::{Email, EmailStatus, Scheduled, fingerprint};
use restante_core::id::{EmailId, Tail, kind};
use restante_core::idempotency::{Fault, Fingerprint, IdempotencyKey};
use restante_core::message::MessageId;
use restante_core::{Timestamp, limits};
use restante_store::email::{EmailChanged, Item, NewEmail, Sending, Sent};
use restante_store::record::Mode;
use restante_store::row::{self, EmailFilter};
use restante_store::{KeyClaim, Page, Paged, Start};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::auth::{Caller, EmailsRead, EmailsSend};
use super::body::{self, Body};
use super::error::ApiError;
use super::events::Key;
use super::path::One;
use super::query::{Listing, NoFilter, Paging, check_span, invalid};
use super::{Api, ApiState, wire};
use input::{EmailInput, Read};

/// Emails to be sent, each by itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EmailBatch)]
pub(crate) struct BatchInput {
    /// 1 to 100.
    #[schema(value_type = Vec<EmailInput>)]
    emails: Vec<Box<RawValue>>,
}

/// Which emails are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Any of these, with commas between.
    status: Option<String>,
    /// From exactly this address.
    from: Option<String>,
    /// Of a broadcast; there are none yet.
    broadcast_id: Option<String>,
    /// Scheduled for this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    scheduled_from: Option<Timestamp>,
    /// Scheduled for this time or earlier.
    #[param(value_type = Option<String>, format = DateTime)]
    scheduled_to: Option<Timestamp>,
}

/// Send an email
///
/// Stored before it is answered, with a delivery for each recipient. With a key, the same call again gives the same
/// email as it is then.
#[utoipa::path(
    post, path = "/v1/emails", operation_id = "emails.send", tag = "emails",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 of A-Z a-z 0-9 _ . : -")),
    request_body = EmailInput,
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
    Body(input): Body<EmailInput, { limits::EMAIL_REQUEST_BYTES_MAX }>,
) -> Result<(StatusCode, Json<wire::SentEmail>), ApiError> {
    let read = input.read()?;
    let claim = claim(key, || fingerprint::of_email(&read.email, read.named()))?;
    send_one(&api, &caller, read, claim).await
}

/// Sends one email that was read, under a key or none.
pub(crate) async fn send_one<S: super::auth::Scope>(
    api: &ApiState,
    caller: &Caller<S>,
    read: Read,
    claim: Option<KeyClaim>,
) -> Result<(StatusCode, Json<wire::SentEmail>), ApiError> {
    let (workspace, mode) = (caller.workspace, caller.mode());
    let sent = match sent_before(api, caller, claim.as_ref()).await? {
        Some(known) => known,
        None => {
            let new = fresh(api, caller, read).await?;
            let sending = Sending { workspace, mode, items: vec![Ok(new)], claim, now: api.clock.now() };
            store(api, caller, sending).await?
        }
    };
    let (status, replayed, items) = answer(sent)?;
    match items.into_iter().next() {
        Some(Ok(id)) => {
            let email = show_sent(api, caller, id).await?;
            Ok((status, Json(email.answering(replayed))))
        }
        Some(Err(told)) => Err(ApiError::broken(format!("a single email was stored as {told}"))),
        None => Err(ApiError::broken("a sent email has no id")),
    }
}

/// Stores emails, and counts those that were.
async fn store<S: super::auth::Scope>(
    api: &ApiState,
    caller: &Caller<S>,
    sending: Sending,
) -> Result<Sent, ApiError> {
    let judged = api.clock.monotonic();
    let sent = api.store.send(sending).await?;
    if let Sent::Fresh(items) = &sent {
        let stored = items.iter().filter(|item| item.is_ok()).count();
        api.counters.sent(stored, api.clock.monotonic().saturating_sub(judged));
        let ids = items.iter().filter_map(|item| item.as_ref().ok());
        caller.made(api, ids.map(|id| MessageId::Email(*id)), judged);
    }
    Ok(sent)
}

/// What an earlier call with this key sent, so that nothing has to be rendered or judged again.
async fn sent_before<S: super::auth::Scope>(
    api: &ApiState,
    caller: &Caller<S>,
    claim: Option<&KeyClaim>,
) -> Result<Option<Sent>, ApiError> {
    match claim {
        Some(claim) => Ok(api.store.known_send(caller.workspace, caller.mode(), claim.clone()).await?),
        None => Ok(None),
    }
}

/// Send emails
///
/// Each is accepted or not by itself, all under one key. If none is, nothing is stored and the key stays free.
#[utoipa::path(
    post, path = "/v1/emails/batch", operation_id = "emails.send_batch", tag = "emails",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 of A-Z a-z 0-9 _ . : -")),
    request_body = BatchInput,
    responses(
        (status = 202, body = wire::SentBatch, description = "Accepted, as far as the items say so"),
        (status = 200, body = wire::SentBatch, description = "Accepted by an earlier call with this key"),
        (status = 422, description = "`idempotency_key_reuse`: the key was used for another call"),
    ),
    security(("key" = ["emails:send"])), extensions(("x-retry-class" = json!("keyed"))),
)]
pub(crate) async fn send_batch(
    State(api): State<Api>,
    caller: Caller<EmailsSend>,
    Key(key): Key,
    Body(input): Body<BatchInput, { limits::EMAIL_REQUEST_BYTES_MAX }>,
) -> Result<(StatusCode, Json<wire::SentBatch>), ApiError> {
    if !(1..=limits::EMAILS_PER_BATCH_MAX).contains(&input.emails.len()) {
        let message = format!("must be 1 to {} emails", limits::EMAILS_PER_BATCH_MAX);
        return Err(ApiError::invalid("invalid_field", message).on("emails"));
    }
    let read = |item: &RawValue| body::parse::<EmailInput>(item.get().as_bytes())?.read();
    let items: Vec<Result<Read, ApiError>> = input.emails.iter().map(|item| read(item)).collect();
    let claim = claim(key, || {
        let both = items.iter().zip(&input.emails);
        fingerprint::of_batch(both.map(|(item, sent)| match item {
            Ok(read) => Ok((&read.email, read.named())),
            Err(_) => Err(sent.get()),
        }))
    })?;
    let (workspace, mode) = (caller.workspace, caller.mode());
    let sent = match sent_before(&api, &caller, claim.as_ref()).await? {
        Some(known) => known,
        None => {
            let mut fresh_items = Vec::with_capacity(items.len());
            for item in items {
                let new = match item {
                    Ok(read) => fresh(&api, &caller, read).await,
                    Err(error) => Err(error),
                };
                fresh_items.push(new.map_err(|error| error.as_item()));
            }
            if fresh_items.iter().all(Result::is_err) {
                // Nothing is stored, and the key stays free.
                Sent::Fresh(fresh_items.into_iter().filter_map(|item| item.err().map(Err)).collect())
            } else {
                let sending = Sending { workspace, mode, items: fresh_items, claim, now: api.clock.now() };
                store(&api, &caller, sending).await?
            }
        }
    };
    let (status, replayed, items) = answer(sent)?;
    let mut data = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        data.push(match item {
            Ok(id) => wire::BatchEmail::ok(index, show_sent(&api, &caller, id).await?),
            Err(told) => wire::BatchEmail::error(index, told),
        });
    }
    let sent = data.iter().filter(|item| item.is_ok()).count();
    let failed = data.len() - sent;
    Ok((status, Json(wire::SentBatch { data, sent, failed, replayed })))
}

/// List emails
///
/// Newest first, those of the key's mode.
#[utoipa::path(
    get, path = "/v1/emails", operation_id = "emails.list", tag = "emails",
    params(Wanted, Paging), responses((status = 200, body = wire::Page<wire::Email>)),
    security(("key" = ["emails:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<EmailsRead>,
    listing: Listing<Wanted>,
) -> Result<Json<wire::Page<wire::Email>>, ApiError> {
    let Wanted { status, from, broadcast_id, scheduled_from, scheduled_to } = listing.filter;
    check_span(scheduled_from, scheduled_to)?;
    if broadcast_id.is_some() {
        return Ok(Json(wire::Page::nothing()));
    }
    let statuses = status.as_deref().map(statuses).transpose()?.unwrap_or_default();
    let from = from.as_deref().map(restante_store::email::suppression_key);
    let test = caller.mode() == Mode::Test;
    let filter = EmailFilter { test, statuses, from, scheduled_from, scheduled_to };
    let now = api.clock.now();
    let found = api.store.emails(caller.workspace, filter, listing.page, now).await?;
    let transport = api.transport;
    Ok(Json(wire::Page::new(found, listing.page.total, |it| wire::Email::new(it, transport, now))))
}

/// Get an email
#[utoipa::path(
    get, path = "/v1/emails/{id}", operation_id = "emails.get", tag = "emails",
    params(("id" = String, Path, description = "`em_…`")), responses((status = 200, body = wire::Email)),
    security(("key" = ["emails:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<EmailsRead>,
    One(id): One<kind::Email>,
) -> Result<Json<wire::Email>, ApiError> {
    Ok(Json(show(&api, &caller, id).await?))
}

/// List an email's events
///
/// What webhooks were told about it, oldest first.
#[utoipa::path(
    get, path = "/v1/emails/{id}/events", operation_id = "emails.list_events", tag = "emails",
    params(("id" = String, Path, description = "`em_…`"), Paging),
    responses((status = 200, body = wire::Page<wire::EmailEvent>)), security(("key" = ["emails:read"])),
)]
pub(crate) async fn list_events(
    State(api): State<Api>,
    caller: Caller<EmailsRead>,
    One(id): One<kind::Email>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::EmailEvent>>, ApiError> {
    let NoFilter {} = listing.filter;
    show(&api, &caller, id).await?;
    let events = api.store.email_events(caller.workspace, id, api.clock.now()).await?;
    let events = events.ok_or_else(ApiError::not_found::<kind::Email>)?;
    let page = cut(events, listing.page);
    Ok(Json(wire::Page::new(page, listing.page.total, |event| wire::EmailEvent::new(&event))))
}

/// Cuts a page out of all events of an email, which are oldest first and stay so on the page: here what follows is newer.
fn cut(mut events: Vec<row::Event>, page: Page) -> Paged<row::Event> {
    let total = events.len() as u64;
    match page.start {
        // Where the list begins.
        Start::Newest => {}
        Start::After(last) => events.retain(|event| event.id.key() > last),
        Start::Before(first) => {
            events.retain(|event| event.id.key() < first);
            events.reverse();
        }
    }
    Paged { total: Some(total), ..Paged::cut(events, page, |event| event.id.key()) }
}

/// Cancel an email
///
/// One of which no attempt has begun. A cancelled one stays as it is.
#[utoipa::path(
    post, path = "/v1/emails/{id}/cancel", operation_id = "emails.cancel", tag = "emails",
    params(("id" = String, Path, description = "`em_…`")),
    responses(
        (status = 200, body = wire::Email),
        (status = 409, description = "`not_cancellable`: an attempt has begun, or it is over"),
    ),
    security(("key" = ["emails:send"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn cancel(
    State(api): State<Api>,
    caller: Caller<EmailsSend>,
    One(id): One<kind::Email>,
) -> Result<Json<wire::Email>, ApiError> {
    show(&api, &caller, id).await?;
    let cancelled = api.store.cancel_email(caller.workspace, id, api.clock.now()).await?;
    changed(cancelled, "not_cancellable", "cancelled")?;
    Ok(Json(show(&api, &caller, id).await?))
}

/// # Errors
/// 404 or 409, in words that say what cannot be done.
pub(crate) fn changed(what: EmailChanged, code: &'static str, verb: &str) -> Result<(), ApiError> {
    match what {
        EmailChanged::Done => Ok(()),
        EmailChanged::NotFound => Err(ApiError::not_found::<kind::Email>()),
        EmailChanged::Conflict(status) => Err(in_status(status, code, verb)),
    }
}

fn in_status(status: EmailStatus, code: &'static str, verb: &str) -> ApiError {
    ApiError::conflict(code, format!("the email is {} and cannot be {verb}", status.name()))
}

/// An email that was sent, now or by an earlier call: that may be over by now.
async fn show_sent<S: super::auth::Scope>(
    api: &ApiState,
    caller: &Caller<S>,
    id: EmailId,
) -> Result<wire::SentEmail, ApiError> {
    let now = api.clock.now();
    let email = api.store.email(caller.workspace, id, now).await?;
    Ok(wire::SentEmail::new(id, email.map(|email| wire::Email::new(email, api.transport, now))))
}

/// An email as it is shown now. One of the other mode is not there.
pub(crate) async fn show<S: super::auth::Scope>(
    api: &ApiState,
    caller: &Caller<S>,
    id: EmailId,
) -> Result<wire::Email, ApiError> {
    let now = api.clock.now();
    let email = api.store.email(caller.workspace, id, now).await?;
    let email = email.filter(|email| email.test == (caller.mode() == Mode::Test));
    let email = email.ok_or_else(ApiError::not_found::<kind::Email>)?;
    Ok(wire::Email::new(email, api.transport, now))
}

/// An email that nobody has sent under this key yet: what depends on time and on what is stored is judged now.
async fn fresh<S: super::auth::Scope>(
    api: &ApiState,
    caller: &Caller<S>,
    read: Read,
) -> Result<NewEmail, ApiError> {
    let now = api.clock.now();
    check_time(read.email.scheduled_at.as_ref(), now)?;
    freeze::check_sender(api, caller.workspace, &read.email.from).await?;
    let (email, template) = freeze::filled(api, caller.workspace, read).await?;
    new_email(email, template, now, Tail::from_bits(api.clock.draw())).await
}

/// # Errors
/// 422 when it is too far ahead.
fn check_time(scheduled_at: Option<&Scheduled>, now: Timestamp) -> Result<(), ApiError> {
    if scheduled_at.is_some_and(|scheduled| scheduled.is_too_far(now)) {
        let days = limits::SCHEDULED_AHEAD_MAX.as_secs() / 86_400;
        let message = format!("at most {days} days ahead");
        return Err(ApiError::invalid("invalid_field", message).on("scheduled_at"));
    }
    Ok(())
}

async fn new_email(
    email: Email,
    template: Option<(String, u32)>,
    now: Timestamp,
    tail: Tail,
) -> Result<NewEmail, ApiError> {
    let scheduled_at = email.scheduled_at.as_ref().map(|scheduled| scheduled.at);
    let recipients = freeze::recipients(&email);
    let frozen = freeze::freeze(email, template, scheduled_at.unwrap_or(now)).await?;
    Ok(NewEmail { frozen, recipients, scheduled_at, tail })
}

pub(crate) fn claim(
    key: Option<IdempotencyKey>,
    fingerprint: impl FnOnce() -> Result<Fingerprint, Fault>,
) -> Result<Option<KeyClaim>, ApiError> {
    let Some(key) = key else { return Ok(None) };
    let fingerprint = fingerprint().map_err(|fault| ApiError::invalid("invalid_body", fault.to_string()))?;
    Ok(Some(KeyClaim { key, fingerprint }))
}

fn answer(sent: Sent) -> Result<(StatusCode, bool, Vec<Item>), ApiError> {
    match sent {
        Sent::Fresh(items) => Ok((StatusCode::ACCEPTED, false, items)),
        Sent::Replayed(items) => Ok((StatusCode::OK, true, items)),
        Sent::KeyReused => {
            let message = "this Idempotency-Key was used for a call that asked for something else";
            Err(ApiError::invalid("idempotency_key_reuse", message))
        }
        Sent::NoWorkspace => Err(ApiError::not_found::<kind::Workspace>()),
    }
}

fn statuses(text: &str) -> Result<Vec<EmailStatus>, ApiError> {
    let known = |name: &str| EmailStatus::ALL.into_iter().find(|status| status.name() == name);
    text.split(',')
        .map(str::trim)
        .map(|name| {
            known(name).ok_or_else(|| invalid("status", &format!("`{name}` is no status of an email")))
        })
        .collect()
}
