//! The spans of an intake: the request at the door, and in it the durable commit.

use std::time::Duration;

use hyper::StatusCode;
use restante_core::id::RequestId;
use restante_core::message::{Headers, MessageId};

use super::context::{Context, TRACEPARENT};
use super::span::{Attributes, Kind, Span, method_name};
use super::{Moment, Tracer};

/// A request at the door, until it is answered.
pub(crate) struct Intake {
    began: Moment,
    method: &'static str,
    /// Where its sender says it is.
    sender: Option<Context>,
    stored: Option<Stored>,
}

/// What the commit made of it; times by the steady clock.
struct Stored {
    id: RequestId,
    from: Duration,
    to: Duration,
    body_bytes: usize,
}

impl Intake {
    /// It is stored.
    pub(crate) fn stored(&mut self, id: RequestId, (from, to): (Duration, Duration), body_bytes: usize) {
        self.stored = Some(Stored { id, from, to, body_bytes });
    }
}

impl Tracer {
    pub(crate) fn intake(&self, method: &str, headers: &Headers) -> Intake {
        let sender = headers.get(TRACEPARENT).and_then(Context::parse);
        Intake { began: self.now(), method: method_name(method), sender, stored: None }
    }

    /// The request is answered. One that was not stored has a trace of its own.
    pub(crate) fn taken_in(&self, intake: Intake, status: StatusCode) {
        let Intake { began, method, sender, stored } = intake;
        let mut context = match &stored {
            Some(stored) => Context::of(MessageId::Request(stored.id), true),
            None => Context { trace: self.draw_trace(), span: self.draw(), sampled: true },
        };
        context.sampled = self.sampler.keeps(context.trace, None);
        if !context.sampled {
            return;
        }
        let mut attributes = Attributes::default();
        attributes.text("http.request.method", method);
        // The token in its place is a secret.
        attributes.text("http.route", "/in/{token}");
        attributes.number("http.response.status_code", status.as_u16());
        if let Some(stored) = &stored {
            attributes.text("request.id", stored.id.to_string());
            attributes.number("http.request.body.size", i64::try_from(stored.body_bytes).unwrap_or(i64::MAX));
            self.put(Span {
                context: Context { span: self.draw(), ..context },
                parent: Some(context.span),
                name: "commit".into(),
                kind: Kind::Internal,
                start: began.nanos(stored.from),
                end: began.nanos(stored.to),
                attributes: Attributes::default(),
                link: None,
                failed: false,
            });
        }
        self.put(Span {
            context,
            parent: None,
            name: format!("{method} /in/{{token}}").into(),
            kind: Kind::Server,
            start: began.nanos(began.monotonic),
            end: began.nanos(self.clock.monotonic()),
            attributes,
            link: sender,
            failed: status.is_server_error(),
        });
    }

    pub(super) fn draw_trace(&self) -> u128 {
        u128::from(self.draw()) << 64 | u128::from(self.draw())
    }
}
