//! What is told of an attempt: by its line in the log, and by its span.

use restante_core::endpoint::EndpointId;
use restante_core::id::{DestinationId, EmailId, EventId, RequestId, SourceId, WebhookId};
use restante_core::message::MessageId;
use restante_core::outcome::Failure;
use restante_core::{Attempt, FailureKind, Outcome, Timestamp};
use restante_store::endpoint::Feed;
use restante_store::{Parcel, Settled};

use super::Channel;

/// A finished attempt and what it changed.
pub(crate) struct Attempted<'a> {
    pub(crate) parcel: &'a Parcel,
    pub(crate) attempt: &'a Attempt,
    pub(crate) source: Option<SourceId>,
    pub(crate) destination: Option<DestinationId>,
    pub(crate) webhook: Option<WebhookId>,
    pub(crate) request: Option<RequestId>,
    pub(crate) event: Option<EventId>,
    pub(crate) email: Option<EmailId>,
    pub(crate) result: &'static str,
    /// Response status code, or a mail server's reply code.
    pub(crate) status: Option<u16>,
    pub(crate) error_kind: Option<&'static str>,
    pub(crate) error_message: Option<&'a str>,
    pub(crate) state: &'static str,
    pub(crate) next_attempt_at: Option<Timestamp>,
}

impl<'a> Attempted<'a> {
    pub(crate) fn new(parcel: &'a Parcel, attempt: &'a Attempt, settled: &Settled, channel: Channel) -> Self {
        let (result, status, error_kind) = match &attempt.outcome {
            Outcome::Delivered { status } => ("delivered", *status, None),
            Outcome::Uncertain(failure) => ("uncertain", failure.status, Some(failure.kind.name())),
            Outcome::Failed(failure) | Outcome::Refused(failure) => {
                ("failed", failure.status, Some(failure.kind.name()))
            }
            Outcome::Lost => ("failed", None, Some("lost")),
        };
        // Not in the words of others: a mail server repeats whom it will not have, a client which URL did not answer.
        let ours = |failure: &&Failure| failure.kind != FailureKind::Smtp && channel != Channel::Cli;
        let failure = attempt.outcome.failure().filter(ours);
        let (state, next_attempt_at) = match settled {
            Settled::Done(life) if life.state.is_final() => (life.state.name(), None),
            Settled::Done(life) => (life.state.name(), Some(life.due_at)),
            Settled::LeaseLost => ("lease_lost", None),
        };
        let source = match parcel.endpoint.feed {
            Feed::Source(source) => Some(source),
            Feed::Events | Feed::Mail => None,
        };
        let (destination, webhook) = match parcel.endpoint.id {
            EndpointId::Destination(id) => (Some(id), None),
            EndpointId::Webhook(id) => (None, Some(id)),
            EndpointId::Mailboxes(_) => (None, None),
        };
        let (request, event, email) = match parcel.message {
            MessageId::Request(id) => (Some(id), None, None),
            MessageId::Event(id) => (None, Some(id), None),
            MessageId::Email(id) => (None, None, Some(id)),
        };
        Self {
            parcel,
            attempt,
            source,
            destination,
            webhook,
            request,
            event,
            email,
            result,
            status,
            error_kind,
            error_message: failure.map(|failure| failure.message.as_str()),
            state,
            next_attempt_at,
        }
    }

    /// The wide line.
    pub(crate) fn log(&self) {
        let attempt = self.attempt;
        tracing::info!(
            event = "delivery.attempted",
            workspace.id = %self.parcel.endpoint.workspace,
            source.id = self.source.map(tracing::field::display),
            destination.id = self.destination.map(tracing::field::display),
            webhook.id = self.webhook.map(tracing::field::display),
            request.id = self.request.map(tracing::field::display),
            event.id = self.event.map(tracing::field::display),
            email.id = self.email.map(tracing::field::display),
            delivery.id = %self.parcel.lease.delivery,
            attempt.number = attempt.number,
            attempt.started_at = %attempt.started_at,
            attempt.duration_ms = attempt.ended_at.since(attempt.started_at).as_millis() as u64,
            attempt.result = self.result,
            http.status = self.status,
            error.kind = self.error_kind,
            error.message = self.error_message,
            delivery.state = self.state,
            delivery.next_attempt_at = self.next_attempt_at.map(tracing::field::display),
            "delivery attempted"
        );
    }
}
