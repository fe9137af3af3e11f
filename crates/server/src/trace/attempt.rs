//! The span of an attempt. It hangs on the first span of its message's trace, which another node may have made, days ago.

use std::time::Duration;

use restante_core::message::Content;

use super::context::Context;
use super::span::{Attributes, Kind, Span, method_name};
use super::{Moment, Tracer};
use crate::telemetry::{Attempted, Channel};

impl Tracer {
    /// An attempt has ended and is settled. `took` is by the steady clock.
    pub(crate) fn attempted(&self, it: &Attempted<'_>, channel: Channel, took: Duration) {
        let root = Context::of(it.parcel.message, true);
        if !self.sampler.keeps(root.trace, None) {
            return;
        }
        let began = Moment { at: it.attempt.started_at, monotonic: Duration::ZERO };
        self.put(Span {
            context: Context { span: self.draw(), ..root },
            parent: Some(root.span),
            name: format!("deliver {}", channel.name()).into(),
            kind: Kind::Client,
            start: began.nanos(Duration::ZERO),
            end: began.nanos(took),
            attributes: attributes(it),
            link: None,
            failed: it.error_kind.is_some(),
        });
    }
}

/// The fields of the attempt's line in the log. Where HTTP or errors in general have names of their own, they are those.
fn attributes(it: &Attempted<'_>) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.text("workspace.id", it.parcel.endpoint.workspace.to_string());
    attributes.id("source.id", it.source);
    attributes.id("destination.id", it.destination);
    attributes.id("webhook.id", it.webhook);
    attributes.id("request.id", it.request);
    attributes.id("event.id", it.event);
    attributes.id("email.id", it.email);
    attributes.text("delivery.id", it.parcel.lease.delivery.to_string());
    attributes.number("attempt.number", it.attempt.number);
    attributes.text("attempt.result", it.result);
    let (method, status) = match &it.parcel.content.message {
        Content::Request(received) => (Some(method_name(&received.method)), "http.response.status_code"),
        Content::Event(_) => (Some("POST"), "http.response.status_code"),
        Content::Email(_) => (None, "smtp.response.status_code"),
    };
    if let Some(method) = method {
        attributes.text("http.request.method", method);
    }
    if let Some(code) = it.status {
        attributes.number(status, code);
    }
    if let Some(kind) = it.error_kind {
        attributes.text("error.type", kind);
    }
    if let Some(message) = it.error_message {
        attributes.text("error.message", message.to_owned());
    }
    attributes.text("delivery.state", it.state);
    attributes.id("delivery.next_attempt_at", it.next_attempt_at);
    attributes
}
