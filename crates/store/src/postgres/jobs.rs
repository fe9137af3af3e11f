//! Replays and recoveries at work: which are open, and what they begin.
//!
//! The claim drives them: whenever the dispatcher asks for work, what is due comes first, then what replays have not
//! begun. Progress is in the tables, in the same transaction as the attempts, so a crash neither skips nor doubles.
//!
//! Whoever takes the jobs of an endpoint a step further, or starts one, has its **turn**: nobody else does meanwhile.
//! Locks are taken in the order turn, delivery, `open_job`, `record`. Whoever settles waits for rows of `open_job`
//! with deliveries locked, so a replay waits for no delivery.

mod progress;

use std::collections::HashSet;

use restante_core::{State, Timestamp, delivery};
use rustc_hash::FxHashMap;
use tokio_postgres::Row;

use super::Fault;
use super::codec::{MESSAGE_COLUMNS, Stored, read_message, state};
use super::config::standing;
use super::read::{Skipped, expired_events};
use super::settle::write_out;
use super::sql::sql_limit;
use super::tx::{EndpointView, Tx};
use crate::agenda::Room;
use crate::record::{ReplayKind, ReplayState};

pub(super) use progress::Tallies;

/// Items of a replay looked at in one step. Those whose deliveries are in flight are passed over.
const LOOK_MAX: usize = 256;
/// Attempts one webhook's replays begin in one step.
const BEGIN_MAX: usize = 64;
/// Deliveries that a recovery puts on their schedules in one step.
const RECOVER_MAX: usize = 256;
/// The first half of the locks that are endpoints' turns: any number that nobody else takes.
const TURN_LOCK: i32 = 731_030;

/// An open replay or recovery.
#[derive(Debug, Clone, Copy)]
struct Job {
    /// The row of its record.
    row: i64,
    kind: ReplayKind,
}

/// What a replay has not begun: its place in the list, and a delivery.
struct Item {
    position: i64,
    delivery: i64,
}

/// `open_job.kind`.
pub(super) const fn kind_name(kind: ReplayKind) -> &'static str {
    match kind {
        ReplayKind::Replay => "replay",
        ReplayKind::Single => "single",
        ReplayKind::Recover => "recover",
    }
}

fn kind(name: &str) -> Result<ReplayKind, Fault> {
    let all = [ReplayKind::Replay, ReplayKind::Single, ReplayKind::Recover];
    let known = all.into_iter().find(|kind| kind_name(*kind) == name);
    known.ok_or_else(|| Fault::Damaged(format!("replay kind {name}")))
}

/// Those of an endpoint's jobs, oldest first, that may go on: single ones at once, the others one after the other.
fn active(jobs: Vec<Job>) -> impl Iterator<Item = Job> {
    let mut first = true;
    jobs.into_iter().filter(move |job| job.kind == ReplayKind::Single || std::mem::take(&mut first))
}

impl Tx {
    /// Waits for an endpoint's turn.
    pub(super) async fn take_turn(&self, endpoint: i64) -> Result<(), Fault> {
        self.execute("SELECT pg_advisory_xact_lock($1, hashint8($2))", &[&TURN_LOCK, &endpoint]).await?;
        Ok(())
    }

    async fn try_turn(&self, endpoint: i64) -> Result<bool, Fault> {
        let statement = "SELECT pg_try_advisory_xact_lock($1, hashint8($2))";
        Ok(self.one(statement, &[&TURN_LOCK, &endpoint]).await?.try_get(0)?)
    }

    /// Takes the open jobs of an endpoint one step further, unless another node does. Returns how many attempts
    /// began.
    pub(super) async fn advance_jobs(
        &mut self,
        endpoint: i64,
        now: Timestamp,
        most: usize,
    ) -> Result<usize, Fault> {
        if most == 0 {
            self.staged.replays_ready = true;
            return Ok(0);
        }
        if !self.try_turn(endpoint).await? {
            return Ok(0);
        }
        let jobs = self.open_jobs(endpoint).await?;
        if jobs.is_empty() {
            self.staged.replays.push((endpoint, false));
            return Ok(0);
        }
        let view = self.endpoint(endpoint)?;
        let most = most.min(BEGIN_MAX);
        let mut begun = 0;
        for job in active(jobs) {
            match job.kind {
                ReplayKind::Recover => self.recover_some(&view, job.row, now).await?,
                ReplayKind::Replay | ReplayKind::Single => {
                    begun += self.begin_some(&view, job, now, most - begun).await?;
                }
            }
        }
        // There may be room for more.
        self.staged.replays_ready |= begun == most;
        Ok(begun)
    }

    /// Oldest first.
    async fn open_jobs(&self, endpoint: i64) -> Result<Vec<Job>, Fault> {
        let statement = "SELECT record, kind FROM open_job WHERE endpoint = $1 ORDER BY record";
        let rows = self.query(statement, &[&endpoint]).await?;
        rows.iter().map(|row| Ok(Job { row: row.try_get(0)?, kind: kind(row.try_get(1)?)? })).collect()
    }

    /// Begins attempts of a replay, as many as its lane has room for.
    async fn begin_some(
        &mut self,
        view: &EndpointView,
        job: Job,
        now: Timestamp,
        most: usize,
    ) -> Result<usize, Fault> {
        let items = self.items(job.row).await?;
        let keys: Vec<i64> = items.iter().map(|item| item.delivery).collect();
        let states = self.states(view.workspace, &keys, now).await?;
        let (mut over, mut waiting) = (Vec::new(), Vec::new());
        for item in items {
            match states.get(&item.delivery) {
                None => over.push(item.position),
                Some(State::Delivered) if job.kind == ReplayKind::Replay => over.push(item.position),
                // While another attempt is in flight it waits.
                Some(State::Sending) => {}
                Some(_) => waiting.push(item),
            }
        }
        let skipped = over.len();
        if !waiting.is_empty() {
            waiting.truncate(self.room_to_begin(view.row).min(most));
        }
        let begun = self.begin_these(view, job, &waiting, now).await?;
        let count = begun.len();
        over.extend(begun);
        if !over.is_empty() {
            let delete = "DELETE FROM replay_item WHERE job = $1 AND position = ANY($2)";
            self.execute(delete, &[&job.row, &over]).await?;
            self.add_running(job.row, i32::try_from(count).unwrap_or(i32::MAX)).await?;
            self.update_job(job.row, now, |it| {
                it.state = ReplayState::Running;
                it.skipped += skipped as u64;
            })
            .await?;
        }
        self.staged.replays_ready |= skipped > 0;
        self.finish_if_done(view.row, job.row, now).await?;
        Ok(count)
    }

    /// Where some deliveries stand, by their keys, as far as their events have not expired. They are not locked.
    async fn states(
        &self,
        workspace: i64,
        keys: &[i64],
        now: Timestamp,
    ) -> Result<FxHashMap<i64, State>, Fault> {
        if keys.is_empty() {
            return Ok(FxHashMap::default());
        }
        let cutoff = self.node.policy.events_cutoff(now);
        let statement = "SELECT key, state, CASE WHEN ended_at <= $3 THEN message END FROM delivery \
             WHERE workspace = $1 AND key = ANY($2)";
        let rows = self.query(statement, &[&workspace, &keys, &cutoff]).await?;
        let old = rows.iter().map(|row| row.try_get(2)).collect::<Result<Vec<Option<i64>>, _>>()?;
        let some: Vec<i64> = old.iter().copied().flatten().collect();
        let expired = match some.is_empty() {
            true => HashSet::new(),
            false => expired_events(self, workspace, &some, cutoff).await?,
        };
        let left = rows.iter().zip(old).filter(|(_, old)| old.is_none_or(|old| !expired.contains(&old)));
        let read = |row: &Row| Ok((row.try_get(0)?, state(i64::from(row.try_get::<_, i16>(1)?))?));
        left.map(|(row, _)| read(row)).collect()
    }

    /// What a replay has not begun, oldest first.
    async fn items(&self, job: i64) -> Result<Vec<Item>, Fault> {
        let statement =
            "SELECT position, delivery FROM replay_item WHERE job = $1 ORDER BY position LIMIT $2";
        let rows = self.query(statement, &[&job, &sql_limit(LOOK_MAX)]).await?;
        rows.iter().map(|row| Ok(Item { position: row.try_get(0)?, delivery: row.try_get(1)? })).collect()
    }

    /// How many attempts of an endpoint may begin now.
    fn room_to_begin(&self, endpoint: i64) -> usize {
        let mut state = self.node.state();
        match state.room(endpoint) {
            Room::Free(room) => room as usize,
            Room::Squeezed => {
                state.replays.squeezed = true;
                0
            }
            Room::Full | Room::Closed => 0,
        }
    }

    /// Begins the attempts of some items of a replay. Passes over what somebody else has just changed, or is
    /// changing. Returns the positions of those that began.
    async fn begin_these(
        &mut self,
        view: &EndpointView,
        job: Job,
        items: &[Item],
        now: Timestamp,
    ) -> Result<Vec<i64>, Fault> {
        let (mut begun, mut leased, mut first_attempts) = (Vec::new(), Vec::new(), Vec::new());
        let locked = self.lock_items(view.workspace, job.row, items).await?;
        let messages: Vec<i64> = locked.iter().map(|(_, stored)| stored.row.message).collect();
        let messages = self.load_messages(view.workspace, &messages).await?;
        for (position, mut stored) in locked {
            let acknowledged = job.kind == ReplayKind::Replay && stored.row.life.state == State::Delivered;
            if let Some(ended) = view.ended(&stored, now) {
                stored.row.life = ended;
            }
            let (Ok(life), false) = (delivery::begin_replay(&stored.row.life), acknowledged) else {
                self.staged.replays_ready = true;
                continue;
            };
            // A few large bodies may take all the memory there is.
            if self.room_to_begin(view.row) == 0 {
                break;
            }
            let Some(message) = messages.get(&stored.row.message) else {
                return Err(Fault::Damaged(format!("delivery {} has no message", stored.row.key)));
            };
            first_attempts.extend(write_out(&mut stored, view));
            stored.row.job = Some(job.row);
            let stored = self.begun(stored, life, now, view.settings.version);
            self.stage(&stored, read_message(message, 0)?, None)?;
            leased.push(stored);
            begun.push(position);
        }
        self.insert_attempts(&first_attempts).await?;
        self.write_leases(&leased).await?;
        Ok(begun)
    }

    /// Locks the deliveries of some items, as far as nobody else has them. Items that are gone by then, because their
    /// deliveries were cancelled, are left out.
    async fn lock_items(
        &self,
        workspace: i64,
        job: i64,
        items: &[Item],
    ) -> Result<Vec<(i64, Stored)>, Fault> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<i64> = items.iter().map(|item| item.delivery).collect();
        let lock = "SELECT key FROM delivery WHERE workspace = $1 AND key = ANY($2) FOR UPDATE SKIP LOCKED";
        let rows = self.query(lock, &[&workspace, &keys]).await?;
        let locked = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        let positions: Vec<i64> = items.iter().map(|item| item.position).collect();
        let left = "SELECT position, delivery FROM replay_item WHERE job = $1 AND position = ANY($2) \
             ORDER BY position";
        let rows = self.query(left, &[&job, &positions]).await?;
        let deliveries = self.deliveries(workspace, &locked).await?;
        let mut known: FxHashMap<i64, Stored> =
            deliveries.into_iter().map(|stored| (stored.row.key, stored)).collect();
        let mut found = Vec::with_capacity(known.len());
        for row in rows {
            if let Some(stored) = known.remove(&row.try_get(1)?) {
                found.push((row.try_get(0)?, stored));
            }
        }
        Ok(found)
    }

    /// The rows of some messages, for [`read_message`], by their keys.
    async fn load_messages(&self, workspace: i64, keys: &[i64]) -> Result<FxHashMap<i64, Row>, Fault> {
        if keys.is_empty() {
            return Ok(FxHashMap::default());
        }
        let statement =
            format!("SELECT {MESSAGE_COLUMNS} FROM message WHERE workspace = $1 AND key = ANY($2)");
        let rows = self.query(&statement, &[&workspace, &keys]).await?;
        rows.into_iter().map(|row| Ok((row.try_get(0)?, row))).collect()
    }

    /// Puts some skipped deliveries on their schedules.
    async fn recover_some(&mut self, view: &EndpointView, row: i64, now: Timestamp) -> Result<(), Fault> {
        if standing(self, view.row).await?.cut.is_some() {
            // What the last pause skipped is not marked yet.
            return Ok(());
        }
        let Some(job) = self.job(row).await? else { return Ok(()) };
        let wanted = Skipped::of(&job, self.node.policy.events_cutoff(now));
        let found = wanted.keys(self, view.workspace, view.row, job.cursor, job.end, RECOVER_MAX).await?;
        let mut recovered = Vec::with_capacity(found.matching.len());
        for mut stored in self.lock_deliveries(view.workspace, &found.matching).await? {
            let Some(life) = delivery::recover(&stored.row.life, now) else { continue };
            stored.row.job = Some(row);
            recovered.push((stored, life));
        }
        self.write_lives(&recovered).await?;
        self.tell_deliveries(&recovered).await?;
        self.update_job(row, now, |it| {
            it.state = ReplayState::Running;
            it.cursor = found.cursor;
        })
        .await?;
        if !found.more {
            return self.close_job(view.row, row, ReplayState::Done, now).await;
        }
        self.staged.replays_ready = true;
        Ok(())
    }
}
