//! Which skipped deliveries a recovery of a webhook takes.

use restante_core::Timestamp;

use super::expired_events;
use crate::Window;
use crate::postgres::Fault;
use crate::postgres::config::standing;
use crate::postgres::scan::{self, Range};
use crate::postgres::sql::{Sql, sql_limit};
use crate::record::ReplayJob;

/// Which skipped deliveries a recovery takes: none whose event has expired.
#[derive(Debug, Clone, Copy)]
pub(in crate::postgres) struct Skipped {
    wanted: Wanted,
    /// See [`event_expired`](super::event_expired).
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
pub(in crate::postgres) struct SkippedKeys {
    pub(in crate::postgres) matching: Vec<i64>,
    /// The last key looked at.
    pub(in crate::postgres) cursor: i64,
    pub(in crate::postgres) more: bool,
}

impl Skipped {
    /// What a job takes.
    pub(in crate::postgres) fn of(job: &ReplayJob, cutoff: i64) -> Self {
        let wanted = if job.by_skip {
            Wanted::Since { since: job.since.millis(), until: job.accepted_until }
        } else {
            Wanted::Accepted(Window { since: job.since, until: job.until })
        };
        Self { wanted, cutoff }
    }

    /// Up to `most` keys of a webhook's skipped deliveries, those beyond `above` and up to `until`.
    pub(in crate::postgres) async fn keys(
        self,
        sql: &Sql,
        workspace: i64,
        webhook: i64,
        above: i64,
        until: i64,
        most: usize,
    ) -> Result<SkippedKeys, Fault> {
        let (above, until) = self.bounds(sql, above, until).await?;
        let statement = "SELECT walked.key, delivery.ended_at, message.received_at, message.key FROM \
             (SELECT workspace, key FROM skipped WHERE workspace = $1 AND endpoint = $2 AND key > $3 AND key <= $4 \
             ORDER BY key LIMIT $5) AS walked \
             LEFT JOIN delivery ON delivery.workspace = walked.workspace AND delivery.key = walked.key \
             AND delivery.state = 50 \
             LEFT JOIN message ON message.workspace = delivery.workspace AND message.key = delivery.message \
             ORDER BY walked.key";
        let rows = sql.query(statement, &[&workspace, &webhook, &above, &until, &sql_limit(most)]).await?;
        let mut found = SkippedKeys { matching: Vec::new(), cursor: above, more: rows.len() == most };
        let (mut messages, mut old) = (Vec::new(), Vec::new());
        for row in rows {
            found.cursor = row.try_get(0)?;
            let ended_at: Option<i64> = row.try_get(1)?;
            if self.takes(row.try_get(2)?, ended_at) {
                let message: Option<i64> = row.try_get(3)?;
                old.extend(message.filter(|_| ended_at.is_some_and(|at| at <= self.cutoff)));
                found.matching.push(found.cursor);
                messages.push(message);
            }
        }
        if !old.is_empty() {
            let expired = expired_events(sql, workspace, &old, self.cutoff).await?;
            let mut messages = messages.into_iter();
            found.matching.retain(|_| !messages.next().flatten().is_some_and(|it| expired.contains(&it)));
        }
        Ok(found)
    }

    async fn bounds(self, sql: &Sql, above: i64, until: i64) -> Result<(i64, i64), Fault> {
        let (first, last) = match self.wanted {
            Wanted::Since { until: None, .. } => return Ok((above, until)),
            Wanted::Since { until: Some(last), .. } => (None, last),
            Wanted::Accepted(window) => (Some(window.since), window.until),
        };
        let range = Range::of_times(first, Some(last), scan::key_lead(sql).await?);
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
    pub(in crate::postgres) async fn count(
        self,
        sql: &Sql,
        workspace: i64,
        webhook: i64,
    ) -> Result<u64, Fault> {
        const CHUNK: usize = 4096;
        let (mut count, mut cursor) = (0, -1);
        loop {
            let keys = self.keys(sql, workspace, webhook, cursor, i64::MAX, CHUNK).await?;
            count += keys.matching.len() as u64;
            cursor = keys.cursor;
            if !keys.more {
                break;
            }
        }
        let standing = standing(sql, webhook).await?;
        let (Some(cut), paused_at) = (standing.cut, standing.paused_at) else { return Ok(count) };
        let (above, until) = self.bounds(sql, -1, i64::MAX).await?;
        let statement = "SELECT message.received_at FROM work \
             JOIN delivery ON delivery.workspace = work.workspace AND delivery.key = work.key \
             LEFT JOIN message ON message.workspace = delivery.workspace AND message.key = delivery.message \
             WHERE work.workspace = $1 AND work.endpoint = $2 AND work.node IS NULL AND work.pauses <= $3 \
             AND work.key > $4 AND work.key <= $5 AND delivery.state = 0 AND delivery.made = 0";
        for row in sql.query(statement, &[&workspace, &webhook, &cut, &above, &until]).await? {
            count += u64::from(self.takes(row.try_get(0)?, paused_at));
        }
        Ok(count)
    }
}
