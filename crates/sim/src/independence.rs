//! 8: whether one endpoint fails is nothing to the others.

use std::collections::BTreeMap;

use restante_store::Policy;

use crate::plan::Plan;
use crate::plant::Plant;
use crate::receiver::{Mood, Reply};
use crate::story::Origin;
use crate::world::World;

/// Starts of the same attempt may differ by this, and by as much as those of the attempt before, from whose end it
/// is planned.
const START_MS: u64 = 1_000;

/// What happened to a message at an endpoint, attempt by attempt.
type Course = BTreeMap<(Option<Origin>, usize), Vec<Tried>>;

/// An attempt.
#[derive(Clone, Debug)]
struct Tried {
    start_ms: u64,
    /// Of its receiver, at the start.
    mood: Mood,
    reply: Option<Reply>,
}

/// Runs the calm world of a seed twice, with one endpoint healthy and with it ill, and compares the others.
pub fn check(seed: u64, plant: Option<Plant>) -> Vec<String> {
    let ill = [Mood::Hangs, Mood::Answers(500), Mood::Refuses, Mood::Throttles(None)];
    let well = course(seed, plant, Mood::Healthy);
    let other = course(seed, plant, ill[usize::try_from(seed / 2 % 4).unwrap_or(0)]);
    let mut found = Vec::new();
    for key in well.keys().chain(other.keys()) {
        let (a, b) = (well.get(key), other.get(key));
        if !is_same(a, b, comparable_until(&well, &other, key.1)) {
            found.push(format!("invariant 8: {:?} to e{}: {a:?} or {b:?}", key.0, key.1));
        }
    }
    found
}

fn is_same(a: Option<&Vec<Tried>>, b: Option<&Vec<Tried>>, until_ms: u64) -> bool {
    let (a, b) = (a.map_or(&[][..], Vec::as_slice), b.map_or(&[][..], Vec::as_slice));
    let mut apart_ms = 0;
    for index in 0..a.len().max(b.len()) {
        let start_ms = a.get(index).or(b.get(index)).map_or(0, |tried| tried.start_ms);
        if start_ms + apart_ms + START_MS >= until_ms {
            return true;
        }
        let (Some(a), Some(b)) = (a.get(index), b.get(index)) else { return false };
        let before_ms = std::mem::replace(&mut apart_ms, a.start_ms.abs_diff(b.start_ms));
        if apart_ms > before_ms + START_MS || a.reply != b.reply {
            return false;
        }
    }
    true
}

/// From when on an endpoint's two courses may differ: its receiver changed its mood between two starts of the same
/// attempt.
fn comparable_until(well: &Course, other: &Course, endpoint: usize) -> u64 {
    let mut until_ms = u64::MAX;
    for (key, a) in well.iter().filter(|(key, _)| key.1 == endpoint) {
        let both = a.iter().zip(other.get(key).map_or(&[][..], Vec::as_slice));
        for (a, b) in both.filter(|(a, b)| a.mood != b.mood) {
            until_ms = until_ms.min(a.start_ms.min(b.start_ms));
        }
    }
    until_ms
}

/// What happened to all endpoints but one: now the first destination, now the first webhook.
fn course(seed: u64, plant: Option<Plant>, mood: Mood) -> Course {
    // A pause a millisecond earlier would be the end of what comes in that millisecond.
    let mut plan = Plan { policy: Policy::default(), ..Plan::calm(seed) };
    if plant == Some(Plant::OneSlot) {
        plan.in_flight_max = 1;
    }
    let sick = if seed.is_multiple_of(2) { 0 } else { plan.destinations };
    let mut world = World::with_sick(seed, plan, plant, Some((sick, mood)));
    world.live();
    let witness = world.witness();
    let mut course = Course::new();
    for dialled in witness.story.dialled.iter().filter(|dialled| dialled.endpoint != sick) {
        let tried = Tried {
            start_ms: dialled.started.0,
            mood: witness.cast.receivers[dialled.receiver].mood(dialled.started),
            reply: dialled.ended.as_ref().map(|(_, reply)| reply.clone()),
        };
        course.entry((dialled.sent.origin(), dialled.endpoint)).or_default().push(tried);
    }
    course
}
