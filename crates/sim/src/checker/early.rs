//! 6: no attempt is early.
//!
//! Two witnesses: the times that are recorded, and the times the worker and the receiver saw. The latter may be
//! short by as much as the wall clock was set forward meanwhile.

use std::time::Duration;

use restante_core::Timestamp;
use restante_store::row::{self, Trigger};

use super::Violation;
use super::waits::{Bounds, Budget, bounds};
use crate::receiver::Reply;
use crate::story::Dialled;
use crate::timeline::Moment;
use crate::world::Witness;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let dials = witness.dials();
    for delivery in witness.reads.deliveries().filter(|delivery| witness.remembers(delivery)) {
        let sent = dials.get(&delivery.id).map_or(&[][..], Vec::as_slice);
        if let Err(what) = check_order(delivery).and_then(|()| check_waits(witness, delivery, sent)) {
            found.push(Violation::new(6, format!("{}: {what}", delivery.id), &[&delivery.id]));
        }
    }
}

/// Whether each attempt, replays included, begins after the end of the one before.
fn check_order(delivery: &row::Delivery) -> Result<(), String> {
    for pair in delivery.attempts.windows(2) {
        let [before, next] = pair else { continue };
        if before.result.is_none() {
            return Err("two attempts at once".into());
        }
        let earliest = ended_at(before);
        if next.started_at < earliest {
            return Err(format!("attempt {} at {}, in the one before", next.number, next.started_at));
        }
    }
    Ok(())
}

/// Whether the schedule's attempts keep its waits; what replays try in between is nothing to it.
fn check_waits(witness: &Witness<'_>, delivery: &row::Delivery, dials: &[&Dialled]) -> Result<(), String> {
    let mut budget = Budget::default();
    let scheduled: Vec<&row::Attempt> =
        delivery.attempts.iter().filter(|attempt| attempt.trigger != Trigger::Replay).collect();
    for pair in scheduled.windows(2) {
        let [before, next] = pair else { continue };
        let Some(result) = &before.result else { continue };
        let waits = budget.count(before);
        let dial = |number| dials.iter().find(|dialled| dialled.lease.attempt == number).copied();
        let (sent, sent_next) = (dial(before.number), dial(next.number));
        // A lost attempt may have gone on at its receiver, but it was over when somebody noticed.
        let over = sent.map(|sent| match &sent.ended {
            Some((ended, _)) if !result.lost => *ended,
            Some(_) | None => sent.started,
        });
        let used = waits.then_some(budget.used);
        let recorded = planned(witness, delivery, used, None, over, sent_next)?;
        let earliest = ended_at(before) + Duration::from_millis(recorded.least_ms);
        if next.started_at < earliest {
            return Err(format!("attempt {} at {}, planned {earliest}", next.number, next.started_at));
        }
        let (Some(sent), Some(sent_next)) = (sent, sent_next) else { continue };
        let Some((ended, reply)) = sent.ended.as_ref().filter(|_| !result.lost) else { continue };
        let seen = planned(witness, delivery, used, Some(reply), over, Some(sent_next))?;
        let forward_ms = witness.clocks.forward_ms(sent.started, sent_next.started);
        let waited_ms = sent_next.started.since(*ended) + forward_ms;
        if sent_next.started < *ended || waited_ms < seen.least_ms {
            return Err(format!("attempt {} after {waited_ms} ms of {}", next.number, seen.least_ms));
        }
    }
    Ok(())
}

/// The loosest bounds of all schedules that may have been in force between two attempts.
fn planned(
    witness: &Witness<'_>,
    delivery: &row::Delivery,
    used: Option<u32>,
    reply: Option<&Reply>,
    over: Option<Moment>,
    sent_next: Option<&Dialled>,
) -> Result<Bounds, String> {
    let at_once = Bounds { least_ms: 0, most_ms: 0 };
    let Some(used) = used else { return Ok(at_once) };
    let Some(place) = witness.cast.find(delivery.endpoint) else { return Ok(at_once) };
    let to = sent_next.map_or(witness.clocks.now, |next| next.started);
    let setting = &witness.cast.endpoints[place].setting;
    let settings = setting.possible(over.unwrap_or_default(), to).flatten();
    let all = settings.filter_map(|setting| bounds(setting.schedule(), used, reply));
    let loosest =
        all.reduce(|a, b| Bounds { least_ms: a.least_ms.min(b.least_ms), most_ms: a.most_ms.max(b.most_ms) });
    loosest.ok_or_else(|| format!("an attempt after {used} used ones is one too many"))
}

pub(super) fn ended_at(attempt: &row::Attempt) -> Timestamp {
    let ms = attempt.result.as_ref().map_or(0, |result| result.duration_ms);
    attempt.started_at + Duration::from_millis(ms)
}
