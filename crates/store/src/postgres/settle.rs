//! Settling: an attempt's record and all that follows from it.

mod chunk;
mod lives;
mod record;

use restante_core::delivery::{self, CancelReason, Over, Terms, Watch};
use restante_core::endpoint::Receiver;
use restante_core::health::{Health, Turn};
use restante_core::id::Key;
use restante_core::{Attempt, Delivery, Outcome, State as Stage};

use super::codec::Stored;
use super::tx::EndpointView;
use crate::code::status_of;
use crate::endpoint::Feed;
use crate::{Finished, Lease, Policy};

pub(super) use chunk::Verdict;
pub(super) use record::{Record, write_out};

pub(super) use crate::code::PROMPT_MS;

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
    let mut attempt = finished.attempt.behind(stored.row.life.ended_at);
    if expired {
        // Its request is gone for whoever asks: a late result changes nothing. But the lease must end.
        attempt.outcome = Outcome::Lost;
    }
    let gone = if expired { Some(CancelReason::Expired) } else { view.gone };
    let watch = match &view.settings.receiver {
        Receiver::Destination(_) | Receiver::Mailboxes(_) => None,
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

/// Whether a delivery is still what its holder was given.
pub(super) fn holds(stored: &Stored, lease: Lease, holder: i32) -> bool {
    stored.row.life.state == Stage::Sending
        && stored.node == Some(holder)
        && stored.row.life.attempts_made == lease.attempt
}
