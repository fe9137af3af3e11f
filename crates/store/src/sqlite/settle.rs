//! Settling: an attempt's record and all that follows from it.

use std::sync::Arc;

use restante_core::delivery::{self, CancelReason, Over, Terms, Watch};
use restante_core::endpoint::Receiver;
use restante_core::id::Key;
use restante_core::{Attempt, Delivery, FailureKind, Outcome, State, Timestamp};
use rusqlite::{OptionalExtension, params};

use super::Fault;
use super::codec::{DeliveryRow, failure_code, result_code, status_of};
use super::engine::Engine;
use crate::email::lost_behind_data;
use crate::endpoint::Feed;
use crate::tally::Counted;
use crate::{Changed, Finished, Settled};

pub(super) use crate::code::PROMPT_MS;

impl Engine {
    /// Records one finished attempt; see [`crate::Store::settle`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn settle(&mut self, finished: &Finished) -> Result<Settled, Fault> {
        let Some(mut row) = self.leased_row(finished.lease) else { return Ok(Settled::LeaseLost) };
        let mut attempt = finished.attempt.behind(row.life.ended_at);
        let expired = self.is_expired(&row, attempt.ended_at)?;
        if expired {
            // Its request is gone for whoever asks: a late result changes nothing. But the lease must end.
            attempt.outcome = Outcome::Lost;
        }
        let is_mail = self.endpoint(row.endpoint)?.endpoint.feed == Feed::Mail;
        if is_mail && attempt.outcome == Outcome::Lost && self.had_sent_data(&row)? {
            attempt.outcome = lost_behind_data(&self.policy);
        }
        let entry = self.endpoint(row.endpoint)?;
        let settings = Arc::clone(&entry.settings);
        let gone = if expired { Some(CancelReason::Expired) } else { entry.gone };
        let watch = match &settings.receiver {
            Receiver::Destination(_) | Receiver::Mailboxes(_) => None,
            Receiver::Webhook(webhook) => Some(Watch {
                health: entry.standing.health,
                limits: &self.policy.health,
                paused: webhook.paused || gone.is_some(),
            }),
        };
        let terms = Terms { schedule: settings.receiver.schedule(), over: gone.map(Over::Gone), watch };
        let settlement = delivery::settle(&row.life, terms, &attempt, finished.jitter);
        self.end_lease(&row);
        let was_claimed = std::mem::take(&mut row.claimed);
        let told = self.is_told_by_its_columns(&row, &attempt);
        if told {
            row.started_at = Some(attempt.started_at.millis());
            row.endpoint_version = Some(finished.endpoint_version);
            row.status = status_of(&attempt.outcome);
        } else {
            self.insert_attempt(&row, &attempt, finished.endpoint_version, settlement.uses_budget)?;
            row.started_at = None;
        }
        self.staged.counted.extend(Counted::attempt(row.endpoint, &attempt));
        if told && !was_claimed && is_plain_end(&row, &settlement.delivery) {
            self.write_delivered(&row, &settlement.delivery)?;
        } else {
            self.write_delivery(&row, &settlement.delivery)?;
        }
        if let Some(turn) = &settlement.health {
            self.turn_health(row.endpoint, turn, attempt.ended_at)?;
        }
        if is_mail {
            self.tell_attempt(&row, &attempt, &settlement.delivery)?;
        }
        self.note_result(&row, &attempt.outcome, &settlement.delivery, attempt.ended_at)?;
        if expired {
            return Ok(Settled::LeaseLost);
        }
        if settlement.delivery.state == State::Pending {
            self.plan(row.endpoint, settlement.delivery.due_at.millis());
        }
        self.tell(row.endpoint, || Changed::Delivery(finished.lease.delivery));
        Ok(Settled::Done(settlement.delivery))
    }

    fn insert_attempt(
        &self,
        row: &DeliveryRow,
        attempt: &Attempt,
        endpoint_version: u32,
        uses_budget: bool,
    ) -> Result<(), Fault> {
        let webhook = match self.endpoint(row.endpoint)?.settings.receiver {
            Receiver::Destination(_) | Receiver::Mailboxes(_) => None,
            Receiver::Webhook(_) => Some(row.endpoint),
        };
        let failure = attempt.outcome.failure();
        let duration_ms = attempt.ended_at.since(attempt.started_at).as_millis();
        self.conn
            .prepare_cached(
                "INSERT INTO attempt (delivery, number, endpoint_version, started_at, duration_ms, result, status, failure, \
                 message, uses_budget, webhook, replay) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                row.key,
                attempt.number,
                endpoint_version,
                attempt.started_at.millis(),
                i64::try_from(duration_ms).unwrap_or(i64::MAX),
                result_code(&attempt.outcome),
                status_of(&attempt.outcome),
                failure.map(|failure| failure_code(failure.kind)),
                failure.filter(|failure| failure.kind != FailureKind::Status).map(|failure| &failure.message),
                uses_budget,
                webhook,
                row.life.back_to.is_some(),
            ])?;
        Ok(())
    }

    /// Gives attempt 1 a row of its own if so far only its delivery's columns tell about it: they are needed for
    /// another one.
    pub(super) fn write_out(&self, row: &mut DeliveryRow) -> Result<(), Fault> {
        let (Some(started_at), Some(version)) = (row.started_at.take(), row.endpoint_version) else {
            return Ok(());
        };
        let started_at = Timestamp::from_millis(started_at);
        let ended_at = row.life.ended_at.unwrap_or(started_at);
        let outcome = Outcome::Delivered { status: row.status };
        let first = Attempt { number: row.life.attempts_made, outcome, started_at, ended_at };
        self.insert_attempt(row, &first, version, true)
    }

    /// Whether an attempt needs no row of its own, because the delivery's columns say all about it: number 1, which
    /// delivered. To a webhook it must also have started about where the time in the delivery's key makes a reader
    /// look for it, for its attempts are listed by their start.
    fn is_told_by_its_columns(&self, row: &DeliveryRow, attempt: &Attempt) -> bool {
        let prompt = || {
            let key_at = Key::from_value(row.key).at().millis();
            (-self.key_lead_ms..=PROMPT_MS).contains(&(attempt.started_at.millis() - key_at))
        };
        let watched =
            self.config.endpoints.get(&row.endpoint).is_some_and(|it| it.endpoint.feed == Feed::Events);
        attempt.number == 1
            && row.life.back_to.is_none()
            && matches!(attempt.outcome, Outcome::Delivered { .. })
            && (!watched || prompt())
    }

    /// Whether a delivery's request is past its retention.
    pub(super) fn is_expired(&self, row: &DeliveryRow, now: Timestamp) -> Result<bool, Fault> {
        let Some(retention_ms) = self.config.retention_ms(self.endpoint(row.endpoint)?)? else {
            // An event does not expire while one of its deliveries has not ended.
            return Ok(false);
        };
        // The key tells when the request came at the latest, and at the earliest if the clock was at its worst: only
        // an old key needs the row.
        let key_at = Key::from_value(row.message).at().millis();
        if key_at - self.key_lead_ms + retention_ms > now.millis() {
            return Ok(false);
        }
        let received_at: Option<i64> = self
            .conn
            .prepare_cached("SELECT received_at FROM message WHERE key = ?1")?
            .query_row([row.message], |row| row.get(0))
            .optional()?;
        Ok(received_at.is_none_or(|at| at + retention_ms <= now.millis()))
    }
}

/// Whether an end changes nothing of a delivery but the columns that [`Engine::write_delivered`] writes.
fn is_plain_end(row: &DeliveryRow, life: &Delivery) -> bool {
    let ended = Delivery {
        state: life.state,
        attempts_used: life.attempts_used,
        ended_at: life.ended_at,
        ..row.life.clone()
    };
    ended == *life
}
