//! The writer: makes one transaction of all that waits, and what can go wrong with it.

use restante_core::Timestamp;
use restante_core::id::DeliveryId;
use restante_store::row;
use restante_store::sqlite::Fault;
use restante_store::{Accepted, Finished, Lease};

use super::job::{Answer, Job, Within};
use super::node::Handed;
use super::{Event, World, note};
use crate::plant::Plant;
use crate::story::{Stale, Told};

/// Pause before a refused commit's work is tried again.
const REFUSED_PAUSE_MS: u64 = 50;

/// How a commit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Luck {
    Works,
    /// The database takes nothing.
    Refused,
    /// The node dies before the commit.
    DiesBefore,
    /// The node dies after the commit, before anybody learns of it.
    DiesAfter,
}

impl World {
    /// Hands a job to the writer. What is handed to a dead node is lost.
    pub(super) fn enqueue(&mut self, job: Job) {
        let delay_ms = if self.plan.calm { 1 } else { self.random.below(5) };
        let life = self.life;
        let Some(node) = &mut self.node else { return };
        node.jobs.push(job);
        if !node.committing {
            node.committing = true;
            self.plan_in(delay_ms, Event::Commit { life });
        }
    }

    fn draw_luck(&mut self) -> Luck {
        if !self.faulty {
            return Luck::Works;
        }
        if self.plan.commit_crashes > 0 && self.random.chance(3) {
            self.plan.commit_crashes -= 1;
            return self.random.pick(&[Luck::DiesBefore, Luck::DiesAfter]);
        }
        if self.random.chance(self.plan.refused_percent) { Luck::Refused } else { Luck::Works }
    }

    pub(super) fn commit(&mut self) {
        let luck = self.draw_luck();
        let Some(node) = &mut self.node else { return };
        node.committing = false;
        let jobs = std::mem::take(&mut node.jobs);
        self.tally.commits += 1;
        if luck == Luck::DiesBefore {
            return self.die_before_commit(&jobs);
        }
        let world = Within { story: &self.story, cast: &self.cast, plant: self.plant };
        let mut answers = Vec::new();
        let result = node.engine.transaction(|engine| {
            for job in &jobs {
                answers.push(job.run(engine, world)?);
            }
            if luck == Luck::Refused { Err(Fault::Io("simulated".into())) } else { Ok(()) }
        });
        match result {
            Ok(()) if luck == Luck::DiesAfter => {
                self.note_taken(&jobs, &answers);
                self.crash("between commit and answer");
            }
            Ok(()) => {
                self.note_taken(&jobs, &answers);
                self.look_at_webhooks();
                self.follow_outbox();
                for (job, answer) in jobs.into_iter().zip(answers) {
                    self.tell(job, answer);
                }
            }
            Err(fault) => {
                note!(self, "the database refuses {} jobs", jobs.len());
                if luck != Luck::Refused {
                    self.story.broken.push(format!("the engine fails by itself: {fault}"));
                }
                self.refuse(jobs, answers);
            }
        }
    }

    fn refuse(&mut self, jobs: Vec<Job>, answers: Vec<Answer>) {
        let mut answers = answers.into_iter();
        let mut again = Vec::new();
        for job in jobs {
            let answer = answers.next();
            match job {
                Job::Accept { publish, .. } => match answer {
                    // The plant: the publisher does not learn of the failure.
                    Some(answer @ Answer::Accepted(Accepted::Fresh { .. }))
                        if self.plant == Some(Plant::AckBeforeCommit) =>
                    {
                        self.tell(job, answer);
                    }
                    _ => self.story.publishes[publish].told = Told::Refused,
                },
                Job::Claim { .. } => self.claim_refused(REFUSED_PAUSE_MS),
                Job::Settle { .. } | Job::Release { .. } | Job::Listen { .. } => again.push(job),
                Job::TakePending { source, entry, .. } => {
                    self.cast.sources[source].takes_pending.refused(entry);
                }
                Job::Change { destination, entry, .. }
                | Job::Delete { destination, entry, .. }
                | Job::Create { destination, entry, .. } => {
                    self.cast.endpoints[destination].setting.refused(entry);
                }
                Job::Errand(errand) => self.refuse_errand(&errand),
                Job::DeleteSource { entries, .. } => {
                    for (destination, entry) in entries {
                        self.cast.endpoints[destination].setting.refused(entry);
                    }
                }
                Job::Bulk { id, .. } => self.plan_in(5_000, Event::Bulk { life: self.life, id }),
                Job::Cancel { .. }
                | Job::Retry { .. }
                | Job::Replay { .. }
                | Job::Erase { .. }
                | Job::Grant { .. }
                | Job::StartBulk { .. }
                | Job::Prune { .. } => {}
            }
        }
        if !again.is_empty() {
            self.plan_in(REFUSED_PAUSE_MS, Event::Again { life: self.life, jobs: again });
        }
    }

    fn die_before_commit(&mut self, jobs: &[Job]) {
        if self.plant == Some(Plant::SendBeforeCommit) {
            self.send_uncommitted(jobs);
        }
        self.crash("before a commit");
    }

    /// The plant: what the commit would lease is sent, and then the leases are as if it had not been made.
    fn send_uncommitted(&mut self, jobs: &[Job]) {
        let Some(node) = &mut self.node else { return };
        let world = Within { story: &self.story, cast: &self.cast, plant: self.plant };
        let made = node
            .engine
            .transaction(|engine| jobs.iter().try_for_each(|job| job.run(engine, world).map(drop)));
        if made.is_err() {
            return;
        }
        let handed = node.outbox.take().into_iter();
        let parcels: Vec<_> = handed
            .filter_map(|it| match it {
                Handed::Parcels(parcels) => Some(parcels),
                Handed::Withdraw(_) | Handed::Widen(_) => None,
            })
            .flatten()
            .collect();
        let now = self.clocks.wall();
        let leases: Vec<Lease> = parcels.iter().map(|parcel| parcel.lease).collect();
        node.engine.transaction(|engine| engine.release(&leases, now)).expect("a release works");
        for parcel in parcels {
            let turn = self.begin(parcel);
            self.dial(turn);
            self.arrive(turn);
        }
    }

    /// A settle that comes too late: from a node that died, or for the second time. It must change nothing.
    pub(super) fn settle_late(&mut self, mut finished: Finished) {
        let (lease, now) = (finished.lease, self.wall());
        let Some(before) = self.look(lease.delivery, now) else { return };
        if self.plant == Some(Plant::NoFence)
            && let Some(before) = before.as_ref().filter(|it| !it.life.state.is_final())
        {
            finished.lease.attempt = before.life.attempts_made;
            finished.attempt.number = before.life.attempts_made;
        }
        note!(self, "a late settle of {lease:?}");
        let Some(node) = &mut self.node else { return };
        let settled = node.engine.transaction(|engine| engine.settle(&finished));
        self.after_stale(lease, before, settled.map(drop));
    }

    /// A release by a node that died. It must change nothing.
    pub(super) fn release_late(&mut self, lease: Lease) {
        let now = self.wall();
        let Some(before) = self.look(lease.delivery, now) else { return };
        note!(self, "a late release of {lease:?}");
        let Some(node) = &mut self.node else { return };
        let released = node.engine.transaction(|engine| engine.release(&[lease], now));
        self.after_stale(lease, before, released);
    }

    fn after_stale(&mut self, lease: Lease, before: Option<row::Delivery>, result: Result<(), Fault>) {
        if let Err(fault) = result {
            self.story.broken.push(format!("the engine fails by itself: {fault}"));
        }
        let now = self.wall();
        let after = self.look(lease.delivery, now).flatten();
        self.story.stale.push(Stale { at: self.clocks.now, lease, before, after });
        self.follow_outbox();
    }

    /// A delivery as the read side shows it to its owner. The outer `None`: there is no node, or no such delivery
    /// was ever dialled.
    fn look(&self, delivery: DeliveryId, now: Timestamp) -> Option<Option<row::Delivery>> {
        let node = self.node.as_ref()?;
        let dialled = self.story.dialled.iter().find(|it| it.lease.delivery == delivery);
        let workspace = match dialled {
            Some(dialled) => self.cast.workspace_of(dialled.endpoint),
            None => *self.cast.workspaces.first()?,
        };
        Some(node.engine.delivery(workspace, delivery, now).expect("reads work"))
    }
}
