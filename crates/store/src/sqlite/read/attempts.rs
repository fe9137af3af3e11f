//! The attempts of a delivery, put together from where they are kept.

use restante_core::message::target;
use restante_core::{FailureKind, Outcome, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::MessageView;
use crate::row;
use crate::sqlite::Fault;
use crate::sqlite::codec::{self, DeliveryRow, EVENT};
use crate::sqlite::resend::attempts_kept_from;

/// The columns [`recorded`] wants, in its order.
pub(super) const ATTEMPT_COLUMNS: &str = "number, endpoint_version, started_at, duration_ms, result, status, failure, message, uses_budget, replay";

/// Recorded attempts by number, then the running one, or attempt 1 that delivered at once. Attempts to webhooks are
/// forgotten some days after they started.
pub(super) fn of(
    conn: &Connection,
    row: &DeliveryRow,
    view: &MessageView,
    now: Timestamp,
) -> Result<Vec<row::Attempt>, Fault> {
    let mut attempts = Vec::new();
    let sql = format!("SELECT {ATTEMPT_COLUMNS} FROM attempt WHERE delivery = ?1 ORDER BY number");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([row.key])?;
    while let Some(stored) = rows.next()? {
        attempts.push(recorded(conn, stored, row, view)?);
    }
    attempts.extend(in_columns(conn, row, view)?);
    if view.kind == EVENT {
        let kept_from = attempts_kept_from(now);
        attempts.retain(|attempt| attempt.result.is_none() || attempt.started_at.millis() >= kept_from);
    }
    Ok(attempts)
}

/// An attempt from its own row.
pub(super) fn recorded(
    conn: &Connection,
    stored: &Row<'_>,
    row: &DeliveryRow,
    view: &MessageView,
) -> Result<row::Attempt, Fault> {
    let number: u32 = stored.get(0)?;
    let result: i64 = stored.get(4)?;
    let status: Option<u16> = stored.get(5)?;
    let failure = stored.get::<_, Option<i64>>(6)?.map(codec::failure).transpose()?;
    Ok(row::Attempt {
        number,
        trigger: trigger(row, number, stored.get(9)?),
        url: attempt_url(conn, row.endpoint, stored.get(1)?, view)?,
        started_at: Timestamp::from_millis(stored.get(2)?),
        result: Some(row::AttemptResult {
            duration_ms: stored.get(3)?,
            delivered: result == codec::DELIVERED,
            status,
            failure,
            lost: result == codec::LOST,
            message: stored.get::<_, Option<String>>(7)?.or_else(|| status_message(failure, status)),
            uses_budget: stored.get(8)?,
        }),
    })
}

/// The attempt that a delivery's own columns tell about: the running one, or the first, which delivered.
pub(super) fn in_columns(
    conn: &Connection,
    row: &DeliveryRow,
    view: &MessageView,
) -> Result<Option<row::Attempt>, Fault> {
    let (Some(started_at), Some(version)) = (row.started_at, row.endpoint_version) else { return Ok(None) };
    let started_at = Timestamp::from_millis(started_at);
    let result = row.life.state.is_final().then(|| row::AttemptResult {
        duration_ms: row.life.ended_at.map_or(0, |ended| ended.since(started_at).as_millis() as u64),
        delivered: true,
        status: row.status,
        failure: None,
        lost: false,
        message: None,
        uses_budget: true,
    });
    let number = row.life.attempts_made;
    Ok(Some(row::Attempt {
        number,
        trigger: trigger(row, number, row.life.back_to.is_some()),
        url: attempt_url(conn, row.endpoint, version, view)?,
        started_at,
        result,
    }))
}

fn trigger(row: &DeliveryRow, number: u32, replay: bool) -> row::Trigger {
    if replay {
        row::Trigger::Replay
    } else if number == 1 && row.retry_of.is_some() {
        row::Trigger::Manual
    } else {
        row::Trigger::Automatic
    }
}

/// The message of a failed status is not stored: it is made of the status.
fn status_message(failure: Option<FailureKind>, status: Option<u16>) -> Option<String> {
    failure?;
    match Outcome::of_status(status?, None) {
        Outcome::Failed(failure) => Some(failure.message),
        Outcome::Delivered { .. } | Outcome::Lost | Outcome::Refused(_) | Outcome::Uncertain(_) => None,
    }
}

fn attempt_url(conn: &Connection, endpoint: i64, version: u32, view: &MessageView) -> Result<String, Fault> {
    let url: Option<String> = conn
        .prepare_cached(
            "SELECT url FROM endpoint_url WHERE endpoint = ?1 AND version <= ?2 ORDER BY version DESC LIMIT 1",
        )?
        .query_row(params![endpoint, version], |row| row.get(0))
        .optional()?;
    Ok(target(&url.unwrap_or_default(), &view.path, view.query.as_deref()))
}
