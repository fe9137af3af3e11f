//! Rows of deliveries, read.

use std::time::Duration;

use restante_core::retry::Wait;
use restante_core::{Delivery, Timestamp};
use rusqlite::Row;

use super::Fault;
pub(super) use crate::code::*;

impl From<Damaged> for Fault {
    fn from(Damaged(what): Damaged) -> Self {
        Self::Damaged(what)
    }
}

macro_rules! delivery_columns {
    () => {
        "key, message, endpoint, state, claimed, ending, made, used, lost, due_at, started_at, endpoint_version, \
         ended_at, status, wait_ms, wait_cause, created_at, retry_of, back_to, job"
    };
}

/// The columns [`read_delivery`] wants, in its order.
pub(super) const DELIVERY_COLUMNS: &str = delivery_columns!();

/// One delivery by its key, for [`read_delivery`].
pub(super) const DELIVERY_BY_KEY: &str =
    concat!("SELECT ", delivery_columns!(), " FROM delivery WHERE key = ?1");

/// Reads a delivery.
pub(super) fn read_delivery(row: &Row<'_>) -> Result<DeliveryRow, Fault> {
    let wait = match (row.get::<_, Option<u64>>(14)?, row.get::<_, Option<i64>>(15)?) {
        (Some(millis), Some(code)) => {
            Some(Wait { length: Duration::from_millis(millis), cause: cause(code)? })
        }
        _ => None,
    };
    Ok(DeliveryRow {
        key: row.get(0)?,
        mark: row.get(0)?,
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
