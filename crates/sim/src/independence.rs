//! 8: whether one destination fails is nothing to the others.

use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::plant::Plant;
use crate::receiver::{Mood, Reply};
use crate::world::World;

/// Starts of the same attempt may differ by this.
const START_MS: u64 = 1_000;

/// Start and result of each attempt of a publish to a destination.
type Course = BTreeMap<(u64, usize), Vec<(u64, Option<Reply>)>>;

/// Runs the calm world of a seed twice, with the first destination healthy and with it ill, and compares the others.
pub fn check(seed: u64, plant: Option<Plant>) -> Vec<String> {
    let ill = [Mood::Hangs, Mood::Answers(500), Mood::Refuses, Mood::Throttles(None)];
    let well = course(seed, plant, Mood::Healthy);
    let other = course(seed, plant, ill[usize::try_from(seed % 4).unwrap_or(0)]);
    let mut found = Vec::new();
    for key in well.keys().chain(other.keys()) {
        let (a, b) = (well.get(key), other.get(key));
        if !is_same(a, b) {
            found.push(format!("invariant 8: publish {} to d{}: {a:?} or {b:?}", key.0, key.1));
        }
    }
    found
}

fn is_same(a: Option<&Vec<(u64, Option<Reply>)>>, b: Option<&Vec<(u64, Option<Reply>)>>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    let same = |((start_a, reply_a), (start_b, reply_b)): (&(u64, _), &(u64, _))| {
        start_a.abs_diff(*start_b) <= START_MS && reply_a == reply_b
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// What happened to all destinations but the first.
fn course(seed: u64, plant: Option<Plant>, mood: Mood) -> Course {
    let mut plan = Plan::calm(seed);
    if plant == Some(Plant::OneSlot) {
        plan.in_flight_max = 1;
    }
    let mut world = World::with_sick(seed, plan, plant, Some(mood));
    world.live();
    let mut course = Course::new();
    for dialled in world.witness().story.dialled.iter().filter(|dialled| dialled.destination != 0) {
        let marker = dialled.sent.marker().unwrap_or(u64::MAX);
        let reply = dialled.ended.as_ref().map(|(_, reply)| reply.clone());
        course.entry((marker, dialled.destination)).or_default().push((dialled.started.0, reply));
    }
    course
}
