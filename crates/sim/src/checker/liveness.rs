//! 15: once faults stop, all due work starts within a minute, and everything ends.

use std::time::Duration;

use restante_core::message::MessageId;
use restante_store::row::{self, Trigger};

use super::Violation;
use super::clients::may_be_kept;
use super::early::ended_at;
use super::waits::{Budget, bounds};
use crate::story::Dialled;
use crate::story::outbound::What;
use crate::timeline::Moment;
use crate::world::Witness;

/// A receiver that hangs is a fault until the attempt's time is up: the longest timeout there is.
const HANGS_ON_MS: u64 = 31_000;
/// Nothing waits longer than this between its lease and its start.
const LEASED_MS: u64 = 15_000;
/// A job waits no longer than this for its commit.
const COMMIT_MS: u64 = 10;
/// Due work starts within this.
const START_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for delivery in witness.reads.deliveries() {
        // An endpoint whose owner was not told of it was not put right either.
        let Some(place) = witness.cast.find(delivery.endpoint) else { continue };
        if !delivery.life.state.is_final() && !may_be_kept(witness, place, asked_for(witness, delivery)) {
            let what = format!("{} is {} for ever", delivery.id, delivery.life.state.name());
            found.push(Violation::new(15, what, &[&delivery.id]));
        }
        if !witness.remembers(delivery) {
            continue;
        }
        if let Err(what) = check_starts(witness, place, delivery) {
            found.push(Violation::new(15, format!("{}: {what}", delivery.id), &[&delivery.id]));
        }
    }
}

/// Whether each attempt that started after the faults started in time.
fn check_starts(witness: &Witness<'_>, place: usize, delivery: &row::Delivery) -> Result<(), String> {
    let well = witness.clocks.wall_at(witness.healed.after(HANGS_ON_MS));
    let mut budget = Budget::default();
    let mut due = delivery.created_at;
    let mut may_be_recovered = witness
        .story
        .resends
        .iter()
        .any(|resend| resend.endpoint == place && matches!(resend.what, What::Skipped(_)));
    for attempt in &delivery.attempts {
        if attempt.trigger == Trigger::Replay {
            // Meanwhile the schedule had to wait.
            due = due.max(ended_at(attempt));
            continue;
        }
        let mut dials = witness.story.dialled.iter();
        let sent = dials.find(|it| it.lease.delivery == delivery.id && it.lease.attempt == attempt.number);
        // What was leased before the clock was set back starts, by that clock, when it was leased.
        let is_after = sent.is_some_and(|sent| {
            let leased = sent.started.before(LEASED_MS);
            sent.started > witness.healed && !witness.clocks.has_jumped(leased, sent.started)
        });
        // What a recovery puts on its schedule is due when its turn comes.
        let is_after = is_after && !std::mem::take(&mut may_be_recovered);
        if is_after && attempt.started_at > due.max(well) + START_WITHIN {
            return Err(format!("attempt {} at {}, due {due}", attempt.number, attempt.started_at));
        }
        if attempt.result.is_none() {
            break;
        }
        due = ended_at(attempt);
        if budget.count(attempt) {
            due = due + longest_wait(witness, place, budget.used, sent);
        }
    }
    Ok(())
}

/// When somebody asked for a delivery, if that is known: it was made since.
fn asked_for(witness: &Witness<'_>, delivery: &row::Delivery) -> Option<Moment> {
    if delivery.retry_of.is_some() {
        let mut retries = witness.story.retries.iter();
        return retries.find(|retry| retry.new == Some(delivery.id)).map(|retry| retry.asked);
    }
    let MessageId::Request(id) = delivery.message else { return None };
    let known = witness.story.requests.iter().find(|known| known.id == id)?;
    Some(known.told.before(COMMIT_MS))
}

/// The longest wait that any schedule the endpoint ever had would plan.
fn longest_wait(witness: &Witness<'_>, place: usize, used: u32, sent: Option<&Dialled>) -> Duration {
    let reply = sent.and_then(|sent| sent.ended.as_ref()).map(|(_, reply)| reply);
    let schedules = witness.cast.endpoints[place].setting.ever().flatten();
    let all = schedules.filter_map(|setting| bounds(setting.schedule(), used, reply));
    let longest_ms = all.map(|bounds| bounds.most_ms).max().unwrap_or(0);
    // A clock that jumped during the attempt moves what the receiver asked for.
    let started = sent.map_or(Moment::default(), |sent| sent.started);
    Duration::from_millis(longest_ms + witness.clocks.forward_ms(started, witness.clocks.now))
}
