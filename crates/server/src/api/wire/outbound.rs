//! The shapes of what is published: events, webhooks, replays, notices.

use std::collections::BTreeMap;

use restante_core::delivery::error_kind;
use restante_core::health::{self, Health};
use restante_core::id::{AttemptId, DeliveryId, EventId, NoticeId, ReplayId, WebhookId};
use restante_core::retry::Schedule;
use restante_core::{Outcome, Timestamp, endpoint};
use restante_store::record::{self, NoticeKind, Record, ReplayJob, ReplayKind, ReplayState};
use restante_store::row;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Delivery;
use crate::api::endpoints::ScheduleInput;
use crate::probe::Probed;

/// A customer's endpoint, subscribed to event types.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Webhook {
    #[schema(example = "webhook")]
    object: &'static str,
    #[schema(value_type = String)]
    id: WebhookId,
    url: String,
    /// Absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    description: Option<String>,
    #[schema(value_type = Option<Object>)]
    filter: Option<()>,
    /// Types it is subscribed to.
    events: Vec<String>,
    /// `active`, `degraded` or `paused`.
    status: &'static str,
    #[schema(value_type = ScheduleInput)]
    schedule: Schedule,
    /// Names of the static headers. Their values are never read back.
    #[schema(value_type = HashMap<String, Option<String>>)]
    headers: BTreeMap<String, ()>,
    max_in_flight: u32,
    rate_per_second: Option<f64>,
    timeout_seconds: u32,
    /// Since when it has not delivered anything; null while it works.
    #[schema(value_type = Option<String>, format = DateTime)]
    failing_since: Option<Timestamp>,
    /// Failed automatic attempts since then.
    consecutive_failures: u32,
    /// A failure at this time or later pauses it.
    #[schema(value_type = Option<String>, format = DateTime)]
    pauses_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The signing secret; only in the answer that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    secret: Option<String>,
}

impl Webhook {
    pub(crate) fn new(record: Record<endpoint::Webhook>, health: Health, limits: &health::Limits) -> Self {
        let webhook = record.body;
        Self {
            object: "webhook",
            id: record.id,
            url: webhook.url,
            description: webhook.description,
            filter: None,
            events: webhook.events.iter().map(ToString::to_string).collect(),
            status: health::status(webhook.paused, &health).name(),
            schedule: webhook.schedule,
            headers: webhook.headers.into_iter().map(|(name, _)| (name, ())).collect(),
            max_in_flight: webhook.max_in_flight,
            rate_per_second: webhook.rate_per_second,
            timeout_seconds: webhook.timeout_seconds,
            failing_since: health.run.map(|run| run.since),
            consecutive_failures: health.run.map_or(0, |run| run.failures),
            pauses_at: health.pauses_at(limits).filter(|_| !webhook.paused),
            created_at: record.created_at,
            updated_at: record.updated_at,
            secret: None,
        }
    }

    /// The webhook with its secret, for the one answer that shows it.
    pub(crate) fn with_secret(self, secret: String) -> Self {
        Self { secret: Some(secret), ..self }
    }
}

/// A new signing secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Secret {
    pub(crate) secret: String,
}

/// What a test came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookTest {
    /// `delivered` or `failed`.
    status: &'static str,
    response_status_code: Option<u16>,
    /// The beginning of the response's body, at most 1,024 bytes; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    response_body: Option<String>,
    response_duration_ms: u64,
    /// Always null: clients take it for one of the events they know. What was sent is in `payload`.
    #[schema(value_type = Option<Object>)]
    event_payload: Option<()>,
    /// What was sent.
    #[schema(value_type = Object)]
    payload: Option<Box<RawValue>>,
    /// Why nothing came back; absent when something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    error: Option<String>,
}

impl WebhookTest {
    pub(crate) fn new(probed: Probed, payload: String) -> Self {
        let (status, code, error) = match probed.outcome {
            Outcome::Delivered { status } => ("delivered", status, None),
            Outcome::Failed(failure) | Outcome::Refused(failure) | Outcome::Uncertain(failure) => {
                ("failed", failure.status, failure.status.is_none().then_some(failure.message))
            }
            Outcome::Lost => ("failed", None, Some("the test was cut off".to_owned())),
        };
        let body = String::from_utf8_lossy(&probed.body).into_owned();
        Self {
            status,
            response_status_code: code,
            response_body: Some(body).filter(|body| !body.is_empty()),
            response_duration_ms: u64::try_from(probed.took.as_millis()).unwrap_or(u64::MAX),
            event_payload: None,
            payload: RawValue::from_string(payload).ok(),
            error,
        }
    }
}

/// A published event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Event {
    #[schema(example = "event")]
    object: &'static str,
    #[schema(value_type = String)]
    id: EventId,
    #[serde(rename = "type")]
    event_type: String,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    #[schema(value_type = Value)]
    data: Box<RawValue>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// How many there are; in an answer about one event, they themselves.
    deliveries: Deliveries,
}

/// The deliveries of an event: their number, or all of them.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Deliveries {
    Count(u32),
    All(Vec<Delivery>),
}

/// What receivers get.
#[derive(Deserialize)]
struct Payload {
    timestamp: Timestamp,
    data: Box<RawValue>,
}

impl Event {
    /// As lists show it.
    pub(crate) fn brief(event: row::Event) -> Self {
        // It is ours, so it can be read; if the disk has damaged it the rest is still worth showing.
        let (timestamp, data) = match serde_json::from_slice::<Payload>(&event.body) {
            Ok(payload) => (payload.timestamp, payload.data),
            Err(_) => (event.created_at, Box::<RawValue>::default()),
        };
        Self {
            object: "event",
            id: event.id,
            event_type: event.event_type.to_string(),
            timestamp,
            data,
            created_at: event.created_at,
            deliveries: Deliveries::Count(event.fanout),
        }
    }

    /// With deliveries and attempts.
    pub(crate) fn full(mut event: row::Event, now: Timestamp) -> Self {
        let deliveries = std::mem::take(&mut event.deliveries);
        let deliveries = deliveries.into_iter().map(|it| Delivery::full(it, now)).collect();
        Self { deliveries: Deliveries::All(deliveries), ..Self::brief(event) }
    }
}

/// What a publishing call is answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PublishedEvent {
    #[schema(value_type = String)]
    pub(crate) id: EventId,
    /// Webhooks that are subscribed to it.
    pub(crate) deliveries: u32,
    /// Whether an earlier call with the same key published it.
    pub(crate) replayed: bool,
}

/// What a call that publishes several events is answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PublishedBatch {
    /// In the order of the call.
    pub(crate) data: Vec<BatchItem>,
    /// Whether an earlier call with the same key published them.
    pub(crate) replayed: bool,
}

/// One event of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchItem {
    #[schema(value_type = String)]
    pub(crate) id: EventId,
    /// Webhooks that are subscribed to it.
    pub(crate) deliveries: u32,
}

/// A page of a webhook's attempts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptLog {
    pub(crate) data: Vec<LoggedAttempt>,
    /// Give this as `cursor` for older ones.
    pub(crate) next_cursor: Option<String>,
}

/// One attempt in the log of a webhook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoggedAttempt {
    #[schema(value_type = String)]
    id: AttemptId,
    #[schema(value_type = String)]
    event_id: EventId,
    event_type: String,
    #[schema(value_type = String)]
    delivery_id: DeliveryId,
    /// From 1.
    number: u32,
    /// `automatic` or `replay`.
    trigger: &'static str,
    /// `pending` while it is in flight, `delivered` or `failed`.
    status: &'static str,
    url: String,
    response_status_code: Option<u16>,
    /// 0 while it is in flight.
    response_duration_ms: u64,
    error_kind: Option<&'static str>,
    /// Why it failed, for people; absent when it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    failure_reason: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    attempted_at: Timestamp,
}

impl From<row::Logged> for LoggedAttempt {
    fn from(line: row::Logged) -> Self {
        let row::Logged { delivery, event, event_type, attempt } = line;
        let result = attempt.result;
        let failed = result.as_ref().filter(|result| !result.delivered);
        Self {
            id: AttemptId::new(delivery.key(), delivery.tail().nth(attempt.number)),
            event_id: event,
            event_type: event_type.to_string(),
            delivery_id: delivery,
            number: attempt.number,
            trigger: attempt.trigger.name(),
            status: match &result {
                None => "pending",
                Some(result) if result.delivered => "delivered",
                Some(_) => "failed",
            },
            url: attempt.url,
            response_status_code: result.as_ref().and_then(|result| result.status),
            response_duration_ms: result.as_ref().map_or(0, |result| result.duration_ms),
            error_kind: failed.map(|result| error_kind(result.failure)),
            failure_reason: failed.and_then(|result| result.message.clone()),
            attempted_at: attempt.started_at,
        }
    }
}

/// What a replay would do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayPreview {
    /// Events that would be sent again.
    pub(crate) events: u64,
}

/// A recovery that was started.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Recovery {
    #[schema(value_type = String)]
    pub(crate) id: ReplayId,
    /// Skipped events that it delivers.
    pub(crate) events: u64,
}

/// A replay or a recovery and how far it is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Replay {
    #[schema(example = "replay")]
    object: &'static str,
    #[schema(value_type = String)]
    id: ReplayId,
    /// `replay` or `recover`.
    kind: &'static str,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    requested_at: Timestamp,
    /// `queued`, `running`, `done`, or `ended`: the webhook was paused or deleted.
    #[schema(value_type = String)]
    state: ReplayState,
    /// Events when it was asked for.
    total: u64,
    delivered: u64,
    failed: u64,
    /// Events that had been acknowledged, or erased, when their turn came.
    skipped: u64,
}

impl From<Record<ReplayJob>> for Replay {
    fn from(record: Record<ReplayJob>) -> Self {
        let job = record.body;
        Self {
            object: "replay",
            id: record.id,
            kind: match job.kind {
                ReplayKind::Replay | ReplayKind::Single => "replay",
                ReplayKind::Recover => "recover",
            },
            since: job.since,
            until: job.until,
            requested_at: record.created_at,
            state: job.state,
            total: job.total,
            delivered: job.delivered,
            failed: job.failed,
            skipped: job.skipped,
        }
    }
}

/// Something the owners of a workspace are told.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Notice {
    #[schema(example = "notice")]
    object: &'static str,
    #[schema(value_type = String)]
    id: NoticeId,
    /// `webhook_degraded` or `webhook_paused`.
    #[schema(value_type = String)]
    kind: NoticeKind,
    #[schema(value_type = String)]
    webhook_id: WebhookId,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it was mailed to the owners.
    #[schema(value_type = Option<String>, format = DateTime)]
    mailed_at: Option<Timestamp>,
}

impl From<Record<record::Notice>> for Notice {
    fn from(record: Record<record::Notice>) -> Self {
        Self {
            object: "notice",
            id: record.id,
            kind: record.body.kind,
            webhook_id: WebhookId::from_uuid(record.parent.unwrap_or_default()),
            created_at: record.created_at,
            mailed_at: record.body.mailed_at,
        }
    }
}
