//! What is sent to a webhook again: which events a replay or a recovery is about, and how it is asked for.

use restante_core::endpoint::Webhook;
use restante_core::id::{DeliveryId, ReplayId, Tail, WebhookId, WorkspaceId};
use restante_core::{Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashSet;

use super::codec::{DELIVERED_STATE, FAILED};
use super::config::{RecordRow, find_record, parse, standing};
use super::engine::Engine;
use super::jobs::Job;
use super::read::event_expired;
use super::scan::{Range, sql_limit};
use super::{Fault, history};
use crate::record::{Draft, Kind, ReplayJob, ReplayKind, ReplayState};
use crate::{Recovery, Resent, Window};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// So many days back it is known what was used of their quotas: the clock may be set back.
const QUOTA_DAYS_KEPT: i64 = 7;

/// A living webhook of a workspace.
pub(super) fn find_webhook(
    conn: &Connection,
    workspace: WorkspaceId,
    webhook: WebhookId,
) -> Result<Option<RecordRow>, Fault> {
    let record = find_record(conn, Kind::Webhook, webhook.uuid())?;
    Ok(record.filter(|it| it.raw.workspace == workspace && it.deleted_at.is_none()))
}

/// The oldest moment an attempt may have started at and still be known.
pub(super) fn attempts_kept_from(now: Timestamp) -> i64 {
    now.millis() - limits::ATTEMPTS_KEPT.as_millis() as i64 + 1
}

/// Whether the event of a delivery that ended then has expired; see [`event_expired`]. It is looked at only if that
/// may be.
pub(super) fn is_past(
    conn: &Connection,
    message: i64,
    ended_at: Option<i64>,
    cutoff: i64,
) -> Result<bool, Fault> {
    Ok(ended_at.is_some_and(|at| at <= cutoff) && event_expired(conn, message, cutoff)?)
}

/// Deliveries of a webhook with a failed attempt in the window and no delivered one, whose events have not expired:
/// the oldest by their first failure in it, up to the most that one replay takes.
pub(super) fn failed_in(
    conn: &Connection,
    webhook: i64,
    window: Window,
    now: Timestamp,
    cutoff: i64,
) -> Result<Vec<i64>, Fault> {
    let mut attempts = conn.prepare_cached(
        "SELECT delivery FROM attempt WHERE webhook = ?1 AND started_at BETWEEN ?2 AND ?3 AND result = ?4 \
         ORDER BY started_at, delivery",
    )?;
    // While a replay is in flight it is still what it was.
    let mut standing = conn
        .prepare_cached("SELECT coalesce(back_to, state), message, ended_at FROM delivery WHERE key = ?1")?;
    let since = window.since.millis().max(attempts_kept_from(now));
    let mut rows = attempts.query(params![webhook, since, window.until.millis(), FAILED])?;
    let (mut seen, mut found) = (FxHashSet::default(), Vec::new());
    while let Some(row) = rows.next()? {
        let delivery: i64 = row.get(0)?;
        if !seen.insert(delivery) {
            continue;
        }
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?));
        let Some((state, message, ended_at)) = standing.query_row([delivery], read).optional()? else {
            continue;
        };
        if state != DELIVERED_STATE && !is_past(conn, message, ended_at, cutoff)? {
            found.push(delivery);
            if found.len() == limits::REPLAY_EVENTS_MAX {
                break;
            }
        }
    }
    Ok(found)
}

/// What a replay has not begun, oldest first: positions and deliveries.
pub(super) fn items(conn: &Connection, job: i64, most: usize) -> Result<Vec<(i64, i64)>, Fault> {
    let mut statement = conn.prepare_cached(
        "SELECT position, delivery FROM replay_item WHERE job = ?1 ORDER BY position LIMIT ?2",
    )?;
    let rows = statement.query_map(params![job, sql_limit(most)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn remove_item(conn: &Connection, job: i64, position: i64) -> Result<(), Fault> {
    conn.prepare_cached("DELETE FROM replay_item WHERE job = ?1 AND position = ?2")?
        .execute(params![job, position])?;
    Ok(())
}

/// Which skipped deliveries a recovery takes: none whose event has expired.
#[derive(Debug, Clone, Copy)]
pub(super) struct Skipped {
    wanted: Wanted,
    /// See [`event_expired`].
    cutoff: i64,
}

#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// Accepted in this window.
    Accepted(Window),
    /// Skipped since then, accepted up to `until`.
    Since { since: i64, until: Option<Timestamp> },
}

/// Some keys of skipped deliveries.
pub(super) struct SkippedKeys {
    pub(super) matching: Vec<i64>,
    /// The last key looked at.
    pub(super) cursor: i64,
    pub(super) more: bool,
}

impl Skipped {
    /// What a job takes.
    pub(super) fn of(job: &ReplayJob, cutoff: i64) -> Self {
        let wanted = if job.by_skip {
            Wanted::Since { since: job.since.millis(), until: job.accepted_until }
        } else {
            Wanted::Accepted(Window { since: job.since, until: job.until })
        };
        Self { wanted, cutoff }
    }

    /// Up to `most` keys of a webhook's skipped deliveries, those beyond `above` and up to `until`.
    pub(super) fn keys(
        self,
        conn: &Connection,
        webhook: i64,
        above: i64,
        until: i64,
        most: usize,
    ) -> Result<SkippedKeys, Fault> {
        let (above, until) = self.bounds(conn, above, until)?;
        let mut statement = conn.prepare_cached(
            "SELECT key, ended_at, (SELECT received_at FROM message WHERE key = delivery.message), message FROM delivery \
             WHERE endpoint = ?1 AND state = 50 AND key > ?2 AND key <= ?3 ORDER BY key LIMIT ?4",
        )?;
        let mut rows = statement.query(params![webhook, above, until, sql_limit(most)])?;
        let mut found = SkippedKeys { matching: Vec::new(), cursor: above, more: false };
        let mut looked = 0;
        while let Some(row) = rows.next()? {
            looked += 1;
            found.cursor = row.get(0)?;
            let ended_at = row.get(1)?;
            if self.takes(row.get(2)?, ended_at) && !is_past(conn, row.get(3)?, ended_at, self.cutoff)? {
                found.matching.push(found.cursor);
            }
        }
        found.more = looked == most;
        Ok(found)
    }

    fn bounds(self, conn: &Connection, above: i64, until: i64) -> Result<(i64, i64), Fault> {
        let (first, last) = match self.wanted {
            Wanted::Since { until: None, .. } => return Ok((above, until)),
            Wanted::Since { until: Some(last), .. } => (None, last),
            Wanted::Accepted(window) => (Some(window.since), window.until),
        };
        let range = Range::of_times(first, Some(last), history::key_lead(conn)?);
        Ok((above.max(range.above), until.min(range.below.saturating_sub(1))))
    }

    fn takes(self, accepted_at: Option<i64>, skipped_at: Option<i64>) -> bool {
        match self.wanted {
            Wanted::Accepted(window) => {
                accepted_at.is_some_and(|at| (window.since.millis()..=window.until.millis()).contains(&at))
            }
            Wanted::Since { since, until } => {
                let in_time = until.is_none_or(|until| accepted_at.is_some_and(|at| at <= until.millis()));
                in_time && skipped_at.is_some_and(|at| at >= since)
            }
        }
    }

    /// How many there are, those included that the last pause ended and that are not marked yet.
    fn count(self, conn: &Connection, webhook: i64) -> Result<u64, Fault> {
        const CHUNK: usize = 4096;
        let (mut count, mut cursor) = (0, -1);
        loop {
            let keys = self.keys(conn, webhook, cursor, i64::MAX - 1, CHUNK)?;
            count += keys.matching.len() as u64;
            cursor = keys.cursor;
            if !keys.more {
                break;
            }
        }
        let standing = standing(conn, webhook)?;
        let (Some(cut), paused_at) = (standing.cut, standing.paused_at) else { return Ok(count) };
        let (above, until) = self.bounds(conn, -1, cut)?;
        let mut unmarked = conn.prepare_cached(
            "SELECT (SELECT received_at FROM message WHERE key = delivery.message) FROM delivery \
             WHERE endpoint = ?1 AND state = 0 AND made = 0 AND key > ?2 AND key <= ?3",
        )?;
        let mut rows = unmarked.query(params![webhook, above, until.min(cut)])?;
        while let Some(row) = rows.next()? {
            count += u64::from(self.takes(row.get(0)?, paused_at));
        }
        Ok(count)
    }
}

/// How many events [`crate::Store::replay_webhook`] would take.
pub(super) fn count_replay(
    conn: &Connection,
    workspace: WorkspaceId,
    webhook: WebhookId,
    window: Window,
    now: Timestamp,
    cutoff: i64,
) -> Result<Option<u64>, Fault> {
    let Some(record) = find_webhook(conn, workspace, webhook)? else { return Ok(None) };
    if parse::<Webhook>(&record.raw.body)?.paused {
        return Ok(Some(0));
    }
    Ok(Some(failed_in(conn, record.row, window, now, cutoff)?.len() as u64))
}

impl Engine {
    /// See [`crate::Store::replay_webhook`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn replay_webhook(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Fault> {
        let Some(record) = find_webhook(&self.conn, workspace, webhook)? else { return Ok(Resent::NotFound) };
        if !self.take_quota(record.workspace, now)? {
            return Ok(Resent::QuotaExceeded);
        }
        let paused = self.endpoint(record.row)?.settings.receiver.is_paused();
        let cutoff = self.policy.events_cutoff(now);
        let found = if paused { Vec::new() } else { failed_in(&self.conn, record.row, window, now, cutoff)? };
        let job = ReplayJob {
            kind: ReplayKind::Replay,
            state: if paused { ReplayState::Ended } else { self.first_state(record.row) },
            total: found.len() as u64,
            ..ReplayJob::new(window)
        };
        self.start(&record, &job, &found, now, tail)
    }

    /// See [`crate::Store::replay_delivery`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn replay_delivery(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        delivery: DeliveryId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Fault> {
        let Some(record) = find_webhook(&self.conn, workspace, webhook)? else { return Ok(Resent::NotFound) };
        let row = self.visible_delivery(workspace, delivery, now)?;
        let Some(row) = row.filter(|row| row.endpoint == record.row) else { return Ok(Resent::NotFound) };
        if self.endpoint(record.row)?.settings.receiver.is_paused() {
            return Ok(Resent::Paused);
        }
        let window = Window { since: now, until: now };
        let job = ReplayJob {
            kind: ReplayKind::Single,
            state: ReplayState::Running,
            total: 1,
            ..ReplayJob::new(window)
        };
        self.start(&record, &job, &[row.key], now, tail)
    }

    /// See [`crate::Store::recover`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn recover(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        recovery: impl Into<Recovery>,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Fault> {
        let recovery = recovery.into();
        let Some(record) = find_webhook(&self.conn, workspace, webhook)? else { return Ok(Resent::NotFound) };
        let entry = self.endpoint(record.row)?;
        if entry.settings.receiver.is_paused() {
            return Ok(Resent::Paused);
        }
        let since = entry.standing.paused_at.map_or(record.raw.created_at, Timestamp::from_millis);
        let asked = ReplayJob::of_recovery(recovery, since, now);
        let job = ReplayJob {
            state: self.first_state(record.row),
            total: Skipped::of(&asked, self.policy.events_cutoff(now)).count(&self.conn, record.row)?,
            end: self.last_key,
            ..asked
        };
        self.start(&record, &job, &[], now, tail)
    }

    /// Replays of one webhook run one after another.
    fn first_state(&self, webhook: i64) -> ReplayState {
        if self.jobs.is_busy(webhook) { ReplayState::Queued } else { ReplayState::Running }
    }

    /// Records a job with its list; the next claim begins with it.
    fn start(
        &mut self,
        webhook: &RecordRow,
        job: &ReplayJob,
        deliveries: &[i64],
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Fault> {
        let draft = Draft {
            kind: Kind::Replay,
            workspace: Some(webhook.raw.workspace),
            parent: Some(webhook.raw.uuid),
            name: None,
            lookup: None,
            body: serde_json::to_string(job).map_err(|error| Fault::Damaged(error.to_string()))?,
            tail,
        };
        let uuid = self.insert_record(&draft, Some(webhook.workspace), Some(webhook.row), now)?;
        let row = self.conn.last_insert_rowid();
        if !job.state.is_over() {
            self.conn.prepare_cached("INSERT INTO open_job (record) VALUES (?1)")?.execute([row])?;
            let mut insert = self
                .conn
                .prepare_cached("INSERT INTO replay_item (job, position, delivery) VALUES (?1, ?2, ?3)")?;
            for (position, delivery) in deliveries.iter().enumerate() {
                insert.execute(params![row, sql_limit(position), delivery])?;
            }
            drop(insert);
            self.jobs.add(webhook.row, Job { row, kind: job.kind });
        }
        Ok(Resent::Started { id: ReplayId::from_uuid(uuid), events: job.total })
    }

    /// Counts a replay against its workspace's UTC day; `false` when that is used up.
    fn take_quota(&self, workspace: i64, now: Timestamp) -> Result<bool, Fault> {
        let day = now.millis().div_euclid(DAY_MS);
        let used: Option<u32> = self
            .conn
            .prepare_cached("SELECT used FROM replay_quota WHERE workspace = ?1 AND day = ?2")?
            .query_row([workspace, day], |row| row.get(0))
            .optional()?;
        let used = used.unwrap_or(0);
        if used >= limits::REPLAYS_PER_DAY_MAX {
            return Ok(false);
        }
        self.conn
            .prepare_cached("INSERT OR REPLACE INTO replay_quota (workspace, day, used) VALUES (?1, ?2, ?3)")?
            .execute(params![workspace, day, used + 1])?;
        self.conn
            .prepare_cached("DELETE FROM replay_quota WHERE workspace = ?1 AND day < ?2")?
            .execute([workspace, day - QUOTA_DAYS_KEPT])?;
        Ok(true)
    }
}
