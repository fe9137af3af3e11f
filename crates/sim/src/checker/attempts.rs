//! 5 and 17: every request seen is recorded once, budgets are kept, and nothing goes where it must not.

use std::collections::BTreeSet;

use restante_core::endpoint::Receiver as Setting;
use restante_core::{FailureKind, Outcome, State};
use restante_store::row::{self, Trigger};

use super::Violation;
use super::waits::Budget;
use crate::receiver::Reply;
use crate::story::Dialled;
use crate::world::Witness;

/// Between a lane's word and the connection.
const HOP_MS: u64 = 4;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let dials = witness.dials();
    for (id, dialled) in &dials {
        let numbers: BTreeSet<u32> = dialled.iter().map(|it| it.lease.attempt).collect();
        if numbers.len() < dialled.len() {
            found.push(Violation::new(5, format!("{id}: an attempt was sent twice"), &[id]));
        }
    }
    for dialled in &witness.story.dialled {
        if let Err((invariant, what)) = check_dial(witness, dialled) {
            let id = dialled.lease.delivery;
            found.push(Violation::new(invariant, format!("{id}: {what}"), &[&id]));
        }
    }
    for delivery in witness.reads.deliveries().filter(|delivery| witness.remembers(delivery)) {
        let sent = dials.get(&delivery.id).map_or(&[][..], Vec::as_slice);
        if let Err(what) = check_record(witness, delivery, sent) {
            found.push(Violation::new(5, format!("{}: {what}", delivery.id), &[&delivery.id]));
        }
    }
}

fn check_dial(witness: &Witness<'_>, dialled: &Dialled) -> Result<(), (u8, String)> {
    if dialled.connected && witness.cast.receivers[dialled.receiver].is_forbidden {
        return Err((17, "a forbidden address was reached".into()));
    }
    let settings = &witness.cast.endpoints[dialled.endpoint].setting;
    let limits = settings.possible(dialled.started.before(HOP_MS), dialled.started).flatten();
    let most = limits.map(Setting::max_in_flight).max().unwrap_or(0);
    if dialled.in_flight >= most as usize {
        return Err((5, format!("{} in flight before it, {most} allowed", dialled.in_flight)));
    }
    Ok(())
}

/// Whether what is recorded and what was sent are the same attempts.
fn check_record(witness: &Witness<'_>, delivery: &row::Delivery, dials: &[&Dialled]) -> Result<(), String> {
    let numbers: Vec<u32> = delivery.attempts.iter().map(|attempt| attempt.number).collect();
    let dense: Vec<u32> = (1..=delivery.life.attempts_made).collect();
    if numbers != dense {
        return Err(format!("attempts {numbers:?} of {}", delivery.life.attempts_made));
    }
    for dialled in dials {
        let number = dialled.lease.attempt;
        let Some(attempt) = delivery.attempts.iter().find(|attempt| attempt.number == number) else {
            return Err(format!("attempt {number} was sent and is not recorded"));
        };
        check_result(attempt, dialled).map_err(|what| format!("attempt {number}: {what}"))?;
    }
    let mut budget = Budget::default();
    for attempt in &delivery.attempts {
        let Some(result) = &attempt.result else { continue };
        let was_sent = dials.iter().any(|dialled| dialled.lease.attempt == attempt.number);
        if !was_sent && !result.lost {
            return Err(format!("attempt {} has a result and was never sent", attempt.number));
        }
        if budget.count(attempt) != result.uses_budget {
            return Err(format!("attempt {} is counted wrongly", attempt.number));
        }
    }
    check_delivered(delivery)?;
    let Some(place) = witness.cast.find(delivery.endpoint) else { return Ok(()) };
    let schedules = witness.cast.endpoints[place].setting.ever().flatten();
    let most = schedules.map(|setting| setting.schedule().attempts_max()).max().unwrap_or(0);
    if budget.used != delivery.life.attempts_used || budget.used > most {
        return Err(format!(
            "{} attempts used, {} told, {most} allowed",
            budget.used, delivery.life.attempts_used
        ));
    }
    Ok(())
}

/// Whether a delivered attempt is the end, but for replays.
fn check_delivered(delivery: &row::Delivery) -> Result<(), String> {
    let mut attempts = delivery.attempts.iter();
    let delivered = |it: &row::Attempt| it.result.as_ref().is_some_and(|result| result.delivered);
    let Some(first) = attempts.find(|attempt| delivered(attempt)) else { return Ok(()) };
    if delivery.life.state != State::Delivered {
        return Err(format!("attempt {} delivered, and it is {:?}", first.number, delivery.life.state));
    }
    match attempts.find(|attempt| attempt.trigger != Trigger::Replay) {
        Some(later) => Err(format!("attempt {} after {} delivered", later.number, first.number)),
        None => Ok(()),
    }
}

fn check_result(attempt: &row::Attempt, dialled: &Dialled) -> Result<(), String> {
    let Some(result) = &attempt.result else { return Ok(()) };
    let settled_lost = dialled.settled.as_ref().is_none_or(|outcome| *outcome == Outcome::Lost);
    if result.lost {
        return if settled_lost { Ok(()) } else { Err("lost although its result was recorded".into()) };
    }
    if attempt.url != dialled.url {
        return Err(format!("recorded as sent to {}, was sent to {}", attempt.url, dialled.url));
    }
    let Some((_, reply)) = &dialled.ended else { return Err("has a result and never ended".into()) };
    let recorded = (result.delivered, result.status, result.failure);
    if recorded == recorded_as(reply) {
        Ok(())
    } else {
        Err(format!("{reply:?} is recorded as {recorded:?}"))
    }
}

fn recorded_as(reply: &Reply) -> (bool, Option<u16>, Option<FailureKind>) {
    match reply {
        Reply::Status { status: status @ 200..300, .. } => (true, Some(*status), None),
        Reply::Status { status, .. } => (false, Some(*status), Some(FailureKind::Status)),
        Reply::Broken(kind) => (false, None, Some(*kind)),
    }
}
