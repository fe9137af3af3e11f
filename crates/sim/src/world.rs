//! The world: what happens, in which order, to whom.

mod answers;
mod attempts;
mod clients;
mod commit;
mod content;
mod end;
mod faults;
mod intake;
mod job;
mod node;
mod outbound;
mod people;
mod set_up;

use std::collections::BTreeMap;

use restante_core::Timestamp;
use restante_core::id::{DeliveryId, ReplayId};
use restante_store::{EventReceipt, Finished, Lease, Policy};

use crate::Tally;
use crate::cast::Cast;
use crate::plan::Plan;
use crate::plant::Plant;
use crate::random::Random;
use crate::receiver::Mood;
use crate::story::{Origin, Reads, Story};
use crate::timeline::{Clocks, Moment, Timeline};
use crate::trace::Trace;
use attempts::Turn;
pub(crate) use content::some_content;
use job::Job;
use node::Node;

/// A world that is still busy so long after its faults ended will never be quiet: longest schedule, longest
/// `Retry-After`, and room for clocks that were set back.
const QUIET_AFTER_MS: u64 = 6 * 24 * 3_600_000;
/// A world in which more happens than this goes round in circles.
const EVENTS_MAX: u64 = 100_000;

/// Something that happens. `life` is that of the node it belongs to: what belongs to a dead node is void.
enum Event {
    Publish(usize),
    Call(usize),
    CallAgain(usize),
    KeepKey { life: u32, call: usize },
    Commit { life: u32 },
    Again { life: u32, jobs: Vec<Job> },
    Claim { life: u32, token: u64 },
    Pace { life: u32, token: u64 },
    Dial(u64),
    Arrive(u64),
    Answer(u64),
    Act,
    Client,
    Keep,
    Hurry,
    Resume(usize),
    Recover(usize),
    Jump,
    Crash,
    Stop,
    Abort { life: u32 },
    Shut { life: u32 },
    Start,
    Prune { life: u32 },
    Bulk { life: u32, id: ReplayId },
    LateSettle(Box<Finished>),
    LateRelease(Lease),
    Heal,
}

/// See the module.
pub struct World {
    seed: u64,
    plan: Plan,
    plant: Option<Plant>,
    clocks: Clocks,
    timeline: Timeline<Event>,
    random: Random,
    cast: Cast,
    story: Story,
    reads: Reads,
    node: Option<Node>,
    /// Counts the nodes there were.
    life: u32,
    turns: BTreeMap<u64, Turn>,
    /// How often each message was begun at each endpoint.
    begun: BTreeMap<(Option<Origin>, usize), u64>,
    turns_begun: u64,
    bulk_retries: Vec<ReplayId>,
    /// The latest result of each delivery, to be brought once more when it does most harm.
    reported: BTreeMap<DeliveryId, Finished>,
    directory: tempfile::TempDir,
    /// How much of what the store took was looked at.
    looked: usize,
    /// When all events were last looked at.
    events_read: Moment,
    /// The plant: keys of workspaces, the contents they were used for, and what callers are told.
    late_keys: BTreeMap<(usize, String), (usize, Vec<EventReceipt>)>,
    /// Whether anything may still go wrong.
    faulty: bool,
    healed: Option<Moment>,
    pub trace: Trace,
    pub tally: Tally,
}

/// What the checker is shown.
pub struct Witness<'a> {
    pub story: &'a Story,
    pub cast: &'a Cast,
    pub clocks: &'a Clocks,
    pub reads: &'a Reads,
    pub policy: Policy,
    /// When faults had ended and people had put everything right.
    pub healed: Moment,
}

/// Writes a line of the trace.
macro_rules! note {
    ($world:expr, $($what:tt)*) => { $world.trace.note($world.clocks.now, format_args!($($what)*)) };
}
use note;

impl World {
    pub fn new(seed: u64, plan: Plan, plant: Option<Plant>) -> Self {
        Self::with_sick(seed, plan, plant, None)
    }

    /// A world in which the receiver of this endpoint is always in this mood.
    pub fn with_sick(seed: u64, plan: Plan, plant: Option<Plant>, sick: Option<(usize, Mood)>) -> Self {
        let cast = Cast { receivers: Cast::receivers(seed, &plan, sick), ..Cast::default() };
        let mut world = Self {
            seed,
            faulty: !plan.calm,
            plan,
            plant,
            clocks: Clocks::default(),
            timeline: Timeline::default(),
            random: Random::keyed(&[seed, 5]),
            cast,
            story: Story::default(),
            reads: Reads::default(),
            node: None,
            life: 0,
            turns: BTreeMap::new(),
            begun: BTreeMap::new(),
            turns_begun: 0,
            bulk_retries: Vec::new(),
            reported: BTreeMap::new(),
            looked: 0,
            events_read: Moment::default(),
            late_keys: BTreeMap::new(),
            directory: node::directory(),
            healed: None,
            trace: Trace::default(),
            tally: Tally::default(),
        };
        world.set_up();
        world
    }

    /// Lets everything happen until nothing is left to happen.
    pub fn live(&mut self) {
        let end = Moment(self.plan.busy_ms).after(QUIET_AFTER_MS);
        while let Some((at, event)) = self.timeline.pop() {
            self.clocks.now = at;
            self.tally.events += 1;
            if at > end || self.tally.events > EVENTS_MAX {
                self.story.broken.push("the world does not become quiet".into());
                break;
            }
            self.happen(event);
        }
        self.read_all();
    }

    pub fn witness(&self) -> Witness<'_> {
        Witness {
            story: &self.story,
            cast: &self.cast,
            clocks: &self.clocks,
            reads: &self.reads,
            policy: self.plan.policy,
            healed: self.healed.unwrap_or(self.clocks.now),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Publish(place) => self.publish(place),
            Event::Call(place) => self.call(place),
            Event::CallAgain(place) => self.call_again(place),
            Event::KeepKey { life, call } if life == self.life => self.keep_key(call),
            Event::Commit { life } if life == self.life => self.commit(),
            Event::Again { life, jobs } if life == self.life => {
                jobs.into_iter().for_each(|job| self.enqueue(job))
            }
            Event::Claim { life, token } if life == self.life => self.claim_timer(token),
            Event::Pace { life, token } if life == self.life => self.pace_timer(token),
            Event::Abort { life } if life == self.life => self.abort(),
            Event::Shut { life } if life == self.life => self.shut(),
            Event::Prune { life } if life == self.life => self.prune(),
            Event::Bulk { life, id } if life == self.life => self.enqueue(Job::Bulk { id, now: self.wall() }),
            Event::Commit { .. }
            | Event::Again { .. }
            | Event::Claim { .. }
            | Event::Pace { .. }
            | Event::Abort { .. }
            | Event::Shut { .. }
            | Event::Prune { .. }
            | Event::Bulk { .. }
            | Event::KeepKey { .. } => {}
            Event::Dial(turn) => self.dial(turn),
            Event::Arrive(turn) => self.arrive(turn),
            Event::Answer(turn) => self.answer(turn),
            Event::Act => self.act(),
            Event::Client => self.act_as_client(),
            Event::Keep => self.keep(),
            Event::Hurry => self.replay_failures(),
            Event::Resume(endpoint) => self.resume(endpoint),
            Event::Recover(endpoint) => self.recover(endpoint),
            Event::Jump => self.jump(),
            Event::Crash => self.crash("at some point"),
            Event::Stop => self.stop(),
            Event::Start => self.start(),
            Event::LateSettle(finished) => self.settle_late(*finished),
            Event::LateRelease(lease) => self.release_late(lease),
            Event::Heal => self.heal(),
        }
    }

    fn wall(&self) -> Timestamp {
        self.clocks.wall()
    }

    fn plan_in(&mut self, ms: u64, event: Event) {
        self.timeline.plan(self.clocks.now.after(ms), event);
    }
}
