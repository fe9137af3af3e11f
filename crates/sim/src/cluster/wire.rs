//! Between a node and the database: statements on their way, links that break, COMMITs whose answer is lost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::World;
use super::clockwork::{Bell, Owner};
use super::database::{Backend, Database, IDLE_MS, Refusal, Stop};
use super::node::Node;
use super::table::Tx;

/// A client gives a statement up after so long.
const ANSWER_MS: u64 = 5_000;
/// What was sent into a link that lost it is sent again for so long.
const RESENT_MS: u64 = 20_000;
/// The slowest way over a link that works.
const SLOW_MS: u64 = 1_500;
/// The longest wait for a lock (`lock_timeout`).
const LOCK_MS: u64 = 10_000;

/// A node's link to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Link {
    #[default]
    Up,
    /// Connections break at once, on both sides.
    Cut,
    /// Nothing comes through, and nobody is told.
    HalfOpen,
}

/// Why a transaction came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Refused(Refusal),
    /// The connection broke, others were in the way, or no answer came.
    Broken,
}

/// What happens after the statement, in the same trip.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Stay,
    Commit,
}

struct Answer<T> {
    value: RefCell<Option<Result<T, Fault>>>,
    bell: Bell,
}

/// The client's side of a transaction. Dropped, it is rolled back, as soon as the database hears of it.
pub(super) struct Session {
    node: Rc<Node>,
    tx: Tx,
    open: Cell<bool>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.open.get() {
            self.node.world.hang_up(self.node.host, self.tx);
        }
    }
}

impl Session {
    pub(super) fn new(node: &Rc<Node>) -> Self {
        let tx = node.world.next_tx();
        Self { node: Rc::clone(node), tx, open: Cell::new(true) }
    }

    /// Runs a statement of the transaction.
    pub(super) async fn run<T: 'static>(
        &self,
        statement: impl FnMut(&mut Database, Tx) -> Result<T, Stop> + 'static,
    ) -> Result<T, Fault> {
        self.node.world.ask(&self.node, self.tx, Then::Stay, statement).await
    }

    /// `Err(Broken)`: whether it took effect is not known.
    pub(super) async fn commit(self) -> Result<(), Fault> {
        self.open.set(false);
        let world = &self.node.world;
        let unlucky = world.faulty.get() && world.chance(world.plan.lost_commit_percent);
        if !unlucky {
            return world.ask(&self.node, self.tx, Then::Commit, |_, _| Ok(())).await;
        }
        // The connection breaks for the node now. The COMMIT is lost, or has been received and is worked on.
        world.note(format_args!("n{} loses the answer to COMMIT {}", self.node.life, self.tx));
        let (arrives, late_ms) = (world.chance(50), world.below(3_000));
        let (tx, shared) = (self.tx, Rc::clone(world));
        world.clockwork.spawn(Owner::Database, async move {
            shared.clockwork.sleep(late_ms).await;
            shared.end(tx, arrives);
        });
        Err(Fault::Broken)
    }
}

impl Node {
    /// A statement that is a transaction of its own.
    pub(super) async fn once<T: 'static>(
        self: &Rc<Self>,
        statement: impl FnMut(&mut Database, Tx) -> Result<T, Stop> + 'static,
    ) -> Result<T, Fault> {
        let tx = self.world.next_tx();
        self.world.ask(self, tx, Then::Commit, statement).await
    }
}

impl World {
    fn next_tx(&self) -> Tx {
        self.transactions.set(self.transactions.get() + 1);
        self.transactions.get()
    }

    /// Sends a statement and waits for what comes of it. Once sent it runs whatever becomes of the sender.
    async fn ask<T: 'static>(
        self: &Rc<Self>,
        node: &Rc<Node>,
        tx: Tx,
        then: Then,
        statement: impl FnMut(&mut Database, Tx) -> Result<T, Stop> + 'static,
    ) -> Result<T, Fault> {
        let answer = Rc::new(Answer { value: RefCell::new(None), bell: Bell::default() });
        let (world, host, life) = (Rc::clone(self), node.host, node.life);
        let sent = Rc::clone(&answer);
        self.clockwork.spawn(Owner::Database, async move {
            let value = world.serve(host, life, tx, then, statement).await;
            if let Some(value) = value {
                *sent.value.borrow_mut() = Some(value);
                world.clockwork.ring(&sent.bell);
            }
        });
        let until = self.clockwork.now().after(ANSWER_MS);
        while answer.value.borrow().is_none() {
            if self.clockwork.now() >= until {
                if then == Then::Stay {
                    self.hang_up(host, tx);
                }
                return Err(Fault::Broken);
            }
            self.clockwork.wait(&answer.bell, Some(until)).await;
        }
        answer.value.take().unwrap_or(Err(Fault::Broken))
    }

    /// The way there, the work, the way back. `None`: nothing comes back.
    async fn serve<T>(
        &self,
        host: usize,
        life: u32,
        tx: Tx,
        then: Then,
        mut statement: impl FnMut(&mut Database, Tx) -> Result<T, Stop>,
    ) -> Option<Result<T, Fault>> {
        let sent = self.now();
        let arrived = self.travel(host).await;
        // A process that died sends nothing again.
        let died = self.story.borrow().died.contains_key(&life) && self.now().since(sent) > SLOW_MS;
        if let Err(noticed) = if died { Err(false) } else { arrived } {
            self.end(tx, false);
            return noticed.then_some(Err(Fault::Broken));
        }
        if !self.take_up(life, tx) {
            let back = self.travel(host).await;
            return back.map_or_else(|noticed| noticed, |()| true).then_some(Err(Fault::Broken));
        }
        let value = self.execute(tx, &mut statement).await;
        if value.is_err() {
            self.end(tx, false);
        } else if then == Then::Commit {
            self.end(tx, true);
        } else if let Some(backend) = self.db.borrow_mut().backends.get_mut(&tx) {
            (backend.busy, backend.active) = (false, self.clockwork.now());
        }
        match self.travel(host).await {
            Ok(()) => Some(value),
            Err(noticed) => {
                self.end(tx, false);
                noticed.then_some(Err(Fault::Broken))
            }
        }
    }

    /// A backend takes a statement up. `false`: the one it was meant for has ended.
    fn take_up(&self, life: u32, tx: Tx) -> bool {
        let now = self.clockwork.now();
        let mut db = self.db.borrow_mut();
        let known = self.ended.borrow().contains(&tx);
        if known {
            return false;
        }
        let fresh = Backend { life, busy: true, active: now, waits_for: None };
        *db.backends.entry(tx).or_insert(fresh) = fresh;
        true
    }

    async fn execute<T>(
        &self,
        tx: Tx,
        statement: &mut impl FnMut(&mut Database, Tx) -> Result<T, Stop>,
    ) -> Result<T, Fault> {
        let until = self.clockwork.now().after(LOCK_MS);
        loop {
            let done = {
                let mut db = self.db.borrow_mut();
                if !db.backends.contains_key(&tx) {
                    return Err(Fault::Broken);
                }
                db.clock = self.database_wall();
                let done = statement(&mut db, tx);
                let waits_for = if let Err(Stop::Wait(by)) = done { Some(by) } else { None };
                let stuck = waits_for.is_some_and(|by| db.is_deadlock(tx, by));
                if let Some(backend) = db.backends.get_mut(&tx) {
                    backend.waits_for = waits_for;
                }
                if stuck { None } else { Some(done) }
            };
            match done {
                Some(Ok(value)) => return Ok(value),
                Some(Err(Stop::Refused(refusal))) => return Err(Fault::Refused(refusal)),
                Some(Err(Stop::Wait(_))) if self.clockwork.now() < until => {
                    self.count("statement waited for a lock");
                    self.clockwork.wait(&self.unlocked, Some(until)).await;
                }
                Some(Err(Stop::Wait(_))) => return Err(Fault::Broken),
                None => {
                    self.count("deadlock");
                    return Err(Fault::Broken);
                }
            }
        }
    }

    /// One way over a link. `Err`: it did not come through; whether the other end was told.
    async fn travel(&self, host: usize) -> Result<(), bool> {
        let until = self.clockwork.now().after(RESENT_MS);
        let slow = self.faulty.get() && self.chance(self.plan.slow_percent);
        self.clockwork.sleep(1 + self.below(if slow { SLOW_MS } else { 5 })).await;
        loop {
            match self.link(host) {
                Link::Up => return Ok(()),
                Link::Cut => return Err(true),
                Link::HalfOpen if self.clockwork.now() >= until => return Err(false),
                Link::HalfOpen => self.clockwork.wait(&self.relinked, Some(until)).await,
            }
        }
    }

    /// A client closes its connection. What it sent before comes before that.
    fn hang_up(self: &Rc<Self>, host: usize, tx: Tx) {
        let world = Rc::clone(self);
        self.clockwork.spawn(Owner::Database, async move {
            if world.travel(host).await.is_ok() {
                world.clockwork.sleep(6).await;
                let busy = |world: &Self| world.db.borrow().backends.get(&tx).is_some_and(|it| it.busy);
                while busy(&world) {
                    world.clockwork.sleep(10).await;
                }
                world.end(tx, false);
            }
        });
    }

    /// A process died and its system closed its connections.
    pub(super) fn hang_up_all(self: &Rc<Self>, host: usize, life: u32) {
        let of = |backend: &Backend| backend.life == life;
        let open: Vec<Tx> =
            self.db.borrow().backends.iter().filter(|(_, it)| of(it)).map(|(tx, _)| *tx).collect();
        open.into_iter().for_each(|tx| self.hang_up(host, tx));
    }

    /// Ends a transaction at the database. A statement that comes later finds no backend.
    fn end(&self, tx: Tx, commit: bool) {
        self.ended.borrow_mut().insert(tx);
        self.db.borrow_mut().end(tx, commit);
        self.clockwork.ring(&self.unlocked);
    }

    /// Ends what waits for a client that says nothing.
    pub(super) async fn watch_idle(self: Rc<Self>) {
        loop {
            self.clockwork.sleep(500).await;
            let now = self.clockwork.now();
            let idle = |it: &Backend| !it.busy && now.since(it.active) >= IDLE_MS;
            let idle: Vec<Tx> =
                self.db.borrow().backends.iter().filter(|(_, it)| idle(it)).map(|(tx, _)| *tx).collect();
            for tx in idle {
                self.count("idle transaction ended");
                self.end(tx, false);
            }
        }
    }
}
