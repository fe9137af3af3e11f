//! The shapes of what happened: requests, deliveries, attempts.

use restante_core::delivery::{error_kind, wait_because, waiting_for};
use restante_core::endpoint::{DestinationKind, EndpointId, Receiver};
use restante_core::id::{
    AttemptId, DeliveryId, DestinationId, EmailId, EventId, RequestId, SourceId, WebhookId,
};
use restante_core::message::MessageId;
use restante_core::{State, Timestamp};
use restante_store::row;
use serde::Serialize;
use utoipa::ToSchema;

/// A received request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Request {
    #[schema(example = "request")]
    object: &'static str,
    #[schema(value_type = String)]
    id: RequestId,
    #[schema(value_type = String)]
    source_id: SourceId,
    method: String,
    /// What followed the token in the path.
    path: String,
    query: Option<String>,
    /// Name and value of each line, as received; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    headers: Option<Vec<[String; 2]>>,
    body_bytes: u64,
    content_type: Option<String>,
    remote_address: String,
    #[schema(value_type = String, format = DateTime)]
    received_at: Timestamp,
    /// What receivers can tell repeats by, a UUID.
    key: String,
    /// The request that first brought the value by which repeats are known; it may be gone.
    #[schema(value_type = Option<String>)]
    duplicate_of: Option<RequestId>,
    /// Whether its signature was wrong.
    rejected: bool,
    /// What was wrong with its signature, for people.
    rejected_because: Option<String>,
    #[schema(value_type = Option<String>)]
    replay_of: Option<RequestId>,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// `pending`, `delivered`, `failed`, `cancelled` or `none`: its deliveries summed up.
    state: &'static str,
    /// Those of one destination side by side, with attempts; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    deliveries: Option<Vec<Delivery>>,
}

impl Request {
    /// As lists show it.
    pub(crate) fn brief(request: row::Request) -> Self {
        Self {
            object: "request",
            id: request.id,
            source_id: request.source,
            content_type: request.headers.get("content-type").map(text),
            key: request.id.hyphenated(),
            state: request.state().name(),
            method: request.method,
            path: request.path,
            query: request.query,
            headers: None,
            body_bytes: request.body_bytes,
            remote_address: request.remote_address,
            received_at: request.received_at,
            duplicate_of: request.duplicate_of,
            rejected: request.rejected_because.is_some(),
            rejected_because: request.rejected_because,
            replay_of: request.replay_of,
            expires_at: request.expires_at,
            deliveries: None,
        }
    }

    /// With headers and deliveries.
    pub(crate) fn full(mut request: row::Request, now: Timestamp) -> Self {
        let headers = request.headers.iter().map(|(name, value)| [name.to_owned(), text(value)]).collect();
        let state = request.state().name();
        let deliveries = grouped(std::mem::take(&mut request.deliveries));
        let deliveries = deliveries.into_iter().map(|it| Delivery::full(it, now)).collect();
        Self { headers: Some(headers), deliveries: Some(deliveries), state, ..Self::brief(request) }
    }
}

/// Header bytes as text: UTF-8, or else Latin-1, in which every byte means something.
fn text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Deliveries of one destination side by side, in the order in which their destinations first appear.
fn grouped(mut deliveries: Vec<row::Delivery>) -> Vec<row::Delivery> {
    let mut order: Vec<EndpointId> = Vec::new();
    for delivery in &deliveries {
        if !order.contains(&delivery.endpoint) {
            order.push(delivery.endpoint);
        }
    }
    deliveries.sort_by_key(|delivery| order.iter().position(|known| *known == delivery.endpoint));
    deliveries
}

/// One message to one endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Delivery {
    #[schema(example = "delivery")]
    object: &'static str,
    #[schema(value_type = String)]
    id: DeliveryId,
    /// Of a delivery to a destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false)]
    request_id: Option<RequestId>,
    /// Of a delivery to a webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false)]
    event_id: Option<EventId>,
    /// Of a delivery to a mailbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false)]
    email_id: Option<EmailId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false)]
    destination_id: Option<DestinationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, required = false)]
    webhook_id: Option<WebhookId>,
    /// The address of the mailbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    recipient: Option<String>,
    /// `pending`, `sending`, `delivered`, `failed`, `cancelled` or `skipped`.
    state: &'static str,
    /// Why it failed or was cancelled.
    reason: Option<&'static str>,
    /// Cancelled while an attempt was in flight, whose result will end it.
    cancel_requested: bool,
    attempts_used: u32,
    attempts_max: u32,
    /// Not before this.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    /// `time`, `slot`, `client` or `resume`.
    waiting_for: Option<&'static str>,
    /// Why the next attempt is when it is, in one line.
    wait_because: Option<String>,
    /// The delivery that this one repeats.
    #[schema(value_type = Option<String>)]
    retry_of: Option<DeliveryId>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// Oldest first; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    attempts: Option<Vec<Attempt>>,
}

impl Delivery {
    /// As lists show it.
    pub(crate) fn brief(delivery: row::Delivery, now: Timestamp) -> Self {
        let life = &delivery.life;
        let (request_id, event_id, email_id) = match delivery.message {
            MessageId::Request(id) => (Some(id), None, None),
            MessageId::Event(id) => (None, Some(id), None),
            MessageId::Email(id) => (None, None, Some(id)),
        };
        let (destination_id, webhook_id) = match delivery.endpoint {
            EndpointId::Destination(id) => (Some(id), None),
            EndpointId::Webhook(id) => (None, Some(id)),
            EndpointId::Mailboxes(_) => (None, None),
        };
        Self {
            object: "delivery",
            id: delivery.id,
            request_id,
            event_id,
            email_id,
            destination_id,
            webhook_id,
            recipient: delivery.mailbox,
            state: life.state.name(),
            reason: life.state.reason(),
            cancel_requested: life.cancel_requested(),
            attempts_used: life.attempts_used,
            attempts_max: delivery.receiver.schedule().attempts_max(),
            next_attempt_at: (life.state == State::Pending).then_some(life.due_at),
            waiting_for: waiting_for(life, delivery.held_back, now).map(|waiting| waiting.name()),
            wait_because: wait_because(life, &delivery.receiver, delivery.held_back, now),
            retry_of: delivery.retry_of,
            created_at: delivery.created_at,
            ended_at: life.ended_at.filter(|_| life.state.is_final()),
            attempts: None,
        }
    }

    /// With attempts.
    pub(crate) fn full(mut delivery: row::Delivery, now: Timestamp) -> Self {
        let attempts = std::mem::take(&mut delivery.attempts);
        let attempts = attempts.into_iter().map(|attempt| Attempt::new(attempt, &delivery)).collect();
        Self { attempts: Some(attempts), ..Self::brief(delivery, now) }
    }
}

/// One try of a delivery.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attempt {
    #[schema(value_type = String)]
    id: AttemptId,
    /// From 1.
    number: u32,
    /// `automatic`, `manual` or `replay`.
    trigger: &'static str,
    /// `http`, `cli` or `smtp`.
    channel: &'static str,
    /// Where it was sent.
    url: String,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    duration_ms: Option<u64>,
    /// `delivered` or `failed`; null while it is in flight.
    result: Option<&'static str>,
    response_status_code: Option<u16>,
    error_kind: Option<&'static str>,
    error_message: Option<String>,
    /// Whether it counts against the schedule; null while it is in flight.
    uses_budget: Option<bool>,
}

impl Attempt {
    pub(crate) fn new(attempt: row::Attempt, delivery: &row::Delivery) -> Self {
        let result = attempt.result;
        let failed = result.as_ref().filter(|result| !result.delivered);
        Self {
            id: AttemptId::new(delivery.id.key(), delivery.id.tail().nth(attempt.number)),
            number: attempt.number,
            trigger: attempt.trigger.name(),
            channel: channel(&delivery.receiver),
            url: attempt.url,
            started_at: attempt.started_at,
            duration_ms: result.as_ref().map(|result| result.duration_ms),
            error_kind: failed.map(|result| error_kind(result.failure)),
            error_message: failed.and_then(|result| result.message.clone()),
            response_status_code: result.as_ref().and_then(|result| result.status),
            uses_budget: result.as_ref().map(|result| result.uses_budget),
            result: result.map(|result| if result.delivered { "delivered" } else { "failed" }),
        }
    }
}

/// The wire's name of the way to a receiver.
fn channel(receiver: &Receiver) -> &'static str {
    match receiver {
        Receiver::Destination(destination) => match destination.kind {
            DestinationKind::Http => "http",
            DestinationKind::Cli => "cli",
        },
        Receiver::Webhook(_) => "http",
        Receiver::Mailboxes(_) => "smtp",
    }
}
