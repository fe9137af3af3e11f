//! A second world: several nodes on one model of PostgreSQL, as docs/nodes.md has it.
//!
//! One seed decides everything: when nodes die, freeze and lose their links, which statement of which transaction runs
//! when, whose COMMIT is not answered. Rules and lanes are the real ones; tables, locks and the protocol between nodes
//! are a model. The checker knows what publishers and people were told and what receivers saw.

mod accepts;
mod attempts;
mod checker;
mod claims;
mod clockwork;
mod database;
mod heartbeat;
mod limits;
mod node;
mod outside;
mod people;
mod plan;
pub mod plant;
mod settles;
mod story;
mod table;
mod take_over;
mod transact;
mod wire;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use restante_core::Timestamp;

use crate::checker::Violation;
use crate::met::Met;
use crate::random::Random;
use crate::timeline::{Clocks, Moment};
use crate::trace::Trace;
use crate::{Run, Tally};
use clockwork::{Bell, Clockwork};
use database::Database;
use node::Node;
use plan::Plan;
use plant::Plant;
use story::{Reads, Story, Witness};
use table::Tx;
use wire::Link;

/// A world that is still busy so long after its faults ended will never be quiet.
const QUIET_AFTER_MS: u64 = 420_000;
/// A world in which more happens than this goes round in circles.
const EVENTS_MAX: u64 = 400_000;

/// A place where one node after another runs.
#[derive(Default)]
struct Host {
    link: Link,
    /// Its heartbeats are lost.
    mute: bool,
    node: Option<Rc<Node>>,
}

/// See the module.
struct World {
    plan: Plan,
    plant: Option<Plant>,
    clockwork: Clockwork,
    db: RefCell<Database>,
    /// Backends that have ended.
    ended: RefCell<BTreeSet<Tx>>,
    transactions: Cell<Tx>,
    /// A transaction has ended.
    unlocked: Bell,
    /// A link is another.
    relinked: Bell,
    hosts: RefCell<Vec<Host>>,
    lives: Cell<u32>,
    /// Endpoints that somebody's change is under way for, at which node.
    open: RefCell<BTreeMap<usize, u32>>,
    random: RefCell<Random>,
    story: RefCell<Story>,
    trace: RefCell<Trace>,
    /// Whether anything may still go wrong.
    faulty: Cell<bool>,
    quiet: Cell<bool>,
}

impl World {
    fn new(seed: u64, plant: Option<Plant>) -> Rc<Self> {
        let plan = Plan::draw(seed);
        let hosts = (0..plan.hosts).map(|_| Host::default()).collect();
        Rc::new(Self {
            plan,
            plant,
            clockwork: Clockwork::default(),
            db: RefCell::default(),
            ended: RefCell::default(),
            transactions: Cell::new(0),
            unlocked: Bell::default(),
            relinked: Bell::default(),
            hosts: RefCell::new(hosts),
            lives: Cell::new(0),
            open: RefCell::default(),
            random: RefCell::new(Random::keyed(&[seed, 102])),
            story: RefCell::default(),
            trace: RefCell::default(),
            faulty: Cell::new(true),
            quiet: Cell::new(false),
        })
    }

    fn now(&self) -> Moment {
        self.clockwork.now()
    }

    fn note(&self, what: fmt::Arguments<'_>) {
        self.trace.borrow_mut().note(self.now(), what);
    }

    fn count(&self, what: &'static str) {
        *self.story.borrow_mut().met.entry(what).or_default() += 1;
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    fn chance(&self, percent: u64) -> bool {
        self.random.borrow_mut().chance(percent)
    }

    fn link(&self, host: usize) -> Link {
        self.hosts.borrow()[host].link
    }

    fn node(&self, host: usize) -> Option<Rc<Node>> {
        self.hosts.borrow()[host].node.clone()
    }

    fn has(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// What a wall clock says that is so far ahead.
    fn wall(&self, skew_ms: i64) -> Timestamp {
        let clocks = Clocks::default().wall_at(self.now());
        Timestamp::from_millis(clocks.millis() + skew_ms)
    }

    fn database_wall(&self) -> Timestamp {
        self.wall(self.plan.database_skew_ms)
    }

    /// Lets everything happen until all deliveries have ended.
    fn live(self: &Rc<Self>) {
        self.begin();
        let end = Moment(self.plan.busy_ms).after(QUIET_AFTER_MS);
        while !self.quiet.get() && self.clockwork.step() {
            if self.now() > end || self.clockwork.events() > EVENTS_MAX {
                self.story.borrow_mut().broken.push("the world does not become quiet".into());
                self.note_limits();
                break;
            }
        }
    }

    /// What a world that does not become quiet usually waits for.
    fn note_limits(&self) {
        for ((endpoint, node), row) in self.db.borrow().slots.committed() {
            self.note(format_args!("slots of n{node} for e{endpoint}: {row:?}"));
        }
        for node in self.hosts.borrow().iter().flat_map(|host| &host.node) {
            let state = node.state.borrow();
            let (slots, leased, waiting) = (&state.slots, &state.leased, state.lanes.waiting());
            self.note(format_args!("n{}: slots {slots:?}, leased {leased:?}, {waiting} wait", node.life));
        }
    }

    fn read(&self) -> Reads {
        let db = self.db.borrow();
        let mut reads = Reads::default();
        for (key, row) in db.deliveries.committed() {
            for ((_, number), attempt) in db.attempts.committed().filter(|((of, _), _)| *of == key) {
                reads.attempts.insert((row.id, number), attempt.clone());
            }
            reads.deliveries.insert(row.id, row.clone());
        }
        reads
    }

    /// Ends everything: tasks hold the world that holds them.
    fn tear_down(&self) {
        self.hosts.borrow_mut().iter_mut().for_each(|host| host.node = None);
        self.clockwork.clear();
    }
}

/// Runs the cluster of a seed to its end and judges it.
pub fn run(seed: u64, plant: Option<Plant>) -> Run {
    let world = World::new(seed, plant);
    world.live();
    let reads = world.read();
    let commits = world.db.borrow().commits;
    let events = world.clockwork.events();
    let end = world.now();
    world.tear_down();
    let story = world.story.take();
    let witness = Witness { story: &story, reads: &reads, plan: &world.plan, end };
    let violations: Vec<Violation> = checker::check(&witness);
    let met: Met = checker::met(&witness);
    let tally =
        Tally { events, commits, attempts: story.dials.len() as u64, crashes: story.died.len() as u64 };
    Run { seed, violations, trace: world.trace.take(), tally, met }
}
