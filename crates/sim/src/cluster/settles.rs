//! Settles and releases: what became of leases, and the fence that stops those who lost theirs.

use std::collections::BTreeSet;
use std::rc::Rc;

use restante_core::delivery::{self, Delivery, Ending};
use restante_core::retry::Jitter;
use restante_core::{Attempt, State};
use restante_store::Lease;

use super::claims::known_due;
use super::database::{AttemptRow, Database, DeliveryRow, Stop};
use super::node::{Held, Node, name_of};
use super::plant::Plant;
use super::story::Stale;
use super::table::Tx;
use super::transact::SETTLES;
use super::wire::Fault;

/// Leases settled in one transaction.
const BATCH_MAX: usize = 32;

/// What became of a lease. `lease` is the node's own number of it.
#[derive(Clone)]
pub(super) struct Job {
    lease: u64,
    /// `None`: it was never dialled and is given back.
    result: Option<(Attempt, Jitter)>,
}

impl Job {
    pub(super) fn release(lease: u64) -> Self {
        Self { lease, result: None }
    }

    pub(super) fn settle(lease: u64, attempt: Attempt, jitter: Jitter) -> Self {
        Self { lease, result: Some((attempt, jitter)) }
    }
}

/// A row to be written if the lease is still what it was when this was computed.
#[derive(Clone)]
struct Write {
    job: usize,
    key: i64,
    node: u32,
    number: u32,
    ending: Option<Ending>,
    next: Delivery,
    attempt: Option<AttemptRow>,
}

/// What a statement did with its writes.
#[derive(Clone, Default)]
struct Written {
    done: BTreeSet<usize>,
    /// Those whose row was not as expected, with that row.
    left: Vec<(usize, Option<DeliveryRow>)>,
    stale: Vec<(usize, DeliveryRow, Option<DeliveryRow>)>,
}

impl Node {
    pub(super) async fn settle_loop(self: Rc<Self>) {
        loop {
            let mut jobs = std::mem::take(&mut self.state.borrow_mut().jobs);
            if jobs.is_empty() {
                self.world.clockwork.wait(&self.finished, None).await;
                continue;
            }
            if jobs.len() > BATCH_MAX {
                let later = jobs.split_off(BATCH_MAX);
                self.state.borrow_mut().jobs.splice(0..0, later);
            }
            while let Err(fault) = self.settle(&jobs).await {
                self.mend(fault).await;
            }
        }
    }

    /// Gives back what has not dialled.
    pub(super) fn give_back(self: &Rc<Self>, mut leases: Vec<Lease>) {
        leases.sort_by_key(|lease| lease.delivery);
        for lease in leases {
            self.world.note(format_args!("n{} gives back {lease:?}", self.life));
            let mut state = self.state.borrow_mut();
            if let Some(number) = state.latest.get(&name_of(lease)).copied() {
                state.jobs.push(Job::release(number));
            }
        }
        self.world.clockwork.ring(&self.finished);
    }

    async fn settle(self: &Rc<Self>, jobs: &[Job]) -> Result<(), Fault> {
        let held: Vec<Held> = {
            let state = self.state.borrow();
            jobs.iter().map(|job| state.held[&job.lease].clone()).collect()
        };
        let given: Vec<DeliveryRow> = held.iter().map(|held| held.row.clone()).collect();
        let mut writes: Vec<Write> = (0..jobs.len()).map(|job| self.judge(jobs, job, &given[job])).collect();
        writes.sort_by_key(|write| write.key);
        let fence = !self.world.has(Plant::NoFence);
        let (first, again) = self
            .transact(SETTLES, async |tx| {
                let (mut written, first) = (Written::default(), writes.clone());
                let first = tx.run(move |db, tx| write_all(db, tx, &first, fence, &mut written)).await?;
                let again = self.judge_anew(jobs, &first.left);
                if again.is_empty() {
                    return Ok((first, Vec::new()));
                }
                let (mut written, rows) = (Written::default(), again.clone());
                tx.run(move |db, tx| write_all(db, tx, &rows, true, &mut written)).await?;
                Ok((first, again))
            })
            .await?;
        self.settled(jobs, &writes, first, &again);
        Ok(())
    }

    /// What a result, or its absence, makes of the row.
    fn judge(&self, jobs: &[Job], job: usize, row: &DeliveryRow) -> Write {
        let state = self.state.borrow();
        let terms = Self::terms(&state.endpoints[row.endpoint]);
        let (next, attempt) = match &jobs[job].result {
            None => (delivery::release(&row.life, terms, self.wall()), None),
            Some((attempt, jitter)) => {
                let next = delivery::settle(&row.life, terms, attempt, *jitter).delivery;
                let (outcome, ended_at) = (attempt.outcome.clone(), attempt.ended_at);
                (next, Some(AttemptRow { outcome, ended_at, node: self.life }))
            }
        };
        Write {
            job,
            key: row.id.key().value(),
            node: self.life,
            number: row.life.attempts_made,
            ending: row.life.ending,
            next,
            attempt,
        }
    }

    /// Leases that are still this node's, although something about their deliveries has changed.
    fn judge_anew(&self, jobs: &[Job], left: &[(usize, Option<DeliveryRow>)]) -> Vec<Write> {
        let state = self.state.borrow();
        let mine = |job: usize, row: &DeliveryRow| {
            let given = &state.held[&jobs[job].lease].row;
            is_mine(row, self.life, given.life.attempts_made)
        };
        let rows = left.iter().filter_map(|(job, row)| Some((*job, row.as_ref()?)));
        rows.filter(|(job, row)| mine(*job, row)).map(|(job, row)| self.judge(jobs, job, row)).collect()
    }

    fn settled(self: &Rc<Self>, jobs: &[Job], writes: &[Write], first: Written, again: &[Write]) {
        for (job, before, after) in first.stale {
            let given = writes.iter().find(|write| write.job == job);
            let number = given.map_or(0, |write| write.number);
            self.world.count("stale settle or release");
            let stale = Stale { at: self.now(), life: self.life, number, before, after };
            self.world.story.borrow_mut().stale.push(stale);
        }
        let mut state = self.state.borrow_mut();
        for (place, job) in jobs.iter().enumerate() {
            let Some(held) = state.held.remove(&job.lease) else { continue };
            let (lease, endpoint) = (held.lease(), held.row.endpoint);
            if state.latest.get(&name_of(lease)) == Some(&job.lease) {
                state.latest.remove(&name_of(lease));
            }
            state.born.remove(&held.row.id.key().value());
            state.leased[endpoint] -= 1;
            let write = writes.iter().find(|write| write.job == place && first.done.contains(&place));
            let write = write.or_else(|| again.iter().find(|write| write.job == place));
            let what = if job.result.is_some() { "settle" } else { "release" };
            match write {
                Some(write) => {
                    let next = write.next.state;
                    self.world.note(format_args!("n{} {what} of {lease:?}: {next:?}", self.life));
                    state.due.extend(known_due(&write.next));
                }
                None => self.world.note(format_args!("n{} {what} of {lease:?}: lease lost", self.life)),
            }
        }
        drop(state);
        self.world.clockwork.ring(&self.planned);
        self.pump();
    }
}

fn is_mine(row: &DeliveryRow, node: u32, number: u32) -> bool {
    row.life.state == State::Sending && row.node == Some(node) && row.life.attempts_made == number
}

/// Writes what may be written. It may run several times: what is `done` stays so.
fn write_all(
    db: &mut Database,
    tx: Tx,
    writes: &[Write],
    fence: bool,
    written: &mut Written,
) -> Result<Written, Stop> {
    written.left.clear();
    for write in writes.iter() {
        if written.done.contains(&write.job) {
            continue;
        }
        db.deliveries.lock(tx, write.key)?;
        let Some(row) = db.deliveries.get(tx, write.key).cloned() else {
            written.left.push((write.job, None));
            continue;
        };
        let mine = is_mine(&row, write.node, write.number);
        let fits = if fence { mine && row.life.ending == write.ending } else { !row.life.state.is_final() };
        if fits {
            db.write_delivery(tx, write.key, write.next.clone(), None)?;
            if let Some(attempt) = &write.attempt {
                db.write_attempt(tx, write.key, write.number, attempt.clone())?;
            }
            written.done.insert(write.job);
        } else {
            written.left.push((write.job, Some(row.clone())));
        }
        if !mine {
            let after = db.deliveries.get(tx, write.key).cloned();
            written.stale.retain(|(job, _, _)| *job != write.job);
            written.stale.push((write.job, row, after));
        }
    }
    Ok(written.clone())
}
