//! How a seed's world is: how long, how much, how bad.

use std::time::Duration;

use restante_core::health::Limits;
use restante_store::Policy;

use crate::random::Random;
use crate::timeline::Moment;

/// Events are kept so long from their last delivery's end where they are not kept for the default 30 days.
pub const SHORT_RETENTION: Duration = Duration::from_secs(5 * 3600);
/// So long after a request its attempts are still under way.
const NEAR_MS: u64 = 20_000;

/// The measures of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long there are requests, faults and people.
    pub busy_ms: u64,
    pub publishes: u64,
    pub people: u64,
    /// Things that workspaces want to publish, most of them more than once.
    pub contents: u64,
    /// What people do to webhooks.
    pub keepers: u64,
    /// How often somebody asks for many replays in a hurry.
    pub hurry: u64,
    pub crashes: u64,
    pub stops: u64,
    pub jumps: u64,
    /// Slots of the node.
    pub in_flight_max: u32,
    /// Of 100 commits, so many are refused by the database.
    pub refused_percent: u64,
    /// Crashes in the middle of a commit, at most.
    pub commit_crashes: u64,
    /// How often the request of marker 0 kills the node that sends it.
    pub poisonings: u64,
    pub workspaces: usize,
    pub sources: usize,
    pub destinations: usize,
    pub webhooks: usize,
    /// Most destinations are reached through command-line clients.
    pub tunnels: bool,
    /// How often one of those comes or goes, or its source's setting is changed.
    pub clients: u64,
    pub policy: Policy,
    /// No faults and no people: only receivers may be ill.
    pub calm: bool,
}

impl Plan {
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::keyed(&[seed, 2]);
        let busy_ms = random.pick(&[20_000, 180_000, 1_800_000, 6 * 3_600_000]);
        let mut tunnel = Random::keyed(&[seed, 10]);
        let tunnels = tunnel.chance(30);
        Self {
            tunnels,
            clients: if tunnels { tunnel.between(3..=40) } else { 0 },
            busy_ms,
            publishes: random.between(20..=100),
            people: random.between(0..=60),
            crashes: random.between(0..=4),
            stops: random.below(3),
            jumps: random.below(4),
            in_flight_max: random.pick(&[4, 16, 64, 4096]),
            refused_percent: random.pick(&[0, 2, 8]),
            commit_crashes: random.below(5),
            poisonings: random.pick(&[0, 0, 0, 5]),
            workspaces: random.index(2) + 1,
            sources: random.index(3) + 1,
            destinations: random.index(5) + 1,
            contents: random.between(5..=40),
            keepers: random.between(0..=50),
            hurry: random.pick(&[0, 0, 0, 3]),
            webhooks: random.index(4) + 1,
            policy: draw_policy(&mut random, busy_ms),
            calm: false,
        }
    }

    /// A quiet world with room for all, as a real node has it.
    pub fn calm(seed: u64) -> Self {
        let drawn = Self::draw(seed);
        Self {
            people: 0,
            keepers: 0,
            hurry: 0,
            crashes: 0,
            stops: 0,
            jumps: 0,
            in_flight_max: 4096,
            refused_percent: 0,
            commit_crashes: 0,
            poisonings: 0,
            tunnels: false,
            clients: 0,
            destinations: drawn.destinations + 1,
            webhooks: drawn.webhooks + 1,
            calm: true,
            ..drawn
        }
    }

    /// Times for so many events, some of them together, and some soon after one of the times `near`.
    pub fn times(&self, random: &mut Random, count: u64, near: &[Moment]) -> Vec<Moment> {
        let mut times: Vec<Moment> = Vec::new();
        for _ in 0..count {
            // Bursts fill queues, a spread meets everything else, and trouble is worth most while something goes on.
            let at = match times.last() {
                Some(last) if random.chance(40) => last.after(random.below(3)),
                _ if !near.is_empty() && random.chance(60) => random.pick(near).after(random.below(NEAR_MS)),
                _ => Moment(random.below(self.busy_ms)),
            };
            times.push(at);
        }
        times
    }
}

/// Limits that outages of a short life reach, now and then those of real life.
fn draw_policy(random: &mut Random, busy_ms: u64) -> Policy {
    if random.chance(15) {
        return Policy::default();
    }
    let health = Limits {
        degraded_failures: random.pick(&[1, 2, 3, 5]),
        degraded_after: Duration::from_millis(busy_ms / random.pick(&[1000, 100, 20])),
        paused_after: Duration::from_millis(busy_ms / random.pick(&[100, 10, 4])),
    };
    let event_retention = if random.chance(30) { SHORT_RETENTION } else { Policy::default().event_retention };
    Policy { health, event_retention, ..Policy::default() }
}
