//! Settling: an attempt's record and all that follows from it.

use std::sync::Arc;

use restante_core::delivery::{self, Terms};
use restante_core::{FailureKind, Outcome, State, Timestamp};
use rusqlite::{OptionalExtension, params};

use super::Fault;
use super::codec::{self, DeliveryRow, failure_code};
use super::engine::Engine;
use crate::{Changed, Finished, Settled};

impl Engine {
    /// Records one finished attempt; see [`crate::Store::settle`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn settle(&mut self, finished: &Finished) -> Result<Settled, Fault> {
        let Some(mut row) = self.leased_row(finished.lease)? else { return Ok(Settled::LeaseLost) };
        if self.is_expired(&row, finished.attempt.ended_at)? {
            // Its request is gone for whoever asks; pruning removes the row, and a late result changes nothing.
            return Ok(Settled::LeaseLost);
        }
        let entry = self.endpoint(row.endpoint)?;
        let settings = Arc::clone(&entry.settings);
        let terms = Terms { schedule: &settings.destination.schedule, gone: entry.gone };
        let settlement = delivery::settle(&row.life, terms, &finished.attempt, finished.jitter);
        self.end_lease(&row);
        row.claimed = false;
        let attempt = &finished.attempt;
        // Attempt 1 that delivers is told by the delivery's own columns.
        if settlement.delivery.state == State::Delivered && attempt.number == 1 {
            row.started_at = Some(attempt.started_at.millis());
            row.endpoint_version = Some(finished.endpoint_version);
            row.status = status_of(&attempt.outcome);
        } else {
            self.insert_attempt(&row, finished, settlement.uses_budget)?;
            row.started_at = None;
        }
        self.write_delivery(&row, &settlement.delivery)?;
        if settlement.delivery.state == State::Pending {
            self.plan(row.endpoint, settlement.delivery.due_at.millis());
        }
        self.tell(row.endpoint, || Changed::Delivery(finished.lease.delivery));
        Ok(Settled::Done(settlement.delivery))
    }

    fn insert_attempt(&self, row: &DeliveryRow, finished: &Finished, uses_budget: bool) -> Result<(), Fault> {
        let attempt = &finished.attempt;
        let (result, failure) = match &attempt.outcome {
            Outcome::Delivered { .. } => (codec::DELIVERED, None),
            Outcome::Failed(failure) => (codec::FAILED, Some(failure)),
            Outcome::Lost => (codec::LOST, None),
        };
        let duration_ms = attempt.ended_at.since(attempt.started_at).as_millis();
        self.conn
            .prepare_cached(
                "INSERT INTO attempt (delivery, number, endpoint_version, started_at, duration_ms, result, status, failure, message, uses_budget) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                row.key,
                attempt.number,
                finished.endpoint_version,
                attempt.started_at.millis(),
                i64::try_from(duration_ms).unwrap_or(i64::MAX),
                result,
                status_of(&attempt.outcome),
                failure.map(|failure| failure_code(failure.kind)),
                failure.filter(|failure| failure.kind != FailureKind::Status).map(|failure| &failure.message),
                uses_budget,
            ])?;
        Ok(())
    }

    /// Whether a delivery's request is past its retention.
    pub(super) fn is_expired(&self, row: &DeliveryRow, now: Timestamp) -> Result<bool, Fault> {
        let source = self.config.source_of(self.endpoint(row.endpoint)?)?;
        // The key's own time is that of the reception unless the clock went back; only an old key needs the row.
        let key_at = restante_core::id::Key::from_value(row.message).at().millis();
        if key_at + source.retention_ms - CLOCK_SLACK_MS > now.millis() {
            return Ok(false);
        }
        let received_at: Option<i64> = self
            .conn
            .prepare_cached("SELECT received_at FROM message WHERE key = ?1")?
            .query_row([row.message], |row| row.get(0))
            .optional()?;
        Ok(received_at.is_none_or(|at| at + source.retention_ms <= now.millis()))
    }
}

/// How far a key may be ahead of its reception after the clock went back, for the shortcut above.
const CLOCK_SLACK_MS: i64 = 3_600_000;

fn status_of(outcome: &Outcome) -> Option<u16> {
    match outcome {
        Outcome::Delivered { status } => *status,
        Outcome::Failed(failure) => failure.status,
        Outcome::Lost => None,
    }
}
