//! 1, 2 and 14: what was acknowledged is there, what was refused is not, and bytes are as they were.

use restante_core::State;
use restante_core::delivery::{CancelReason, FailReason};
use restante_core::message::Received;
use restante_store::row;

use super::Violation;
use crate::receiver::Reply;
use crate::story::{Dialled, Known, Told};
use crate::world::Witness;

/// Headers that belong to one hop or are made anew (RFC 9110, 7.6.1), as far as publishers here send them.
const OF_ONE_HOP: [&str; 5] = ["host", "content-length", "connection", "te", "x-hop"];

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for known in &witness.story.requests {
        check_known(witness, known, found);
    }
    for dialled in &witness.story.dialled {
        check_sent(witness, dialled, found);
    }
    let dials = witness.dials();
    for request in witness.reads.visible() {
        for delivery in &request.deliveries {
            let sent = dials.get(&delivery.id).map_or(&[][..], Vec::as_slice);
            if let Err(what) = check_state(witness, request, delivery, sent) {
                found.push(Violation::new(1, format!("{}: {what}", delivery.id), &[&delivery.id]));
            }
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
        let id = witness.cast.destinations[*place].id;
        let there = shown.deliveries.iter().any(|it| Some(it.destination_id) == id && it.retry_of.is_none());
        if !there {
            found.push(lost(format!("{} has no delivery to d{place}", known.id)));
        }
    }
}

fn check_sent(witness: &Witness<'_>, dialled: &Dialled, found: &mut Vec<Violation>) {
    let id = dialled.lease.delivery;
    let publish = dialled.sent.marker().and_then(|marker| witness.story.publishes.get(marker as usize));
    let Some(publish) = publish else {
        return found.push(Violation::new(14, format!("{id} carries what nobody published"), &[&id]));
    };
    if publish.told == Told::Refused {
        found.push(Violation::new(2, format!("{id} delivers what was refused"), &[&id]));
    }
    if publish.source != Some(witness.cast.destinations[dialled.destination].source) {
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
    let rest = url.split_once(".example/d").map_or("", |(_, rest)| rest);
    rest.trim_start_matches(|char: char| char.is_ascii_digit())
}

fn joined(received: &Received) -> String {
    let query = received.query.as_deref().filter(|query| !query.is_empty());
    format!("{}{}", received.path, query.map_or(String::new(), |query| format!("?{query}")))
}

/// Whether a delivery's state has a reason that the outside knows.
fn check_state(
    witness: &Witness<'_>,
    request: &row::Request,
    delivery: &row::Delivery,
    dials: &[&Dialled],
) -> Result<(), String> {
    let Some(place) = witness.cast.find(delivery.destination_id) else { return Ok(()) };
    let destination = &witness.cast.destinations[place];
    let cancels = || witness.story.cancels.iter().filter(|order| order.what == delivery.id);
    let was_told = cancels().any(|order| order.told.is_some());
    let holds = match delivery.life.state {
        State::Pending | State::Sending => !was_told,
        State::Delivered => dials.iter().any(|dialled| dialled.arrived && was_accepted(dialled)),
        State::Failed(FailReason::Exhausted) => {
            let schedules = destination.setting.ever().flatten().map(|setting| &setting.schedule);
            let least = schedules.map(restante_core::retry::Schedule::attempts_max).min();
            !was_told && least.is_some_and(|least| delivery.life.attempts_used >= least)
        }
        State::Cancelled(CancelReason::Requested) => cancels().next().is_some(),
        State::Cancelled(CancelReason::EndpointDeleted) => destination.setting.ever().any(Option::is_none),
        State::Cancelled(CancelReason::SourceDeleted) => {
            witness.cast.sources[destination.source].deletion_asked.is_some()
        }
        State::Cancelled(CancelReason::Expired) => request.expires_at <= witness.clocks.most_wall(),
    };
    if holds { Ok(()) } else { Err(format!("{:?} without a reason", delivery.life.state)) }
}

fn was_accepted(dialled: &Dialled) -> bool {
    matches!(&dialled.ended, Some((_, Reply::Status { status: 200..300, .. })))
}
