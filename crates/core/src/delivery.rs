//! A delivery's life: what claim, settle, cancel and retry make of it.

use std::fmt::Write as _;
use std::time::Duration;

use crate::Timestamp;
use crate::endpoint::{HeldBack, Receiver};
use crate::health::{Health, Limits, Turn};
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
    /// While an attempt is in flight: whatever that comes to ends the delivery, and why.
    pub ending: Option<Ending>,
    /// While a replay's attempt is in flight: the state the delivery goes back to unless that delivers.
    pub back_to: Option<State>,
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
    /// Never attempted: its webhook was paused.
    Skipped,
}

/// Why the running attempt is the last, whatever it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Somebody cancelled the delivery.
    Cancel,
    /// Its webhook was paused.
    Pause,
}

/// Why pending work of an endpoint is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// The endpoint or the message is no more.
    Gone(CancelReason),
    /// The webhook was paused while the delivery was pending.
    Paused,
}

/// Why a delivery failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailReason {
    /// The schedule's attempts are used up.
    Exhausted,
    /// Its webhook was paused before they were.
    EndpointPaused,
    /// The mail server said no for good, or the recipient is on the suppression list.
    Refused,
    /// The mail server may have it: all was sent, and the answer did not come.
    Uncertain,
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
            Self::Skipped => "skipped",
        }
    }

    /// The wire's `reason`.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Pending | Self::Sending | Self::Delivered | Self::Skipped => None,
            Self::Failed(FailReason::Exhausted) => Some("exhausted"),
            Self::Failed(FailReason::EndpointPaused) => Some("endpoint_paused"),
            Self::Failed(FailReason::Refused) => Some("refused"),
            Self::Failed(FailReason::Uncertain) => Some("uncertain"),
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
            Self::Delivered | Self::Failed(_) | Self::Cancelled(_) | Self::Skipped => true,
        }
    }
}

/// What a delivery is subject to besides its own row.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub schedule: &'a Schedule,
    /// Pending work ends with this reason.
    pub over: Option<Over>,
    /// How its endpoint stands; `None` for endpoints that are not watched over.
    pub watch: Option<Watch<'a>>,
}

/// How a webhook stands.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    pub health: Health,
    pub limits: &'a Limits,
    pub paused: bool,
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

impl Attempt {
    /// The attempt as it is recorded: it never begins before the one before it ended, even if the clock went back.
    #[must_use]
    pub fn behind(&self, before: Option<Timestamp>) -> Self {
        let length = self.ended_at.since(self.started_at);
        let started_at = before.map_or(self.started_at, |ended| ended.max(self.started_at));
        Self { started_at, ended_at: started_at + length, ..self.clone() }
    }
}

/// All that one outcome changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub delivery: Delivery,
    /// Whether the attempt counts against the schedule.
    pub uses_budget: bool,
    /// What it changes for the endpoint; `None`: nothing.
    pub health: Option<Turn>,
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
            ending: None,
            back_to: None,
            ended_at: None,
        }
    }

    /// A new delivery to a webhook that is paused.
    pub const fn skipped(now: Timestamp) -> Self {
        let mut delivery = Self::new(now);
        delivery.state = State::Skipped;
        delivery.ended_at = Some(now);
        delivery
    }

    /// A new delivery to a mailbox that gets nothing.
    pub const fn refused(now: Timestamp) -> Self {
        let mut delivery = Self::new(now);
        delivery.state = State::Failed(FailReason::Refused);
        delivery.ended_at = Some(now);
        delivery
    }

    /// A new delivery whose attempt 1 begins with it.
    pub const fn born_leased(now: Timestamp) -> Self {
        let mut delivery = Self::new(now);
        delivery.state = State::Sending;
        delivery.attempts_made = 1;
        delivery
    }

    /// When the running attempt, leased at `claimed_at`, was to begin. A replay's has no planned time.
    pub fn attempt_due_at(&self, claimed_at: Timestamp) -> Timestamp {
        match self.back_to {
            None => self.due_at,
            Some(_) => claimed_at,
        }
    }

    /// Somebody cancelled it while an attempt was in flight.
    pub fn cancel_requested(&self) -> bool {
        self.ending == Some(Ending::Cancel)
    }

    fn ended(&self, state: State, at: Timestamp) -> Self {
        // A clock that went back must not let a replay begin before the end of the attempt before.
        let ended_at = self.ended_at.max(Some(at));
        Self { state, ending: None, back_to: None, ended_at, ..self.clone() }
    }

    /// The end of a pending delivery whose work is over.
    fn ended_as(&self, over: Over, at: Timestamp) -> Self {
        let state = match over {
            Over::Gone(reason) => State::Cancelled(reason),
            Over::Paused if self.attempts_made > 0 => State::Failed(FailReason::EndpointPaused),
            Over::Paused => State::Skipped,
        };
        self.ended(state, at)
    }

    /// What becomes of a delivery that would be pending again.
    fn pending_or_over(self, over: Option<Over>, at: Timestamp) -> Self {
        match (self.ending, over) {
            (Some(Ending::Cancel), _) => self.ended(State::Cancelled(CancelReason::Requested), at),
            // A deletion that came after the pause finds nothing to cancel.
            (Some(Ending::Pause), _) => self.ended_as(Over::Paused, at),
            (None, Some(over)) => self.ended_as(over, at),
            (None, None) => Self { state: State::Pending, back_to: None, ..self },
        }
    }
}

/// Begins the next attempt of a due delivery.
///
/// A schedule that was shortened since may have none left, and an endpoint may be gone.
pub fn claim(delivery: &Delivery, terms: Terms<'_>, now: Timestamp) -> Claim {
    debug_assert_eq!(delivery.state, State::Pending);
    if let Some(over) = terms.over {
        return Claim::End(delivery.ended_as(over, now));
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

/// Begins the attempt of a replay: one more, whatever the schedule says, and whatever the delivery came to.
///
/// # Errors
/// `Conflict` while another attempt is in flight: ask again when that has ended.
pub fn begin_replay(delivery: &Delivery) -> Result<Delivery, Conflict> {
    if delivery.state == State::Sending {
        return Err(Conflict(delivery.state));
    }
    Ok(Delivery {
        state: State::Sending,
        attempts_made: delivery.attempts_made + 1,
        back_to: Some(delivery.state),
        ..delivery.clone()
    })
}

/// Takes back a claim whose attempt never dialled: its number is free again, and all is as before.
pub fn release(delivery: &Delivery, terms: Terms<'_>, now: Timestamp) -> Delivery {
    debug_assert_eq!(delivery.state, State::Sending);
    let released = Delivery { attempts_made: delivery.attempts_made - 1, ..delivery.clone() };
    match delivery.back_to {
        None | Some(State::Pending) => released.pending_or_over(terms.over, now),
        Some(state) => Delivery { state, back_to: None, ending: None, ..released },
    }
}

/// Decides what a finished attempt changes. The one place that does.
///
/// The caller has made sure that `delivery` is `Sending` and `attempt` its running one.
pub fn settle(delivery: &Delivery, terms: Terms<'_>, attempt: &Attempt, jitter: Jitter) -> Settlement {
    debug_assert_eq!(delivery.state, State::Sending);
    debug_assert_eq!(delivery.attempts_made, attempt.number);
    if let Some(back_to) = delivery.back_to {
        return settle_replay(delivery, back_to, terms, attempt);
    }
    let used = || Delivery { attempts_used: delivery.attempts_used + 1, lost_in_row: 0, ..delivery.clone() };
    let (failure, last) = match &attempt.outcome {
        Outcome::Delivered { .. } => return delivered(&used(), terms, attempt, true),
        // Whoever cancelled it or took its endpoint away must know, too, that it may have arrived.
        Outcome::Uncertain(_) => {
            let delivery = used().ended(State::Failed(FailReason::Uncertain), attempt.ended_at);
            return Settlement { delivery, uses_budget: true, health: None };
        }
        Outcome::Refused(failure) => (Some(failure), Some(FailReason::Refused)),
        Outcome::Failed(failure) => (Some(failure), None),
        Outcome::Lost => (None, None),
    };

    let lost_in_row = if failure.is_none() { delivery.lost_in_row + 1 } else { 0 };
    let uses_budget = failure.is_some() || lost_in_row >= LOST_IN_ROW_MAX;
    let counted = Delivery {
        attempts_used: delivery.attempts_used + u32::from(uses_budget),
        lost_in_row: if uses_budget { 0 } else { lost_in_row },
        ended_at: Some(attempt.ended_at),
        ..delivery.clone()
    };
    // Our own faults say nothing about the receiver, and a paused webhook is past being watched.
    let health = terms
        .watch
        .filter(|watch| failure.is_some() && !watch.paused)
        .map(|watch| watch.health.failed(attempt.ended_at, watch.limits));
    let pauses = health.as_ref().is_some_and(|turn| turn.pause);

    let wait = if last.is_some() {
        None
    } else if uses_budget {
        terms.schedule.wait_after(counted.attempts_used, failure, attempt.ended_at, jitter)
    } else {
        Some(Wait { length: Duration::ZERO, cause: WaitCause::Lost })
    };
    let over = terms.over.or(pauses.then_some(Over::Paused));
    let ended_at = attempt.ended_at;
    let delivery = match wait {
        Some(wait) => {
            let planned = Delivery { due_at: ended_at + wait.length, wait: Some(wait), ..counted };
            planned.pending_or_over(over, ended_at)
        }
        None if counted.ending.is_some() || matches!(over, Some(Over::Gone(_))) => {
            counted.pending_or_over(over, ended_at)
        }
        // The failure that pauses a webhook may also be the delivery's last.
        None => counted.ended(State::Failed(last.unwrap_or(FailReason::Exhausted)), ended_at),
    };
    Settlement { delivery, uses_budget, health }
}

/// A replay's attempt: delivered ends the delivery, anything else leaves all as it was.
fn settle_replay(delivery: &Delivery, back_to: State, terms: Terms<'_>, attempt: &Attempt) -> Settlement {
    if matches!(attempt.outcome, Outcome::Delivered { .. }) {
        return delivered(delivery, terms, attempt, false);
    }
    let tried = Delivery { ended_at: Some(attempt.ended_at), ..delivery.clone() };
    let delivery = match back_to {
        State::Pending => tried.pending_or_over(terms.over, attempt.ended_at),
        State::Sending | State::Delivered | State::Failed(_) | State::Cancelled(_) | State::Skipped => {
            Delivery { state: back_to, back_to: None, ending: None, ..tried }
        }
    };
    Settlement { delivery, uses_budget: false, health: None }
}

fn delivered(delivery: &Delivery, terms: Terms<'_>, attempt: &Attempt, uses_budget: bool) -> Settlement {
    let delivery = Delivery { lost_in_row: 0, ..delivery.ended(State::Delivered, attempt.ended_at) };
    let health = terms.watch.filter(|watch| watch.health != Health::default()).map(|_| Turn::cleared());
    Settlement { delivery, uses_budget, health }
}

/// Cancels on request. What is in flight cannot be called back; its result will end the delivery.
///
/// # Errors
/// `Conflict` when it already ended otherwise.
pub fn cancel(delivery: &Delivery, now: Timestamp) -> Result<Delivery, Conflict> {
    match delivery.state {
        State::Pending => Ok(delivery.ended(State::Cancelled(CancelReason::Requested), now)),
        State::Sending => match delivery.back_to {
            // A replay of what was cancelled before must not dial any more either.
            None | Some(State::Pending | State::Cancelled(_)) => {
                Ok(Delivery { ending: Some(Ending::Cancel), ..delivery.clone() })
            }
            // It has ended; what is in flight is a replay.
            Some(ended @ (State::Sending | State::Delivered | State::Failed(_) | State::Skipped)) => {
                Err(Conflict(ended))
            }
        },
        State::Cancelled(_) => Ok(delivery.clone()),
        State::Delivered | State::Failed(_) | State::Skipped => Err(Conflict(delivery.state)),
    }
}

/// Ends what is pending because its mailbox gets nothing.
#[must_use]
pub fn refuse(delivery: &Delivery, now: Timestamp) -> Delivery {
    delivery.ended(State::Failed(FailReason::Refused), now)
}

/// Ends what is pending because its work is over. What is in flight stays.
pub fn abandon(delivery: &Delivery, over: Over, now: Timestamp) -> Option<Delivery> {
    (delivery.state == State::Pending).then(|| delivery.ended_as(over, now))
}

/// Marks what is in flight when its webhook is paused: a failure will end it.
pub fn pause(delivery: &Delivery) -> Delivery {
    Delivery { ending: delivery.ending.or(Some(Ending::Pause)), ..delivery.clone() }
}

/// Puts a skipped delivery on its schedule after all; `None` when it is not skipped.
pub fn recover(delivery: &Delivery, now: Timestamp) -> Option<Delivery> {
    (delivery.state == State::Skipped).then(|| Delivery {
        state: State::Pending,
        due_at: now,
        // When a replay's attempt ended stays: the next one may not begin before.
        ended_at: delivery.ended_at.filter(|_| delivery.attempts_made > 0),
        ..delivery.clone()
    })
}

/// Whether a delivery may be sent again by hand.
///
/// # Errors
/// `Conflict` while it is pending or sending: its own schedule is at work.
pub fn retryable(state: State) -> Result<(), Conflict> {
    match state {
        State::Delivered | State::Failed(_) | State::Cancelled(_) => Ok(()),
        State::Pending | State::Sending | State::Skipped => Err(Conflict(state)),
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
pub fn waiting_for(delivery: &Delivery, held_back: Option<HeldBack>, now: Timestamp) -> Option<WaitingFor> {
    if delivery.state != State::Pending {
        return None;
    }
    Some(match held_back {
        Some(HeldBack::Resume) => WaitingFor::Resume,
        Some(HeldBack::Client) => WaitingFor::Client,
        None if delivery.due_at > now => WaitingFor::Time,
        None => WaitingFor::Slot,
    })
}

/// One line that says why the next attempt is when it is; `None` when none is planned.
pub fn wait_because(
    delivery: &Delivery,
    receiver: &Receiver,
    held_back: Option<HeldBack>,
    now: Timestamp,
) -> Option<String> {
    let mut line = String::new();
    let next = delivery.attempts_used + 1;
    let max = receiver.schedule().attempts_max();
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
                    let share = receiver.schedule().jitter_share();
                    if share > 0.0 {
                        let _ = write!(line, " (planned wait ± {:.0} %)", share * 100.0);
                    }
                }
            }
            line.push_str(" after the one before");
        }
    }
    match waiting_for(delivery, held_back, now)? {
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
