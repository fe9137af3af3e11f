//! 7 and 13: nothing starts after its end was acknowledged, and a stale lease changes nothing.

use restante_core::message::MessageId;
use restante_store::Resent;
use restante_store::row::Trigger;

use super::Violation;
use crate::cast::places;
use crate::story::outbound::Taken;
use crate::story::{Dialled, Order};
use crate::world::Witness;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for dialled in &witness.story.dialled {
        if let Err(what) = check_start(witness, dialled) {
            let id = dialled.lease.delivery;
            found.push(Violation::new(7, format!("{id}: attempt {} {what}", dialled.lease.attempt), &[&id]));
        }
    }
    for stale in witness.story.stale.iter().filter(|stale| stale.before != stale.after) {
        let id = stale.lease.delivery;
        let what = format!("{id}: attempt {} ended again at {:?}", stale.lease.attempt, stale.at);
        found.push(Violation::new(13, what, &[&id]));
    }
}

fn check_start(witness: &Witness<'_>, dialled: &Dialled) -> Result<(), String> {
    let after = |order: &Order<_>| order.told.is_some_and(|told| dialled.started > told);
    let mut cancels = witness.story.cancels.iter().filter(|order| order.what == dialled.lease.delivery);
    if cancels.any(|order| after(order) && !was_asked_for_again(witness, dialled)) {
        return Err("started after its cancel was acknowledged".into());
    }
    let erased = |order: &&Order<_>| MessageId::Request(order.what) == dialled.message;
    let erasures = witness.story.erasures.iter().filter(erased);
    if erasures.filter_map(|order| order.told).any(|told| dialled.started > told) {
        return Err("started after its request was erased".into());
    }
    let setting = &witness.cast.endpoints[dialled.endpoint].setting;
    // What was acknowledged in the same millisecond may have been acknowledged after the start.
    let mut possible = setting.possible(dialled.started.before(1), dialled.started).flatten();
    let may_go =
        possible.any(|setting| !setting.is_paused() && places(setting.url()) == places(&dialled.url));
    if !may_go {
        return Err(format!(
            "started at {} although its endpoint is paused, deleted or elsewhere",
            dialled.url
        ));
    }
    let is_ours = |id| MessageId::Request(id) == dialled.message;
    let Some(known) = witness.story.requests.iter().find(|known| is_ours(known.id)) else {
        return Ok(());
    };
    // In its millisecond the clock may have been set after the start.
    if witness.clocks.least_wall(dialled.started.before(1), dialled.started) >= witness.expires_at(known) {
        return Err("started after its request expired".into());
    }
    Ok(())
}

/// Whether somebody asked for a replay of the delivery after it had last been cancelled.
fn was_asked_for_again(witness: &Witness<'_>, dialled: &Dialled) -> bool {
    let mut again = false;
    for (at, taken) in &witness.story.taken {
        match taken {
            Taken::Cancel { delivery } if *delivery == dialled.lease.delivery && *at < dialled.started => {
                again = false;
            }
            Taken::Resend { resend, resent: Resent::Started { .. }, .. } => {
                let resend = &witness.story.resends[*resend];
                again |= resend.endpoint == dialled.endpoint && *at <= dialled.started;
            }
            Taken::Cancel { .. }
            | Taken::Resend { .. }
            | Taken::Call { .. }
            | Taken::Attempt { .. }
            | Taken::Change { .. }
            | Taken::Test { .. }
            | Taken::Deletion { .. }
            | Taken::Look { .. } => {}
        }
    }
    again && witness.trigger(dialled.lease) == Some(Trigger::Replay)
}
