//! 1, 2, 10 and 14, of events: each goes, byte for byte and under one id, to the webhooks that wanted it.

use std::collections::{BTreeMap, BTreeSet};

use restante_core::endpoint::{EndpointId, Receiver as Setting};
use restante_core::id::EventId;
use restante_core::message::MessageId;
use restante_store::row;

use super::Violation;
use crate::cast::Owner;
use crate::plan::SHORT_RETENTION;
use crate::story::outbound::{Answered, Call, KnownEvent, Taken};
use crate::story::{Dialled, Origin, WEBHOOK_ID};
use crate::timeline::Moment;
use crate::world::Witness;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let accepted = witness.accepted();
    for known in &witness.story.events {
        if let Err((invariant, what)) = check_known(witness, known, &accepted) {
            found.push(Violation::new(invariant, format!("{}: {what}", known.id), &[&known.id]));
        }
    }
    let mut bodies = BTreeMap::new();
    for dialled in &witness.story.dialled {
        let Some(Origin::Content(content, item)) = dialled.sent.origin() else { continue };
        if let Err((invariant, what)) = check_sent(witness, dialled, content as usize, item as usize) {
            let id = dialled.lease.delivery;
            found.push(Violation::new(invariant, format!("{id}: {what}"), &[&id, &dialled.message]));
        }
        let first = bodies.entry(dialled.message).or_insert(&dialled.sent.body);
        if **first != dialled.sent.body {
            let what = format!("{} is sent with other bytes than before", dialled.message);
            found.push(Violation::new(14, what, &[&dialled.message]));
        }
    }
    check_sightings(witness, found);
}

impl Witness<'_> {
    /// The calls that say the same under the same key as this one.
    pub(super) fn same_calls(&self, call: &Call) -> impl Iterator<Item = &Call> {
        let (workspace, key, content) = (call.workspace, call.key.clone(), call.content);
        let calls = self.story.calls.iter();
        calls.filter(move |it| it.workspace == workspace && it.key == key && it.content == content)
    }

    /// When the store took each event: how much it had taken before, and the moment.
    pub(super) fn accepted(&self) -> BTreeMap<EventId, (usize, Moment)> {
        let mut accepted = BTreeMap::new();
        for (place, (at, taken)) in self.story.taken.iter().enumerate() {
            if let Taken::Call { events, .. } = taken {
                accepted.extend(events.iter().map(|receipt| (receipt.id, (place, *at))));
            }
        }
        accepted
    }
}

fn check_known(
    witness: &Witness<'_>,
    known: &KnownEvent,
    accepted: &BTreeMap<EventId, (usize, Moment)>,
) -> Result<(), (u8, String)> {
    let Some((_, at)) = accepted.get(&known.id) else {
        return Err((1, "was told of, but the store never took it".into()));
    };
    let shown = witness.reads.events.get(&known.id).and_then(Option::as_ref);
    if witness.reads.gone.contains(&known.id) && !may_be_gone(witness, known, *at, shown) {
        return Err((1, "was acknowledged and is not there".into()));
    }
    let Some(shown) = shown else { return Ok(()) };
    let call = &witness.story.calls[known.call];
    let mut bodies = witness.same_calls(call).filter_map(|it| it.bodies.get(known.item));
    if !bodies.any(|body| *body == shown.body) {
        return Err((14, "is not what was published".into()));
    }
    let item = &witness.story.contents[call.content].items[known.item];
    if shown.event_type != item.event_type {
        return Err((14, format!("is of type {}, was {}", shown.event_type, item.event_type)));
    }
    if shown.deliveries.len() != known.deliveries as usize || shown.fanout != known.deliveries {
        return Err((
            1,
            format!("has {} deliveries, {} were told", shown.deliveries.len(), known.deliveries),
        ));
    }
    check_route(witness, call.workspace, shown, *at).map_err(|what| (1, what))
}

/// Events that are not kept for long are gone some time after their last delivery's end.
fn may_be_gone(
    witness: &Witness<'_>,
    known: &KnownEvent,
    accepted: Moment,
    shown: Option<&row::Event>,
) -> bool {
    let is_short = witness.policy.event_retention == SHORT_RETENTION;
    let earliest = witness.clocks.wall_at(accepted) + witness.policy.event_retention;
    let had_ended = shown.is_some_and(|shown| shown.deliveries.iter().all(|it| it.life.state.is_final()));
    let unseen = shown.is_none() && witness.clocks.wall_at(known.told) >= earliest;
    let jumped = witness.clocks.has_jumped(Moment::default(), witness.clocks.now);
    is_short && earliest <= witness.clocks.most_wall() && (had_ended || unseen || jumped)
}

/// Whether the webhooks that wanted an event, and no others, have a delivery of it.
fn check_route(
    witness: &Witness<'_>,
    workspace: usize,
    event: &row::Event,
    accepted: Moment,
) -> Result<(), String> {
    let there: BTreeSet<EndpointId> = event.deliveries.iter().map(|delivery| delivery.endpoint).collect();
    if there.len() != event.deliveries.len() {
        return Err("has two deliveries to one webhook".into());
    }
    for (place, endpoint) in witness.cast.endpoints.iter().enumerate() {
        let Some(id) = endpoint.id.filter(|_| witness.cast.is_webhook(place)) else { continue };
        let is_there = there.contains(&id);
        if endpoint.owner != Owner::Workspace(workspace) {
            if is_there {
                return Err(format!("goes to e{place} of another workspace"));
            }
            continue;
        }
        // What was changed in the same millisecond may have been changed before or after.
        let possible = endpoint.setting.possible(accepted.before(1), accepted);
        let wants: Vec<bool> = possible.map(|setting| wants(setting.as_ref(), event)).collect();
        if !wants.contains(&is_there) {
            return Err(format!("has {} delivery to e{place}", if is_there { "a" } else { "no" }));
        }
    }
    Ok(())
}

fn wants(setting: Option<&Setting>, event: &row::Event) -> bool {
    match setting {
        Some(Setting::Webhook(webhook)) => webhook.events.iter().any(|it| it.matches(&event.event_type)),
        Some(Setting::Destination(_) | Setting::Mailboxes(_)) | None => false,
    }
}

fn check_sent(
    witness: &Witness<'_>,
    dialled: &Dialled,
    content: usize,
    item: usize,
) -> Result<(), (u8, String)> {
    let calls = || witness.story.calls.iter().filter(|call| call.content == content);
    let said = |call: &Call| call.bodies.get(item).is_some_and(|body| *body == dialled.sent.body);
    if !calls().any(|call| said(call) && call.asked.is_some_and(|asked| asked <= dialled.started)) {
        return Err((14, "carries what nobody published".into()));
    }
    if calls().all(|call| matches!(call.told, Answered::Refused | Answered::KeyReused)) {
        return Err((2, "delivers what was refused".into()));
    }
    let owner = witness.cast.endpoints[dialled.endpoint].owner;
    if !calls().any(|call| Owner::Workspace(call.workspace) == owner) {
        return Err((14, "goes to a webhook of another workspace".into()));
    }
    if dialled.sent.header(WEBHOOK_ID) != Some(dialled.message.to_string().as_bytes()) {
        return Err((10, "has another webhook-id than its event".into()));
    }
    let recorded = witness.reads.deliveries().find(|it| it.id == dialled.lease.delivery);
    if recorded.is_some_and(|it| it.message != dialled.message) {
        return Err((10, "carries the id of another event".into()));
    }
    match dialled.message {
        MessageId::Event(_) => Ok(()),
        MessageId::Request(_) | MessageId::Email(_) => Err((14, "is an event and called a request".into())),
    }
}

/// What had ended does not end in another way, unless somebody sent it again.
fn check_sightings(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let states: BTreeMap<_, _> = witness
        .reads
        .visible_events()
        .flat_map(|event| &event.deliveries)
        .map(|delivery| (delivery.id, delivery))
        .collect();
    for sighting in witness.story.sightings.iter().filter(|sighting| sighting.state.is_final()) {
        let Some(delivery) = states.get(&sighting.delivery) else { continue };
        let state = delivery.life.state;
        if state == sighting.state || witness.may_be_sent_again(delivery, sighting.state) {
            continue;
        }
        let id = sighting.delivery;
        let what = format!("{id} was {:?} and is {state:?}", sighting.state);
        found.push(Violation::new(1, what, &[&id]));
    }
}
