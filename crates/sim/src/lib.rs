//! A deterministic world around the real engine, the real lanes and the real rules.
//!
//! One seed decides everything: who publishes what, how receivers behave, when clocks jump, when the node dies and
//! in the middle of what. Time is virtual, there is one thread. The [`checker`] knows only what publishers and
//! people were told, what receivers saw, and what the public reads show in the end.
//!
//! The embedded database's world is [`world`]; several nodes on a model of PostgreSQL are [`cluster`].

pub mod cast;
pub mod checker;
pub mod cluster;
pub mod in_force;
pub mod independence;
pub mod met;
pub mod plan;
pub mod plant;
pub mod random;
pub mod receiver;
pub mod story;
pub mod timeline;
pub mod trace;
pub mod world;

use checker::Violation;
use met::Met;
use plan::Plan;
use plant::Plant;
use trace::Trace;
use world::World;

/// What came of a seed.
#[derive(Debug)]
pub struct Run {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub trace: Trace,
    pub tally: Tally,
    pub met: Met,
}

/// How much happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub events: u64,
    pub commits: u64,
    pub attempts: u64,
    pub crashes: u64,
}

/// Runs the world of a seed to its end and judges it.
pub fn run(seed: u64, plant: Option<Plant>) -> Run {
    let mut world = World::new(seed, Plan::draw(seed), plant);
    world.live();
    let violations = checker::check(&world.witness());
    let met = met::count(&world.witness());
    let (trace, tally) = (world.trace, world.tally);
    Run { seed, violations, trace, tally, met }
}
