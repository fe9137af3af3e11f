//! A delivery's life: what claim, settle, cancel and retry make of it.

use std::fmt::Write as _;
use std::time::Duration;

use crate::Timestamp;
use crate::endpoint::{Destination, HeldBack};
use crate::outcome::{FailureKind, Outcome};
use crate::retry::{Jitter, Schedule, Wait, WaitCause};

/// So many `lost` in a row use one attempt: a message that kills its node must not do so for ever.
pub const LOST_IN_ROW_MAX: u32 = 3;

/// One message to one endpoint, as far as rules are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub state: State,
    /// Attempts begun, the running one included. Their numbers are 1 to this.
    pub attempts_made: u32,
    /// Attempts that count against the schedule.
    pub attempts_used: u32,
    /// How many of the latest attempts were lost, without a break.
    pub lost_in_row: u32,
    /// While pending: not before this.
    pub due_at: Timestamp,
    /// What made `due_at` what it is; `None` before the first attempt.
    pub wait: Option<Wait>,
    /// Cancelled while an attempt was in flight: whatever that attempt comes to ends the delivery.
    pub cancel_requested: bool,
    /// When the latest attempt ended, or the delivery itself.
    pub ended_at: Option<Timestamp>,
}

/// Where a delivery stands.
///
/// `Sending` is a pending delivery with a lease: its running attempt's number is the fence that a settle must
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Pending,
    Sending,
    Delivered,
    Failed(FailReason),
    Cancelled(CancelReason),
}

/// Why a delivery failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailReason {
    /// The schedule's attempts are used up.
    Exhausted,
}

/// Why a delivery was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelReason {
    Requested,
    EndpointDeleted,
    SourceDeleted,
    Expired,
}

impl State {
    /// The wire's `state`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Delivered => "delivered",
            Self::Failed(_) => "failed",
            Self::Cancelled(_) => "cancelled",
        }
    }

    /// The wire's `reason`.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Pending | Self::Sending | Self::Delivered => None,
            Self::Failed(FailReason::Exhausted) => Some("exhausted"),
            Self::Cancelled(reason) => Some(match reason {
                CancelReason::Requested => "requested",
                CancelReason::EndpointDeleted => "endpoint_deleted",
                CancelReason::SourceDeleted => "source_deleted",
                CancelReason::Expired => "expired",
            }),
        }
    }

    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Sending => false,
            Self::Delivered | Self::Failed(_) | Self::Cancelled(_) => true,
        }
    }
}

/// What a delivery is subject to besides its own row.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub schedule: &'a Schedule,
    /// The endpoint is no more: pending work ends with this reason.
    pub gone: Option<CancelReason>,
}

/// A finished attempt, before anything was concluded from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    pub outcome: Outcome,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

/// All that one outcome changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub delivery: Delivery,
    /// Whether the attempt counts against the schedule.
    pub uses_budget: bool,
}

/// What a claim makes of a due delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// An attempt begins: the leased delivery. Its `attempts_made` is the attempt's number.
    Begin(Delivery),
    /// There is nothing left to try.
    End(Delivery),
}

/// Why a call cannot change a delivery: it is in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict(pub State);

impl Delivery {
    /// A new delivery, due when it is accepted.
    pub const fn new(now: Timestamp) -> Self {
        Self {
            state: State::Pending,
            attempts_made: 0,
            attempts_used: 0,
            lost_in_row: 0,
            due_at: now,
            wait: None,
            cancel_requested: false,
            ended_at: None,
        }
    }

    /// A new delivery whose attempt 1 begins with it.
    pub const fn born_leased(now: Timestamp) -> Self {
        let mut delivery = Self::new(now);
        delivery.state = State::Sending;
        delivery.attempts_made = 1;
        delivery
    }

    fn ended(&self, state: State, at: Timestamp) -> Self {
        Self { state, ended_at: Some(at), ..self.clone() }
    }
}

/// Begins the next attempt of a due delivery.
///
/// A schedule that was shortened since may have none left, and an endpoint may be gone.
pub fn claim(delivery: &Delivery, terms: Terms<'_>, now: Timestamp) -> Claim {
    debug_assert_eq!(delivery.state, State::Pending);
    if let Some(reason) = terms.gone {
        return Claim::End(delivery.ended(State::Cancelled(reason), now));
    }
    if delivery.attempts_used >= terms.schedule.attempts_max() {
        return Claim::End(delivery.ended(State::Failed(FailReason::Exhausted), now));
    }
    Claim::Begin(Delivery {
        state: State::Sending,
        attempts_made: delivery.attempts_made + 1,
        ..delivery.clone()
    })
}

/// Takes back a claim whose attempt never dialled: its number is free again, and it is due as before.
pub fn release(delivery: &Delivery, terms: Terms<'_>, now: Timestamp) -> Delivery {
    debug_assert_eq!(delivery.state, State::Sending);
    let released =
        Delivery { state: State::Pending, attempts_made: delivery.attempts_made - 1, ..delivery.clone() };
    match terms.gone {
        Some(reason) => released.ended(State::Cancelled(reason), now),
        None if delivery.cancel_requested => released.ended(State::Cancelled(CancelReason::Requested), now),
        None => released,
    }
}

/// Decides what a finished attempt changes. The one place that does.
///
/// The caller has made sure that `delivery` is `Sending` and `attempt` its running one.
pub fn settle(delivery: &Delivery, terms: Terms<'_>, attempt: &Attempt, jitter: Jitter) -> Settlement {
    debug_assert_eq!(delivery.state, State::Sending);
    debug_assert_eq!(delivery.attempts_made, attempt.number);
    let failure = match &attempt.outcome {
        Outcome::Delivered { .. } => {
            let delivered = Delivery {
                attempts_used: delivery.attempts_used + 1,
                lost_in_row: 0,
                ..delivery.ended(State::Delivered, attempt.ended_at)
            };
            return Settlement { delivery: delivered, uses_budget: true };
        }
        Outcome::Failed(failure) => Some(failure),
        Outcome::Lost => None,
    };

    let lost_in_row = if failure.is_none() { delivery.lost_in_row + 1 } else { 0 };
    let uses_budget = failure.is_some() || lost_in_row >= LOST_IN_ROW_MAX;
    let counted = Delivery {
        attempts_used: delivery.attempts_used + u32::from(uses_budget),
        lost_in_row: if uses_budget { 0 } else { lost_in_row },
        ..delivery.clone()
    };
    let end = |state| Settlement { delivery: counted.ended(state, attempt.ended_at), uses_budget };
    if delivery.cancel_requested {
        return end(State::Cancelled(CancelReason::Requested));
    }
    if let Some(reason) = terms.gone {
        return end(State::Cancelled(reason));
    }
    let wait = if uses_budget {
        terms.schedule.wait_after(counted.attempts_used, failure, attempt.ended_at, jitter)
    } else {
        Some(Wait { length: Duration::ZERO, cause: WaitCause::Lost })
    };
    let Some(wait) = wait else { return end(State::Failed(FailReason::Exhausted)) };
    let pending = Delivery {
        state: State::Pending,
        due_at: attempt.ended_at + wait.length,
        wait: Some(wait),
        ended_at: Some(attempt.ended_at),
        ..counted
    };
    Settlement { delivery: pending, uses_budget }
}

/// Cancels on request. What is in flight cannot be called back; its result will end the delivery.
///
/// # Errors
/// `Conflict` when it already ended otherwise.
pub fn cancel(delivery: &Delivery, now: Timestamp) -> Result<Delivery, Conflict> {
    match delivery.state {
        State::Pending => Ok(delivery.ended(State::Cancelled(CancelReason::Requested), now)),
        State::Sending => Ok(Delivery { cancel_requested: true, ..delivery.clone() }),
        State::Cancelled(_) => Ok(delivery.clone()),
        State::Delivered | State::Failed(_) => Err(Conflict(delivery.state)),
    }
}

/// Ends what is pending because its endpoint or its message is gone. What is in flight stays.
pub fn abandon(delivery: &Delivery, reason: CancelReason, now: Timestamp) -> Option<Delivery> {
    (delivery.state == State::Pending).then(|| delivery.ended(State::Cancelled(reason), now))
}

/// Whether a delivery may be sent again by hand.
///
/// # Errors
/// `Conflict` while it is pending or sending: its own schedule is at work.
pub fn retryable(state: State) -> Result<(), Conflict> {
    match state {
        State::Delivered | State::Failed(_) | State::Cancelled(_) => Ok(()),
        State::Pending | State::Sending => Err(Conflict(state)),
    }
}

/// What a pending delivery waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// Its planned time.
    Time,
    /// A free slot: its endpoint has as much in flight as it may.
    Slot,
    /// A connected command-line client.
    Client,
    /// Its endpoint to be resumed.
    Resume,
}

impl WaitingFor {
    /// The wire's `waiting_for`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Slot => "slot",
            Self::Client => "client",
            Self::Resume => "resume",
        }
    }
}

/// What keeps a pending delivery from its next attempt; `None` when it is not pending.
pub fn waiting_for(delivery: &Delivery, destination: &Destination, now: Timestamp) -> Option<WaitingFor> {
    if delivery.state != State::Pending {
        return None;
    }
    Some(match destination.holds_back() {
        Some(HeldBack::Resume) => WaitingFor::Resume,
        Some(HeldBack::Client) => WaitingFor::Client,
        None if delivery.due_at > now => WaitingFor::Time,
        None => WaitingFor::Slot,
    })
}

/// One line that says why the next attempt is when it is; `None` when none is planned.
pub fn wait_because(delivery: &Delivery, destination: &Destination, now: Timestamp) -> Option<String> {
    let mut line = String::new();
    let next = delivery.attempts_used + 1;
    let max = destination.schedule.attempts_max();
    match delivery.wait {
        None => line.push_str("first attempt"),
        Some(wait) if wait.cause == WaitCause::Lost => {
            let _ = write!(
                line,
                "attempt {next} of {max} again, at once: the node was lost during the one before"
            );
        }
        Some(wait) => {
            let _ = write!(line, "attempt {next} of {max}, {}", span(wait.length));
            match wait.cause {
                WaitCause::RetryAfter => line.push_str(", lengthened by Retry-After"),
                WaitCause::Throttled => line.push_str(", lengthened after a timeout or a 429"),
                WaitCause::Schedule | WaitCause::Lost => {
                    let share = destination.schedule.jitter_share();
                    if share > 0.0 {
                        let _ = write!(line, " (planned wait ± {:.0} %)", share * 100.0);
                    }
                }
            }
            line.push_str(" after the one before");
        }
    }
    match waiting_for(delivery, destination, now)? {
        WaitingFor::Time => {}
        WaitingFor::Slot => line.push_str("; due, waits for a free slot"),
        WaitingFor::Client => line.push_str("; waits for a client to connect"),
        WaitingFor::Resume => line.push_str("; waits for the destination to be resumed"),
    }
    Some(line)
}

/// A length of time for people: `4 min`, `1 h 21 min`, `2.5 s`.
fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..60 => format!("{} s", (length.as_secs_f64() * 1000.0).round() / 1000.0),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The `error_kind` of an attempt on the wire.
pub const fn error_kind(outcome_kind: Option<FailureKind>) -> &'static str {
    match outcome_kind {
        Some(kind) => kind.name(),
        None => "lost",
    }
}

#[cfg(test)]
mod tests;
