//! 15: once faults stop, all due work starts within a minute, and everything ends.

use std::time::Duration;

use restante_core::endpoint::DestinationKind;
use restante_store::row;

use super::Violation;
use super::early::ended_at;
use super::waits::{Budget, bounds};
use crate::story::Dialled;
use crate::timeline::Moment;
use crate::world::Witness;

/// A receiver that hangs is a fault until the attempt's time is up: the longest timeout there is.
const HANGS_ON_MS: u64 = 31_000;
/// Due work starts within this.
const START_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for delivery in witness.reads.deliveries() {
        // A destination whose owner was not told of it was not put right either.
        let Some(place) = witness.cast.find(delivery.destination_id) else { continue };
        let setting = witness.cast.destinations[place].setting.last().as_ref();
        let waits_for_client = setting.is_some_and(|setting| setting.kind == DestinationKind::Cli);
        if !delivery.life.state.is_final() && !waits_for_client {
            let what = format!("{} is {} for ever", delivery.id, delivery.life.state.name());
            found.push(Violation::new(15, what, &[&delivery.id]));
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
    for attempt in &delivery.attempts {
        let mut dials = witness.story.dialled.iter();
        let sent = dials.find(|it| it.lease.delivery == delivery.id && it.lease.attempt == attempt.number);
        let is_after = sent.is_some_and(|sent| sent.started > witness.healed);
        if is_after && attempt.started_at > due.max(well) + START_WITHIN {
            return Err(format!("attempt {} at {}, due {due}", attempt.number, attempt.started_at));
        }
        let Some(result) = &attempt.result else { break };
        due = ended_at(attempt);
        if budget.count(result) {
            due = due + longest_wait(witness, place, budget.used, sent);
        }
    }
    Ok(())
}

/// The longest wait that any schedule the destination ever had would plan.
fn longest_wait(witness: &Witness<'_>, place: usize, used: u32, sent: Option<&Dialled>) -> Duration {
    let reply = sent.and_then(|sent| sent.ended.as_ref()).map(|(_, reply)| reply);
    let schedules = witness.cast.destinations[place].setting.ever().flatten();
    let all = schedules.filter_map(|setting| bounds(&setting.schedule, used, reply));
    let longest_ms = all.map(|bounds| bounds.most_ms).max().unwrap_or(0);
    // A clock that jumped during the attempt moves what the receiver asked for.
    let started = sent.map_or(Moment::default(), |sent| sent.started);
    Duration::from_millis(longest_ms + witness.clocks.forward_ms(started, witness.clocks.now))
}
