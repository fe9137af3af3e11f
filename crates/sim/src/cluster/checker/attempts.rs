//! 5, 6, 13 and 15: attempts are recorded once, by who made them; never early, never two at a time, never too late.

use std::collections::BTreeSet;
use std::time::Duration;

use restante_core::delivery::LOST_IN_ROW_MAX;
use restante_core::{Outcome, State};

use super::super::database::{AttemptRow, DeliveryRow, LAPSE_MS};
use super::super::story::{Dial, Told, Witness};
use super::violation;
use crate::checker::Violation;
use crate::receiver::Reply;
use crate::timeline::Moment;

/// Clocks of nodes are so far from each other at most, and rounding.
const SKEW_MS: u64 = 62;
/// After the end of a lease somebody takes it over within this.
const TAKE_OVER_MS: u64 = 10_000;
/// A heartbeat and its way.
const BEAT_MS: u64 = 2_050;
/// Due work starts within so long when nothing is wrong.
const START_MS: u64 = 60_000;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let dials = witness.dials();
    for (id, row) in &witness.reads.deliveries {
        let sent = dials.get(id).map_or(&[][..], Vec::as_slice);
        let mut tell = |result: Result<(), (u8, String)>| {
            found.extend(result.err().map(|(invariant, what)| violation(invariant, *id, &what)));
        };
        tell(recorded(witness, row, sent));
        sent.iter().for_each(|dial| tell(result(witness, dial)));
        sent.windows(2).for_each(|pair| tell(follows(witness, row, pair[0], pair[1])));
        tell(prompt(witness, row, sent));
    }
    for id in dials.keys().filter(|id| !witness.reads.deliveries.contains_key(id)) {
        found.push(violation(5, *id, "was dialled and is not there"));
    }
    for stale in &witness.story.stale {
        if stale.after.as_ref() != Some(&stale.before) {
            let what = format!(
                "n{} changes it at {:?} with a lease of attempt {} that is over: {:?}",
                stale.life, stale.at, stale.number, stale.after
            );
            found.push(violation(13, stale.before.id, &what));
        }
    }
}

fn recorded(witness: &Witness<'_>, row: &DeliveryRow, dials: &[&Dial]) -> Result<(), (u8, String)> {
    let sent: BTreeSet<u32> = dials.iter().map(|dial| dial.number).collect();
    if sent.len() < dials.len() {
        return Err((5, "an attempt was sent twice".into()));
    }
    let made = row.life.attempts_made;
    if row.life.state.is_final() {
        let of = |number: &u32| witness.reads.attempts.contains_key(&(row.id, *number));
        let numbers: Vec<u32> = (1..=made + 9).filter(of).collect();
        if numbers != (1..=made).collect::<Vec<_>>() {
            return Err((5, format!("attempts {numbers:?} of {made}")));
        }
    }
    let wasted = |number: &u32| {
        let attempt = witness.reads.attempts.get(&(row.id, *number));
        !sent.contains(number) && attempt.is_some_and(|attempt| attempt.outcome == Outcome::Lost)
    };
    if (1..=made).any(|first| (first..first + LOST_IN_ROW_MAX).all(|number| wasted(&number))) {
        return Err((5, "an attempt was used up and nothing was sent".into()));
    }
    match sent.last().filter(|last| **last > made) {
        Some(last) => Err((5, format!("attempt {last} was sent and is not recorded"))),
        None => Ok(()),
    }
}

/// What is recorded is what its receiver answered, by the node that dialled, or that it was lost.
fn result(witness: &Witness<'_>, dial: &Dial) -> Result<(), (u8, String)> {
    let Some(attempt) = witness.reads.attempts.get(&(dial.delivery, dial.number)) else { return Ok(()) };
    let AttemptRow { outcome, node, .. } = attempt;
    let fits = match (outcome, &dial.reply) {
        (Outcome::Lost, _) => return Ok(()),
        (Outcome::Delivered { .. }, Reply::Status { status, .. }) => (200..300).contains(status),
        (Outcome::Refused(_) | Outcome::Uncertain(_), _) => false,
        (Outcome::Failed(failure), Reply::Status { status, .. }) => failure.status == Some(*status),
        (Outcome::Failed(failure), Reply::Broken(kind)) => failure.kind == *kind,
        (Outcome::Delivered { .. }, Reply::Broken(_)) => false,
    };
    if fits && *node == dial.life {
        return Ok(());
    }
    Err((13, format!("attempt {} of n{} is recorded by n{node} as {outcome:?}", dial.number, dial.life)))
}

/// An attempt and the next one.
fn follows(
    witness: &Witness<'_>,
    row: &DeliveryRow,
    first: &Dial,
    second: &Dial,
) -> Result<(), (u8, String)> {
    if second.number <= first.number {
        return Err((5, format!("attempt {} was sent after {}", second.number, first.number)));
    }
    if second.started < first.ends {
        let what =
            format!("attempt {} of n{} began during that of n{}", second.number, second.life, first.life);
        return Err((13, what));
    }
    let results = (first.number..second.number).map(|number| witness.reads.attempts.get(&(row.id, number)));
    let (mut used, mut lost_in_row, mut last_failed) = (0, 0, false);
    for number in 1..second.number {
        let attempt = witness.reads.attempts.get(&(row.id, number));
        let lost = attempt.is_none_or(|attempt| attempt.outcome == Outcome::Lost);
        lost_in_row = if lost { lost_in_row + 1 } else { 0 };
        if !lost || lost_in_row == LOST_IN_ROW_MAX {
            used += 1;
            lost_in_row = 0;
        }
    }
    for attempt in results.flatten() {
        last_failed = attempt.outcome != Outcome::Lost;
    }
    if !last_failed {
        return Ok(());
    }
    let schedule = &witness.plan.endpoints[row.endpoint].schedule;
    let wait = schedule.wait_before(used + 1).unwrap_or(Duration::ZERO);
    let share = 1.0 - schedule.jitter_share();
    let wait_ms = wait.mul_f64(share).as_millis() as u64;
    let waited_ms = second.started.since(first.ends);
    if waited_ms + SKEW_MS < wait_ms {
        return Err((6, format!("attempt {} after {waited_ms} ms, {wait_ms} planned", second.number)));
    }
    Ok(())
}

/// Lost attempts are taken over in time, and due work starts in time once all is well.
fn prompt(witness: &Witness<'_>, row: &DeliveryRow, dials: &[&Dial]) -> Result<(), (u8, String)> {
    let story = witness.story;
    for dial in dials {
        let lost = witness
            .reads
            .attempts
            .get(&(dial.delivery, dial.number))
            .filter(|attempt| attempt.outcome == Outcome::Lost);
        let (Some(lost), Some(died)) = (lost, story.died.get(&dial.life)) else { continue };
        let lease_ends = died.at.after(longest_timeout_ms(witness, row.endpoint) + LAPSE_MS + BEAT_MS);
        let until = lease_ends.after(TAKE_OVER_MS);
        if !somebody_is_well(witness, lease_ends, until) {
            continue;
        }
        let wall = |moment: Moment| crate::timeline::Clocks::default().wall_at(moment);
        if lost.ended_at > wall(until.after(SKEW_MS)) {
            let what = format!("attempt {} of n{} was taken over too late", dial.number, dial.life);
            return Err((16, what));
        }
    }
    let rate = witness.plan.endpoints[row.endpoint].rate_per_second;
    if rate.is_some() || row.life.state != State::Delivered {
        return Ok(());
    }
    let publish = &story.publishes[row.marker];
    let Told::Accepted { at, .. } = publish.told else { return Ok(()) };
    let from = at.max(story.resumed);
    let ended_before = dials.last().is_none_or(|dial| dial.started <= from);
    let first_after = dials.iter().find(|dial| dial.started > from);
    if ended_before {
        return Ok(());
    }
    let planned = planned_after(witness, row, dials, from);
    match first_after.filter(|dial| dial.started > planned.after(START_MS)) {
        Some(dial) => Err((15, format!("attempt {} was due at {planned:?}", dial.number))),
        None => Ok(()),
    }
}

/// The latest moment at which the first attempt after `from` can have been due.
fn planned_after(witness: &Witness<'_>, row: &DeliveryRow, dials: &[&Dial], from: Moment) -> Moment {
    let Some(before) = dials.iter().rev().find(|dial| dial.started <= from) else { return from };
    let schedule = &witness.plan.endpoints[row.endpoint].schedule;
    let waits = (1..=schedule.attempts_max()).filter_map(|number| schedule.wait_before(number));
    let longest = waits.max().unwrap_or_default().mul_f64(1.0 + schedule.jitter_share());
    // After a timeout a minute at least.
    let wait_ms = (longest.as_millis() as u64).max(60_000);
    before.ends.after(wait_ms).max(from)
}

fn longest_timeout_ms(witness: &Witness<'_>, endpoint: usize) -> u64 {
    // People set timeouts of up to 30 seconds.
    u64::from(witness.plan.endpoints[endpoint].timeout_seconds).max(30) * 1000
}

/// Whether some node's place was without trouble all the while.
fn somebody_is_well(witness: &Witness<'_>, from: Moment, to: Moment) -> bool {
    let from = from.before(20_000);
    let troubled = |host: usize| {
        let mut troubles = witness.story.troubled.iter().filter(|trouble| trouble.host == host);
        troubles.any(|trouble| trouble.from <= to && trouble.to.after(3_000) >= from)
    };
    to <= witness.end && (0..witness.plan.hosts).any(|host| !troubled(host))
}
