//! Settling: an attempt's record and all that follows from it.

use restante_core::delivery::{self, CancelReason, Over, Terms, Watch};
use restante_core::endpoint::Receiver;
use restante_core::health::{Health, Turn};
use restante_core::id::Key;
use restante_core::{Attempt, Delivery, FailureKind, Outcome, State as Stage, Timestamp};

use super::Fault;
use super::codec::{self, Stored, failure_code, int, small};
use super::config::Standing;
use super::tx::{EndpointView, Tx};
use crate::endpoint::Feed;
use crate::{Changed, Finished, Lease, Policy, Settled};

/// A first attempt that starts within this after the time in its delivery's key is listed by that.
pub(super) const PROMPT_MS: i64 = 2_000;

/// What a finished attempt comes to.
pub(super) struct Judged {
    /// The delivery as it was, with the columns of its first attempt as they are to be written.
    pub(super) stored: Stored,
    pub(super) life: Delivery,
    /// The attempt's own row, if it needs one.
    pub(super) record: Option<Record>,
    pub(super) health: Option<Turn>,
    pub(super) attempt: Attempt,
}

/// A row of `attempt`.
pub(super) struct Record {
    pub(super) number: u32,
    pub(super) endpoint_version: u32,
    pub(super) started_at: i64,
    pub(super) duration_ms: i64,
    pub(super) result: i16,
    pub(super) status: Option<i16>,
    pub(super) failure: Option<i16>,
    pub(super) message: Option<String>,
    pub(super) uses_budget: bool,
    pub(super) webhook: Option<i64>,
    pub(super) replay: bool,
}

impl Record {
    fn new(stored: &Stored, attempt: &Attempt, version: u32, uses_budget: bool, view: &EndpointView) -> Self {
        let (result, failure) = match &attempt.outcome {
            Outcome::Delivered { .. } => (codec::DELIVERED, None),
            Outcome::Failed(failure) => (codec::FAILED, Some(failure)),
            Outcome::Lost => (codec::LOST, None),
        };
        let duration_ms = attempt.ended_at.since(attempt.started_at).as_millis();
        let message = failure.filter(|failure| failure.kind != FailureKind::Status);
        Self {
            number: attempt.number,
            endpoint_version: version,
            started_at: attempt.started_at.millis(),
            duration_ms: i64::try_from(duration_ms).unwrap_or(i64::MAX),
            result: small(result),
            status: status_of(&attempt.outcome).map(|status| small(i64::from(status))),
            failure: failure.map(|failure| small(failure_code(failure.kind))),
            message: message.map(|failure| failure.message.clone()),
            uses_budget,
            webhook: (view.endpoint.feed == Feed::Events).then_some(view.row),
            replay: stored.row.life.back_to.is_some(),
        }
    }
}

/// Decides what a finished attempt of a leased delivery changes. `health`: the webhook's run of failures; `expired`:
/// the message is past its retention.
pub(super) fn judge(
    stored: &Stored,
    finished: &Finished,
    view: &EndpointView,
    health: Health,
    policy: &Policy,
    expired: bool,
    key_lead_ms: i64,
) -> Judged {
    let mut stored = stored.clone();
    let mut attempt = in_order(&finished.attempt, stored.row.life.ended_at);
    if expired {
        // Its request is gone for whoever asks: a late result changes nothing. But the lease must end.
        attempt.outcome = Outcome::Lost;
    }
    let gone = if expired { Some(CancelReason::Expired) } else { view.gone };
    let watch = match &view.settings.receiver {
        Receiver::Destination(_) => None,
        Receiver::Webhook(webhook) => {
            Some(Watch { health, limits: &policy.health, paused: webhook.paused || gone.is_some() })
        }
    };
    let terms = Terms { schedule: view.settings.receiver.schedule(), over: gone.map(Over::Gone), watch };
    let settlement = delivery::settle(&stored.row.life, terms, &attempt, finished.jitter);
    let record = if is_told_by_its_columns(&stored, &attempt, view, key_lead_ms) {
        stored.row.started_at = Some(attempt.started_at.millis());
        stored.row.endpoint_version = Some(finished.endpoint_version);
        stored.row.status = status_of(&attempt.outcome);
        None
    } else {
        stored.row.started_at = None;
        Some(Record::new(&stored, &attempt, finished.endpoint_version, settlement.uses_budget, view))
    };
    Judged { stored, life: settlement.delivery, record, health: settlement.health, attempt }
}

/// Whether an attempt needs no row of its own, because the delivery's columns say all about it: number 1, which
/// delivered. To a webhook it must also have started about where the time in the delivery's key makes a reader look
/// for it, for its attempts are listed by their start.
fn is_told_by_its_columns(stored: &Stored, attempt: &Attempt, view: &EndpointView, key_lead_ms: i64) -> bool {
    let prompt = || {
        let key_at = Key::from_value(stored.row.key).at().millis();
        (-key_lead_ms..=PROMPT_MS).contains(&(attempt.started_at.millis() - key_at))
    };
    attempt.number == 1
        && stored.row.life.back_to.is_none()
        && matches!(attempt.outcome, Outcome::Delivered { .. })
        && (view.endpoint.feed != Feed::Events || prompt())
}

/// The attempt as it is recorded: it never begins before the one before it ended, even if the clock went back.
fn in_order(attempt: &Attempt, before: Option<Timestamp>) -> Attempt {
    let mut attempt = attempt.clone();
    let length = attempt.ended_at.since(attempt.started_at);
    attempt.started_at = before.map_or(attempt.started_at, |ended| ended.max(attempt.started_at));
    attempt.ended_at = attempt.started_at + length;
    attempt
}

fn status_of(outcome: &Outcome) -> Option<u16> {
    match outcome {
        Outcome::Delivered { status } => *status,
        Outcome::Failed(failure) => failure.status,
        Outcome::Lost => None,
    }
}

impl Tx {
    /// Records a finished attempt of a delivery that `holder` leased, whatever it takes. What was recorded before is
    /// left as it is.
    pub(super) async fn settle(
        &mut self,
        workspace: i64,
        finished: &Finished,
        holder: i32,
    ) -> Result<Settled, Fault> {
        let key = finished.lease.delivery.key().value();
        let Some(stored) = self.lock_delivery(workspace, key).await? else { return Ok(self.lease_lost(key)) };
        if !holds(&stored, finished.lease, holder) {
            // A settle whose answer was lost is answered again.
            let settled_before = stored.row.life.attempts_made == finished.lease.attempt
                && stored.row.life.state != Stage::Sending
                && self.is_recorded(&stored, finished).await?;
            self.staged.ended.push(key);
            return Ok(if settled_before { Settled::Done(stored.row.life) } else { Settled::LeaseLost });
        }
        let view = self.endpoint(stored.row.endpoint)?;
        let ended_at = in_order(&finished.attempt, stored.row.life.ended_at).ended_at;
        let expired = self.is_expired(&stored, ended_at).await?;
        let standing = match &view.settings.receiver {
            Receiver::Destination(_) => Standing::default(),
            Receiver::Webhook(_) => self.lock_standing(view.row).await?,
        };
        let policy = self.node.policy;
        let key_lead_ms = self.node.state().key_lead_ms;
        let judged = judge(&stored, finished, &view, standing.health, &policy, expired, key_lead_ms);
        if let Some(record) = &judged.record {
            self.insert_attempt(&judged.stored, record).await?;
        }
        self.write_delivery(&judged.stored, &judged.life).await?;
        if stored.node == Some(self.me) {
            self.staged.ended.push(key);
        }
        if let Some(turn) = &judged.health {
            self.turn_health(view.row, turn, judged.attempt.ended_at).await?;
        }
        self.note_result(&judged.stored, &judged.attempt.outcome, &judged.life, judged.attempt.ended_at)
            .await?;
        if expired {
            return Ok(Settled::LeaseLost);
        }
        self.tell(view.row, || Changed::Delivery(finished.lease.delivery));
        Ok(Settled::Done(judged.life))
    }

    fn lease_lost(&mut self, key: i64) -> Settled {
        self.staged.ended.push(key);
        Settled::LeaseLost
    }

    /// Whether just this result was recorded before.
    async fn is_recorded(&self, stored: &Stored, finished: &Finished) -> Result<bool, Fault> {
        let attempt = &finished.attempt;
        if stored.row.started_at == Some(attempt.started_at.millis()) {
            return Ok(matches!(attempt.outcome, Outcome::Delivered { .. }));
        }
        let result = match &attempt.outcome {
            Outcome::Delivered { .. } => codec::DELIVERED,
            Outcome::Failed(_) => codec::FAILED,
            Outcome::Lost => codec::LOST,
        };
        let statement = "SELECT 1 FROM attempt WHERE workspace = $1 AND delivery = $2 AND number = $3 \
             AND result = $4 AND started_at = $5";
        let number = int(attempt.number);
        let started_at = attempt.started_at.millis();
        let found = self
            .first(statement, &[&stored.workspace, &stored.row.key, &number, &small(result), &started_at])
            .await?;
        Ok(found.is_some())
    }

    pub(super) async fn insert_attempt(&self, stored: &Stored, record: &Record) -> Result<(), Fault> {
        self.execute(
            "INSERT INTO attempt (workspace, delivery, number, endpoint_version, started_at, duration_ms, result, status, \
             failure, message, uses_budget, webhook, replay) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            &[
                &stored.workspace,
                &stored.row.key,
                &int(record.number),
                &int(record.endpoint_version),
                &record.started_at,
                &record.duration_ms,
                &record.result,
                &record.status,
                &record.failure,
                &record.message,
                &record.uses_budget,
                &record.webhook,
                &record.replay,
            ],
        )
        .await?;
        Ok(())
    }

    /// Gives attempt 1 a row of its own if so far only its delivery's columns tell about it: they are needed for
    /// another one.
    pub(super) async fn write_out(&self, stored: &mut Stored) -> Result<(), Fault> {
        let (Some(started_at), Some(version)) = (stored.row.started_at.take(), stored.row.endpoint_version)
        else {
            return Ok(());
        };
        let started_at = Timestamp::from_millis(started_at);
        let ended_at = stored.row.life.ended_at.unwrap_or(started_at);
        let outcome = Outcome::Delivered { status: stored.row.status };
        let first = Attempt { number: stored.row.life.attempts_made, outcome, started_at, ended_at };
        let view = self.endpoint(stored.row.endpoint)?;
        let record = Record::new(stored, &first, version, true, &view);
        self.insert_attempt(stored, &record).await
    }
}

/// Whether a delivery is still what its holder was given.
pub(super) fn holds(stored: &Stored, lease: Lease, holder: i32) -> bool {
    stored.row.life.state == Stage::Sending
        && stored.node == Some(holder)
        && stored.row.life.attempts_made == lease.attempt
}
