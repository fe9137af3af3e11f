//! Virtual time for many processes: tasks that sleep, wait for bells, are frozen and killed.
//!
//! One thread polls one task at a time, in the order of time and of planning. What a task awaits is looked at again
//! each time it is woken, so that it may be woken for nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::timeline::{Moment, Timeline};

/// Whose task it is. What belongs to a process stops with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// Publishers, people, faults.
    World,
    /// The database and the network.
    Database,
    /// A node, by the number of its life.
    Process(u32),
}

struct Task {
    owner: Owner,
    /// Out while it is polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Clockwork {
    now: Cell<Moment>,
    timeline: RefCell<Timeline<u64>>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    current: Cell<u64>,
    spawned: Cell<u64>,
    /// Processes that stand still, and which of their tasks should have been woken.
    frozen: RefCell<BTreeMap<Owner, Vec<u64>>>,
    events: Cell<u64>,
}

/// Something that tasks wait for.
#[derive(Default)]
pub(super) struct Bell {
    rings: Cell<u64>,
    waiting: RefCell<Vec<u64>>,
}

impl Clockwork {
    pub(super) fn now(&self) -> Moment {
        self.now.get()
    }

    pub(super) fn events(&self) -> u64 {
        self.events.get()
    }

    pub(super) fn spawn(&self, owner: Owner, future: impl Future<Output = ()> + 'static) {
        let id = self.spawned.get();
        self.spawned.set(id + 1);
        self.tasks.borrow_mut().insert(id, Task { owner, future: Some(Box::pin(future)) });
        self.wake_at(id, self.now());
    }

    /// Lets the next thing happen; `false` when nothing is left.
    pub(super) fn step(&self) -> bool {
        let Some((at, id)) = self.timeline.borrow_mut().pop() else { return false };
        self.now.set(at);
        self.events.set(self.events.get() + 1);
        let future = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(&id) else { return true };
            if let Some(missed) = self.frozen.borrow_mut().get_mut(&task.owner) {
                missed.push(id);
                return true;
            }
            task.future.take()
        };
        let Some(mut future) = future else { return true };
        self.current.set(id);
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // It may have been killed meanwhile, by itself too; then it is dropped here.
        let mut tasks = self.tasks.borrow_mut();
        match polled {
            Poll::Ready(()) => drop(tasks.remove(&id)),
            Poll::Pending => {
                if let Some(task) = tasks.get_mut(&id) {
                    task.future = Some(future);
                }
            }
        }
        true
    }

    /// Ends all tasks of a process.
    pub(super) fn kill(&self, owner: Owner) {
        let mut tasks = self.tasks.borrow_mut();
        let ended: Vec<u64> =
            tasks.iter().filter(|(_, task)| task.owner == owner).map(|(id, _)| *id).collect();
        let ended: Vec<Option<Task>> = ended.into_iter().map(|id| tasks.remove(&id)).collect();
        drop(tasks);
        drop(ended);
        self.frozen.borrow_mut().remove(&owner);
    }

    /// A process stands still until [`Clockwork::thaw`]; its clocks go on.
    pub(super) fn freeze(&self, owner: Owner) {
        self.frozen.borrow_mut().entry(owner).or_default();
    }

    pub(super) fn thaw(&self, owner: Owner) {
        let missed = self.frozen.borrow_mut().remove(&owner).unwrap_or_default();
        missed.into_iter().for_each(|id| self.wake_at(id, self.now()));
    }

    fn wake_at(&self, id: u64, at: Moment) {
        self.timeline.borrow_mut().plan(at, id);
    }

    pub(super) async fn sleep_until(&self, at: Moment) {
        if at <= self.now() {
            return;
        }
        self.wake_at(self.current.get(), at);
        poll_fn(|_| if self.now() >= at { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    pub(super) async fn sleep(&self, ms: u64) {
        self.sleep_until(self.now().after(ms)).await;
    }

    /// Waits until the bell rings, or until then. The caller looks what it was for.
    pub(super) async fn wait(&self, bell: &Bell, until: Option<Moment>) {
        let seen = bell.rings.get();
        bell.waiting.borrow_mut().push(self.current.get());
        if let Some(until) = until {
            self.wake_at(self.current.get(), until.max(self.now()));
        }
        poll_fn(|_| {
            let over = bell.rings.get() != seen || until.is_some_and(|until| self.now() >= until);
            if over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    pub(super) fn ring(&self, bell: &Bell) {
        bell.rings.set(bell.rings.get() + 1);
        for id in bell.waiting.take() {
            self.wake_at(id, self.now());
        }
    }
}

impl Clockwork {
    /// Drops all tasks.
    pub(super) fn clear(&self) {
        loop {
            let tasks = self.tasks.take();
            if tasks.is_empty() {
                return;
            }
            drop(tasks);
        }
    }
}
