//! The spans of a call of the API: the call, in it the durable commit, and beside it each message that it made.

use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use hyper::StatusCode;
use restante_core::message::MessageId;

use super::context::{Context, TRACEPARENT};
use super::span::{Attributes, Kind, Span, method_name};
use super::{Moment, Tracer};

/// A call that is being answered. Travels with its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    context: Context,
    began: Moment,
}

/// What the span of a call says of it.
pub(crate) struct Called {
    call: Call,
    /// Where its caller says it is.
    caller: Option<Context>,
    method: &'static str,
    route: MatchedPath,
}

impl Tracer {
    /// Begins the span of a call; `None` for what is not under `/v1`: pages, and what monitoring asks.
    pub(crate) fn call(&self, request: &mut Request) -> Option<Called> {
        let route =
            request.extensions().get::<MatchedPath>().filter(|it| it.as_str().starts_with("/v1/"))?.clone();
        let caller = request.headers().get(TRACEPARENT).and_then(|value| Context::parse(value.as_bytes()));
        let trace = caller.map_or_else(|| self.draw_trace(), |caller| caller.trace);
        let sampled = self.sampler.keeps(trace, caller);
        let call = Call { context: Context { trace, span: self.draw(), sampled }, began: self.now() };
        request.extensions_mut().insert(call);
        Some(Called { call, caller, method: method_name(request.method().as_str()), route })
    }

    /// The call is answered.
    pub(crate) fn called(&self, called: Called, status: StatusCode, request_id: &str) {
        let Called { call: Call { mut context, began }, mut caller, method, route } = called;
        if status == StatusCode::UNAUTHORIZED && caller.is_some() {
            // A stranger, who must not fill a trace of somebody else's, nor decide what is kept.
            caller = None;
            context.trace = self.draw_trace();
            context.sampled = self.sampler.keeps(context.trace, None);
        }
        if !context.sampled {
            return;
        }
        let mut attributes = Attributes::default();
        attributes.text("http.request.method", method);
        attributes.text("http.route", route.as_str().to_owned());
        attributes.number("http.response.status_code", status.as_u16());
        attributes.text("request.id", request_id.to_owned());
        self.put(Span {
            context,
            parent: caller.map(|caller| caller.span),
            name: format!("{method} {}", route.as_str()).into(),
            kind: Kind::Server,
            start: began.nanos(began.monotonic),
            end: began.nanos(self.clock.monotonic()),
            attributes,
            link: None,
            failed: status.is_server_error(),
        });
    }

    /// A call's commit made messages. `from` and `to` are by the steady clock.
    pub(crate) fn made(
        &self,
        call: Call,
        messages: impl Iterator<Item = MessageId>,
        (from, to): (Duration, Duration),
    ) {
        let (start, end) = (call.began.nanos(from), call.began.nanos(to));
        if call.context.sampled {
            self.put(Span {
                context: Context { span: self.draw(), ..call.context },
                parent: Some(call.context.span),
                name: "commit".into(),
                kind: Kind::Internal,
                start,
                end,
                attributes: Attributes::default(),
                link: None,
                failed: false,
            });
        }
        for message in messages {
            let mut context = Context::of(message, true);
            context.sampled = self.sampler.keeps(context.trace, None);
            if !context.sampled {
                continue;
            }
            let mut attributes = Attributes::default();
            let (name, field) = match message {
                MessageId::Request(_) => ("replay request", "request.id"),
                MessageId::Event(_) => ("publish event", "event.id"),
                MessageId::Email(_) => ("send email", "email.id"),
            };
            attributes.text(field, message.to_string());
            self.put(Span {
                context,
                parent: None,
                name: name.into(),
                kind: Kind::Producer,
                start,
                end,
                attributes,
                link: Some(call.context),
                failed: false,
            });
        }
    }
}
