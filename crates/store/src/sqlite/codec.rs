//! Rules' words as stored numbers, and back.

use std::time::Duration;

use restante_core::delivery::{CancelReason, Ending, FailReason};
use restante_core::retry::{Wait, WaitCause};
use restante_core::{Delivery, FailureKind, State, Timestamp};
use rusqlite::Row;

use super::Fault;

/// `message.kind`.
pub(super) const REQUEST: i64 = 1;
pub(super) const EVENT: i64 = 2;

/// States that SQL compares with; indexes name them too.
pub(super) const PENDING: i64 = 0;
pub(super) const SENDING: i64 = 1;
pub(super) const DELIVERED_STATE: i64 = 2;
pub(super) const SKIPPED: i64 = 50;

pub(super) const fn state_code(state: State) -> i64 {
    match state {
        State::Pending => PENDING,
        State::Sending => SENDING,
        State::Delivered => DELIVERED_STATE,
        State::Failed(FailReason::Exhausted) => 30,
        State::Failed(FailReason::EndpointPaused) => 31,
        State::Cancelled(CancelReason::Requested) => 40,
        State::Cancelled(CancelReason::EndpointDeleted) => 41,
        State::Cancelled(CancelReason::SourceDeleted) => 42,
        State::Cancelled(CancelReason::Expired) => 43,
        State::Skipped => SKIPPED,
    }
}

pub(super) fn state(code: i64) -> Result<State, Fault> {
    Ok(match code {
        PENDING => State::Pending,
        SENDING => State::Sending,
        DELIVERED_STATE => State::Delivered,
        30 => State::Failed(FailReason::Exhausted),
        31 => State::Failed(FailReason::EndpointPaused),
        40 => State::Cancelled(CancelReason::Requested),
        41 => State::Cancelled(CancelReason::EndpointDeleted),
        42 => State::Cancelled(CancelReason::SourceDeleted),
        43 => State::Cancelled(CancelReason::Expired),
        SKIPPED => State::Skipped,
        other => return Err(Fault::Damaged(format!("delivery state {other}"))),
    })
}

/// The codes of a wire state, as an inclusive range; `None` for an unknown word.
pub(super) fn state_range(name: &str) -> Option<(i64, i64)> {
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
pub(super) const fn ending_code(ending: Option<Ending>) -> i64 {
    match ending {
        None => 0,
        Some(Ending::Cancel) => 1,
        Some(Ending::Pause) => 2,
    }
}

fn ending(code: i64) -> Result<Option<Ending>, Fault> {
    Ok(match code {
        0 => None,
        1 => Some(Ending::Cancel),
        2 => Some(Ending::Pause),
        other => return Err(Fault::Damaged(format!("delivery ending {other}"))),
    })
}

pub(super) fn cause_code(cause: WaitCause) -> i64 {
    match cause {
        WaitCause::Schedule => 0,
        WaitCause::RetryAfter => 1,
        WaitCause::Throttled => 2,
        WaitCause::Lost => 3,
    }
}

pub(super) fn cause(code: i64) -> Result<WaitCause, Fault> {
    WaitCause::ALL
        .into_iter()
        .find(|cause| cause_code(*cause) == code)
        .ok_or_else(|| Fault::Damaged(format!("wait cause {code}")))
}

pub(super) fn failure_code(kind: FailureKind) -> i64 {
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

pub(super) fn failure(code: i64) -> Result<FailureKind, Fault> {
    FailureKind::ALL
        .into_iter()
        .find(|kind| failure_code(*kind) == code)
        .ok_or_else(|| Fault::Damaged(format!("failure kind {code}")))
}

/// `attempt.result`.
pub(super) const DELIVERED: i64 = 0;
pub(super) const FAILED: i64 = 1;
pub(super) const LOST: i64 = 2;

/// A row of `delivery`, all columns.
#[derive(Debug, Clone)]
pub(super) struct DeliveryRow {
    pub(super) key: i64,
    pub(super) message: i64,
    pub(super) endpoint: i64,
    pub(super) life: Delivery,
    /// Leased by a claim rather than at birth.
    pub(super) claimed: bool,
    pub(super) started_at: Option<i64>,
    pub(super) endpoint_version: Option<u32>,
    pub(super) status: Option<u16>,
    pub(super) created_at: Option<i64>,
    pub(super) retry_of: Option<i64>,
    /// The record of the replay or recovery it was last part of.
    pub(super) job: Option<i64>,
}

macro_rules! delivery_columns {
    () => {
        "key, message, endpoint, state, claimed, ending, made, used, lost, due_at, started_at, endpoint_version, \
         ended_at, status, wait_ms, wait_cause, created_at, retry_of, back_to, job"
    };
}

/// The columns [`DeliveryRow::read`] wants, in its order.
pub(super) const DELIVERY_COLUMNS: &str = delivery_columns!();

/// One delivery by its key, for [`DeliveryRow::read`].
pub(super) const DELIVERY_BY_KEY: &str =
    concat!("SELECT ", delivery_columns!(), " FROM delivery WHERE key = ?1");

impl DeliveryRow {
    pub(super) fn read(row: &Row<'_>) -> Result<Self, Fault> {
        let wait = match (row.get::<_, Option<u64>>(14)?, row.get::<_, Option<i64>>(15)?) {
            (Some(millis), Some(code)) => {
                Some(Wait { length: Duration::from_millis(millis), cause: cause(code)? })
            }
            _ => None,
        };
        Ok(Self {
            key: row.get(0)?,
            message: row.get(1)?,
            endpoint: row.get(2)?,
            life: Delivery {
                state: state(row.get(3)?)?,
                ending: ending(row.get(5)?)?,
                back_to: row.get::<_, Option<i64>>(18)?.map(state).transpose()?,
                attempts_made: row.get(6)?,
                attempts_used: row.get(7)?,
                lost_in_row: row.get(8)?,
                due_at: Timestamp::from_millis(row.get(9)?),
                wait,
                ended_at: row.get::<_, Option<i64>>(12)?.map(Timestamp::from_millis),
            },
            claimed: row.get(4)?,
            started_at: row.get(10)?,
            endpoint_version: row.get(11)?,
            status: row.get(13)?,
            created_at: row.get(16)?,
            retry_of: row.get(17)?,
            job: row.get(19)?,
        })
    }
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
