//! 1, 2, 3, 7 and 15: what was acknowledged comes to its end, nothing else is sent, what was stopped stays so.

use std::collections::BTreeSet;

use restante_core::State;
use restante_core::delivery::CancelReason;

use super::super::story::{Told, Witness};
use super::violation;
use crate::checker::Violation;
use crate::receiver::Reply;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    acknowledged(witness, found);
    messages(witness, found);
    ends(witness, found);
    orders(witness, found);
}

fn acknowledged(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for publish in &witness.story.publishes {
        let Told::Accepted { deliveries, .. } = &publish.told else { continue };
        for delivery in deliveries.iter().filter(|id| !witness.reads.deliveries.contains_key(id)) {
            found.push(violation(1, *delivery, "was acknowledged and is not there"));
        }
    }
}

/// One call is one message; what was refused is none.
fn messages(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for (marker, publish) in witness.story.publishes.iter().enumerate() {
        let of_marker = witness.reads.deliveries.values().filter(|row| row.marker == marker);
        let seen = witness.story.dials.iter().filter(|dial| dial.marker == marker).map(|dial| dial.message);
        let messages: BTreeSet<i64> = of_marker.map(|row| row.message).chain(seen).collect();
        let words: [&dyn std::fmt::Display; 1] = [&format!("publish {marker}")];
        if messages.len() > 1 {
            found.push(Violation::new(3, format!("publish {marker} is {} messages", messages.len()), &words));
        }
        if publish.told == Told::Refused && !messages.is_empty() {
            found.push(Violation::new(2, format!("publish {marker} was refused and is there"), &words));
        }
        if let Told::Accepted { message, .. } = &publish.told
            && messages.iter().any(|it| it != message)
        {
            found.push(Violation::new(3, format!("publish {marker} is another message too"), &words));
        }
    }
}

/// Everything has ended, and as its receiver or its owner knows.
fn ends(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let dials = witness.dials();
    for (id, row) in &witness.reads.deliveries {
        let replies = dials.get(id).into_iter().flatten().map(|dial| &dial.reply);
        let succeeded =
            replies.filter(|reply| matches!(reply, Reply::Status { status: 200..300, .. })).count();
        let what = match row.life.state {
            State::Pending | State::Sending => Some((15, "has not ended")),
            State::Delivered => (succeeded == 0).then_some((1, "is delivered and nobody got it")),
            State::Failed(_) => (!dials.contains_key(id)).then_some((1, "has failed and was never tried")),
            State::Cancelled(CancelReason::Requested) => {
                let asked = witness.story.cancels.iter().any(|cancel| cancel.delivery == *id);
                (!asked).then_some((1, "is cancelled and nobody asked for it"))
            }
            State::Cancelled(_) => {
                let asked = witness.story.settings[row.endpoint].ever().any(|setting| setting.gone);
                (!asked).then_some((1, "is cancelled and nobody deleted its endpoint"))
            }
            State::Skipped => Some((1, "is skipped")),
        };
        found.extend(what.map(|(invariant, what)| violation(invariant, *id, what)));
    }
}

fn orders(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for cancel in &witness.story.cancels {
        let Some(told) = cancel.told else { continue };
        let later = |dial: &&_| {
            let dial: &super::Dial = dial;
            dial.delivery == cancel.delivery && dial.started > told
        };
        if witness.story.dials.iter().any(|dial| later(&dial)) {
            found.push(violation(7, cancel.delivery, "was dialled after its cancel was acknowledged"));
        }
    }
    for row in witness.reads.deliveries.values() {
        let asked = witness.story.publishes[row.marker].asked;
        if witness.story.settings[row.endpoint].possible(asked, witness.end).all(|setting| setting.gone) {
            found.push(violation(7, row.id, "was made for an endpoint that was deleted before"));
        }
    }
    for dial in &witness.story.dials {
        // What is acknowledged in this millisecond may come after it.
        let from = dial.started.before(1);
        let mut possible = witness.story.settings[dial.endpoint].possible(from, dial.started);
        if !possible.any(|setting| !setting.paused && !setting.gone) {
            let what = format!("was dialled although e{} is paused or gone", dial.endpoint);
            found.push(violation(7, dial.delivery, &what));
        }
    }
}
