//! Whatever receives: the settings of sources, destinations and webhooks.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::Filter;
use crate::id::{DestinationId, MailboxesId, WebhookId};
use crate::intake::{Dedupe, Rules};
use crate::retry::Schedule;
use crate::verification::Verification;
use crate::{Timestamp, limits};

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
    /// A repeat of what is known is not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<Dedupe>,
    /// What is not signed like this is not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

impl Source {
    /// What it asks of requests; `None`: nothing.
    pub fn rules(&self) -> Option<Rules> {
        let (verification, dedupe) = (self.verification.clone(), self.dedupe.clone());
        (verification.is_some() || dedupe.is_some()).then_some(Rules { verification, dedupe })
    }

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

/// A secret that only the server can read: encrypted, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed(pub String);

/// A receiver of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Destination {
    pub kind: DestinationKind,
    pub url: String,
    pub schedule: Schedule,
    pub idempotency_header: IdempotencyHeader,
    pub paused: bool,
    pub headers: Vec<(String, Sealed)>,
    pub max_in_flight: u32,
    pub rate_per_second: Option<f64>,
    pub timeout_seconds: u32,
}

/// A customer's endpoint, subscribed to event types.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Webhook {
    pub url: String,
    pub description: Option<String>,
    /// What it is subscribed to, 1 to 100.
    pub events: Vec<Filter>,
    /// What its attempts are signed with, the current secret first.
    pub secrets: Vec<SigningSecret>,
    /// It gets nothing until it is made active again. Whether it is degraded is told by its health.
    pub paused: bool,
    pub schedule: Schedule,
    pub headers: Vec<(String, Sealed)>,
    pub max_in_flight: u32,
    pub rate_per_second: Option<f64>,
    pub timeout_seconds: u32,
}

/// One of a webhook's signing secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SigningSecret {
    pub secret: Sealed,
    /// It signs until then; `None`: it is the current one.
    pub until: Option<Timestamp>,
}

impl Webhook {
    /// The secrets that sign an attempt that starts at `now`, the current one first.
    pub fn signing_secrets(&self, now: Timestamp) -> impl Iterator<Item = &SigningSecret> {
        self.secrets.iter().filter(move |secret| secret.until.is_none_or(|until| now < until))
    }
}

/// The mailboxes of one domain, as far as one workspace writes to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Mailboxes {
    /// In lower case and as A-labels.
    pub domain: String,
    pub terms: MailTerms,
}

/// What the operator decides about mail to any domain.
#[derive(Clone, Debug, PartialEq)]
pub struct MailTerms {
    pub schedule: Schedule,
    /// Attempts to one domain at the same time, for each workspace.
    pub max_in_flight: u32,
    /// From name lookup to the reply that ends the attempt.
    pub timeout_seconds: u32,
}

impl Default for MailTerms {
    fn default() -> Self {
        Self {
            schedule: Schedule::Mail,
            max_in_flight: limits::MAIL_IN_FLIGHT_DEFAULT,
            timeout_seconds: *limits::TIMEOUT_SECONDS.end(),
        }
    }
}

/// Names an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointId {
    Destination(DestinationId),
    Webhook(WebhookId),
    Mailboxes(MailboxesId),
}

impl EndpointId {
    pub fn uuid(self) -> u128 {
        match self {
            Self::Destination(id) => id.uuid(),
            Self::Webhook(id) => id.uuid(),
            Self::Mailboxes(id) => id.uuid(),
        }
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Destination(id) => id.fmt(out),
            Self::Webhook(id) => id.fmt(out),
            Self::Mailboxes(id) => id.fmt(out),
        }
    }
}

/// The settings of whatever a delivery goes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Receiver {
    Destination(Destination),
    Webhook(Webhook),
    Mailboxes(Mailboxes),
}

impl Receiver {
    /// The address of an endpoint; of mailboxes their domain.
    pub fn url(&self) -> &str {
        match self {
            Self::Destination(destination) => &destination.url,
            Self::Webhook(webhook) => &webhook.url,
            Self::Mailboxes(mailboxes) => &mailboxes.domain,
        }
    }

    pub fn schedule(&self) -> &Schedule {
        match self {
            Self::Destination(destination) => &destination.schedule,
            Self::Webhook(webhook) => &webhook.schedule,
            Self::Mailboxes(mailboxes) => &mailboxes.terms.schedule,
        }
    }

    /// Static headers: names and values.
    pub fn headers(&self) -> &[(String, Sealed)] {
        match self {
            Self::Destination(destination) => &destination.headers,
            Self::Webhook(webhook) => &webhook.headers,
            Self::Mailboxes(_) => &[],
        }
    }

    /// Attempts at the same time, over all nodes together.
    pub fn max_in_flight(&self) -> u32 {
        match self {
            Self::Destination(destination) => destination.max_in_flight,
            Self::Webhook(webhook) => webhook.max_in_flight,
            Self::Mailboxes(mailboxes) => mailboxes.terms.max_in_flight,
        }
    }

    /// Attempts per second, over all nodes together; `None`: as many as there are.
    pub fn rate_per_second(&self) -> Option<f64> {
        match self {
            Self::Destination(destination) => destination.rate_per_second,
            Self::Webhook(webhook) => webhook.rate_per_second,
            Self::Mailboxes(_) => None,
        }
    }

    /// From name lookup to the end of the response head, or of the last reply.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(u64::from(match self {
            Self::Destination(destination) => destination.timeout_seconds,
            Self::Webhook(webhook) => webhook.timeout_seconds,
            Self::Mailboxes(mailboxes) => mailboxes.terms.timeout_seconds,
        }))
    }

    pub fn is_paused(&self) -> bool {
        match self {
            Self::Destination(destination) => destination.paused,
            Self::Webhook(webhook) => webhook.paused,
            Self::Mailboxes(_) => false,
        }
    }

    /// Whether attempts go through connected command-line clients.
    pub fn is_reached_by_clients(&self) -> bool {
        matches!(self, Self::Destination(Destination { kind: DestinationKind::Cli, .. }))
    }

    /// Whether attempts are made by a command-line client.
    pub fn needs_client(&self) -> bool {
        match self {
            Self::Destination(destination) => destination.kind == DestinationKind::Cli,
            Self::Webhook(_) | Self::Mailboxes(_) => false,
        }
    }

    /// What a pending delivery waits for that is due but may not begin; `None` when attempts may begin. This is what
    /// the settings say: whether a client is there is known to whoever has it.
    pub fn holds_back(&self) -> Option<HeldBack> {
        if self.is_paused() {
            return Some(HeldBack::Resume);
        }
        self.needs_client().then_some(HeldBack::Client)
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
