//! Whatever receives: the settings of sources and destinations.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::retry::Schedule;

/// The header that carries the request key unless the destination names another.
pub const IDEMPOTENCY_HEADER: &str = "X-Adal-Idempotency";

/// A permanent URL that receives webhooks, and how it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    pub name: String,
    /// The secret part of the URL.
    pub token: String,
    pub response: Option<Answer>,
    pub deliver_pending_on_connect: bool,
    /// Days from reception until a request is gone, 1 to 365.
    pub retention_days: u32,
}

impl Source {
    pub fn retention(&self) -> Duration {
        Duration::from_secs(u64::from(self.retention_days) * 24 * 3600)
    }
}

/// What a source answers instead of the request's id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// 200 to 599.
    pub status: u16,
    pub content_type: String,
    pub body: String,
}

/// A receiver of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Destination {
    pub kind: DestinationKind,
    pub url: String,
    pub schedule: Schedule,
    pub idempotency_header: IdempotencyHeader,
    pub paused: bool,
    pub headers: Vec<(String, String)>,
    pub max_in_flight: u32,
    pub rate_per_second: Option<f64>,
    pub timeout_seconds: u32,
}

impl Destination {
    /// From name lookup to the end of the response head.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.timeout_seconds))
    }

    /// How long a claimed attempt stays ours.
    pub fn lease(&self) -> Duration {
        self.timeout() + limits::LEASE_MARGIN
    }

    /// What a pending delivery waits for that is due but may not begin; `None` when attempts may begin.
    pub fn holds_back(&self) -> Option<HeldBack> {
        match self.kind {
            _ if self.paused => Some(HeldBack::Resume),
            DestinationKind::Cli => Some(HeldBack::Client),
            DestinationKind::Http => None,
        }
    }
}

/// Why an endpoint takes no attempts at all right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// It is paused.
    Resume,
    /// No command-line client is connected.
    Client,
}

/// How a destination is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DestinationKind {
    /// By HTTP to its URL.
    Http,
    /// Through a connected command-line client.
    Cli,
}

/// Whether attempts carry the request's key, and in which header. On the wire `false`, `true` or a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(from = "IdempotencyHeaderWire", into = "IdempotencyHeaderWire")]
pub enum IdempotencyHeader {
    #[default]
    Off,
    /// Under [`IDEMPOTENCY_HEADER`].
    Standard,
    Named(String),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum IdempotencyHeaderWire {
    Switch(bool),
    Name(String),
}

impl From<IdempotencyHeaderWire> for IdempotencyHeader {
    fn from(wire: IdempotencyHeaderWire) -> Self {
        match wire {
            IdempotencyHeaderWire::Switch(false) => Self::Off,
            IdempotencyHeaderWire::Switch(true) => Self::Standard,
            IdempotencyHeaderWire::Name(name) => Self::Named(name),
        }
    }
}

impl From<IdempotencyHeader> for IdempotencyHeaderWire {
    fn from(header: IdempotencyHeader) -> Self {
        match header {
            IdempotencyHeader::Off => Self::Switch(false),
            IdempotencyHeader::Standard => Self::Switch(true),
            IdempotencyHeader::Named(name) => Self::Name(name),
        }
    }
}

impl IdempotencyHeader {
    /// The header's name; `None` when attempts carry no key.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Off => None,
            Self::Standard => Some(IDEMPOTENCY_HEADER),
            Self::Named(name) => Some(name),
        }
    }
}

/// Whether `name` may be set as a static header: a token (RFC 9110, 5.1) that neither belongs to one hop nor to
/// us.
pub fn settable_header(name: &str) -> bool {
    const TAKEN: [&str; 12] = [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "expect",
    ];
    is_token(name)
        && !TAKEN.iter().any(|taken| name.eq_ignore_ascii_case(taken))
        && !name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("webhook-"))
}

/// Whether `value` may stand in a header line: visible ASCII, spaces and tabs inside.
pub fn settable_value(value: &str) -> bool {
    value.len() <= limits::HEADER_VALUE_BYTES_MAX
        && value.trim_matches([' ', '\t']) == value
        && value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}

/// Whether `text` is a token of RFC 9110, 5.6.2.
pub fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_belong_to_one_hop_or_to_us_cannot_be_set() {
        for name in ["Host", "content-length", "Connection", "Webhook-Id", "webhook-x", "", "a b", "ä", "x:y"]
        {
            assert!(!settable_header(name), "{name}");
        }
        for name in ["Authorization", "X-Key", "webhook", "Webhooks-Other"] {
            assert!(settable_header(name), "{name}");
        }
        for (value, fine) in
            [("", true), ("a b", true), ("a\nb", false), (" a", false), ("ü", false), ("a\0", false)]
        {
            assert_eq!(settable_value(value), fine, "{value:?}");
        }
    }
}
