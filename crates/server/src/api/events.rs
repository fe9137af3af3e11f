//! Events: what a workspace publishes to its webhooks.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use bytes::Bytes;
use restante_core::event::{self, EventType};
use restante_core::id::{Tail, kind};
use restante_core::idempotency::{self, Fingerprint, IdempotencyKey};
use restante_core::message::MessageId;
use restante_core::{Timestamp, limits};
use restante_store::row::EventFilter;
use restante_store::{EventReceipt, KeyClaim, NewEvent, Published, Publishing};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::auth::{Caller, EventsPublish, EventsRead};
use super::body::Body;
use super::error::ApiError;
use super::path::One;
use super::query::{Listing, Paging, check_span};
use super::{Api, ApiState, wire};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How much later a caller is answered whose events found a busy lane full; see [`Published::Fresh`].
const CROWDED_PAUSE: Duration = Duration::from_millis(10);
/// Names of the operations in fingerprints: stored, never to be changed.
const PUBLISH: &str = "events.publish";
const PUBLISH_BATCH: &str = "events.publish_batch";

/// An event to be published.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventInput {
    /// Lower-case segments with dots between them, such as `order.paid`; at most 128 characters.
    #[serde(rename = "type")]
    event_type: String,
    /// Any JSON. Goes to receivers as it is written here, less white space.
    #[schema(value_type = Value)]
    data: Box<RawValue>,
    /// When it happened; now unless given.
    #[schema(value_type = Option<String>, format = DateTime)]
    timestamp: Option<Timestamp>,
}

/// Events to be published, all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EventBatch)]
pub(crate) struct BatchInput {
    /// 1 to 500.
    events: Vec<EventInput>,
}

/// Which events are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Of exactly this type.
    #[serde(rename = "type")]
    #[param(value_type = Option<String>)]
    event_type: Option<EventType>,
    /// Accepted at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Accepted at this time or earlier.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// Publish an event
///
/// Stored before it is answered, with a delivery for each webhook that is subscribed to its type. With a key, the
/// same call again gives the same event.
#[utoipa::path(
    post, path = "/v1/events", operation_id = "events.publish", tag = "events",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 of A-Z a-z 0-9 _ . : -")),
    request_body = EventInput,
    responses(
        (status = 202, body = wire::PublishedEvent, description = "Published"),
        (status = 200, body = wire::PublishedEvent, description = "Published by an earlier call with this key"),
        (status = 422, description = "`idempotency_key_reuse`: the key was used for another call"),
    ),
    security(("key" = ["events:publish"])), extensions(("x-retry-class" = json!("keyed"))),
)]
pub(crate) async fn publish(
    State(api): State<Api>,
    caller: Caller<EventsPublish>,
    Key(key): Key,
    Body(input): Body<EventInput>,
) -> Result<(StatusCode, Json<wire::PublishedEvent>), ApiError> {
    let fingerprint = |key: IdempotencyKey| -> Result<KeyClaim, ApiError> {
        let fingerprint = input.add_to(Fingerprint::builder(PUBLISH), "data")?.finish();
        Ok(KeyClaim { key, fingerprint })
    };
    let claim = key.map(fingerprint).transpose()?;
    let event = input.read(&api, "")?;
    let (status, replayed, receipts) = store(&api, &caller, vec![event], claim).await?;
    let receipt = receipts.first().ok_or_else(|| ApiError::broken("a published event has no id"))?;
    let answer = wire::PublishedEvent { id: receipt.id, deliveries: receipt.deliveries, replayed };
    Ok((status, Json(answer)))
}

/// Publish events
///
/// All or none, under one key.
#[utoipa::path(
    post, path = "/v1/events/batch", operation_id = "events.publish_batch", tag = "events",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 of A-Z a-z 0-9 _ . : -")),
    request_body = BatchInput,
    responses(
        (status = 202, body = wire::PublishedBatch, description = "Published"),
        (status = 200, body = wire::PublishedBatch, description = "Published by an earlier call with this key"),
        (status = 422, description = "`idempotency_key_reuse`: the key was used for another call"),
    ),
    security(("key" = ["events:publish"])), extensions(("x-retry-class" = json!("keyed"))),
)]
pub(crate) async fn publish_batch(
    State(api): State<Api>,
    caller: Caller<EventsPublish>,
    Key(key): Key,
    Body(input): Body<BatchInput, { limits::BATCH_BYTES_MAX }>,
) -> Result<(StatusCode, Json<wire::PublishedBatch>), ApiError> {
    if !(1..=limits::EVENTS_PER_BATCH_MAX).contains(&input.events.len()) {
        let message = format!("must be 1 to {} events", limits::EVENTS_PER_BATCH_MAX);
        return Err(ApiError::invalid("invalid_field", message).on("events"));
    }
    let claim = key.map(|key| input.claim(key)).transpose()?;
    let events = input.events.iter().enumerate();
    let events = events.map(|(index, event)| event.read(&api, &format!("events[{index}].")));
    let events = events.collect::<Result<_, _>>()?;
    let (status, replayed, receipts) = store(&api, &caller, events, claim).await?;
    let item = |receipt: EventReceipt| wire::BatchItem { id: receipt.id, deliveries: receipt.deliveries };
    let data = receipts.into_iter().map(item).collect();
    Ok((status, Json(wire::PublishedBatch { data, replayed })))
}

/// List events
///
/// Newest first, without deliveries.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "events.list", tag = "events",
    params(Wanted, Paging), responses((status = 200, body = wire::Page<wire::Event>)),
    security(("key" = ["events:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<EventsRead>,
    listing: Listing<Wanted>,
) -> Result<Json<wire::Page<wire::Event>>, ApiError> {
    let Wanted { event_type, since, until } = listing.filter;
    check_span(since, until)?;
    let filter = EventFilter { event_type, since, until };
    let found = api.store.events(caller.workspace, filter, listing.page, api.clock.now()).await?;
    Ok(Json(wire::Page::new(found, listing.page.total, wire::Event::brief)))
}

/// Get an event
///
/// With its deliveries and all their attempts.
#[utoipa::path(
    get, path = "/v1/events/{id}", operation_id = "events.get", tag = "events",
    params(("id" = String, Path, description = "`whe_…`")), responses((status = 200, body = wire::Event)),
    security(("key" = ["events:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<EventsRead>,
    One(id): One<kind::Event>,
) -> Result<Json<wire::Event>, ApiError> {
    let now = api.clock.now();
    let event = api.store.event(caller.workspace, id, now).await?;
    let event = event.ok_or_else(ApiError::not_found::<kind::Event>)?;
    Ok(Json(wire::Event::full(event, now)))
}

/// The caller's key for a call, if there is one.
pub(crate) struct Key(pub(crate) Option<IdempotencyKey>);

impl<S: Sync> FromRequestParts<S> for Key {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let unusable = |message: String| ApiError::malformed("invalid_idempotency_key", message);
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        if values.next().is_some() {
            return Err(unusable("there are two Idempotency-Key headers".into()));
        }
        let key = IdempotencyKey::parse(value.as_bytes());
        key.map(|key| Self(Some(key))).map_err(|fault| unusable(fault.to_string()))
    }
}

impl BatchInput {
    fn claim(&self, key: IdempotencyKey) -> Result<KeyClaim, ApiError> {
        let mut fingerprint = Fingerprint::builder(PUBLISH_BATCH);
        for (index, event) in self.events.iter().enumerate() {
            fingerprint = event.add_to(fingerprint.item("event"), &format!("events[{index}].data"))?;
        }
        Ok(KeyClaim { key, fingerprint: fingerprint.finish() })
    }
}

impl EventInput {
    /// Adds what makes two calls the same. `param` names `data` in an error.
    fn add_to(
        &self,
        fingerprint: idempotency::Builder,
        param: &str,
    ) -> Result<idempotency::Builder, ApiError> {
        let timestamp = self.timestamp.map(|timestamp| timestamp.to_string());
        fingerprint
            .field("type", Some(&self.event_type))
            .field("timestamp", timestamp.as_deref())
            .json("data", Some(self.data.get()))
            .map_err(|fault| ApiError::invalid("invalid_field", fault.to_string()).on(param))
    }

    /// The event as it is stored. `within` is the path of the field it is in.
    fn read(&self, api: &ApiState, within: &str) -> Result<NewEvent, ApiError> {
        let fault = |field: &str, message: String| {
            ApiError::invalid("invalid_field", message).on(format!("{within}{field}"))
        };
        let event_type = EventType::parse(&self.event_type).map_err(|it| fault("type", it.to_string()))?;
        let data = idempotency::compact(self.data.get()).map_err(|it| fault("data", it.to_string()))?;
        let timestamp = self.timestamp.unwrap_or_else(|| api.clock.now());
        let body = event::body(&event_type, timestamp, &data);
        if body.len() > limits::EVENT_BODY_BYTES_MAX {
            let message = format!("the event is larger than {} bytes", limits::EVENT_BODY_BYTES_MAX);
            let error = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "event_too_large", message);
            return Err(error.on(format!("{within}data")));
        }
        Ok(NewEvent { event_type, body: Bytes::from(body), tail: Tail::from_bits(api.clock.draw()) })
    }
}

/// Stores events and says how to answer.
async fn store(
    api: &ApiState,
    caller: &Caller<EventsPublish>,
    events: Vec<NewEvent>,
    claim: Option<KeyClaim>,
) -> Result<(StatusCode, bool, Vec<EventReceipt>), ApiError> {
    let count = events.len();
    let arrived = api.clock.monotonic();
    let publishing = Publishing { workspace: caller.workspace, events, claim, now: api.clock.now() };
    match api.store.publish(publishing).await? {
        Published::Fresh { events, crowded } => {
            api.counters.published(count, api.clock.monotonic().saturating_sub(arrived));
            caller.made(api, events.iter().map(|event| MessageId::Event(event.id)), arrived);
            if crowded {
                tokio::time::sleep(CROWDED_PAUSE).await;
            }
            Ok((StatusCode::ACCEPTED, false, events))
        }
        Published::Replayed(events) => Ok((StatusCode::OK, true, events)),
        Published::KeyReused => {
            let message = "this Idempotency-Key was used for a call that asked for something else";
            Err(ApiError::invalid("idempotency_key_reuse", message))
        }
        Published::NoWorkspace => Err(ApiError::not_found::<kind::Workspace>()),
    }
}
