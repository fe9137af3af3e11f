//! The attempts log of a webhook: all its attempts, newest first by their start.
//!
//! It is put together from three places. Attempts with a row of their own are in an index by time. A first attempt
//! that delivered at once, and a running one that was leased at birth, are told by their delivery and started within
//! [`PROMPT_MS`] of it, so they lie near its key. Other running ones are found among the claimed leases.

use restante_core::id::{DeliveryId, Key, WebhookId, WorkspaceId};
use restante_core::{State, Timestamp};
use rusqlite::params;

use super::attempts::{ATTEMPT_COLUMNS, in_columns, recorded};
use super::{Reader, delivery_row};
use crate::row::{self, LogFilter, LogPlace, LogStatus};
use crate::sqlite::codec::{DELIVERED, DELIVERY_COLUMNS, DeliveryRow, read_delivery};
use crate::sqlite::resend::{attempts_kept_from, find_webhook};
use crate::sqlite::scan::{self, Range, Table};
use crate::sqlite::settle::PROMPT_MS;
use crate::sqlite::{Fault, history};

/// Deliveries looked at before a page gives what it has.
const LOOK_MAX: usize = 20_000;
/// Recorded attempts looked at before a page gives what it has: they are read from the index alone.
const RECORDED_MAX: usize = 100_000;
/// Deliveries looked at with one statement.
const CHUNK: usize = 256;

/// A page of a log, and where to go on.
pub(in crate::sqlite) type LogPage = (Vec<row::Logged>, Option<LogPlace>);

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
    Recorded(LogPlace),
    /// Told by its delivery.
    InColumns(LogPlace, Box<DeliveryRow>),
}

impl Found {
    fn place(&self) -> LogPlace {
        match self {
            Self::Recorded(place) | Self::InColumns(place, _) => *place,
        }
    }
}

impl Reader<'_> {
    pub(in crate::sqlite) fn log(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        filter: LogFilter,
        behind: Option<LogPlace>,
        limit: usize,
    ) -> Result<Option<LogPage>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(record) = find_webhook(self.conn, workspace, webhook)? else { return Ok(None) };
        let bounds = Bounds {
            after: filter.after.map_or(i64::MIN, Timestamp::millis).max(attempts_kept_from(self.now) - 1),
            before: filter.before.map_or(i64::MAX, Timestamp::millis),
            behind,
            status: filter.status,
        };
        let mut found = Vec::new();
        let recorded_until = self.recorded_in(record.row, bounds, limit + 1, &mut found)?;
        self.running_in(record.row, bounds, &mut found)?;
        let prompt_until = self.prompt_in(record.row, bounds, limit + 1, &mut found)?;
        let stopped_at = recorded_until.max(prompt_until);
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
        let mut lines = Vec::with_capacity(found.len());
        for one in found {
            lines.extend(self.line(one)?);
        }
        Ok(Some((lines, next)))
    }

    /// Attempts with a row of their own. Returns up to which start nothing was looked at, if that is so.
    fn recorded_in(
        &self,
        webhook: i64,
        bounds: Bounds,
        most: usize,
        found: &mut Vec<Found>,
    ) -> Result<Option<i64>, Fault> {
        if bounds.status == Some(LogStatus::Pending) {
            return Ok(None);
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT started_at, delivery, number, result FROM attempt \
             WHERE webhook = ?1 AND started_at > ?2 AND started_at <= ?3 \
             ORDER BY started_at DESC, delivery DESC, number DESC",
        )?;
        let mut rows = statement.query(params![webhook, bounds.after, bounds.latest()])?;
        let (mut matches, mut looked) = (0, 0);
        while let Some(row) = rows.next()? {
            let started_at = Timestamp::from_millis(row.get(0)?);
            looked += 1;
            // Enough, unless the next page would have to start where this one did.
            if looked > RECORDED_MAX && started_at.millis() < bounds.latest() {
                return Ok(Some(started_at.millis()));
            }
            let place = LogPlace { started_at, delivery: row.get(1)?, number: row.get(2)? };
            if bounds.hold(place, Some(row.get::<_, i64>(3)? == DELIVERED)) {
                found.push(Found::Recorded(place));
                matches += 1;
                if matches == most {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Attempts in flight that were claimed.
    fn running_in(&self, webhook: i64, bounds: Bounds, found: &mut Vec<Found>) -> Result<(), Fault> {
        let sql = format!(
            "SELECT {DELIVERY_COLUMNS} FROM delivery WHERE endpoint = ?1 AND state = 1 AND claimed = 1"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([webhook])?;
        while let Some(row) = rows.next()? {
            let row = read_delivery(row)?;
            found.extend(held_by_columns(row, bounds));
        }
        Ok(())
    }

    /// What deliveries tell that are not claimed. Returns up to which start nothing was looked at, if that is so.
    fn prompt_in(
        &self,
        webhook: i64,
        bounds: Bounds,
        most: usize,
        found: &mut Vec<Found>,
    ) -> Result<Option<i64>, Fault> {
        if bounds.status == Some(LogStatus::Failed) {
            return Ok(None);
        }
        let lead = history::key_lead(self.conn)?;
        let time = |millis: i64| Some(Timestamp::from_millis(millis.max(0)));
        let earliest = bounds.after.saturating_sub(PROMPT_MS).max(0);
        let mut range = Range::of_times(time(earliest), time(bounds.latest()), lead);
        let mut looked = 0;
        loop {
            let keys = scan::keys(self.conn, Table::Delivery, Some(&[webhook]), range, CHUNK)?;
            let Some(last) = keys.last().copied() else { return Ok(None) };
            for key in &keys {
                let Some(row) = delivery_row(self.conn, *key)? else { continue };
                if !(row.claimed && row.life.state == State::Sending) {
                    found.extend(held_by_columns(row, bounds));
                }
            }
            range.below = last;
            looked += keys.len();
            // What follows started before this.
            let bound = Key::from_value(last).at().millis() + PROMPT_MS;
            if found.iter().filter(|it| it.place().started_at.millis() > bound).count() >= most {
                return Ok(None);
            }
            // Enough, unless the next page would have to start where this one did.
            if looked >= LOOK_MAX && bound < bounds.latest() {
                return Ok(Some(bound));
            }
        }
    }

    fn line(&mut self, found: Found) -> Result<Option<row::Logged>, Fault> {
        let place = found.place();
        let (attempt, message) = match found {
            Found::InColumns(_, row) => {
                let Some(view) = self.message(row.message)? else { return Ok(None) };
                (in_columns(self.conn, &row, &view)?, view)
            }
            Found::Recorded(_) => {
                let Some(row) = delivery_row(self.conn, place.delivery)? else { return Ok(None) };
                let Some(view) = self.message(row.message)? else { return Ok(None) };
                let sql =
                    format!("SELECT {ATTEMPT_COLUMNS} FROM attempt WHERE delivery = ?1 AND number = ?2");
                let mut statement = self.conn.prepare_cached(&sql)?;
                let mut rows = statement.query(params![place.delivery, place.number])?;
                let stored =
                    rows.next()?.map(|stored| recorded(self.conn, stored, &row, &view)).transpose()?;
                (stored, view)
            }
        };
        let event = self.event_row(&message)?;
        Ok(attempt.map(|attempt| row::Logged {
            delivery: DeliveryId::new(Key::from_value(place.delivery), message.tail),
            event: event.id,
            event_type: event.event_type,
            attempt,
        }))
    }
}

/// The attempt that a delivery's columns tell about, if the page may hold it.
fn held_by_columns(row: DeliveryRow, bounds: Bounds) -> Option<Found> {
    let started_at = Timestamp::from_millis(row.started_at?);
    let place = LogPlace { started_at, delivery: row.key, number: row.life.attempts_made };
    let delivered = row.life.state.is_final().then_some(true);
    bounds.hold(place, delivered).then(|| Found::InColumns(place, Box::new(row)))
}
