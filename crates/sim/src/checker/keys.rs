//! 3 and 4: one key is one message, also for receivers; a repeat gets the first one's answer, another body none.

use std::collections::{BTreeMap, BTreeSet};

use restante_core::idempotency::IdempotencyKey;
use restante_core::message::MessageId;
use restante_store::EventReceipt;

use super::Violation;
use crate::story::Origin;
use crate::story::outbound::{Answered, Call};
use crate::world::Witness;

/// A workspace's key.
type Scope<'a> = (usize, &'a str);

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let mut scopes: BTreeMap<Scope<'_>, Vec<(usize, &Call)>> = BTreeMap::new();
    for (place, call) in witness.story.calls.iter().enumerate() {
        let (Some(key), Some(_)) = (&call.key, call.asked) else { continue };
        scopes.entry((call.workspace, key.as_str())).or_default().push((place, call));
    }
    for ((workspace, key), calls) in &scopes {
        if let Err((invariant, what)) = check_told(calls) {
            let words: Vec<String> = calls.iter().map(|(place, _)| format!("call {place}:")).collect();
            let what = format!("key {key} of workspace {workspace}: {what}");
            found.push(Violation { invariant, what, words });
        }
    }
    check_seen(witness, &scopes, found);
    for (place, call) in witness.story.calls.iter().enumerate() {
        let items = witness.story.contents[call.content].items.len();
        if receipts(call).is_some_and(|receipts| receipts.len() != items) {
            let what = format!("call {place} has {items} events and was told of another number");
            found.push(Violation::new(1, what, &[&format!("call {place}:")]));
        }
    }
}

fn receipts(call: &Call) -> Option<&Vec<EventReceipt>> {
    match &call.told {
        Answered::Fresh(receipts) | Answered::Replayed(receipts) => Some(receipts),
        Answered::Nothing | Answered::Refused | Answered::KeyReused => None,
    }
}

/// What those who used one key were told.
fn check_told(calls: &[(usize, &Call)]) -> Result<(), (u8, String)> {
    let contents: BTreeSet<usize> =
        calls.iter().filter(|(_, call)| receipts(call).is_some()).map(|(_, call)| call.content).collect();
    if contents.len() > 1 {
        return Err((4, format!("contents {contents:?} were accepted")));
    }
    let mut told = calls.iter().filter_map(|(_, call)| receipts(call));
    let first = told.next();
    if told.any(|other| Some(other) != first) {
        return Err((3, "its callers were told of different messages".into()));
    }
    let fresh = calls.iter().filter(|(_, call)| matches!(call.told, Answered::Fresh(_))).count();
    if fresh > 1 {
        return Err((3, format!("{fresh} messages were made")));
    }
    for (place, call) in calls {
        let before = |same: bool| {
            let mut others = calls.iter().filter(|(other, _)| other != place);
            others.any(|(_, other)| (other.content == call.content) == same && other.asked <= call.asked)
        };
        match &call.told {
            Answered::Replayed(_) if !before(true) => {
                return Err((4, format!("call {place} repeats nothing")));
            }
            Answered::KeyReused if !before(false) => {
                return Err((4, format!("call {place} was refused though nothing else was asked for")));
            }
            Answered::KeyReused if contents.contains(&call.content) => {
                return Err((4, format!("call {place} was refused though it asks for the same")));
            }
            Answered::Nothing
            | Answered::Refused
            | Answered::Fresh(_)
            | Answered::Replayed(_)
            | Answered::KeyReused => {}
        }
    }
    Ok(())
}

/// Whether receivers saw more messages than there are keys, or calls without one.
fn check_seen(
    witness: &Witness<'_>,
    scopes: &BTreeMap<Scope<'_>, Vec<(usize, &Call)>>,
    found: &mut Vec<Violation>,
) {
    let mut seen: BTreeMap<(usize, usize), BTreeSet<MessageId>> = BTreeMap::new();
    for dialled in &witness.story.dialled {
        if let Some(Origin::Content(content, item)) = dialled.sent.origin() {
            seen.entry((content as usize, item as usize)).or_default().insert(dialled.message);
        }
    }
    for known in &witness.story.events {
        let content = witness.story.calls[known.call].content;
        seen.entry((content, known.item)).or_default().insert(MessageId::Event(known.id));
    }
    for ((content, item), ids) in &seen {
        let calls = || witness.story.calls.iter().filter(|call| call.content == *content);
        let keyed: BTreeSet<(usize, Option<&str>)> = calls()
            .filter(|call| call.key.is_some())
            .map(|call| (call.workspace, call.key.as_ref().map(IdempotencyKey::as_str)))
            .collect();
        let unkeyed = calls().filter(|call| call.key.is_none() && call.told != Answered::Refused).count();
        if ids.len() > keyed.len() + unkeyed {
            let what = format!("event {item} of content {content} is {} messages", ids.len());
            let words = ids.iter().map(ToString::to_string).collect();
            found.push(Violation { invariant: 3, what, words });
        }
    }
    for ((workspace, key), calls) in scopes {
        let contents: BTreeSet<usize> = calls.iter().map(|(_, call)| call.content).collect();
        let sent: Vec<usize> =
            contents.into_iter().filter(|it| seen.keys().any(|(content, _)| content == it)).collect();
        if sent.len() > 1 {
            let what = format!("key {key} of workspace {workspace} sent contents {sent:?}");
            let words = calls.iter().map(|(place, _)| format!("call {place}:")).collect();
            found.push(Violation { invariant: 3, what, words });
        }
    }
}
