//! How far replays and recoveries are: what became of their attempts, and their ends.

use std::collections::BTreeMap;

use restante_core::{Attempt, Delivery, Outcome, Timestamp};
use serde::Serialize;

use crate::endpoint::Feed;
use crate::postgres::Fault;
use crate::postgres::codec::Stored;
use crate::postgres::config::parse;
use crate::postgres::tx::Tx;
use crate::record::{ReplayJob, ReplayKind, ReplayState};

/// What attempts came to for the jobs their deliveries belong to, by the rows of their records.
#[derive(Default)]
pub(in crate::postgres) struct Tallies(BTreeMap<i64, Tally>);

impl Tallies {
    /// `stored` is what the delivery was before, `life` what it is now.
    pub(in crate::postgres) fn push(&mut self, stored: &Stored, attempt: &Attempt, life: &Delivery) {
        let Some(job) = stored.row.job else { return };
        let is_replay = stored.row.life.back_to.is_some();
        if !is_replay && !life.state.is_final() {
            return;
        }
        let tally = self.0.entry(job).or_insert_with(|| Tally::of(stored.row.endpoint));
        tally.at = attempt.ended_at;
        let count = if is_replay { &mut tally.replayed } else { &mut tally.planned };
        match &attempt.outcome {
            Outcome::Delivered { .. } => count.delivered += 1,
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_) | Outcome::Lost => {
                count.failed += 1
            }
        }
        tally.replays += i32::from(is_replay);
    }
}

/// What attempts came to for one job.
struct Tally {
    endpoint: i64,
    /// When the last of them ended.
    at: Timestamp,
    /// How many of them the job began.
    replays: i32,
    replayed: Count,
    /// Those that were made on the deliveries' schedules.
    planned: Count,
}

#[derive(Default)]
struct Count {
    delivered: u64,
    failed: u64,
}

impl Tally {
    fn of(endpoint: i64) -> Self {
        let (replayed, planned) = (Count::default(), Count::default());
        Self { endpoint, at: Timestamp::default(), replays: 0, replayed, planned }
    }

    fn count(&self, job: &mut ReplayJob) {
        if job.state == ReplayState::Ended {
            return;
        }
        let planned = (job.kind == ReplayKind::Recover).then_some(&self.planned);
        for count in planned.into_iter().chain([&self.replayed]) {
            job.delivered += count.delivered;
            job.failed += count.failed;
        }
    }
}

impl Tx {
    /// Notes what attempts came to for the jobs their deliveries belong to.
    pub(in crate::postgres) async fn note_results(&mut self, tallies: &Tallies) -> Result<(), Fault> {
        let mut idle = Vec::new();
        for (job, tally) in &tallies.0 {
            if tally.replays > 0 && self.add_running(*job, -tally.replays).await? == Some(0) {
                idle.push((*job, tally));
            }
        }
        for (job, tally) in &tallies.0 {
            self.update_job(*job, tally.at, |it| tally.count(it)).await?;
        }
        for (job, tally) in idle {
            self.finish_if_done(tally.endpoint, job, tally.at).await?;
        }
        Ok(())
    }

    /// Takes a delivery that was cancelled out of what replays have not begun.
    pub(in crate::postgres) async fn skip_items(
        &mut self,
        stored: &Stored,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if self.endpoint(stored.row.endpoint)?.endpoint.feed != Feed::Events {
            return Ok(());
        }
        let delete = "DELETE FROM replay_item USING open_job WHERE open_job.endpoint = $1 \
             AND replay_item.job = open_job.record AND replay_item.delivery = $2 RETURNING replay_item.job";
        let mut skipped: BTreeMap<i64, u64> = BTreeMap::new();
        for row in self.query(delete, &[&stored.row.endpoint, &stored.row.key]).await? {
            *skipped.entry(row.try_get(0)?).or_default() += 1;
        }
        self.staged.replays_ready |= !skipped.is_empty();
        for (job, count) in skipped {
            self.update_job(job, now, |it| it.skipped += count).await?;
        }
        Ok(())
    }

    /// Gives back what a replay began and never dialled, unless it was cancelled since. `stored` is what it was
    /// before the release.
    pub(in crate::postgres) async fn unbegin(
        &mut self,
        stored: &Stored,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let Some(job) = replay_of(stored) else { return Ok(()) };
        if self.add_running(job, -1).await?.is_none() {
            // It is over.
            return Ok(());
        }
        self.staged.replays_ready = true;
        if stored.row.life.cancel_requested() {
            return self.update_job(job, now, |it| it.skipped += 1).await;
        }
        let insert = "INSERT INTO replay_item (job, position, delivery) \
             SELECT $1, coalesce(min(position), 0) - 1, $2 FROM replay_item WHERE job = $1";
        self.execute(insert, &[&job, &stored.row.key]).await?;
        Ok(())
    }

    /// A delivery that is erased is in flight no more.
    pub(in crate::postgres) async fn forget_running(&mut self, stored: &Stored) -> Result<(), Fault> {
        if let Some(job) = replay_of(stored) {
            self.add_running(job, -1).await?;
            self.staged.replays_ready = true;
        }
        Ok(())
    }

    /// Ends all jobs of an endpoint: it was paused or deleted. What is in flight goes on.
    pub(in crate::postgres) async fn end_jobs(&mut self, endpoint: i64, now: Timestamp) -> Result<(), Fault> {
        for job in self.open_jobs(endpoint).await? {
            self.execute("DELETE FROM replay_item WHERE job = $1", &[&job.row]).await?;
            self.close_job(endpoint, job.row, ReplayState::Ended, now).await?;
        }
        Ok(())
    }

    /// Ends a replay that has nothing left and nothing in flight.
    pub(super) async fn finish_if_done(
        &mut self,
        endpoint: i64,
        job: i64,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let lock = "SELECT running FROM open_job WHERE record = $1 FOR UPDATE";
        let row = self.first(lock, &[&job]).await?;
        let running: Option<i32> = row.map(|row| row.try_get(0)).transpose()?;
        if running != Some(0) {
            return Ok(());
        }
        // Asked behind the lock: what was begun, or given back, counts with it.
        let left = "SELECT EXISTS (SELECT FROM replay_item WHERE job = $1)";
        if self.one(left, &[&job]).await?.try_get(0)? {
            return Ok(());
        }
        self.close_job(endpoint, job, ReplayState::Done, now).await
    }

    pub(super) async fn close_job(
        &mut self,
        endpoint: i64,
        job: i64,
        state: ReplayState,
        now: Timestamp,
    ) -> Result<(), Fault> {
        self.execute("DELETE FROM open_job WHERE record = $1", &[&job]).await?;
        self.update_job(job, now, |it| it.state = state).await?;
        let others = "SELECT EXISTS (SELECT FROM open_job WHERE endpoint = $1)";
        let open = self.one(others, &[&endpoint]).await?.try_get(0)?;
        self.staged.replays.push((endpoint, open));
        Ok(())
    }

    /// Counts attempts in flight. `None`: the job is over.
    pub(super) async fn add_running(&self, job: i64, count: i32) -> Result<Option<i32>, Fault> {
        let update =
            "UPDATE open_job SET running = greatest(running + $2, 0) WHERE record = $1 RETURNING running";
        let row = self.first(update, &[&job, &count]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    pub(super) async fn job(&self, row: i64) -> Result<Option<ReplayJob>, Fault> {
        let row = self.first("SELECT body FROM record WHERE row = $1", &[&row]).await?;
        row.map(|row| Ok(parse(row.try_get(0)?)?)).transpose()
    }

    pub(super) async fn update_job(
        &self,
        row: i64,
        now: Timestamp,
        change: impl FnOnce(&mut ReplayJob) + Send,
    ) -> Result<(), Fault> {
        let lock = "SELECT body FROM record WHERE row = $1 FOR UPDATE";
        let Some(found) = self.first(lock, &[&row]).await? else { return Ok(()) };
        let before: ReplayJob = parse(found.try_get(0)?)?;
        let mut job = before.clone();
        change(&mut job);
        if job == before { Ok(()) } else { self.write_body(row, &job, now).await }
    }

    /// Writes what a job is now into its locked record.
    pub(in crate::postgres) async fn write_body<T: Serialize + Sync>(
        &self,
        row: i64,
        job: &T,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let body = serde_json::to_string(job).map_err(|error| Fault::Damaged(error.to_string()))?;
        let update = "UPDATE record SET version = version + 1, updated_at = $2, body = $3 WHERE row = $1";
        self.execute(update, &[&row, &now.millis(), &body]).await?;
        Ok(())
    }
}

/// The replay whose attempt is in flight.
fn replay_of(stored: &Stored) -> Option<i64> {
    stored.row.job.filter(|_| stored.row.life.back_to.is_some())
}
