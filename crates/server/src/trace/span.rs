//! A span that has ended.

use std::borrow::Cow;
use std::fmt::Display;

use super::context::Context;

/// What a collector is told of one piece of work.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) context: Context,
    /// The number of the span it hangs on, in the same trace.
    pub(super) parent: Option<u64>,
    pub(super) name: Cow<'static, str>,
    pub(super) kind: Kind,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
    /// Nanoseconds since 1970, never before `start`.
    pub(super) end: u64,
    pub(super) attributes: Attributes,
    pub(super) link: Option<Context>,
    /// It did not do what it was for.
    pub(super) failed: bool,
}

/// A span's part between two systems, as OTLP numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
    Producer = 4,
}

/// Names with what they are set to.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(pub(super) Vec<(&'static str, Value)>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(Cow<'static, str>),
    Number(i64),
}

impl Attributes {
    pub(super) fn text(&mut self, name: &'static str, value: impl Into<Cow<'static, str>>) {
        self.0.push((name, Value::Text(value.into())));
    }

    pub(super) fn number(&mut self, name: &'static str, value: impl Into<i64>) {
        self.0.push((name, Value::Number(value.into())));
    }

    /// An id, if there is one.
    pub(super) fn id(&mut self, name: &'static str, id: Option<impl Display>) {
        if let Some(id) = id {
            self.text(name, id.to_string());
        }
    }
}

/// A method by its own name if it is a known one: a caller may write there what it likes.
pub(super) fn method_name(method: &str) -> &'static str {
    const KNOWN: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
    KNOWN.into_iter().find(|known| *known == method).unwrap_or("_OTHER")
}
