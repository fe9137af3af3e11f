//! What is published to webhooks: types of events, filters on them, and the body that receivers get.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::limits::EVENT_TYPE_BYTES_MAX;

/// What kind of thing happened, such as `order.paid`.
///
/// Two or more segments of `a-z`, `0-9` and `_`, joined by dots; at most [`EVENT_TYPE_BYTES_MAX`]. Needs no
/// escaping in JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct EventType(String);

/// Which events a webhook gets: one entry of its `events`.
///
/// `order.paid` is that type alone; `order.*` every type with one or more segments behind `order.`; `*` every type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Filter(Pattern);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pattern {
    Exact(EventType),
    /// The filter without its star: empty, or segments up to and including a dot.
    Start(String),
}

/// What is wrong with an event type or a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("an event type is two or more segments of a-z, 0-9 and _ joined by dots, such as order.paid")]
    Type,
    #[error("a filter is an event type such as order.paid, the start of one such as order.*, or *")]
    Filter,
    #[error("event types and filters have at most {EVENT_TYPE_BYTES_MAX} characters")]
    TooLong,
}

impl EventType {
    /// Reads a type.
    ///
    /// # Errors
    /// `Fault::Type` or `Fault::TooLong`; the text tells the caller what a type looks like.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > EVENT_TYPE_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        if are_segments(text) && text.contains('.') { Ok(Self(text.to_owned())) } else { Err(Fault::Type) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// `Fault::Filter` or `Fault::TooLong`; the text tells the caller what a filter looks like.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > EVENT_TYPE_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        let Some(start) = text.strip_suffix('*') else {
            let exact = EventType::parse(text).map_err(|_| Fault::Filter)?;
            return Ok(Self(Pattern::Exact(exact)));
        };
        if start.is_empty() || start.strip_suffix('.').is_some_and(are_segments) {
            Ok(Self(Pattern::Start(start.to_owned())))
        } else {
            Err(Fault::Filter)
        }
    }

    /// Whether the filter lets events of this type through.
    pub fn matches(&self, r#type: &EventType) -> bool {
        match &self.0 {
            Pattern::Exact(exact) => exact == r#type,
            // A start ends with its dot and a type does not, so at least one segment follows.
            Pattern::Start(start) => r#type.0.starts_with(start),
        }
    }

    /// The only type the filter lets through; `None` when there is a star in it.
    pub fn exact(&self) -> Option<&EventType> {
        match &self.0 {
            Pattern::Exact(exact) => Some(exact),
            Pattern::Start(_) => None,
        }
    }
}

/// The first type that is named in full: what a test event is of unless its caller says.
pub fn first_exact(filters: &[Filter]) -> Option<&EventType> {
    filters.iter().find_map(Filter::exact)
}

/// The body that every attempt of an event sends, byte for byte: `type`, `timestamp`, `data` in this order.
///
/// `data` is compact JSON (`idempotency::compact`); `timestamp` says when it happened.
pub fn body(r#type: &EventType, timestamp: Timestamp, data: &str) -> String {
    format!(r#"{{"type":"{type}","timestamp":"{timestamp}","data":{data}}}"#)
}

/// Whether `text` is one or more segments, joined by dots.
fn are_segments(text: &str) -> bool {
    text.split('.').all(|segment| {
        !segment.is_empty() && segment.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    })
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Pattern::Exact(exact) => write!(f, "{exact}"),
            Pattern::Start(start) => write!(f, "{start}*"),
        }
    }
}

impl TryFrom<String> for EventType {
    type Error = Fault;
    fn try_from(text: String) -> Result<Self, Fault> {
        Self::parse(&text)
    }
}

impl TryFrom<String> for Filter {
    type Error = Fault;
    fn try_from(text: String) -> Result<Self, Fault> {
        Self::parse(&text)
    }
}

impl From<Filter> for String {
    fn from(filter: Filter) -> Self {
        filter.to_string()
    }
}

#[cfg(test)]
mod tests;
