//! Rows of attempts.

use restante_core::{Attempt, FailureKind, Outcome, Timestamp};
use rustc_hash::FxHashMap;

use crate::Finished;
use crate::endpoint::Feed;
use crate::postgres::Fault;
use crate::postgres::codec::{Stored, failure_code, int, result_code, small, status_of};
use crate::postgres::tx::{EndpointView, Tx};

/// A row of `attempt`, but for whose it is.
pub(in crate::postgres) struct Record {
    pub(in crate::postgres) number: u32,
    pub(in crate::postgres) endpoint_version: u32,
    pub(in crate::postgres) started_at: i64,
    pub(in crate::postgres) duration_ms: i64,
    pub(in crate::postgres) result: i16,
    pub(in crate::postgres) status: Option<i16>,
    pub(in crate::postgres) failure: Option<i16>,
    pub(in crate::postgres) message: Option<String>,
    pub(in crate::postgres) uses_budget: bool,
    pub(in crate::postgres) webhook: Option<i64>,
    pub(in crate::postgres) replay: bool,
}

/// A row of `attempt`.
pub(in crate::postgres) struct Row {
    workspace: i64,
    delivery: i64,
    record: Record,
}

impl Row {
    pub(super) fn new(stored: &Stored, record: Record) -> Self {
        Self { workspace: stored.workspace, delivery: stored.row.key, record }
    }
}

impl Record {
    pub(super) fn new(
        stored: &Stored,
        attempt: &Attempt,
        version: u32,
        uses_budget: bool,
        view: &EndpointView,
    ) -> Self {
        let failure = attempt.outcome.failure();
        let duration_ms = attempt.ended_at.since(attempt.started_at).as_millis();
        let message = failure.filter(|failure| failure.kind != FailureKind::Status);
        Self {
            number: attempt.number,
            endpoint_version: version,
            started_at: attempt.started_at.millis(),
            duration_ms: i64::try_from(duration_ms).unwrap_or(i64::MAX),
            result: small(result_code(&attempt.outcome)),
            status: status_of(&attempt.outcome).map(|status| small(i64::from(status))),
            failure: failure.map(|failure| small(failure_code(failure.kind))),
            message: message.map(|failure| failure.message.clone()),
            uses_budget,
            webhook: (view.endpoint.feed == Feed::Events).then_some(view.row),
            replay: stored.row.life.back_to.is_some(),
        }
    }
}

/// The row of attempt 1 if so far only its delivery's columns tell about it: they are needed for another one, and
/// free from now on.
pub(in crate::postgres) fn write_out(stored: &mut Stored, view: &EndpointView) -> Option<Row> {
    let (Some(started_at), Some(version)) = (stored.row.started_at.take(), stored.row.endpoint_version)
    else {
        return None;
    };
    let started_at = Timestamp::from_millis(started_at);
    let ended_at = stored.row.life.ended_at.unwrap_or(started_at);
    let outcome = Outcome::Delivered { status: stored.row.status };
    let first = Attempt { number: stored.row.life.attempts_made, outcome, started_at, ended_at };
    Some(Row::new(stored, Record::new(stored, &first, version, true, view)))
}

impl Tx {
    pub(in crate::postgres) async fn insert_attempts(&self, rows: &[Row]) -> Result<(), Fault> {
        if rows.is_empty() {
            return Ok(());
        }
        fn column<T>(rows: &[Row], read: impl Fn(&Row) -> T) -> Vec<T> {
            rows.iter().map(read).collect()
        }
        let messages: Vec<Option<&str>> = rows.iter().map(|it| it.record.message.as_deref()).collect();
        self.execute(
            "INSERT INTO attempt (workspace, delivery, number, endpoint_version, started_at, duration_ms, result, status, \
             failure, message, uses_budget, webhook, replay) \
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::bigint[], $6::bigint[], \
             $7::smallint[], $8::smallint[], $9::smallint[], $10::text[], $11::boolean[], $12::bigint[], $13::boolean[])",
            &[
                &column(rows, |it| it.workspace),
                &column(rows, |it| it.delivery),
                &column(rows, |it| int(it.record.number)),
                &column(rows, |it| int(it.record.endpoint_version)),
                &column(rows, |it| it.record.started_at),
                &column(rows, |it| it.record.duration_ms),
                &column(rows, |it| it.record.result),
                &column(rows, |it| it.record.status),
                &column(rows, |it| it.record.failure),
                &messages,
                &column(rows, |it| it.record.uses_budget),
                &column(rows, |it| it.record.webhook),
                &column(rows, |it| it.record.replay),
            ],
        )
        .await?;
        Ok(())
    }

    /// Whether just these results were recorded before, of each. `None`: that is known not to be.
    pub(super) async fn are_recorded(
        &self,
        results: &[Option<(&Stored, &Finished)>],
    ) -> Result<Vec<bool>, Fault> {
        let asked: Vec<_> =
            results.iter().flatten().filter(|(stored, one)| !is_in_columns(stored, one)).collect();
        let mut found: FxHashMap<(i64, i32), (i16, i64)> = FxHashMap::default();
        if !asked.is_empty() {
            let workspaces: Vec<i64> = asked.iter().map(|(stored, _)| stored.workspace).collect();
            let keys: Vec<i64> = asked.iter().map(|(stored, _)| stored.row.key).collect();
            let numbers: Vec<i32> = asked.iter().map(|(_, one)| int(one.attempt.number)).collect();
            let statement = "SELECT attempt.delivery, attempt.number, result, started_at \
                 FROM unnest($1::bigint[], $2::bigint[], $3::int[]) AS it (workspace, delivery, number) \
                 JOIN attempt ON attempt.workspace = it.workspace AND attempt.delivery = it.delivery \
                 AND attempt.number = it.number AND attempt.delivery = ANY($2)";
            for row in self.query(statement, &[&workspaces, &keys, &numbers]).await? {
                found.insert((row.try_get(0)?, row.try_get(1)?), (row.try_get(2)?, row.try_get(3)?));
            }
        }
        let is_recorded = |(stored, one): (&Stored, &Finished)| {
            let attempt = &one.attempt;
            if is_in_columns(stored, one) {
                return matches!(attempt.outcome, Outcome::Delivered { .. });
            }
            found.get(&(stored.row.key, int(attempt.number)))
                == Some(&(small(result_code(&attempt.outcome)), attempt.started_at.millis()))
        };
        Ok(results.iter().map(|result| result.is_some_and(is_recorded)).collect())
    }
}

/// Whether the columns of its delivery tell of an attempt.
fn is_in_columns(stored: &Stored, finished: &Finished) -> bool {
    stored.row.started_at == Some(finished.attempt.started_at.millis())
}
