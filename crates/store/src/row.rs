//! What reads give.

use restante_core::email::{EmailStatus, Role, Standing, email_status};
use restante_core::endpoint::{EndpointId, HeldBack, Receiver};
use restante_core::event::EventType;
use restante_core::id::{
    ChargeId, DeliveryId, DestinationId, EmailId, EventId, RecipientId, RequestId, SourceId, WebhookId,
};
use restante_core::message::{Headers, MessageId};
use restante_core::{Delivery as Life, FailureKind, Timestamp};

use crate::email::{Details, Mailbox, suppression_key};

/// A stored request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub id: RequestId,
    pub source: SourceId,
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    /// All header lines; on lists only what they take to tell the content type.
    pub headers: Headers,
    pub body_bytes: u64,
    pub remote_address: String,
    pub received_at: Timestamp,
    pub expires_at: Timestamp,
    pub replay_of: Option<RequestId>,
    /// The request that first brought what this one repeats; it may be gone.
    pub duplicate_of: Option<RequestId>,
    /// Why it was rejected; `None`: it was not.
    pub rejected_because: Option<String>,
    /// Oldest first; on lists without attempts.
    pub deliveries: Vec<Delivery>,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: EventId,
    pub event_type: EventType,
    /// What receivers get.
    pub body: bytes::Bytes,
    pub created_at: Timestamp,
    /// How many there are.
    pub fanout: u32,
    /// Oldest first, with attempts; empty on lists.
    pub deliveries: Vec<Delivery>,
}

/// A stored delivery with what its endpoint is set to now.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub message: MessageId,
    pub endpoint: EndpointId,
    /// Of an email: the address this copy goes to.
    pub mailbox: Option<String>,
    pub receiver: Receiver,
    /// What keeps attempts from beginning at the node that was asked.
    pub held_back: Option<HeldBack>,
    pub life: Life,
    pub retry_of: Option<DeliveryId>,
    pub created_at: Timestamp,
    pub attempts: Vec<Attempt>,
}

/// A stored attempt, running ones included.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub number: u32,
    pub trigger: Trigger,
    /// Where it was sent.
    pub url: String,
    pub started_at: Timestamp,
    /// `None` while it is in flight.
    pub result: Option<AttemptResult>,
}

/// What made an attempt begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The schedule.
    Automatic,
    /// A manual retry: it is the first of its delivery.
    Manual,
    /// A replay of a webhook.
    Replay,
}

impl Trigger {
    /// The wire's `trigger`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Manual => "manual",
            Self::Replay => "replay",
        }
    }
}

/// One line of a webhook's attempts log.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    pub delivery: DeliveryId,
    pub event: EventId,
    pub event_type: EventType,
    pub attempt: Attempt,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptResult {
    pub duration_ms: u64,
    pub delivered: bool,
    pub status: Option<u16>,
    pub failure: Option<FailureKind>,
    /// Our own fault; `failure` is then `None`.
    pub lost: bool,
    pub message: Option<String>,
    pub uses_budget: bool,
}

/// A stored email.
#[derive(Debug, Clone)]
pub struct Email {
    pub id: EmailId,
    pub test: bool,
    pub details: Details,
    pub scheduled_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// In the order in which they were given.
    pub recipients: Vec<Recipient>,
}

/// Somebody an email goes to.
#[derive(Debug, Clone)]
pub struct Recipient {
    pub id: RecipientId,
    pub role: Role,
    pub mailbox: Mailbox,
    pub standing: Standing,
    /// What the latest attempt that failed was told.
    pub error: Option<String>,
}

impl Email {
    pub fn status(&self, now: Timestamp) -> EmailStatus {
        let standings: Vec<Standing> = self.recipients.iter().map(|it| it.standing.clone()).collect();
        email_status(&standings, self.cancelled_at.is_some(), self.scheduled_at, now)
    }
}

/// Which emails a list shows. `None`: any.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EmailFilter {
    pub test: bool,
    /// Any of these; empty: any.
    pub statuses: Vec<EmailStatus>,
    /// From exactly this address, as it is compared.
    pub from: Option<String>,
    /// Both inclusive; emails that were never scheduled are not shown.
    pub scheduled_from: Option<Timestamp>,
    pub scheduled_to: Option<Timestamp>,
}

impl EmailFilter {
    /// Whether an email's own row is as wanted.
    pub(crate) fn is_met(&self, test: bool, sender: &str, scheduled_at: Option<Timestamp>) -> bool {
        let spans = self.scheduled_from.is_some() || self.scheduled_to.is_some();
        test == self.test
            && self.from.as_ref().is_none_or(|from| *from == suppression_key(sender))
            && (!spans || scheduled_at.is_some())
            && self.scheduled_from.is_none_or(|from| scheduled_at.is_some_and(|at| at >= from))
            && self.scheduled_to.is_none_or(|to| scheduled_at.is_some_and(|at| at <= to))
    }

    /// Whether an email's status is as wanted.
    pub(crate) fn is_met_by(&self, email: &Email, now: Timestamp) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&email.status(now))
    }
}

/// One line of a credit ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    pub id: ChargeId,
    pub at: Timestamp,
    pub delta: i64,
    pub reason: ChargeReason,
    /// What was paid for: the id of a request or a delivery; for a grant its note.
    pub reference: Option<String>,
}

/// Lines of a ledger that are counted for a total; of more there is none.
pub(crate) const LEDGER_COUNT_MAX: usize = 100_000;

/// What changed a balance. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeReason {
    Request = 1,
    Retry = 2,
    Replay = 3,
    Grant = 4,
}

impl ChargeReason {
    /// The wire's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Retry => "retry",
            Self::Replay => "replay",
            Self::Grant => "grant",
        }
    }
}

/// The sum of a request's deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    /// At least one is pending or sending.
    Pending,
    /// All are delivered.
    Delivered,
    /// At least one failed and none is pending.
    Failed,
    /// At least one was cancelled, none failed and none is pending.
    Cancelled,
    /// There are none.
    None,
}

/// Which requests are wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestFilter {
    pub source: Option<SourceId>,
    /// Inclusive.
    pub since: Option<Timestamp>,
    /// Inclusive.
    pub until: Option<Timestamp>,
    pub state: Option<RequestState>,
    pub method: Option<String>,
    /// A part of the path suffix.
    pub path: Option<String>,
    /// A part of the body.
    pub text: Option<String>,
}

/// Which events are wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventFilter {
    /// Exactly this type.
    pub event_type: Option<EventType>,
    /// Inclusive, on acceptance.
    pub since: Option<Timestamp>,
    /// Inclusive, on acceptance.
    pub until: Option<Timestamp>,
}

/// Which lines of an attempts log are wanted. The bounds are strict and on the start of the attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LogFilter {
    pub before: Option<Timestamp>,
    pub after: Option<Timestamp>,
    pub status: Option<LogStatus>,
}

/// How attempts of a log stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStatus {
    /// In flight.
    Pending,
    Delivered,
    Failed,
}

/// A place in an attempts log: the line behind which to go on, towards older ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    pub started_at: Timestamp,
    /// Key of the delivery.
    pub delivery: i64,
    pub number: u32,
}

/// Which deliveries are wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeliveryFilter {
    pub request: Option<RequestId>,
    pub event: Option<EventId>,
    pub email: Option<EmailId>,
    pub source: Option<SourceId>,
    pub destination: Option<DestinationId>,
    pub webhook: Option<WebhookId>,
    /// The wire's `state`.
    pub state: Option<String>,
    /// Inclusive, on creation.
    pub since: Option<Timestamp>,
    /// Inclusive, on creation.
    pub until: Option<Timestamp>,
}

impl DeliveryFilter {
    /// The one message whose deliveries are wanted. With several kinds named it is the first: nothing is of two.
    pub(crate) fn message(&self) -> Option<MessageId> {
        let request = self.request.map(MessageId::Request);
        request.or(self.event.map(MessageId::Event)).or(self.email.map(MessageId::Email))
    }

    /// Whether a message is as wanted.
    pub(crate) fn is_met_by(&self, message: MessageId) -> bool {
        self.request.is_none_or(|request| message == MessageId::Request(request))
            && self.event.is_none_or(|event| message == MessageId::Event(event))
            && self.email.is_none_or(|email| message == MessageId::Email(email))
    }
}

impl RequestState {
    /// The wire's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::None => "none",
        }
    }
}

impl Request {
    /// Sums the deliveries up. A delivery that was retried by hand counts no more: its successor does.
    pub fn state(&self) -> RequestState {
        use restante_core::State;
        let retried: Vec<DeliveryId> =
            self.deliveries.iter().filter_map(|delivery| delivery.retry_of).collect();
        let states = || {
            self.deliveries.iter().filter(|delivery| !retried.contains(&delivery.id)).map(|it| it.life.state)
        };
        if states().any(|state| !state.is_final()) {
            RequestState::Pending
        } else if states().any(|state| matches!(state, State::Failed(_))) {
            RequestState::Failed
        } else if states().any(|state| matches!(state, State::Cancelled(_))) {
            RequestState::Cancelled
        } else if self.deliveries.is_empty() {
            RequestState::None
        } else {
            RequestState::Delivered
        }
    }
}
