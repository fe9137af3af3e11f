//! What was counted, written down and erased in time.
//!
//! Each row has one node that writes it, and says all of it each time: it takes no fence, and no look whether a COMMIT
//! took effect.

use restante_core::Timestamp;

use super::Fault;
use super::node::Node;
use super::sql::sql_limit;
use crate::tally::Row;

/// Rows written with one statement.
const ROWS: usize = 500;

impl Node {
    /// See [`crate::Store::roll_up`].
    pub(super) async fn roll_up(&self, now: Timestamp) -> Result<(), Fault> {
        // A node where nothing happens writes nothing.
        if !self.tally.lock().begin_round(now) {
            return Ok(());
        }
        let sql = self.connection().await?;
        let series: i64 = sql.one("SELECT nextval('tally_series')", &[]).await?.try_get(0)?;
        loop {
            let rows = self.tally.lock().take(series, ROWS);
            if rows.is_empty() {
                return Ok(());
            }
            let columns = Columns::of(&rows);
            sql.execute(Columns::WRITE, &columns.params()).await?;
            self.tally.lock().note_written(&rows);
        }
    }

    /// Erases up to `most` rows that are past their time. Returns whether there may be more.
    pub(super) async fn prune_tally(&self, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let delete = "DELETE FROM tally USING (SELECT workspace, scope, step, at, series FROM tally WHERE kept_until <= $1 \
             LIMIT $2 FOR UPDATE SKIP LOCKED) AS old WHERE tally.workspace = old.workspace AND tally.scope = old.scope \
             AND tally.step = old.step AND tally.at = old.at AND tally.series = old.series";
        let sql = self.connection().await?;
        let erased = sql.execute(delete, &[&now.millis(), &sql_limit(most)]).await?;
        Ok(erased >= most as u64)
    }
}

/// The rows, by their columns.
struct Columns {
    workspace: Vec<i64>,
    scope: Vec<i64>,
    step: Vec<i64>,
    at: Vec<i64>,
    series: Vec<i64>,
    kept_until: Vec<i64>,
    numbers: [Vec<i64>; 5],
    arrival: Vec<Vec<u8>>,
    duration: Vec<Vec<u8>>,
}

impl Columns {
    /// What nobody waits for any more may come late, after what was counted since: counts only grow.
    const WRITE: &str = "INSERT INTO tally (workspace, scope, step, at, series, kept_until, accepted, delivered, failed, \
         attempts, attempts_failed, arrival, duration) \
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
         $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[], $13::bytea[]) \
         ON CONFLICT (workspace, scope, step, at, series) DO UPDATE SET accepted = excluded.accepted, \
         delivered = excluded.delivered, failed = excluded.failed, attempts = excluded.attempts, \
         attempts_failed = excluded.attempts_failed, arrival = excluded.arrival, duration = excluded.duration \
         WHERE excluded.accepted + excluded.delivered + excluded.failed + excluded.attempts \
         >= tally.accepted + tally.delivered + tally.failed + tally.attempts";

    fn of(rows: &[Row]) -> Self {
        let column = |read: fn(&Row) -> i64| rows.iter().map(read).collect::<Vec<i64>>();
        let numbers =
            [0, 1, 2, 3, 4].map(|index| rows.iter().map(|row| row.counts.numbers()[index]).collect());
        Self {
            workspace: column(|row| row.workspace),
            scope: column(Row::scope),
            step: column(Row::step),
            at: column(Row::at),
            series: column(|row| row.series),
            kept_until: column(|row| row.kept_until),
            numbers,
            arrival: rows.iter().map(|row| row.counts.arrival.encode()).collect(),
            duration: rows.iter().map(|row| row.counts.duration.encode()).collect(),
        }
    }

    fn params(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 13] {
        let [accepted, delivered, failed, attempts, attempts_failed] = &self.numbers;
        [
            &self.workspace,
            &self.scope,
            &self.step,
            &self.at,
            &self.series,
            &self.kept_until,
            accepted,
            delivered,
            failed,
            attempts,
            attempts_failed,
            &self.arrival,
            &self.duration,
        ]
    }
}
