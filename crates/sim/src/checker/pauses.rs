//! 1 and 7, of pauses: what is pending ends, what comes is skipped, and only a recovery makes good for it.

use std::collections::BTreeMap;

use restante_core::State;
use restante_core::delivery::{CancelReason, FailReason};
use restante_core::id::DeliveryId;
use restante_store::row::{self, Trigger};
use restante_store::{Resent, Window};

use super::Violation;
use super::health::{Turn, turns};
use crate::story::Dialled;
use crate::story::outbound::{Taken, What};
use crate::timeline::Moment;
use crate::world::Witness;

/// A recovery that began.
#[derive(Clone, Copy)]
struct Recovery {
    place: usize,
    at: Moment,
    window: Option<Window>,
}

/// What happened to one webhook.
struct Course {
    turns: Vec<Turn>,
    recoveries: Vec<Recovery>,
    /// When each attempt's result was taken.
    settled: BTreeMap<(DeliveryId, u32), usize>,
    deletion: Option<usize>,
}

/// An event's delivery to that webhook.
struct Case<'a> {
    delivery: &'a row::Delivery,
    /// How much the store had taken before its event.
    place: usize,
    dials: &'a [&'a Dialled],
    /// Its event is still there in the end.
    is_kept: bool,
}

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let (accepted, dials) = (witness.accepted(), witness.dials());
    let courses: Vec<Option<Course>> =
        (0..witness.cast.endpoints.len()).map(|endpoint| course(witness, endpoint)).collect();
    for event in witness.reads.visible_events() {
        let Some((place, _)) = accepted.get(&event.id) else { continue };
        let is_kept = !witness.reads.gone.contains(&event.id);
        for delivery in event.deliveries.iter().filter(|delivery| witness.remembers(delivery)) {
            let endpoint = witness.cast.find(delivery.endpoint);
            let Some(Some(course)) = endpoint.map(|endpoint| &courses[endpoint]) else { continue };
            let dials = dials.get(&delivery.id).map_or(&[][..], Vec::as_slice);
            let case = Case { delivery, place: *place, dials, is_kept };
            let held = check_attempts(course, &case).map_err(|what| (7, what));
            if let Err((invariant, what)) =
                held.and_then(|()| check_end(course, &case).map_err(|what| (1, what)))
            {
                found.push(Violation::new(invariant, format!("{}: {what}", delivery.id), &[&delivery.id]));
            }
        }
    }
}

fn course(witness: &Witness<'_>, of: usize) -> Option<Course> {
    let turns = turns(witness, of).filter(|_| witness.cast.is_webhook(of))?;
    let mut course = Course { turns, recoveries: Vec::new(), settled: BTreeMap::new(), deletion: None };
    for (place, (at, taken)) in witness.story.taken.iter().enumerate() {
        match taken {
            Taken::Resend { resend, resent: Resent::Started { .. }, .. } => {
                let resend = &witness.story.resends[*resend];
                if let (What::Skipped(window), true) = (resend.what, resend.endpoint == of) {
                    course.recoveries.push(Recovery { place, at: *at, window });
                }
            }
            Taken::Attempt { endpoint, lease, .. } if *endpoint == of => {
                course.settled.insert((lease.delivery, lease.attempt), place);
            }
            Taken::Deletion { endpoint } if *endpoint == of => course.deletion = Some(place),
            Taken::Attempt { .. }
            | Taken::Deletion { .. }
            | Taken::Resend { .. }
            | Taken::Call { .. }
            | Taken::Change { .. }
            | Taken::Test { .. }
            | Taken::Cancel { .. }
            | Taken::Look { .. } => {}
        }
    }
    Some(course)
}

impl Course {
    /// The last pause that ended a delivery, of those taken before `until`: it was pending, or its event came
    /// meanwhile.
    fn pause(&self, case: &Case<'_>, until: usize) -> Option<Turn> {
        let mut turns = self.turns.iter().filter(|turn| turn.place < until);
        let in_force = turns.clone().take_while(|turn| turn.place < case.place).last();
        let later = turns.rfind(|turn| turn.paused && turn.place > case.place);
        later.or(in_force.filter(|turn| turn.paused)).copied()
    }

    /// The first pause that ended a delivery.
    fn first_pause(&self, case: &Case<'_>) -> Option<Turn> {
        let in_force = self.turns.iter().take_while(|turn| turn.place < case.place).last();
        let later = self.turns.iter().find(|turn| turn.paused && turn.place > case.place);
        in_force.filter(|turn| turn.paused).or(later).copied()
    }

    /// Recoveries after a pause that may take this delivery.
    fn recoveries(&self, case: &Case<'_>, pause: Turn) -> impl Iterator<Item = &Recovery> {
        let after = pause.place.max(case.place);
        let accepted_at = case.delivery.created_at;
        self.recoveries.iter().filter(move |recovery| {
            let takes = |window: Window| window.since <= accepted_at && accepted_at <= window.until;
            recovery.place > after && recovery.window.is_none_or(takes)
        })
    }
}

impl Case<'_> {
    fn trigger(&self, number: u32) -> Option<Trigger> {
        self.delivery.attempts.iter().find(|attempt| attempt.number == number).map(|it| it.trigger)
    }

    fn automatic(&self) -> impl Iterator<Item = &row::Attempt> {
        self.delivery.attempts.iter().filter(|attempt| attempt.trigger != Trigger::Replay)
    }
}

/// Whether the schedule went on after a pause although nobody asked for that.
fn check_attempts(course: &Course, case: &Case<'_>) -> Result<(), String> {
    for dialled in case.dials {
        let number = dialled.lease.attempt;
        if case.trigger(number) == Some(Trigger::Replay) {
            continue;
        }
        // What is taken in the millisecond of the start may be taken after it.
        let before = course.turns.iter().filter(|turn| turn.at < dialled.started).map(|turn| turn.place + 1);
        let until = before.max().unwrap_or(0);
        let Some(pause) = course.pause(case, until) else { continue };
        if !course.recoveries(case, pause).any(|recovery| recovery.at <= dialled.started) {
            return Err(format!("attempt {number} although a pause had ended it, and nobody recovered it"));
        }
        let tried = case.dials.iter().any(|other| {
            let is_automatic = case.trigger(other.lease.attempt) != Some(Trigger::Replay);
            is_automatic && other.started < pause.at
        });
        if tried {
            return Err(format!("attempt {number} after a pause that found it tried before"));
        }
    }
    Ok(())
}

/// Whether a delivery's state is what the last pause left.
fn check_end(course: &Course, case: &Case<'_>) -> Result<(), String> {
    let state = case.delivery.life.state;
    let Some(pause) = course.pause(case, usize::MAX) else {
        return match state {
            State::Skipped | State::Failed(FailReason::EndpointPaused) => {
                Err(format!("is {state:?} although its webhook was not paused"))
            }
            State::Pending
            | State::Sending
            | State::Delivered
            | State::Failed(FailReason::Exhausted | FailReason::Refused | FailReason::Uncertain)
            | State::Cancelled(_) => Ok(()),
        };
    };
    if state == State::Skipped {
        if case.automatic().next().is_some() {
            return Err("is skipped and has an attempt of its schedule".into());
        }
        // What is past its time is not recovered.
        return if case.is_kept { check_recovered(course, case, pause) } else { Ok(()) };
    }
    if course.recoveries(case, pause).next().is_some() {
        return Ok(());
    }
    match state {
        State::Failed(FailReason::EndpointPaused) if case.delivery.attempts.is_empty() => {
            Err("was never tried and is not skipped".into())
        }
        State::Failed(FailReason::Exhausted) => {
            let last = case.automatic().last().map(|attempt| (case.delivery.id, attempt.number));
            let settled = last.and_then(|last| course.settled.get(&last));
            match settled {
                Some(settled) if *settled > pause.place => Err("is exhausted after a pause".into()),
                Some(_) | None => Ok(()),
            }
        }
        State::Cancelled(CancelReason::EndpointDeleted) => {
            let in_flight = case.dials.iter().any(|dialled| {
                let lease = (dialled.lease.delivery, dialled.lease.attempt);
                dialled.started <= pause.at && course.settled.get(&lease).is_none_or(|it| *it > pause.place)
            });
            let deleted_later = course.deletion.is_none_or(|deletion| deletion > pause.place);
            if deleted_later && !in_flight {
                return Err("was ended by a pause, and is cancelled".into());
            }
            Ok(())
        }
        State::Pending
        | State::Sending
        | State::Delivered
        | State::Skipped
        | State::Failed(FailReason::EndpointPaused | FailReason::Refused | FailReason::Uncertain)
        | State::Cancelled(_) => Ok(()),
    }
}

/// Whether a recovery passed over a skipped delivery.
fn check_recovered(course: &Course, case: &Case<'_>, pause: Turn) -> Result<(), String> {
    let ended = |recovery: &Recovery| {
        course.turns.iter().any(|turn| turn.paused && turn.place > recovery.place)
            || course.deletion.is_some_and(|deletion| deletion > recovery.place)
    };
    let in_flight = |recovery: &Recovery| {
        case.dials.iter().any(|dialled| {
            let lease = (dialled.lease.delivery, dialled.lease.attempt);
            course.settled.get(&lease).is_none_or(|it| *it > recovery.place)
        })
    };
    for recovery in course.recoveries(case, pause).filter(|it| !ended(it) && !in_flight(it)) {
        // Without a window it is about what was skipped since the last pause.
        let last = course.turns.iter().rfind(|turn| turn.paused && turn.place < recovery.place);
        let first = course.first_pause(case).map(|first| first.place);
        let may_be_earlier = recovery.window.is_none() && first != last.map(|last| last.place);
        if !may_be_earlier {
            return Err("is skipped although it was recovered".into());
        }
    }
    Ok(())
}
