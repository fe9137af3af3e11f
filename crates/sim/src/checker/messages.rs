//! 1, 2 and 14: what was acknowledged is there, what was refused is not, and bytes are as they were.

use std::iter::repeat;

use restante_core::delivery::{CancelReason, FailReason};
use restante_core::endpoint::Receiver as Setting;
use restante_core::message::Received;
use restante_core::{State, Timestamp};
use restante_store::row;

use super::Violation;
use crate::cast::Owner;
use crate::receiver::Reply;
use crate::story::{Dialled, Known, Origin, Told};
use crate::world::Witness;

/// Headers that belong to one hop or are made anew (RFC 9110, 7.6.1), as far as publishers here send them.
const OF_ONE_HOP: [&str; 5] = ["host", "content-length", "connection", "te", "x-hop"];

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for known in &witness.story.requests {
        check_known(witness, known, found);
    }
    for dialled in &witness.story.dialled {
        match dialled.sent.origin() {
            Some(Origin::Publish(marker)) => check_sent(witness, dialled, marker, found),
            // `events.rs` looks at those.
            Some(Origin::Content(..)) => {}
            None => {
                let id = dialled.lease.delivery;
                found.push(Violation::new(14, format!("{id} carries what nobody published"), &[&id]));
            }
        }
    }
    let dials = witness.dials();
    let requests =
        witness.reads.visible().flat_map(|it| it.deliveries.iter().zip(repeat(Some(it.expires_at))));
    // An event does not expire before all its deliveries have ended.
    let events = witness.reads.visible_events().flat_map(|it| it.deliveries.iter().zip(repeat(None)));
    for (delivery, expires_at) in requests.chain(events) {
        let sent = dials.get(&delivery.id).map_or(&[][..], Vec::as_slice);
        if let Err(what) = check_state(witness, expires_at, delivery, sent) {
            found.push(Violation::new(1, format!("{}: {what}", delivery.id), &[&delivery.id]));
        }
    }
}

fn check_known(witness: &Witness<'_>, known: &Known, found: &mut Vec<Violation>) {
    let erasures = || witness.story.erasures.iter().filter(|order| order.what == known.id);
    let shown = witness.reads.requests.get(&known.id).and_then(Option::as_ref);
    let lost = |what: String| Violation::new(1, what, &[&known.id, &format!("publish {}:", known.marker)]);
    let Some(shown) = shown else {
        let may_be_gone =
            erasures().next().is_some() || witness.expires_at(known) <= witness.clocks.most_wall();
        if !may_be_gone {
            found.push(lost(format!("{} was acknowledged and is not there", known.id)));
        }
        return;
    };
    if erasures().any(|order| order.told.is_some()) {
        found.push(lost(format!("{} was erased and is still there", known.id)));
    }
    for place in &known.destinations {
        let id = witness.cast.endpoints[*place].id;
        let there = shown.deliveries.iter().any(|it| Some(it.endpoint) == id && it.retry_of.is_none());
        if !there {
            found.push(lost(format!("{} has no delivery to e{place}", known.id)));
        }
    }
}

fn check_sent(witness: &Witness<'_>, dialled: &Dialled, marker: u64, found: &mut Vec<Violation>) {
    let id = dialled.lease.delivery;
    let publish = witness.story.publishes.get(marker as usize);
    let Some(publish) = publish else {
        return found.push(Violation::new(14, format!("{id} carries what nobody published"), &[&id]));
    };
    if publish.told == Told::Refused {
        found.push(Violation::new(2, format!("{id} delivers what was refused"), &[&id]));
    }
    if publish.source.map(Owner::Source) != Some(witness.cast.endpoints[dialled.endpoint].owner) {
        found.push(Violation::new(14, format!("{id} goes to a destination of another source"), &[&id]));
    }
    let intact = dialled.sent.method == publish.received.method
        && dialled.sent.body == publish.received.body
        && dialled.sent.headers == forwarded(&publish.received)
        && tail_of(&dialled.url) == joined(&publish.received);
    if !intact {
        found.push(Violation::new(14, format!("{id} is not what was published"), &[&id]));
    }
}

/// The header lines a receiver must get: order, duplicates and bytes as published.
fn forwarded(received: &Received) -> Vec<(String, Vec<u8>)> {
    let lines = received.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    lines.filter(|(name, _)| !OF_ONE_HOP.contains(&name.as_str())).collect()
}

/// What stands in a target behind the destination's own URL.
fn tail_of(url: &str) -> &str {
    let rest = url.split_once(".example/e").map_or("", |(_, rest)| rest);
    rest.trim_start_matches(|char: char| char.is_ascii_digit())
}

fn joined(received: &Received) -> String {
    let query = received.query.as_deref().filter(|query| !query.is_empty());
    format!("{}{}", received.path, query.map_or(String::new(), |query| format!("?{query}")))
}

/// Whether a delivery's state has a reason that the outside knows.
fn check_state(
    witness: &Witness<'_>,
    expires_at: Option<Timestamp>,
    delivery: &row::Delivery,
    dials: &[&Dialled],
) -> Result<(), String> {
    let Some(place) = witness.cast.find(delivery.endpoint) else { return Ok(()) };
    let endpoint = &witness.cast.endpoints[place];
    let cancels = || witness.story.cancels.iter().filter(|order| order.what == delivery.id);
    let was_told = cancels().any(|order| order.told.is_some());
    let holds = match delivery.life.state {
        State::Pending | State::Sending => !was_told,
        State::Delivered => dials.iter().any(|dialled| dialled.arrived && was_accepted(dialled)),
        State::Failed(FailReason::Exhausted) => {
            let schedules = endpoint.setting.ever().flatten().map(Setting::schedule);
            let least = schedules.map(restante_core::retry::Schedule::attempts_max).min();
            !was_told && least.is_some_and(|least| delivery.life.attempts_used >= least)
        }
        // Nobody in this world sends emails.
        State::Failed(FailReason::Refused | FailReason::Uncertain) => false,
        // `pauses.rs` looks closer.
        State::Failed(FailReason::EndpointPaused) | State::Skipped => {
            let mut settings = endpoint.setting.ever().flatten();
            witness.cast.is_webhook(place) && settings.any(Setting::is_paused)
        }
        State::Cancelled(CancelReason::Requested) => cancels().next().is_some(),
        State::Cancelled(CancelReason::EndpointDeleted) => endpoint.setting.ever().any(Option::is_none),
        State::Cancelled(CancelReason::SourceDeleted) => {
            matches!(endpoint.owner, Owner::Source(it) if witness.cast.sources[it].deletion_asked.is_some())
        }
        State::Cancelled(CancelReason::Expired) => {
            expires_at.is_some_and(|at| at <= witness.clocks.most_wall())
        }
    };
    if holds { Ok(()) } else { Err(format!("{:?} without a reason", delivery.life.state)) }
}

fn was_accepted(dialled: &Dialled) -> bool {
    matches!(&dialled.ended, Some((_, Reply::Status { status: 200..300, .. })))
}
