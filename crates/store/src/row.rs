//! What reads give.

use restante_core::endpoint::Destination;
use restante_core::id::{ChargeId, DeliveryId, DestinationId, RequestId, SourceId};
use restante_core::message::Headers;
use restante_core::{Delivery as Life, FailureKind, Timestamp};

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
    /// Oldest first; on lists without attempts.
    pub deliveries: Vec<Delivery>,
}

/// A stored delivery with what its endpoint is set to now.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub request: RequestId,
    pub destination_id: DestinationId,
    pub destination: Destination,
    pub life: Life,
    pub retry_of: Option<DeliveryId>,
    pub created_at: Timestamp,
    pub attempts: Vec<Attempt>,
}

/// A stored attempt, running ones included.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub number: u32,
    pub manual: bool,
    /// Where it was sent.
    pub url: String,
    pub started_at: Timestamp,
    /// `None` while it is in flight.
    pub result: Option<AttemptResult>,
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

/// Which deliveries are wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeliveryFilter {
    pub request: Option<RequestId>,
    pub source: Option<SourceId>,
    pub destination: Option<DestinationId>,
    /// The wire's `state`.
    pub state: Option<String>,
    /// Inclusive, on creation.
    pub since: Option<Timestamp>,
    /// Inclusive, on creation.
    pub until: Option<Timestamp>,
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
