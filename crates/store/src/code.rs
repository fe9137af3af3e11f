//! Rules' words as stored numbers, and back. The same in every database.

use restante_core::delivery::{CancelReason, Ending, FailReason};
use restante_core::email::Role;
use restante_core::retry::WaitCause;
use restante_core::{Delivery, FailureKind, Outcome, State};

/// Something stored that means nothing.
#[derive(Debug)]
pub(crate) struct Damaged(pub(crate) String);

/// What an accepted request, a manual retry and a replay of a request cost.
pub(crate) const PRICE: i64 = 1;
/// A first attempt that starts within this after the time in its delivery's key is listed by that, in milliseconds.
pub(crate) const PROMPT_MS: i64 = 2_000;

/// `message.kind`.
pub(crate) const REQUEST: i64 = 1;
pub(crate) const EVENT: i64 = 2;
pub(crate) const EMAIL: i64 = 3;

/// `message.method` of an email by its mode.
pub(crate) const LIVE_MODE: &str = "live";
pub(crate) const TEST_MODE: &str = "test";

/// `message.feed` of an email of the workspace with this row. Apart from its events, which are listed by theirs.
pub(crate) const fn mail_feed(workspace: i64) -> i64 {
    -workspace
}

/// States that SQL compares with; indexes name them too.
pub(crate) const PENDING: i64 = 0;
pub(crate) const SENDING: i64 = 1;
pub(crate) const DELIVERED_STATE: i64 = 2;
pub(crate) const SKIPPED: i64 = 50;

pub(crate) const fn state_code(state: State) -> i64 {
    match state {
        State::Pending => PENDING,
        State::Sending => SENDING,
        State::Delivered => DELIVERED_STATE,
        State::Failed(FailReason::Exhausted) => 30,
        State::Failed(FailReason::EndpointPaused) => 31,
        State::Failed(FailReason::Refused) => 32,
        State::Failed(FailReason::Uncertain) => 33,
        State::Cancelled(CancelReason::Requested) => 40,
        State::Cancelled(CancelReason::EndpointDeleted) => 41,
        State::Cancelled(CancelReason::SourceDeleted) => 42,
        State::Cancelled(CancelReason::Expired) => 43,
        State::Skipped => SKIPPED,
    }
}

pub(crate) fn state(code: i64) -> Result<State, Damaged> {
    Ok(match code {
        PENDING => State::Pending,
        SENDING => State::Sending,
        DELIVERED_STATE => State::Delivered,
        30 => State::Failed(FailReason::Exhausted),
        31 => State::Failed(FailReason::EndpointPaused),
        32 => State::Failed(FailReason::Refused),
        33 => State::Failed(FailReason::Uncertain),
        40 => State::Cancelled(CancelReason::Requested),
        41 => State::Cancelled(CancelReason::EndpointDeleted),
        42 => State::Cancelled(CancelReason::SourceDeleted),
        43 => State::Cancelled(CancelReason::Expired),
        SKIPPED => State::Skipped,
        other => return Err(Damaged(format!("delivery state {other}"))),
    })
}

/// The codes of a wire state, as an inclusive range; `None` for an unknown word.
pub(crate) fn state_range(name: &str) -> Option<(i64, i64)> {
    Some(match name {
        "pending" => (0, 0),
        "sending" => (1, 1),
        "delivered" => (2, 2),
        "failed" => (30, 39),
        "cancelled" => (40, 49),
        "skipped" => (SKIPPED, SKIPPED),
        _ => return None,
    })
}

/// `delivery.ending`.
pub(crate) const fn ending_code(ending: Option<Ending>) -> i64 {
    match ending {
        None => 0,
        Some(Ending::Cancel) => 1,
        Some(Ending::Pause) => 2,
    }
}

pub(crate) fn ending(code: i64) -> Result<Option<Ending>, Damaged> {
    Ok(match code {
        0 => None,
        1 => Some(Ending::Cancel),
        2 => Some(Ending::Pause),
        other => return Err(Damaged(format!("delivery ending {other}"))),
    })
}

/// `recipient.role`.
pub(crate) const fn role_code(role: Role) -> i64 {
    match role {
        Role::To => 0,
        Role::Cc => 1,
        Role::Bcc => 2,
    }
}

pub(crate) fn role(code: i64) -> Result<Role, Damaged> {
    Ok(match code {
        0 => Role::To,
        1 => Role::Cc,
        2 => Role::Bcc,
        other => return Err(Damaged(format!("role of a recipient {other}"))),
    })
}

pub(crate) fn cause_code(cause: WaitCause) -> i64 {
    match cause {
        WaitCause::Schedule => 0,
        WaitCause::RetryAfter => 1,
        WaitCause::Throttled => 2,
        WaitCause::Lost => 3,
    }
}

pub(crate) fn cause(code: i64) -> Result<WaitCause, Damaged> {
    WaitCause::ALL
        .into_iter()
        .find(|cause| cause_code(*cause) == code)
        .ok_or_else(|| Damaged(format!("wait cause {code}")))
}

pub(crate) fn failure_code(kind: FailureKind) -> i64 {
    match kind {
        FailureKind::Dns => 0,
        FailureKind::Connect => 1,
        FailureKind::Tls => 2,
        FailureKind::Timeout => 3,
        FailureKind::Network => 4,
        FailureKind::RefusedAddress => 5,
        FailureKind::Status => 6,
        FailureKind::LocalUnreachable => 7,
        FailureKind::Smtp => 8,
    }
}

pub(crate) fn failure(code: i64) -> Result<FailureKind, Damaged> {
    FailureKind::ALL
        .into_iter()
        .find(|kind| failure_code(*kind) == code)
        .ok_or_else(|| Damaged(format!("failure kind {code}")))
}

/// `attempt.result`.
pub(crate) const DELIVERED: i64 = 0;
pub(crate) const FAILED: i64 = 1;
pub(crate) const LOST: i64 = 2;
const REFUSED: i64 = 3;
const UNCERTAIN: i64 = 4;

pub(crate) const fn result_code(outcome: &Outcome) -> i64 {
    match outcome {
        Outcome::Delivered { .. } => DELIVERED,
        Outcome::Failed(_) => FAILED,
        Outcome::Lost => LOST,
        Outcome::Refused(_) => REFUSED,
        Outcome::Uncertain(_) => UNCERTAIN,
    }
}

/// `attempt.status`.
pub(crate) fn status_of(outcome: &Outcome) -> Option<u16> {
    match outcome {
        Outcome::Delivered { status } => *status,
        Outcome::Failed(failure) | Outcome::Refused(failure) | Outcome::Uncertain(failure) => failure.status,
        Outcome::Lost => None,
    }
}

/// A row of `delivery`, all columns.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryRow {
    pub(crate) key: i64,
    /// What tells whether a pause ended it; see [`crate::config::Standing::cut`].
    pub(crate) mark: i64,
    pub(crate) message: i64,
    pub(crate) endpoint: i64,
    pub(crate) life: Delivery,
    /// Leased by a claim rather than at birth.
    pub(crate) claimed: bool,
    pub(crate) started_at: Option<i64>,
    pub(crate) endpoint_version: Option<u32>,
    pub(crate) status: Option<u16>,
    pub(crate) created_at: Option<i64>,
    pub(crate) retry_of: Option<i64>,
    /// The record of the replay or recovery it was last part of.
    pub(crate) job: Option<i64>,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_comes_back_and_lies_in_the_range_of_its_name() {
        let states = [
            State::Pending,
            State::Sending,
            State::Delivered,
            State::Failed(FailReason::Exhausted),
            State::Failed(FailReason::EndpointPaused),
            State::Failed(FailReason::Refused),
            State::Failed(FailReason::Uncertain),
            State::Cancelled(CancelReason::Requested),
            State::Cancelled(CancelReason::EndpointDeleted),
            State::Cancelled(CancelReason::SourceDeleted),
            State::Cancelled(CancelReason::Expired),
            State::Skipped,
        ];
        for known in states {
            let code = state_code(known);
            assert_eq!(state(code).unwrap(), known);
            let (first, last) = state_range(known.name()).unwrap();
            assert!((first..=last).contains(&code));
        }
        assert!(state(99).is_err());
    }

    #[test]
    fn every_failure_and_cause_comes_back() {
        for kind in FailureKind::ALL {
            assert_eq!(failure(failure_code(kind)).unwrap(), kind);
        }
        for known in WaitCause::ALL {
            assert_eq!(cause(cause_code(known)).unwrap(), known);
        }
        for known in [None, Some(Ending::Cancel), Some(Ending::Pause)] {
            assert_eq!(ending(ending_code(known)).unwrap(), known);
        }
    }
}
