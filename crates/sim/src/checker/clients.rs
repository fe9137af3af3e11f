//! 9: while no client is connected no attempt begins; without `deliver_pending_on_connect` clients get only what was made
//! after they came, with it all that is due.

use restante_core::endpoint::Receiver as Setting;
use restante_core::id::DeliveryId;
use restante_core::message::MessageId;

use super::Violation;
use crate::cast::{Listeners, Owner, Source};
use crate::story::Dialled;
use crate::timeline::Moment;
use crate::world::Witness;

/// Where the clock was set times tell what was made before a client came only so well.
const UNSURE_MS: u64 = 1_000;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for dialled in &witness.story.dialled {
        let Some(source) = source_of(witness, dialled.endpoint) else { continue };
        if let Err(what) = check_dial(witness, source, dialled) {
            let id = dialled.lease.delivery;
            found.push(Violation::new(9, format!("{id}: attempt {} {what}", dialled.lease.attempt), &[&id]));
        }
    }
}

fn check_dial(witness: &Witness<'_>, source: &Source, dialled: &Dialled) -> Result<(), String> {
    // What was acknowledged in the same millisecond may have been acknowledged after the start.
    let (from, to) = (dialled.started.before(1), dialled.started);
    let listeners: Vec<Listeners> = source.listening.possible(from, to).copied().flatten().collect();
    if listeners.is_empty() {
        return Err("while no client is connected".into());
    }
    if source.takes_pending.possible(from, to).any(|takes| *takes) {
        return Ok(());
    }
    let Some(told) = made_by(witness, dialled.message, dialled.lease.delivery) else { return Ok(()) };
    match listeners.iter().any(|it| !is_before(witness, told, it.least)) {
        true => Ok(()),
        false => Err(format!("of what was there at {told:?}, by {listeners:?}")),
    }
}

fn is_before(witness: &Witness<'_>, told: Moment, came: Moment) -> bool {
    let unsure_ms = if witness.clocks.has_jumped(told, came) { UNSURE_MS } else { 0 };
    told.after(unsure_ms) < came
}

/// When somebody was told of a delivery: by then it was there. `None`: nobody was.
fn made_by(witness: &Witness<'_>, message: MessageId, delivery: DeliveryId) -> Option<Moment> {
    let shown = witness.reads.deliveries().find(|shown| shown.id == delivery)?;
    if shown.retry_of.is_some() {
        return witness.story.retries.iter().find(|retry| retry.new == Some(delivery))?.told;
    }
    let requests = witness.story.requests.iter();
    requests.filter(|known| MessageId::Request(known.id) == message).map(|known| known.told).next()
}

/// The source of a destination that is reached through clients.
fn source_of<'a>(witness: &Witness<'a>, endpoint: usize) -> Option<&'a Source> {
    let it = &witness.cast.endpoints[endpoint];
    let Owner::Source(source) = it.owner else { return None };
    it.setting.ever().flatten().all(Setting::needs_client).then(|| &witness.cast.sources[source])
}

/// Whether a delivery may wait for ever: it may have been made before the clients came that are there, and they do not
/// get it.
pub(super) fn may_be_kept(witness: &Witness<'_>, endpoint: usize, made_at_least: Option<Moment>) -> bool {
    let Some(source) = source_of(witness, endpoint) else { return false };
    let Some(Listeners { most, .. }) = *source.listening.last() else { return true };
    let sure = made_at_least.is_some_and(|made| made > most && !witness.clocks.has_jumped(most, made));
    !source.takes_pending.last() && !sure
}
