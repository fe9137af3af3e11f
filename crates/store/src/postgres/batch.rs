//! What comes in masses: accepts, publishes and settles are gathered, and each batch is written as one transaction in
//! one round trip. Never waits to fill a batch: takes all that is queued.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use restante_core::health::Health;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Row, Statement};

use super::Fault;
use super::columns::{Delivered, Deliveries, Healths, Messages, Settled as SettledColumns, Waiting};
use super::config::read_standing;
use super::job::{self, Job};
use super::lane::Lane;
use super::node::{Node, lock};
use super::plan::{self, Plan};
use super::slow;
use super::sql::Params;
use crate::meter::Stopwatch;

/// Jobs that may wait before callers have to.
const QUEUE_JOBS: usize = 8192;
/// Most jobs in one transaction: bounds how long the first of them waits.
const BATCH_JOBS: usize = 256;
/// How often a batch is tried again.
const TRIES_MAX: u32 = 6;
/// Pause before a broken database is tried again.
const BROKEN_PAUSE: Duration = Duration::from_millis(200);

/// Starts the writer. It ends when the sender is gone and all jobs are done.
///
/// There is one: what comes while a batch is under way is the next batch. With two, batches would be half as large, and
/// as each costs the same whatever is in it, the whole would take longer.
pub(super) fn start(node: &Arc<Node>) -> (mpsc::Sender<Job>, JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel(QUEUE_JOBS);
    let writer = Writer { node: Arc::clone(node), receiver, link: None };
    (sender, tokio::spawn(writer.run()))
}

struct Writer {
    node: Arc<Node>,
    receiver: mpsc::Receiver<Job>,
    link: Option<Link>,
}

/// A connection with the statements of a batch.
struct Link {
    client: Client,
    enter: Statement,
    messages: Statement,
    deliveries: Statement,
    work: Statement,
    skipped: Statement,
    delivered: Statement,
    settled: Statement,
    cleared: Statement,
    healths: Statement,
    watch: Statement,
    lock_healths: Statement,
}

impl Link {
    async fn open(node: &Node) -> Result<Self, Fault> {
        let client = node.address.connect().await?;
        Ok(Self {
            enter: client.prepare("SELECT restante_enter($1, $2, $3, $4)").await?,
            messages: client.prepare(Messages::INSERT).await?,
            deliveries: client.prepare(Deliveries::INSERT).await?,
            work: client.prepare(Waiting::INSERT_WORK).await?,
            skipped: client.prepare(Waiting::INSERT_SKIPPED).await?,
            delivered: client.prepare(Delivered::UPDATE).await?,
            settled: client.prepare(SettledColumns::UPDATE).await?,
            cleared: client
                .prepare(
                    "UPDATE health SET run_since = NULL, run_failures = 0, degraded = false \
                     WHERE endpoint = ANY($1) AND (run_since IS NOT NULL OR degraded)",
                )
                .await?,
            healths: client.prepare(Healths::UPDATE).await?,
            watch: client
                .prepare(
                    "INSERT INTO health (endpoint, run_failures, degraded, pauses, epoch) \
                     SELECT endpoint, 0, false, 0, 0 FROM unnest($1::bigint[]) AS it (endpoint) ON CONFLICT DO NOTHING",
                )
                .await?,
            lock_healths: client
                .prepare(
                    "SELECT endpoint, run_since, run_failures, degraded, paused_at, cut, pauses FROM health \
                     WHERE endpoint = ANY($1) ORDER BY endpoint FOR UPDATE",
                )
                .await?,
            client,
        })
    }

    /// Begins a transaction that has webhooks' runs of failures to itself.
    async fn begin_with_healths(
        &self,
        (me, lane, seq, epoch): (i32, i32, i64, i64),
        webhooks: &[i64],
    ) -> Result<FxHashMap<i64, Health>, Fault> {
        let enter: Params<'_> = &[&me, &lane, &seq, &epoch];
        let webhooks: Params<'_> = &[&webhooks];
        let sent: [BoxFuture<'_, Result<Vec<Row>, Fault>>; 4] = [
            Box::pin(self.simple("BEGIN")),
            Box::pin(self.run(&self.enter, enter)),
            Box::pin(self.run(&self.watch, webhooks)),
            Box::pin(self.run(&self.lock_healths, webhooks)),
        ];
        let mut rows = Vec::new();
        for answer in join_all(sent).await {
            rows = answer?;
        }
        let read = |row: &Row| Ok((row.try_get(0)?, read_standing(row, 1)?.health));
        rows.iter().map(read).collect()
    }

    async fn run(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        Ok(self.client.query(statement, params).await?)
    }

    async fn simple(&self, sql: &'static str) -> Result<Vec<Row>, Fault> {
        self.client.batch_execute(sql).await?;
        Ok(Vec::new())
    }
}

/// How a try ended.
enum Ended {
    /// Stored. Keys of the deliveries whose settles took effect; `None`: the answers were lost, only the commit is sure.
    Done(Option<Vec<i64>>),
    Failed(Fault),
}

impl Writer {
    async fn run(mut self) {
        let mut jobs = Vec::new();
        loop {
            let taken = self.receiver.recv_many(&mut jobs, BATCH_JOBS).await;
            if taken == 0 {
                return;
            }
            let plain = self.sort(std::mem::take(&mut jobs));
            if !plain.is_empty() {
                self.write(plain).await;
            }
        }
    }

    async fn write(&mut self, mut jobs: Vec<Job>) {
        let mut tries = 0;
        loop {
            tries += 1;
            let fault = match self.attempt(&mut jobs).await {
                Ok(()) => {
                    self.note_fault(None);
                    return;
                }
                Err(fault) => fault,
            };
            if tries >= TRIES_MAX {
                return self.give_up(fault);
            }
            if fault.is_broken_link() {
                self.link = None;
                if tries > 2 {
                    tokio::time::sleep(BROKEN_PAUSE).await;
                }
            }
            if let Err(fault) = self.node.mend(fault, tries).await {
                return self.give_up(fault);
            }
            // What belonged into a batch may not any more.
            jobs = self.sort(jobs);
            if jobs.is_empty() {
                return;
            }
        }
    }

    /// Answers what needs no transaction, hands on what needs one of its own, and keeps the rest.
    fn sort(&self, jobs: Vec<Job>) -> Vec<Job> {
        let (plain, alone) = job::sort(&self.node, jobs);
        for job in alone {
            tokio::spawn(slow::run(Arc::clone(&self.node), job));
        }
        plain
    }

    /// The jobs are dropped, and with them whoever waits for an answer learns that there is none.
    fn give_up(&mut self, fault: Fault) {
        self.link = None;
        self.node.commits.note_refused();
        self.note_fault(Some(&fault));
    }

    fn note_fault(&self, fault: Option<&Fault>) {
        let mut broken = lock(&self.node.broken);
        match fault {
            None if broken.is_none() => {}
            None => {
                tracing::warn!("the database takes writes again");
                *broken = None;
            }
            Some(fault) => {
                tracing::error!(error.message = %fault, "the database refused a batch; nothing of it was acknowledged");
                *broken = Some(fault.to_string());
            }
        }
    }

    /// Writes the jobs as one transaction and answers them. Those that are answered are taken out.
    async fn attempt(&mut self, jobs: &mut Vec<Job>) -> Result<(), Fault> {
        let (items, watch) = (jobs.len(), Stopwatch::start());
        let slotless = job::slotless(&self.node, jobs);
        self.node.ask_once_for_slots(slotless).await?;
        if self.link.as_ref().is_none_or(|link| link.client.is_closed()) {
            self.link = Some(Link::open(&self.node).await?);
        }
        let (lane, seq) = self.node.take_lane().await?;
        let failing = job::failing(&self.node, jobs);
        let Some(link) = &self.link else { return Err(Fault::NoConnection("no link".into())) };
        // Runs of failures are counted one after the other, over all nodes.
        let begun = if failing.is_empty() {
            None
        } else {
            let (me, epoch) = {
                let state = self.node.state();
                (state.node, state.epoch)
            };
            match link.begin_with_healths((me, lane.number(), seq, epoch), &failing).await {
                Ok(healths) => Some(healths),
                Err(fault) => {
                    self.link = None;
                    return Err(fault);
                }
            }
        };
        let is_begun = begun.is_some();
        let plan = plan::plan(&self.node, jobs, begun.unwrap_or_default());
        if let Err(fault) = plan.prepare(&self.node).await {
            plan.undo(&self.node);
            self.link = None;
            return Err(fault);
        }
        let Some(link) = &self.link else { return Err(Fault::NoConnection("no link".into())) };
        let ended = Self::store(&self.node, link, &lane, (seq, is_begun), &plan, jobs).await;
        drop(lane);
        match ended {
            Ended::Done(settled) => {
                self.node.commits.note(items, watch.elapsed());
                let answered = std::mem::take(jobs);
                for job in plan.take_effect(&self.node, answered, settled.as_deref()) {
                    tokio::spawn(slow::run(Arc::clone(&self.node), job));
                }
                Ok(())
            }
            Ended::Failed(fault) => {
                plan.undo(&self.node);
                Err(fault)
            }
        }
    }

    /// Sends everything at once and waits for all answers.
    async fn store(
        node: &Node,
        link: &Link,
        lane: &Lane,
        (seq, is_begun): (i64, bool),
        plan: &Plan,
        jobs: &[Job],
    ) -> Ended {
        let columns = plan.columns(jobs);
        let (me, number) = (plan.node, lane.number());
        let enter: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&me, &number, &seq, &plan.epoch];
        let (m, b) = (&columns.messages, &columns.births);
        let (messages, deliveries) = (m.params(), b.deliveries.params());
        let (work, skipped) = (b.work.work_params(), b.skipped.skipped_params());
        let f = &columns.delivered;
        let delivered: Params<'_> =
            &[&f.workspace, &f.key, &f.started_at, &f.version, &f.ended_at, &f.status, &me];
        let t = &columns.settled;
        let settled: Params<'_> = &[
            &me,
            &t.workspace,
            &t.key,
            &t.endpoint,
            &t.made,
            &t.ending_before,
            &t.state,
            &t.used,
            &t.lost,
            &t.due_at,
            &t.started_at,
            &t.version,
            &t.ended_at,
            &t.status,
            &t.wait_ms,
            &t.wait_cause,
            &t.pauses,
            &t.attempt_started_at,
            &t.attempt_version,
            &t.duration_ms,
            &t.result,
            &t.attempt_status,
            &t.failure,
            &t.message,
            &t.uses_budget,
            &t.webhook,
        ];
        let cleared: Params<'_> = &[&columns.cleared];
        let h = &columns.healths;
        let healths: Params<'_> = &[&h.endpoint, &h.since, &h.failures, &h.degraded];
        let mut sent: Vec<BoxFuture<'_, Result<Vec<Row>, Fault>>> = Vec::with_capacity(12);
        if !is_begun {
            sent.push(Box::pin(link.simple("BEGIN")));
            sent.push(Box::pin(link.run(&link.enter, &enter)));
        }
        let mut answers_from = Vec::new();
        let parts = [
            (m.key.is_empty(), &link.messages, &messages[..], false),
            (b.deliveries.key.is_empty(), &link.deliveries, &deliveries[..], false),
            (b.work.key.is_empty(), &link.work, &work[..], false),
            (b.skipped.key.is_empty(), &link.skipped, &skipped[..], false),
            (f.key.is_empty(), &link.delivered, delivered, true),
            (t.key.is_empty(), &link.settled, settled, true),
            (columns.cleared.is_empty(), &link.cleared, cleared, false),
            (h.endpoint.is_empty(), &link.healths, healths, false),
        ];
        for (empty, statement, params, answers) in parts {
            if !empty {
                if answers {
                    answers_from.push(sent.len());
                }
                sent.push(Box::pin(link.run(statement, params)));
            }
        }
        sent.push(Box::pin(link.simple("COMMIT")));
        let mut results = join_all(sent).await;
        let failed = results.iter().position(Result::is_err);
        let Some(failed) = failed else {
            let mut keys = Vec::new();
            for index in answers_from {
                for row in results[index].as_deref().unwrap_or_default() {
                    keys.extend(row.try_get::<_, i64>(0));
                }
            }
            return Ended::Done(Some(keys));
        };
        let fault = match results.swap_remove(failed) {
            Err(fault) => fault,
            Ok(_) => return Ended::Failed(Fault::Damaged("a result was lost".into())),
        };
        if !fault.is_broken_link() {
            return Ended::Failed(fault);
        }
        match node.read_back(lane, plan.node).await {
            Ok(true) => Ended::Done(None),
            Ok(false) => Ended::Failed(fault),
            Err(unknown) => Ended::Failed(unknown),
        }
    }
}
