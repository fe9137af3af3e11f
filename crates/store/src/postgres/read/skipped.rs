//! Which skipped deliveries a recovery of a webhook takes.

use restante_core::Timestamp;

use crate::postgres::Fault;
use crate::postgres::config::standing;
use crate::postgres::scan::{self, Range};
use crate::postgres::sql::{Sql, sql_limit};
use crate::record::ReplayJob;
use crate::{Recovery, Window};

/// Which skipped deliveries a recovery takes.
#[derive(Debug, Clone, Copy)]
pub(in crate::postgres) enum Skipped {
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
    /// `paused_at`: when it was last paused.
    pub(in crate::postgres) fn new(recovery: Recovery, paused_at: Option<i64>) -> Self {
        match recovery {
            Recovery::Accepted(window) => Self::Accepted(window),
            Recovery::SincePause { until } => Self::Since { since: paused_at.unwrap_or(0), until },
        }
    }

    /// What a job takes.
    pub(in crate::postgres) fn of(job: &ReplayJob) -> Self {
        if job.by_skip {
            Self::Since { since: job.since.millis(), until: job.accepted_until }
        } else {
            Self::Accepted(Window { since: job.since, until: job.until })
        }
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
        let statement = "SELECT walked.key, delivery.ended_at, message.received_at FROM \
             (SELECT workspace, key FROM skipped WHERE workspace = $1 AND endpoint = $2 AND key > $3 AND key <= $4 \
             ORDER BY key LIMIT $5) AS walked \
             LEFT JOIN delivery ON delivery.workspace = walked.workspace AND delivery.key = walked.key \
             AND delivery.state = 50 \
             LEFT JOIN message ON message.workspace = delivery.workspace AND message.key = delivery.message \
             ORDER BY walked.key";
        let rows = sql.query(statement, &[&workspace, &webhook, &above, &until, &sql_limit(most)]).await?;
        let mut found = SkippedKeys { matching: Vec::new(), cursor: above, more: rows.len() == most };
        for row in rows {
            found.cursor = row.try_get(0)?;
            if self.takes(row.try_get(2)?, row.try_get(1)?) {
                found.matching.push(found.cursor);
            }
        }
        Ok(found)
    }

    async fn bounds(self, sql: &Sql, above: i64, until: i64) -> Result<(i64, i64), Fault> {
        let (first, last) = match self {
            Self::Since { until: None, .. } => return Ok((above, until)),
            Self::Since { until: Some(last), .. } => (None, last),
            Self::Accepted(window) => (Some(window.since), window.until),
        };
        let range = Range::of_times(first, Some(last), scan::key_lead(sql).await?);
        Ok((above.max(range.above), until.min(range.below.saturating_sub(1))))
    }

    fn takes(self, accepted_at: Option<i64>, skipped_at: Option<i64>) -> bool {
        match self {
            Self::Accepted(window) => {
                accepted_at.is_some_and(|at| (window.since.millis()..=window.until.millis()).contains(&at))
            }
            Self::Since { since, until } => {
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
