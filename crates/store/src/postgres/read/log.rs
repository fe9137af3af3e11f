//! The attempts log of a webhook: all its attempts, newest first by their start.
//!
//! It is put together from three places. Attempts with a row of their own are in an index by time. A first attempt
//! that delivered at once, and a running one that was leased at birth, are told by their delivery and started within
//! [`PROMPT_MS`] of it, so they lie near its key. Other running ones are found among the claimed leases.

use std::collections::HashMap;

use restante_core::id::{DeliveryId, EventId, Key, WebhookId, WorkspaceId};
use restante_core::{State, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::attempts::{ATTEMPT_COLUMNS, Told, in_columns, recorded};
use super::views::MessageView;
use super::{Reader, attempts_kept_from, find_webhook};
use crate::postgres::Fault;
use crate::postgres::codec::{
    DELIVERED, DELIVERY_COLUMNS, DELIVERY_TABLES, DeliveryRow, int, read_delivery, small,
};
use crate::postgres::scan::{self, Range, deliveries_by_keys};
use crate::postgres::settle::PROMPT_MS;
use crate::postgres::sql::sql_limit;
use crate::row::{self, LogFilter, LogPlace, LogStatus};

/// Deliveries looked at before a page gives what it has.
const LOOK_MAX: usize = 20_000;
/// Deliveries looked at with one statement.
const CHUNK: usize = 256;

/// A page of a log, and where to go on.
pub(in crate::postgres) type LogPage = (Vec<row::Logged>, Option<LogPlace>);

/// Which attempts a page may hold: strictly between two moments, behind a place, in a state.
#[derive(Clone, Copy)]
struct Bounds {
    after: i64,
    before: i64,
    behind: Option<LogPlace>,
    status: Option<LogStatus>,
}

impl Bounds {
    fn hold(&self, place: LogPlace, delivered: Option<bool>) -> bool {
        let at = place.started_at.millis();
        let status = match self.status {
            None => true,
            Some(LogStatus::Pending) => delivered.is_none(),
            Some(LogStatus::Delivered) => delivered == Some(true),
            Some(LogStatus::Failed) => delivered == Some(false),
        };
        status && self.after < at && at < self.before && self.behind.is_none_or(|behind| place < behind)
    }

    /// The latest start that may be on the page.
    fn latest(&self) -> i64 {
        let behind = self.behind.map_or(i64::MAX, |behind| behind.started_at.millis());
        behind.min(self.before.saturating_sub(1))
    }
}

/// An attempt that may be on the page.
enum Found {
    /// With a row of its own.
    Recorded(LogPlace, Box<Told>),
    /// Told by its delivery.
    InColumns(LogPlace, Box<DeliveryRow>),
}

impl Found {
    fn place(&self) -> LogPlace {
        match self {
            Self::Recorded(place, _) | Self::InColumns(place, _) => *place,
        }
    }
}

/// A webhook, and the workspace it is in.
#[derive(Clone, Copy)]
struct Log {
    owner: i64,
    webhook: i64,
}

impl Reader<'_> {
    pub(in crate::postgres) async fn log(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        filter: LogFilter,
        behind: Option<LogPlace>,
        limit: usize,
    ) -> Result<Option<LogPage>, Fault> {
        let Some(record) = find_webhook(self.sql, workspace, webhook).await? else { return Ok(None) };
        let log = Log { owner: record.workspace, webhook: record.row };
        let bounds = Bounds {
            after: filter.after.map_or(i64::MIN, Timestamp::millis).max(attempts_kept_from(self.now) - 1),
            before: filter.before.map_or(i64::MAX, Timestamp::millis),
            behind,
            status: filter.status,
        };
        let mut found = self.recorded_in(log, bounds, limit + 1).await?;
        self.running_in(log, bounds, &mut found).await?;
        let stopped_at = self.prompt_in(log, bounds, limit + 1, &mut found).await?;
        found.sort_unstable_by_key(|found| std::cmp::Reverse(found.place()));
        if let Some(stopped_at) = stopped_at {
            // Nothing is known of what started earlier.
            found.retain(|found| found.place().started_at.millis() > stopped_at);
        }
        let more = found.len() > limit;
        found.truncate(limit);
        let mut next = found.last().filter(|_| more).map(Found::place);
        if let (None, Some(stopped_at)) = (next, stopped_at) {
            let started_at = Timestamp::from_millis(stopped_at);
            next = Some(LogPlace { started_at, delivery: i64::MAX, number: u32::MAX });
        }
        Ok(Some((self.lines(log.owner, found).await?, next)))
    }

    async fn recorded_in(&self, log: Log, bounds: Bounds, most: usize) -> Result<Vec<Found>, Fault> {
        let results = match bounds.status {
            Some(LogStatus::Pending) => return Ok(Vec::new()),
            None => "",
            Some(LogStatus::Delivered) => "AND result = $8",
            Some(LogStatus::Failed) => "AND result <> $8",
        };
        let statement = format!(
            "SELECT {ATTEMPT_COLUMNS} FROM attempt \
             WHERE workspace = $1 AND webhook = $2 AND started_at > $3 AND started_at <= $4 \
             AND (started_at, delivery, number) < ($4, $5, $6) {results} \
             ORDER BY started_at DESC, delivery DESC, number DESC LIMIT $7"
        );
        // With nothing to be behind, or something that started later, the place is beyond all of the latest moment.
        let latest = bounds.latest();
        let behind = bounds.behind.filter(|behind| behind.started_at.millis() == latest);
        let (delivery, number) = behind.map_or((i64::MAX, i32::MAX), |it| (it.delivery, int(it.number)));
        let (most, delivered) = (sql_limit(most), small(DELIVERED));
        let mut values: Vec<&(dyn ToSql + Sync)> =
            vec![&log.owner, &log.webhook, &bounds.after, &latest, &delivery, &number, &most];
        if !results.is_empty() {
            values.push(&delivered);
        }
        let rows = self.sql.query(&statement, &values).await?;
        let read = |row: &Row| {
            let told = recorded(row)?;
            let place =
                LogPlace { started_at: told.started_at, delivery: row.try_get(0)?, number: told.number };
            Ok(Found::Recorded(place, Box::new(told)))
        };
        rows.iter().map(read).collect()
    }

    /// Attempts in flight that were claimed.
    async fn running_in(&self, log: Log, bounds: Bounds, found: &mut Vec<Found>) -> Result<(), Fault> {
        let statement = format!(
            "SELECT {DELIVERY_COLUMNS} FROM work CROSS JOIN LATERAL \
             (SELECT * FROM delivery WHERE delivery.workspace = $1 AND delivery.key = work.key OFFSET 0) AS delivery \
             WHERE work.endpoint = $2 AND work.node IS NOT NULL \
             AND delivery.state = 1 AND delivery.claimed"
        );
        for row in self.sql.query(&statement, &[&log.owner, &log.webhook]).await? {
            found.extend(held_by_columns(read_delivery(&row)?.row, bounds));
        }
        Ok(())
    }

    /// What deliveries tell that are not claimed. Returns up to which start nothing was looked at, if that is so.
    async fn prompt_in(
        &self,
        log: Log,
        bounds: Bounds,
        most: usize,
        found: &mut Vec<Found>,
    ) -> Result<Option<i64>, Fault> {
        if bounds.status == Some(LogStatus::Failed) {
            return Ok(None);
        }
        let lead = scan::key_lead(self.sql).await?;
        let time = |millis: i64| Some(Timestamp::from_millis(millis.max(0)));
        let earliest = bounds.after.saturating_sub(PROMPT_MS).max(0);
        let mut range = Range::of_times(time(earliest), time(bounds.latest()), lead);
        let statement = format!(
            "SELECT {DELIVERY_COLUMNS} FROM {DELIVERY_TABLES} WHERE delivery.workspace = $1 AND delivery.endpoint = $2 \
             AND delivery.key > $3 AND delivery.key < $4 ORDER BY delivery.key DESC LIMIT $5"
        );
        let chunk = sql_limit(CHUNK);
        let mut looked = 0;
        loop {
            let rows = self
                .sql
                .query(&statement, &[&log.owner, &log.webhook, &range.above, &range.below, &chunk])
                .await?;
            for row in &rows {
                let row = read_delivery(row)?.row;
                range = range.behind(row.key);
                if !(row.claimed && row.life.state == State::Sending) {
                    found.extend(held_by_columns(row, bounds));
                }
            }
            looked += rows.len();
            if rows.len() < CHUNK {
                return Ok(None);
            }
            // What follows started before this.
            let bound = Key::from_value(range.below).at().millis() + PROMPT_MS;
            if found.iter().filter(|it| it.place().started_at.millis() > bound).count() >= most {
                return Ok(None);
            }
            // Enough, unless the next page would have to start where this one did.
            if looked >= LOOK_MAX && bound < bounds.latest() {
                return Ok(Some(bound));
            }
        }
    }

    /// The lines of a page. What is not there any more has none.
    async fn lines(&mut self, owner: i64, found: Vec<Found>) -> Result<Vec<row::Logged>, Fault> {
        let rows = self.rows_of(owner, &found).await?;
        let (mut told, mut deliveries) = (Vec::new(), Vec::new());
        for one in found {
            let (one, delivery) = match one {
                Found::Recorded(place, told) => (Some(*told), rows.get(&place.delivery).cloned()),
                Found::InColumns(_, row) => (in_columns(&row), Some(*row)),
            };
            if let Some((one, delivery)) = one.zip(delivery) {
                told.push(one);
                deliveries.push(delivery);
            }
        }
        let mut messages: Vec<i64> = deliveries.iter().map(|row| row.message).collect();
        messages.sort_unstable();
        messages.dedup();
        let views: HashMap<i64, MessageView> =
            self.messages(owner, &messages).await?.into_iter().map(|view| (view.key, view)).collect();
        let (mut attempts, mut of) = (Vec::new(), Vec::new());
        for (one, row) in told.into_iter().zip(&deliveries) {
            if let Some(view) = views.get(&row.message) {
                attempts.push((one, row, view));
                of.push(view);
            }
        }
        let attempts = self.attempt_rows(attempts).await?;
        of.into_iter().zip(attempts).map(|(view, (key, attempt))| logged(view, key, attempt)).collect()
    }

    /// The deliveries of recorded attempts.
    async fn rows_of(&self, owner: i64, found: &[Found]) -> Result<HashMap<i64, DeliveryRow>, Fault> {
        let recorded = found.iter().filter(|it| matches!(it, Found::Recorded(..)));
        let keys: Vec<i64> = recorded.map(|it| it.place().delivery).collect();
        let mut found = HashMap::new();
        for row in self.sql.query(&deliveries_by_keys(), &[&owner, &keys]).await? {
            let row = read_delivery(&row)?.row;
            found.insert(row.key, row);
        }
        Ok(found)
    }
}

fn logged(view: &MessageView, delivery: i64, attempt: row::Attempt) -> Result<row::Logged, Fault> {
    Ok(row::Logged {
        delivery: DeliveryId::new(Key::from_value(delivery), view.tail),
        event: EventId::new(Key::from_value(view.key), view.tail),
        event_type: view.event_type()?,
        attempt,
    })
}

/// The attempt that a delivery's columns tell about, if the page may hold it.
fn held_by_columns(row: DeliveryRow, bounds: Bounds) -> Option<Found> {
    let started_at = Timestamp::from_millis(row.started_at?);
    let place = LogPlace { started_at, delivery: row.key, number: row.life.attempts_made };
    let delivered = row.life.state.is_final().then_some(true);
    bounds.hold(place, delivered).then(|| Found::InColumns(place, Box::new(row)))
}
