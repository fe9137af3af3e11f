//! What comes from outside: publishers, people, faults, and the end of all faults.

use std::rc::Rc;

use restante_core::id::DeliveryId;

use super::World;
use super::clockwork::Owner;
use super::database::EndpointRow;
use super::people::Wish;
use super::plan::Trouble;
use super::story::{self, Cancel, Publish, Setting, Told};
use super::transact::PEOPLE;
use super::wire::Link;
use crate::in_force::InForce;
use crate::timeline::Moment;

/// After a node died in the middle of a change, nobody else changes that endpoint for so long: what it had sent may
/// still take effect.
const UNDECIDED_MS: u64 = 15_000;
/// How often it is looked whether all is over.
const LOOK_MS: u64 = 1_000;

impl World {
    pub(super) fn begin(self: &Rc<Self>) {
        self.set_up_tables();
        for host in 0..self.plan.hosts {
            self.start(host);
        }
        let world = || Rc::clone(self);
        self.clockwork.spawn(Owner::Database, world().watch_idle());
        for (publish, at) in self.plan.publishes.iter().enumerate() {
            self.story.borrow_mut().publishes.push(Publish { asked: *at, told: Told::Nothing });
            self.clockwork.spawn(Owner::World, world().publish(publish, *at));
        }
        for at in self.plan.cancels.iter().copied() {
            self.clockwork.spawn(Owner::World, world().cancel_some(at));
        }
        for (number, at) in self.plan.changes.iter().copied().enumerate() {
            self.clockwork.spawn(Owner::World, world().change_some(number, at));
        }
        for (at, trouble) in self.plan.faults.iter().copied() {
            self.clockwork.spawn(Owner::World, world().make_trouble(at, trouble));
        }
        self.clockwork.spawn(Owner::World, world().heal());
    }

    fn set_up_tables(&self) {
        let mut db = self.db.borrow_mut();
        db.clock = self.database_wall();
        let mut set_up = || {
            for (place, plan) in self.plan.endpoints.iter().enumerate() {
                let row = EndpointRow {
                    paused: false,
                    gone: false,
                    schedule: plan.schedule.clone(),
                    max_in_flight: plan.max_in_flight,
                    rate_per_second: plan.rate_per_second,
                    timeout_ms: u64::from(plan.timeout_seconds) * 1000,
                    timeouts: Vec::new(),
                };
                db.endpoints.put(0, place, Some(row))?;
            }
            db.epoch.put(0, (), Some(1))
        };
        set_up().expect("nobody else is there");
        db.endpoints.end(0, true);
        db.epoch.end(0, true);
        drop(db);
        let open = Setting { paused: false, gone: false };
        let settings = self.plan.endpoints.iter().map(|_| InForce::since(Moment::default(), open));
        self.story.borrow_mut().settings = settings.collect();
    }

    async fn publish(self: Rc<Self>, publish: usize, at: Moment) {
        self.clockwork.sleep_until(at).await;
        let host = self.below(self.plan.hosts as u64) as usize;
        let node = self.node(host).filter(|node| !node.state.borrow().endpoints.is_empty());
        self.note(format_args!("publish {publish} at h{host}"));
        let Some(node) = node else {
            self.story.borrow_mut().publishes[publish].told = Told::Refused;
            return;
        };
        node.state.borrow_mut().intake.push(publish);
        self.clockwork.ring(&node.arrived);
    }

    async fn cancel_some(self: Rc<Self>, at: Moment) {
        self.clockwork.sleep_until(at).await;
        let host = self.below(self.plan.hosts as u64) as usize;
        let known: Vec<DeliveryId> = {
            let story = self.story.borrow();
            let told = story.publishes.iter().rev().filter_map(|publish| match &publish.told {
                Told::Accepted { deliveries, .. } => Some(deliveries.clone()),
                Told::Nothing | Told::Refused => None,
            });
            told.take(8).flatten().collect()
        };
        let (Some(node), false) = (self.node(host), known.is_empty()) else { return };
        let delivery = known[self.below(known.len() as u64) as usize];
        let order = {
            let mut story = self.story.borrow_mut();
            story.cancels.push(Cancel { delivery, told: None });
            story.cancels.len() - 1
        };
        self.note(format_args!("cancel of {delivery:?} at h{host}"));
        node.spawn(Rc::clone(&node).cancel(order, delivery));
    }

    async fn change_some(self: Rc<Self>, number: usize, at: Moment) {
        self.clockwork.sleep_until(at).await;
        let endpoint = self.below(self.plan.endpoints.len() as u64) as usize;
        let latest = *self.story.borrow().settings[endpoint].latest();
        let wish = match self.below(10) {
            0..4 if latest.paused => Wish::Resume,
            0..4 => Wish::Pause,
            4..7 => Wish::Timeout([1_000, 5_000, 30_000][self.below(3) as usize]),
            7 | 8 => Wish::Delete,
            _ => Wish::Resume,
        };
        let host = self.below(self.plan.hosts as u64) as usize;
        self.wish(host, number, endpoint, wish);
    }

    /// Somebody asks a node for a change, unless another change of the endpoint is under way.
    fn wish(self: &Rc<Self>, host: usize, number: usize, endpoint: usize, wish: Wish) -> bool {
        let now = self.now();
        let undecided = self.open.borrow().get(&endpoint).is_some_and(|life| {
            let died = self.story.borrow().died.get(life).map(|died| died.at);
            died.is_none_or(|died| now.since(died) < UNDECIDED_MS)
        });
        let Some(node) =
            self.node(host).filter(|node| !undecided && !node.state.borrow().endpoints.is_empty())
        else {
            return false;
        };
        let entry = {
            let settings = &mut self.story.borrow_mut().settings[endpoint];
            // Where nobody knows what came of an earlier wish, only those that say it all are made.
            let known = *settings.last();
            let sure = settings.possible(now, now).all(|setting| *setting == known);
            if !sure && matches!(wish, Wish::Delete | Wish::Timeout(_)) {
                return false;
            }
            settings.asked(now, wish.makes(known))
        };
        self.note(format_args!("{wish:?} of e{endpoint} at h{host}"));
        self.open.borrow_mut().insert(endpoint, node.life);
        let lane = PEOPLE + u32::try_from(number).unwrap_or(0) * 2 + 1;
        node.spawn(Rc::clone(&node).change_and_tell(lane, endpoint, wish, entry));
        true
    }

    async fn make_trouble(self: Rc<Self>, at: Moment, trouble: Trouble) {
        self.clockwork.sleep_until(at).await;
        self.note(format_args!("{trouble:?}"));
        let (host, until) = match trouble {
            Trouble::Kill { host, power, away_ms } => {
                if let Some(life) = self.stop(host).filter(|_| !power) {
                    self.hang_up_all(host, life);
                }
                self.sleep_at_most(away_ms).await;
                if self.node(host).is_none() {
                    self.start(host);
                }
                (host, self.now())
            }
            Trouble::Freeze { host, ms } => {
                let Some(life) = self.node(host).map(|node| node.life) else { return };
                self.clockwork.freeze(Owner::Process(life));
                self.sleep_at_most(ms).await;
                self.clockwork.thaw(Owner::Process(life));
                (host, self.now())
            }
            Trouble::Cut { host, ms } => (host, self.break_link(host, Link::Cut, ms).await),
            Trouble::HalfOpen { host, ms } => (host, self.break_link(host, Link::HalfOpen, ms).await),
            Trouble::Mute { host, ms } => {
                self.hosts.borrow_mut()[host].mute = true;
                self.sleep_at_most(ms).await;
                self.hosts.borrow_mut()[host].mute = false;
                (host, self.now())
            }
        };
        self.note(format_args!("h{host} is well again"));
        self.story.borrow_mut().troubled.push(story::Trouble { host, from: at, to: until });
    }

    async fn break_link(&self, host: usize, link: Link, ms: u64) -> Moment {
        self.hosts.borrow_mut()[host].link = link;
        self.sleep_at_most(ms).await;
        self.hosts.borrow_mut()[host].link = Link::Up;
        self.clockwork.ring(&self.relinked);
        self.now()
    }

    /// No trouble lasts beyond the end of all faults.
    async fn sleep_at_most(&self, ms: u64) {
        let until = self.now().after(ms).min(Moment(self.plan.busy_ms)).max(self.now().after(1));
        self.clockwork.sleep_until(until).await;
    }

    /// Faults end, people resume what is paused, and everything comes to its end.
    async fn heal(self: Rc<Self>) {
        self.clockwork.sleep_until(Moment(self.plan.busy_ms).after(50)).await;
        self.faulty.set(false);
        self.story.borrow_mut().healed = self.now();
        self.note(format_args!("faults end"));
        let mut number = self.plan.changes.len();
        for endpoint in 0..self.plan.endpoints.len() {
            while self.is_paused(endpoint) {
                let host = number % self.plan.hosts;
                number += 1;
                self.wish(host, number, endpoint, Wish::Resume);
                self.clockwork.sleep(LOOK_MS).await;
            }
        }
        self.story.borrow_mut().resumed = self.now();
        while !self.all_over() {
            self.clockwork.sleep(LOOK_MS).await;
        }
        self.quiet.set(true);
    }

    /// Whether an endpoint may be paused, as far as people know.
    fn is_paused(&self, endpoint: usize) -> bool {
        let now = self.now();
        let story = self.story.borrow();
        story.settings[endpoint].possible(now, now).any(|setting| setting.paused)
    }

    fn all_over(&self) -> bool {
        let busy = self.hosts.borrow().iter().flat_map(|host| &host.node).any(|node| {
            let state = node.state.borrow();
            !state.intake.is_empty() || !state.held.is_empty()
        });
        let db = self.db.borrow();
        !busy && db.backends.is_empty() && db.deliveries.committed().all(|(_, row)| row.life.state.is_final())
    }
}
