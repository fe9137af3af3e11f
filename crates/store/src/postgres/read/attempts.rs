//! The attempts of a delivery, put together from where they are kept.

use std::collections::HashMap;

use restante_core::message::target;
use restante_core::{FailureKind, Outcome, Timestamp};
use tokio_postgres::Row;

use super::views::MessageView;
use super::{Reader, attempts_kept_from};
use crate::postgres::Fault;
use crate::postgres::codec::{self, DeliveryRow, EVENT, Stored, int};
use crate::postgres::scan::by_keys;
use crate::row;

/// The columns [`recorded`] wants, in its order.
pub(super) const ATTEMPT_COLUMNS: &str = "attempt.delivery, attempt.number, attempt.endpoint_version, attempt.started_at, \
     attempt.duration_ms, attempt.result, attempt.status, attempt.failure, attempt.message, attempt.uses_budget, \
     attempt.replay";

/// An attempt, as it is kept.
pub(super) struct Told {
    pub(super) number: u32,
    endpoint_version: u32,
    pub(super) started_at: Timestamp,
    replay: bool,
    /// `None` while it is in flight.
    result: Option<row::AttemptResult>,
}

impl Reader<'_> {
    /// Attempts by their deliveries' keys: recorded ones by number, then the running one, or attempt 1 that delivered
    /// at once. Attempts to webhooks are forgotten some days after they started.
    pub(super) async fn attempts_of(
        &mut self,
        owner: i64,
        deliveries: &[(&Stored, &MessageView)],
    ) -> Result<HashMap<i64, Vec<row::Attempt>>, Fault> {
        let keys: Vec<i64> = deliveries.iter().map(|(stored, _)| stored.row.key).collect();
        let statement = format!(
            "SELECT {ATTEMPT_COLUMNS} FROM {} ORDER BY attempt.delivery, attempt.number",
            by_keys("attempt", "delivery")
        );
        let mut told: HashMap<i64, Vec<Told>> = HashMap::new();
        for row in self.sql.query(&statement, &[&owner, &keys]).await? {
            told.entry(row.try_get(0)?).or_default().push(recorded(&row)?);
        }
        let kept_from = attempts_kept_from(self.now);
        let mut lines = Vec::new();
        for (stored, view) in deliveries {
            let mut attempts = told.remove(&stored.row.key).unwrap_or_default();
            attempts.extend(in_columns(&stored.row));
            attempts.retain(|it| {
                view.kind != EVENT || it.result.is_none() || it.started_at.millis() >= kept_from
            });
            lines.extend(attempts.into_iter().map(|it| (it, &stored.row, *view)));
        }
        let mut found: HashMap<i64, Vec<row::Attempt>> = HashMap::new();
        for (key, attempt) in self.attempt_rows(lines).await? {
            found.entry(key).or_default().push(attempt);
        }
        Ok(found)
    }

    /// Attempts as they are shown, in their order, each with its delivery's key.
    pub(super) async fn attempt_rows(
        &mut self,
        told: Vec<(Told, &DeliveryRow, &MessageView)>,
    ) -> Result<Vec<(i64, row::Attempt)>, Fault> {
        self.learn_urls(told.iter().map(|(it, row, _)| (row.endpoint, it.endpoint_version)).collect())
            .await?;
        let shown = told.into_iter().map(|(it, row, view)| {
            let url = self.urls.get(&(row.endpoint, it.endpoint_version)).map_or("", String::as_str);
            let attempt = row::Attempt {
                number: it.number,
                trigger: trigger(row, it.number, it.replay),
                url: target(url, &view.path, view.query.as_deref()),
                started_at: it.started_at,
                result: it.result,
            };
            (row.key, attempt)
        });
        Ok(shown.collect())
    }

    /// Reads those URLs that are not known yet, by endpoint and version.
    async fn learn_urls(&mut self, mut wanted: Vec<(i64, u32)>) -> Result<(), Fault> {
        wanted.retain(|it| !self.urls.contains_key(it));
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(());
        }
        let (endpoints, versions): (Vec<i64>, Vec<i32>) =
            wanted.iter().map(|(endpoint, version)| (*endpoint, int(*version))).unzip();
        let statement = "SELECT wanted.endpoint, wanted.version, found.url \
             FROM unnest($1::bigint[], $2::int[]) AS wanted(endpoint, version), LATERAL \
             (SELECT url FROM endpoint_url WHERE endpoint_url.endpoint = wanted.endpoint \
             AND endpoint_url.version <= wanted.version ORDER BY endpoint_url.version DESC LIMIT 1) AS found";
        for row in self.sql.query(statement, &[&endpoints, &versions]).await? {
            let version = row.try_get::<_, i32>(1)?.unsigned_abs();
            self.urls.insert((row.try_get(0)?, version), row.try_get(2)?);
        }
        Ok(())
    }
}

/// An attempt from its own row.
pub(super) fn recorded(row: &Row) -> Result<Told, Fault> {
    let result = i64::from(row.try_get::<_, i16>(5)?);
    let status = row.try_get::<_, Option<i16>>(6)?.map(i16::unsigned_abs);
    let failure = row.try_get::<_, Option<i16>>(7)?.map(i64::from).map(codec::failure).transpose()?;
    Ok(Told {
        number: row.try_get::<_, i32>(1)?.unsigned_abs(),
        endpoint_version: row.try_get::<_, i32>(2)?.unsigned_abs(),
        started_at: Timestamp::from_millis(row.try_get(3)?),
        replay: row.try_get(10)?,
        result: Some(row::AttemptResult {
            duration_ms: row.try_get::<_, i64>(4)?.unsigned_abs(),
            delivered: result == codec::DELIVERED,
            status,
            failure,
            lost: result == codec::LOST,
            message: row.try_get::<_, Option<String>>(8)?.or_else(|| status_message(failure, status)),
            uses_budget: row.try_get(9)?,
        }),
    })
}

/// The attempt that a delivery's own columns tell about: the running one, or the first, which delivered.
pub(super) fn in_columns(row: &DeliveryRow) -> Option<Told> {
    let started_at = Timestamp::from_millis(row.started_at?);
    let result = row.life.state.is_final().then(|| row::AttemptResult {
        duration_ms: row.life.ended_at.map_or(0, |ended| ended.since(started_at).as_millis() as u64),
        delivered: true,
        status: row.status,
        failure: None,
        lost: false,
        message: None,
        uses_budget: true,
    });
    Some(Told {
        number: row.life.attempts_made,
        endpoint_version: row.endpoint_version?,
        started_at,
        replay: row.life.back_to.is_some(),
        result,
    })
}

fn trigger(row: &DeliveryRow, number: u32, replay: bool) -> row::Trigger {
    if replay {
        row::Trigger::Replay
    } else if number == 1 && row.retry_of.is_some() {
        row::Trigger::Manual
    } else {
        row::Trigger::Automatic
    }
}

/// The message of a failed status is not stored: it is made of the status.
fn status_message(failure: Option<FailureKind>, status: Option<u16>) -> Option<String> {
    failure?;
    match Outcome::of_status(status?, None) {
        Outcome::Failed(failure) => Some(failure.message),
        Outcome::Delivered { .. } | Outcome::Lost | Outcome::Refused(_) | Outcome::Uncertain(_) => None,
    }
}
