//! Replays and recoveries at work: which are open, what they begin, what became of it.
//!
//! The claim drives them: whenever the dispatcher asks for work, what is due comes first, then what replays have not
//! begun. Progress is in the tables, in the same transaction as the attempts, so a crash neither skips nor doubles.

use std::collections::BTreeMap;

use restante_core::Timestamp;
use restante_core::delivery;
use restante_core::{Outcome, State};
use rusqlite::{Connection, OptionalExtension, params};
use rustc_hash::FxHashMap;

use super::Fault;
use super::agenda::Room;
use super::codec::DeliveryRow;
use super::config::parse;
use super::engine::Engine;
use super::resend;
use crate::Changed;
use crate::record::{ReplayJob, ReplayKind, ReplayState};

/// Items of a replay looked at in one step. Those whose deliveries are in flight are passed over.
const LOOK_MAX: usize = 256;
/// Attempts one webhook's replays begin in one step.
const BEGIN_MAX: usize = 64;
/// Deliveries that a recovery puts on their schedules in one step.
const RECOVER_MAX: usize = 256;

/// What is open, by endpoint. Memory only: the tables `open_job` and `record` say the same.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Oldest first.
    open: BTreeMap<i64, Vec<Job>>,
    /// Attempts in flight of each.
    running: FxHashMap<i64, u32>,
    /// Something may be begun: the dispatcher is to ask.
    pub(super) ready: bool,
    /// One had no room because the node as a whole has none: it is to be looked at again.
    pub(super) squeezed: bool,
    /// Behind which endpoint the next step starts, so that all get their turn.
    turn: i64,
}

/// An open replay or recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    /// The row of its record.
    pub(super) row: i64,
    pub(super) kind: ReplayKind,
}

impl Jobs {
    pub(super) fn load(conn: &Connection) -> Result<Self, Fault> {
        let mut jobs = Self { ready: true, ..Self::default() };
        let mut statement = conn.prepare_cached(
            "SELECT record.row, record.parent, record.body FROM open_job JOIN record ON record.row = open_job.record \
             ORDER BY record.row",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let job: ReplayJob = parse(row.get_ref(2)?.as_str().unwrap_or_default())?;
            jobs.add(row.get(1)?, Job { row: row.get(0)?, kind: job.kind });
        }
        Ok(jobs)
    }

    pub(super) fn add(&mut self, endpoint: i64, job: Job) {
        self.open.entry(endpoint).or_default().push(job);
        self.ready = true;
    }

    /// The rows of what is open by endpoint, and how much of each is in flight.
    #[cfg(test)]
    pub(super) fn seen(&self) -> (BTreeMap<i64, Vec<i64>>, BTreeMap<i64, u32>) {
        let rows = |jobs: &Vec<Job>| jobs.iter().map(|job| job.row).collect();
        let open = self.open.iter().map(|(endpoint, jobs)| (*endpoint, rows(jobs))).collect();
        (open, self.running.iter().map(|(job, count)| (*job, *count)).collect())
    }

    fn remove(&mut self, endpoint: i64, row: i64) {
        if let Some(jobs) = self.open.get_mut(&endpoint) {
            jobs.retain(|job| job.row != row);
            if jobs.is_empty() {
                self.open.remove(&endpoint);
            }
        }
        self.ready = true;
    }

    /// Counts a lease, if it is a replay's.
    pub(super) fn count(&mut self, row: &DeliveryRow) {
        if let Some(job) = row.job.filter(|_| row.life.back_to.is_some()) {
            *self.running.entry(job).or_default() += 1;
        }
    }

    /// Counts the end of a lease: a replay of its endpoint may go on.
    pub(super) fn end(&mut self, row: &DeliveryRow) {
        if let Some(job) = row.job.filter(|_| row.life.back_to.is_some())
            && let Some(running) = self.running.get_mut(&job)
        {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&job);
            }
        }
        self.ready |= self.open.contains_key(&row.endpoint);
    }

    /// Whether something of the endpoint is to be sent again.
    pub(super) fn is_open(&self, endpoint: i64) -> bool {
        self.open.contains_key(&endpoint)
    }

    /// Whether another replay of the endpoint has to end first.
    pub(super) fn is_busy(&self, endpoint: i64) -> bool {
        self.open.get(&endpoint).is_some_and(|jobs| jobs.iter().any(|job| job.kind != ReplayKind::Single))
    }

    /// Endpoints with open jobs, each once, from behind the one whose turn was last.
    fn turns(&self) -> Vec<i64> {
        let behind = self.open.range(self.turn.saturating_add(1)..);
        behind.chain(self.open.range(..=self.turn)).map(|(endpoint, _)| *endpoint).collect()
    }

    /// Those of an endpoint that may go on: single ones at once, the others one after the other.
    fn active(&self, endpoint: i64) -> Vec<Job> {
        let mut first = true;
        let all = self.open.get(&endpoint).into_iter().flatten().copied();
        all.filter(|job| job.kind == ReplayKind::Single || std::mem::take(&mut first)).collect()
    }
}

impl Engine {
    /// Takes the open jobs one step further. Returns how many attempts began.
    pub(super) fn advance_jobs(&mut self, now: Timestamp, most: usize) -> Result<usize, Fault> {
        (self.jobs.ready, self.jobs.squeezed) = (false, false);
        let mut begun = 0;
        for endpoint in self.jobs.turns() {
            if begun >= most {
                self.jobs.ready = true;
                break;
            }
            self.jobs.turn = endpoint;
            let most = (most - begun).min(BEGIN_MAX);
            let mut begun_here = 0;
            for job in self.jobs.active(endpoint) {
                begun_here += match job.kind {
                    ReplayKind::Recover => self.recover_some(endpoint, job.row, now)?,
                    ReplayKind::Replay | ReplayKind::Single => {
                        self.begin_some(endpoint, job, now, most.saturating_sub(begun_here))?
                    }
                };
            }
            begun += begun_here;
        }
        Ok(begun)
    }

    /// Begins attempts of a replay, as many as its lane has room for.
    fn begin_some(&mut self, endpoint: i64, job: Job, now: Timestamp, most: usize) -> Result<usize, Fault> {
        let items = resend::items(&self.conn, job.row, LOOK_MAX)?;
        let (mut begun, mut skipped) = (0, 0);
        for (position, key) in &items {
            let Some(mut row) = self.row_to_replay(job.kind, *key, now)? else {
                resend::remove_item(&self.conn, job.row, *position)?;
                skipped += 1;
                continue;
            };
            if let Some(ended) = self.endpoint(endpoint)?.ended(&row, now) {
                row.life = ended;
            }
            // While another attempt is in flight it waits.
            let Ok(leased) = delivery::begin_replay(&row.life) else { continue };
            let room = self.room(endpoint);
            self.jobs.squeezed |= room == Room::Squeezed;
            if begun == most || !matches!(room, Room::Free(_)) {
                break;
            }
            resend::remove_item(&self.conn, job.row, *position)?;
            self.write_out(&mut row)?;
            row.job = Some(job.row);
            self.lease(row, leased, now)?;
            begun += 1;
        }
        if begun + skipped > 0 {
            self.update_job(job.row, now, |it| {
                it.state = ReplayState::Running;
                it.skipped += skipped as u64;
            })?;
        }
        self.jobs.ready |= skipped > 0;
        self.finish_if_done(endpoint, job.row, now)?;
        Ok(begun)
    }

    /// A delivery as a replay finds it when its turn comes; `None` when it has been acknowledged or its event is gone.
    fn row_to_replay(
        &self,
        kind: ReplayKind,
        key: i64,
        now: Timestamp,
    ) -> Result<Option<DeliveryRow>, Fault> {
        let Some(row) = self.delivery_row(key)? else { return Ok(None) };
        let acknowledged = kind == ReplayKind::Replay && row.life.state == State::Delivered;
        let (ended_at, cutoff) = (row.life.ended_at.map(Timestamp::millis), self.policy.events_cutoff(now));
        let over = acknowledged || resend::is_past(&self.conn, row.message, ended_at, cutoff)?;
        Ok((!over).then_some(row))
    }

    /// Ends a replay that has nothing left and nothing in flight.
    fn finish_if_done(&mut self, endpoint: i64, job: i64, now: Timestamp) -> Result<(), Fault> {
        if self.jobs.running.contains_key(&job) || !resend::items(&self.conn, job, 1)?.is_empty() {
            return Ok(());
        }
        self.close_job(endpoint, job, ReplayState::Done, now)
    }

    fn close_job(
        &mut self,
        endpoint: i64,
        job: i64,
        state: ReplayState,
        now: Timestamp,
    ) -> Result<(), Fault> {
        self.update_job(job, now, |it| it.state = state)?;
        self.conn.prepare_cached("DELETE FROM open_job WHERE record = ?1")?.execute([job])?;
        self.jobs.remove(endpoint, job);
        Ok(())
    }

    /// Puts some skipped deliveries on their schedules.
    fn recover_some(&mut self, endpoint: i64, row: i64, now: Timestamp) -> Result<usize, Fault> {
        if self.unswept.contains(&endpoint) {
            // What the last pause skipped is not marked yet.
            return Ok(0);
        }
        let Some(job) = self.job(row)? else { return Ok(0) };
        let wanted = resend::Skipped::of(&job, self.policy.events_cutoff(now));
        let keys = wanted.keys(&self.conn, endpoint, job.cursor, job.end, RECOVER_MAX)?;
        for key in &keys.matching {
            let Some(mut delivery) = self.delivery_row(*key)? else { continue };
            let Some(life) = delivery::recover(&delivery.life, now) else { continue };
            delivery.job = Some(row);
            self.write_delivery(&delivery, &life)?;
            self.tell_delivery(&delivery)?;
        }
        if !keys.matching.is_empty() {
            self.plan(endpoint, now.millis());
        }
        self.update_job(row, now, |it| {
            it.state = ReplayState::Running;
            it.cursor = keys.cursor;
        })?;
        if keys.more {
            self.jobs.ready = true;
        } else {
            self.close_job(endpoint, row, ReplayState::Done, now)?;
        }
        Ok(0)
    }

    /// Notes what an attempt came to for the job its delivery belongs to.
    pub(super) fn note_result(
        &mut self,
        row: &DeliveryRow,
        outcome: &Outcome,
        life: &restante_core::Delivery,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let Some(job) = row.job else { return Ok(()) };
        let delivered = matches!(outcome, Outcome::Delivered { .. });
        if row.life.back_to.is_some() {
            self.update_job(job, now, |it| {
                if it.state != ReplayState::Ended {
                    it.delivered += u64::from(delivered);
                    it.failed += u64::from(!delivered);
                }
            })?;
            let open =
                self.jobs.open.get(&row.endpoint).is_some_and(|jobs| jobs.iter().any(|it| it.row == job));
            return if open { self.finish_if_done(row.endpoint, job, now) } else { Ok(()) };
        }
        if !life.state.is_final() {
            return Ok(());
        }
        self.update_job(job, now, |it| {
            if it.kind == ReplayKind::Recover && it.state != ReplayState::Ended {
                it.delivered += u64::from(delivered);
                it.failed += u64::from(!delivered);
            }
        })
    }

    /// Ends all jobs of an endpoint: it was paused or deleted. What is in flight goes on.
    pub(super) fn end_jobs(&mut self, endpoint: i64, now: Timestamp) -> Result<(), Fault> {
        for job in self.jobs.open.get(&endpoint).cloned().unwrap_or_default() {
            self.conn.prepare_cached("DELETE FROM replay_item WHERE job = ?1")?.execute([job.row])?;
            self.close_job(endpoint, job.row, ReplayState::Ended, now)?;
        }
        Ok(())
    }

    /// Takes a delivery that was cancelled out of what replays have not begun.
    pub(super) fn skip_items(&mut self, row: &DeliveryRow, now: Timestamp) -> Result<(), Fault> {
        for job in self.jobs.open.get(&row.endpoint).cloned().unwrap_or_default() {
            let skipped = self
                .conn
                .prepare_cached("DELETE FROM replay_item WHERE job = ?1 AND delivery = ?2")?
                .execute([job.row, row.key])?;
            self.update_job(job.row, now, |it| it.skipped += skipped as u64)?;
            self.jobs.ready = true;
        }
        Ok(())
    }

    /// Gives back what a replay began and never dialled, unless it was cancelled since.
    pub(super) fn unbegin(&mut self, row: &DeliveryRow, now: Timestamp) -> Result<(), Fault> {
        let open = row.job.filter(|job| {
            let jobs = self.jobs.open.get(&row.endpoint);
            row.life.back_to.is_some() && jobs.is_some_and(|jobs| jobs.iter().any(|it| it.row == *job))
        });
        let Some(job) = open else { return Ok(()) };
        self.jobs.ready = true;
        if row.life.cancel_requested() {
            return self.update_job(job, now, |it| it.skipped += 1);
        }
        self.conn
            .prepare_cached(
                "INSERT INTO replay_item (job, position, delivery) \
                 SELECT ?1, coalesce(min(position), 0) - 1, ?2 FROM replay_item WHERE job = ?1",
            )?
            .execute(params![job, row.key])?;
        Ok(())
    }

    fn job(&self, row: i64) -> Result<Option<ReplayJob>, Fault> {
        let body: Option<String> = self
            .conn
            .prepare_cached("SELECT body FROM record WHERE row = ?1")?
            .query_row([row], |row| row.get(0))
            .optional()?;
        Ok(body.map(|body| parse(&body)).transpose()?)
    }

    fn update_job(&self, row: i64, now: Timestamp, change: impl FnOnce(&mut ReplayJob)) -> Result<(), Fault> {
        let Some(mut job) = self.job(row)? else { return Ok(()) };
        let before = job.clone();
        change(&mut job);
        if job == before {
            return Ok(());
        }
        let body = serde_json::to_string(&job).map_err(|error| Fault::Damaged(error.to_string()))?;
        self.conn
            .prepare_cached(
                "UPDATE record SET version = version + 1, updated_at = ?2, body = ?3 WHERE row = ?1",
            )?
            .execute(params![row, now.millis(), body])?;
        Ok(())
    }

    /// Tells listeners about a delivery of which only the row is at hand.
    pub(super) fn tell_delivery(&mut self, row: &DeliveryRow) -> Result<(), Fault> {
        if !self.watched {
            return Ok(());
        }
        if let Some(id) = self.delivery_id(row)? {
            self.tell(row.endpoint, || Changed::Delivery(id));
        }
        Ok(())
    }
}
