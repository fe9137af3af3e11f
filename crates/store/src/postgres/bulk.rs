//! Retrying many deliveries of a destination by hand, bit by bit.

use std::time::Duration;

use restante_core::Timestamp;
use restante_core::id::ReplayId;

use super::Fault;
use super::config::{RecordRow, find_record, parse};
use super::read::{bulk_range, matches};
use super::scan::{self, Range, Table};
use super::tx::Tx;
use crate::Retried;
use crate::record::{BulkRetryJob, BulkRetryState, Kind};

/// Deliveries looked at in one transaction.
const LOOK_MAX: usize = 1024;

impl Tx {
    /// See [`crate::Store::advance_bulk_retry`].
    pub(super) async fn advance_bulk_retry(
        &mut self,
        id: ReplayId,
        now: Timestamp,
        most: usize,
    ) -> Result<bool, Fault> {
        let Some(record) = find_record(self, Kind::BulkRetry, id.uuid()).await? else { return Ok(false) };
        let Some(mut job) = self.lock_bulk_retry(record.row).await? else { return Ok(false) };
        let (Some(endpoint), BulkRetryState::Running) = (record.parent, job.state) else { return Ok(false) };
        self.make_keys_behind(&record);
        let range = self.bulk_rest(&record, &job);
        let scopes = Some(&[endpoint][..]);
        let found = scan::keys(self, Table::Delivery, record.workspace, scopes, range, LOOK_MAX).await?;
        let wanted = matches(self, record.workspace, &found, &job.bulk).await?;
        let mut more = found.len() == LOOK_MAX;
        job.cursor = found.last().copied().unwrap_or(job.cursor);
        let mut created = 0;
        for key in wanted {
            if created >= most {
                // The next look begins with this one.
                job.cursor = key - 1;
                more = true;
                break;
            }
            match self.retry_in_bulk(record.workspace, key, now).await? {
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
        self.write_body(record.row, &job, now).await?;
        Ok(job.state == BulkRetryState::Running)
    }

    /// A living job that no other node goes on with until the transaction ends.
    async fn lock_bulk_retry(&self, row: i64) -> Result<Option<BulkRetryJob>, Fault> {
        let lock = "SELECT body FROM record WHERE row = $1 AND deleted_at IS NULL FOR UPDATE";
        let row = self.first(lock, &[&row]).await?;
        row.map(|row| Ok(parse(row.try_get(0)?)?)).transpose()
    }

    /// Sees to it that what a job creates has greater keys than the job, whichever node made that.
    fn make_keys_behind(&self, record: &RecordRow) {
        let key = record.raw.key();
        let mut state = self.node.state();
        if state.last_key < key.value() {
            state.keys.skip_to(key.at() + Duration::from_millis(1));
        }
    }

    /// What a job has not looked at. Nothing that came after the job itself is its business, least of all what it
    /// creates.
    fn bulk_rest(&self, record: &RecordRow, job: &BulkRetryJob) -> Range {
        let all = bulk_range(&job.bulk, self.node.state().key_lead_ms);
        Range {
            above: all.above.max(job.cursor),
            below: all.below.min(job.end).min(record.raw.key().value()),
            ..all
        }
    }

    async fn retry_in_bulk(&mut self, workspace: i64, key: i64, now: Timestamp) -> Result<Retried, Fault> {
        let Some(stored) = self.delivery_row(workspace, key).await? else { return Ok(Retried::NotFound) };
        if self.is_expired(&stored, now).await? {
            return Ok(Retried::NotFound);
        }
        self.retry_row(&stored, now).await
    }
}
