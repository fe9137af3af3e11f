//! Retrying many deliveries of a destination by hand, bit by bit.

use restante_core::Timestamp;
use restante_core::id::{DestinationId, ReplayId, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, params};

use super::config::{RecordRow, find_record, parse};
use super::engine::Engine;
use super::scan::{self, Range, Table};
use super::{Fault, codec, history};
use crate::record::{BulkRetryJob, BulkRetryState, Kind};
use crate::{BulkRetry, Retried};

/// Deliveries looked at in one transaction, or by one statement of a count.
const LOOK_MAX: usize = 1024;

impl Engine {
    /// See [`crate::Store::advance_bulk_retry`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn advance_bulk_retry(&mut self, id: ReplayId, now: Timestamp, most: usize) -> Result<bool, Fault> {
        let record = find_record(&self.conn, Kind::BulkRetry, id.uuid())?;
        let Some(record) = record.filter(|it| it.deleted_at.is_none()) else { return Ok(false) };
        let mut job: BulkRetryJob = parse(&record.raw.body)?;
        let (Some(endpoint), BulkRetryState::Running) = (record.parent, job.state) else { return Ok(false) };
        let range = self.bulk_rest(&record, &job);
        let found = scan::keys(&self.conn, Table::Delivery, Some(&[endpoint]), range, LOOK_MAX)?;
        let mut more = found.len() == LOOK_MAX;
        let mut created = 0;
        for key in found {
            if created >= most {
                more = true;
                break;
            }
            job.cursor = key;
            match self.retry_in_bulk(key, &job.bulk, now)? {
                Retried::Fresh(_) => created += 1,
                Retried::NotFound | Retried::Conflict(_) | Retried::OfAnEvent => {}
                Retried::DestinationDeleted | Retried::CreditsExhausted => {
                    job.state = BulkRetryState::Ended;
                    break;
                }
            }
        }
        job.created += created as u64;
        if !more && job.state == BulkRetryState::Running {
            job.state = BulkRetryState::Done;
        }
        let body = serde_json::to_string(&job).map_err(|error| Fault::Damaged(error.to_string()))?;
        self.conn
            .prepare_cached(
                "UPDATE record SET version = version + 1, updated_at = ?2, body = ?3 WHERE row = ?1",
            )?
            .execute(params![record.row, now.millis(), body])?;
        Ok(job.state == BulkRetryState::Running)
    }

    /// What a job has not looked at. Nothing that came after the job itself is its business, least of all what it
    /// creates.
    fn bulk_rest(&self, record: &RecordRow, job: &BulkRetryJob) -> Range {
        let all = bulk_range(&job.bulk, self.key_lead_ms);
        Range {
            above: all.above.max(job.cursor),
            below: all.below.min(job.end).min(record.raw.key().value()),
            ..all
        }
    }

    fn retry_in_bulk(&mut self, key: i64, bulk: &BulkRetry, now: Timestamp) -> Result<Retried, Fault> {
        if !is_match(&self.conn, key, bulk)? {
            return Ok(Retried::NotFound);
        }
        let Some(row) = self.delivery_row(key)? else { return Ok(Retried::NotFound) };
        if self.is_expired(&row, now)? {
            return Ok(Retried::NotFound);
        }
        self.retry_row(&row, now)
    }
}

pub(super) fn count_bulk_retry(
    conn: &Connection,
    workspace: WorkspaceId,
    destination: DestinationId,
    bulk: &BulkRetry,
) -> Result<u64, Fault> {
    let record = find_record(conn, Kind::Destination, destination.uuid())?;
    let ours = record.filter(|it| it.raw.workspace == workspace && it.deleted_at.is_none());
    let Some(record) = ours else { return Ok(0) };
    let mut range = bulk_range(bulk, history::key_lead(conn)?);
    let mut count = 0;
    loop {
        let chunk = scan::keys(conn, Table::Delivery, Some(&[record.row]), range, LOOK_MAX)?;
        let Some(last) = chunk.last().copied() else { return Ok(count) };
        for key in chunk {
            count += u64::from(is_match(conn, key, bulk)?);
        }
        range.above = last;
    }
}

/// Whether a bulk retry takes a delivery: created within its bounds, in its state, and nobody retried it yet.
fn is_match(conn: &Connection, key: i64, bulk: &BulkRetry) -> Result<bool, Fault> {
    let Some((first, last)) = codec::state_range(&bulk.state) else { return Ok(false) };
    let matches: Option<bool> = conn
        .prepare_cached(
            "SELECT state BETWEEN ?2 AND ?3 \
             AND coalesce(created_at, (SELECT received_at FROM message WHERE key = delivery.message)) BETWEEN ?4 AND ?5 \
             AND NOT EXISTS \
             (SELECT 1 FROM delivery AS later WHERE later.message = delivery.message AND later.retry_of = delivery.key) \
             FROM delivery WHERE key = ?1",
        )?
        .query_row(params![key, first, last, bulk.since.millis(), bulk.until.millis()], |row| row.get(0))
        .optional()?;
    Ok(matches.unwrap_or(false))
}

/// The keys of the deliveries a bulk retry may take.
fn bulk_range(bulk: &BulkRetry, key_lead_ms: i64) -> Range {
    Range { newest_first: false, ..Range::of_times(Some(bulk.since), Some(bulk.until), key_lead_ms) }
}
