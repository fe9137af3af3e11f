//! Finds what an id stands for: people have an id from a log, and want the thing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use restante_core::Id;
use restante_core::id::{
    AttemptId, DeliveryId, EmailId, Kind as _, RecipientId, ReplayId, RequestId, SourceId, Tail, TemplateId,
    kind,
};
use restante_core::{endpoint, limits};
use restante_store::record::{self, Kept};
use restante_store::row;
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::{
    Anyone, Caller, DeliveriesRead, DomainsRead, EmailsRead, EventsRead, KeysManage, NoticesRead,
    RequestsRead, Scope, SourcesRead, SuppressionsRead, TemplatesRead, WebhooksRead, WorkspaceRead,
};
use super::error::ApiError;
use super::path::Named;
use super::records::{self, Place};
use super::{Api, ApiState, emails};

/// An attempt's id is its delivery's and its number: attempts up to this number are found by theirs.
const ATTEMPTS_SEARCHED: u32 = 100;

/// Most recipients of an email: in each of its three roles as many as there may be.
const RECIPIENTS_SEARCHED: i64 = 3 * limits::RECIPIENTS_MAX as i64;

/// What an id stands for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Found {
    #[schema(example = "found")]
    object: &'static str,
    /// As it was asked for.
    id: String,
    /// What it is, such as `delivery`.
    kind: &'static str,
    /// Where the API shows it, or what it is a part of.
    url: String,
    /// Where the dashboard does.
    page: String,
}

/// Find what an id stands for
///
/// Any id of the API, or the UUID that receivers know a request by. The caller needs the scope to read the thing.
#[utoipa::path(
    get, path = "/v1/find/{id}", operation_id = "system.find", tag = "system",
    params(("id" = String, Path, description = "An id of any kind, or a request's `key`")),
    responses((status = 200, body = Found)), security(("key" = [])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<Anyone>,
    Named(text): Named,
) -> Result<Json<Found>, ApiError> {
    let search = Search { api: &api, caller: &caller };
    let place = search.place_of(&text).await?.ok_or_else(|| {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", "nothing in this workspace has this id")
    })?;
    let Spot { kind, url, page } = place;
    Ok(Json(Found { object: "found", id: text, kind, url: format!("/v1{url}"), page }))
}

/// Where something is.
struct Spot {
    kind: &'static str,
    /// In the API, below its version.
    url: String,
    page: String,
}

impl Spot {
    /// Something whose place in the API and in the dashboard are the same.
    fn same(kind: &'static str, path: String) -> Self {
        Self { kind, page: path.clone(), url: path }
    }
}

/// A search for one caller.
struct Search<'a> {
    api: &'a ApiState,
    caller: &'a Caller<Anyone>,
}

/// The text as an id of one kind.
fn read<K: restante_core::id::Kind>(text: &str) -> Result<Id<K>, ApiError> {
    text.parse().map_err(|_| ApiError::not_found::<K>())
}

impl Search<'_> {
    /// `None`: no id of this form is searched for.
    async fn place_of(&self, text: &str) -> Result<Option<Spot>, ApiError> {
        let Some((prefix, _)) = text.split_once('_') else {
            let Some(request) = request_by_key(text) else { return Ok(None) };
            return self.request(request).await.map(Some);
        };
        let spot = match prefix {
            kind::Request::PREFIX => self.request(read(text)?).await,
            kind::Event::PREFIX => self.event(text).await,
            kind::Email::PREFIX => self.email(read(text)?).await,
            kind::Recipient::PREFIX => self.recipient(read(text)?).await,
            kind::Delivery::PREFIX => self.delivery(text).await,
            kind::Attempt::PREFIX => self.attempt(read(text)?).await,
            kind::Source::PREFIX => self.own::<endpoint::Source, SourcesRead>(text, "sources").await,
            kind::Destination::PREFIX => self.destination(text).await,
            kind::Webhook::PREFIX => self.own::<endpoint::Webhook, WebhooksRead>(text, "webhooks").await,
            kind::Replay::PREFIX => self.job(read(text)?).await,
            kind::Template::PREFIX => self.own::<record::Template, TemplatesRead>(text, "templates").await,
            kind::TemplateVersion::PREFIX => self.version(text).await,
            kind::Domain::PREFIX => self.listed::<record::Domain, DomainsRead>(text, "domains", true).await,
            kind::Suppression::PREFIX => {
                self.listed::<record::Suppression, SuppressionsRead>(text, "suppressions", false).await
            }
            kind::ApiKey::PREFIX => self.listed::<record::ApiKey, KeysManage>(text, "keys", true).await,
            kind::Notice::PREFIX => self.listed::<record::Notice, NoticesRead>(text, "notices", false).await,
            kind::Workspace::PREFIX => self.workspace(text).await,
            _ => return Ok(None),
        };
        spot.map(Some)
    }

    async fn request(&self, id: RequestId) -> Result<Spot, ApiError> {
        self.caller.require::<RequestsRead>()?;
        let request = self.api.store.request(self.caller.workspace, id, self.api.clock.now()).await?;
        let request = request.ok_or_else(ApiError::not_found::<kind::Request>)?;
        Ok(Spot::same("request", format!("/requests/{}", request.id)))
    }

    async fn event(&self, text: &str) -> Result<Spot, ApiError> {
        self.caller.require::<EventsRead>()?;
        let event = self.api.store.event(self.caller.workspace, read(text)?, self.api.clock.now()).await?;
        let event = event.ok_or_else(ApiError::not_found::<kind::Event>)?;
        Ok(Spot::same("event", format!("/events/{}", event.id)))
    }

    async fn email(&self, id: EmailId) -> Result<Spot, ApiError> {
        self.caller.require::<EmailsRead>()?;
        emails::show(self.api, self.caller, id).await?;
        Ok(Spot::same("email", format!("/emails/{id}")))
    }

    /// A recipient's key is its email's and its place among the recipients.
    async fn recipient(&self, id: RecipientId) -> Result<Spot, ApiError> {
        self.caller.require::<EmailsRead>()?;
        for place in 0..=RECIPIENTS_SEARCHED {
            let email = EmailId::new(id.key().plus(-place), id.tail());
            if there(emails::show(self.api, self.caller, email).await)?.is_some() {
                return Ok(Spot { kind: "recipient", ..Spot::same("email", format!("/emails/{email}")) });
            }
        }
        Err(ApiError::not_found::<kind::Recipient>())
    }

    async fn delivery(&self, text: &str) -> Result<Spot, ApiError> {
        self.caller.require::<DeliveriesRead>()?;
        let delivery = self.find_delivery(read(text)?).await?;
        let delivery = delivery.ok_or_else(ApiError::not_found::<kind::Delivery>)?;
        Ok(Spot::same("delivery", format!("/deliveries/{}", delivery.id)))
    }

    async fn attempt(&self, id: AttemptId) -> Result<Spot, ApiError> {
        self.caller.require::<DeliveriesRead>()?;
        for number in 1..=ATTEMPTS_SEARCHED {
            let tail = Tail::from_bits(id.tail().value().wrapping_sub(number.into()));
            let Some(delivery) = self.find_delivery(DeliveryId::new(id.key(), tail)).await? else { continue };
            if delivery.attempts.iter().any(|attempt| attempt.number == number) {
                let path = format!("/deliveries/{}", delivery.id);
                return Ok(Spot { kind: "attempt", ..Spot::same("delivery", path) });
            }
        }
        Err(ApiError::not_found::<kind::Attempt>())
    }

    async fn find_delivery(&self, id: DeliveryId) -> Result<Option<row::Delivery>, ApiError> {
        Ok(self.api.store.delivery(self.caller.workspace, id, self.api.clock.now()).await?)
    }

    async fn destination(&self, text: &str) -> Result<Spot, ApiError> {
        self.caller.require::<SourcesRead>()?;
        let destination = self.record::<endpoint::Destination>(read(text)?).await?;
        let source = SourceId::from_uuid(destination.parent.unwrap_or_default());
        let page = format!("/sources/{source}");
        Ok(Spot { kind: "destination", url: format!("{page}/destinations/{}", destination.id), page })
    }

    /// A replay or a recovery of a webhook, or a bulk retry of a destination.
    async fn job(&self, id: ReplayId) -> Result<Spot, ApiError> {
        if let Some(job) = there(self.record::<record::ReplayJob>(id).await)? {
            self.caller.require::<WebhooksRead>()?;
            let webhook = Id::<kind::Webhook>::from_uuid(job.parent.unwrap_or_default());
            let page = format!("/webhooks/{webhook}");
            return Ok(Spot { kind: "replay", url: format!("{page}/replays"), page });
        }
        let job = self.record::<record::BulkRetryJob>(id).await?;
        self.caller.require::<SourcesRead>()?;
        let destination =
            self.record::<endpoint::Destination>(Id::from_uuid(job.parent.unwrap_or_default())).await?;
        let source = SourceId::from_uuid(destination.parent.unwrap_or_default());
        let page = format!("/sources/{source}");
        Ok(Spot { kind: "bulk_retry", url: format!("{page}/destinations/{}/retries", destination.id), page })
    }

    async fn version(&self, text: &str) -> Result<Spot, ApiError> {
        self.caller.require::<TemplatesRead>()?;
        let version = self.record::<record::TemplateVersion>(read(text)?).await?;
        let template = TemplateId::from_uuid(version.parent.unwrap_or_default());
        let page = format!("/templates/{template}");
        Ok(Spot { kind: "template_version", url: format!("{page}/versions"), page })
    }

    async fn workspace(&self, text: &str) -> Result<Spot, ApiError> {
        self.caller.require::<WorkspaceRead>()?;
        if self.caller.workspace != read(text)? {
            return Err(ApiError::not_found::<kind::Workspace>());
        }
        Ok(Spot { kind: "workspace", url: "/workspace".into(), page: "/settings".into() })
    }

    /// A record with a page of its own.
    async fn own<T: Kept, S: Scope>(&self, text: &str, noun: &str) -> Result<Spot, ApiError> {
        self.caller.require::<S>()?;
        let record = self.record::<T>(read(text)?).await?;
        Ok(Spot::same(T::IdKind::NOUN, format!("/{noun}/{}", record.id)))
    }

    /// A record that is shown among its like. `alone`: the API shows it by itself, too.
    async fn listed<T: Kept, S: Scope>(&self, text: &str, noun: &str, alone: bool) -> Result<Spot, ApiError> {
        self.caller.require::<S>()?;
        let record = self.record::<T>(read(text)?).await?;
        let page = format!("/{noun}");
        let url = if alone { format!("{page}/{}", record.id) } else { page.clone() };
        Ok(Spot { kind: T::IdKind::NOUN, url, page })
    }

    async fn record<T: Kept>(&self, id: Id<T::IdKind>) -> Result<record::Record<T>, ApiError> {
        records::get(self.api, &Place::<T> { workspace: self.caller.workspace, parent: None, id }).await
    }
}

/// What was read; `None` when there is no such thing.
///
/// # Errors
/// Whatever else kept it from being read.
fn there<T>(read: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match read {
        Ok(thing) => Ok(Some(thing)),
        Err(error) if error.status == StatusCode::NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// The request that receivers know by this UUID.
fn request_by_key(text: &str) -> Option<RequestId> {
    let lengths: Vec<_> = text.split('-').map(str::len).collect();
    let hex: String = text.split('-').collect();
    let whole = lengths == [8, 4, 4, 4, 12] && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let uuid = u128::from_str_radix(&hex, 16).ok().filter(|_| whole)?;
    Some(RequestId::from_uuid(uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_not_missing() {
        assert!(there(Err::<(), _>(ApiError::not_found::<kind::Email>())).unwrap().is_none());
        let down = restante_store::Error::Unavailable("down".into());
        assert_eq!(there(Err::<(), _>(down.into())).unwrap_err().status.as_u16(), 503);
    }

    #[test]
    fn a_request_is_known_by_its_uuid() {
        let id: RequestId = "req_01kh7q3x5kehhv1bw9n1a9gcf5".parse().unwrap();
        assert_eq!(request_by_key(&id.hyphenated()), Some(id));
        assert_eq!(request_by_key(&id.hyphenated().to_uppercase()), Some(id));
        for text in [
            "",
            "-",
            "0-0-0-0-0",
            "019c0f71-f4b3-7463-b0af-89a85504c1ez",
            "+19c0f71-f4b3-7463-b0af-89a85504c1e5",
        ] {
            assert_eq!(request_by_key(text), None, "{text}");
        }
    }
}
