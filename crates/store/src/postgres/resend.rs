//! What is sent to a webhook again, and how it is asked for.

use restante_core::id::{DeliveryId, ReplayId, Tail, WebhookId, WorkspaceId};
use restante_core::{Timestamp, limits};

use super::Fault;
use super::codec::int;
use super::config::RecordRow;
use super::jobs::kind_name;
use super::read::{Skipped, failed_in, find_webhook};
use super::tx::Tx;
use crate::record::{Draft, Kind, ReplayJob, ReplayKind, ReplayState};
use crate::{Recovery, Resent, Window};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// So many days back it is known what was used of their quotas: the clock may be set back.
const QUOTA_DAYS_KEPT: i64 = 7;

impl Tx {
    /// See [`crate::Store::replay_webhook`].
    pub(super) async fn replay_webhook(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Fault> {
        let Some(record) = find_webhook(self, workspace, webhook).await? else { return Ok(Resent::NotFound) };
        if !self.take_quota(record.workspace, now).await? {
            return Ok(Resent::QuotaExceeded);
        }
        let paused = self.endpoint(record.row)?.settings.receiver.is_paused();
        let found = if paused {
            Vec::new()
        } else {
            let cutoff = self.node.policy.events_cutoff(now);
            failed_in(self, record.workspace, record.row, window, now, cutoff).await?
        };
        let job = ReplayJob {
            kind: ReplayKind::Replay,
            state: if paused { ReplayState::Ended } else { self.first_state(record.row).await? },
            total: found.len() as u64,
            ..ReplayJob::new(window)
        };
        self.start(&record, &job, &found, now, tail).await
    }

    /// See [`crate::Store::replay_delivery`].
    pub(super) async fn replay_delivery(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        delivery: DeliveryId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Fault> {
        let Some(record) = find_webhook(self, workspace, webhook).await? else { return Ok(Resent::NotFound) };
        let stored = self.visible_delivery(workspace, delivery, now).await?;
        let Some(stored) = stored.filter(|stored| stored.row.endpoint == record.row) else {
            return Ok(Resent::NotFound);
        };
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
        self.start(&record, &job, &[stored.row.key], now, tail).await
    }

    /// See [`crate::Store::recover`].
    pub(super) async fn recover(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        recovery: Recovery,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Resent, Fault> {
        let Some(record) = find_webhook(self, workspace, webhook).await? else { return Ok(Resent::NotFound) };
        let view = self.endpoint(record.row)?;
        if view.settings.receiver.is_paused() {
            return Ok(Resent::Paused);
        }
        let since = view.standing.paused_at.map_or(record.raw.created_at, Timestamp::from_millis);
        let asked = ReplayJob::of_recovery(recovery, since, now);
        let wanted = Skipped::of(&asked, self.node.policy.events_cutoff(now));
        let job = ReplayJob {
            state: self.first_state(record.row).await?,
            total: wanted.count(self, record.workspace, record.row).await?,
            // No key is the last that all nodes have made. While the recovery is open nothing else is skipped: a
            // pause would end it.
            end: i64::MAX,
            ..asked
        };
        self.start(&record, &job, &[], now, tail).await
    }

    /// Replays of one webhook run one after another.
    async fn first_state(&self, webhook: i64) -> Result<ReplayState, Fault> {
        self.take_turn(webhook).await?;
        let statement = "SELECT EXISTS (SELECT FROM open_job WHERE endpoint = $1 AND kind <> $2)";
        let single = kind_name(ReplayKind::Single);
        let busy: bool = self.one(statement, &[&webhook, &single]).await?.try_get(0)?;
        Ok(if busy { ReplayState::Queued } else { ReplayState::Running })
    }

    /// Records a job with its list; the next claim begins with it.
    async fn start(
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
        let (row, uuid) = self.insert_record(draft, Some(webhook.workspace), Some(webhook.row), now).await?;
        if !job.state.is_over() {
            let insert = "INSERT INTO open_job (record, endpoint, kind, running) VALUES ($1, $2, $3, 0)";
            self.execute(insert, &[&row, &webhook.row, &kind_name(job.kind)]).await?;
            self.insert_items(row, deliveries).await?;
            self.staged.replays.push((webhook.row, true));
        }
        Ok(Resent::Started { id: ReplayId::from_uuid(uuid), events: job.total })
    }

    async fn insert_items(&self, job: i64, deliveries: &[i64]) -> Result<(), Fault> {
        if deliveries.is_empty() {
            return Ok(());
        }
        let insert = "INSERT INTO replay_item (job, position, delivery) SELECT $1, item.number - 1, item.delivery \
             FROM unnest($2::bigint[]) WITH ORDINALITY AS item (delivery, number)";
        self.execute(insert, &[&job, &deliveries]).await?;
        Ok(())
    }

    /// Counts a replay against its workspace's UTC day; `false` when that is used up.
    async fn take_quota(&self, workspace: i64, now: Timestamp) -> Result<bool, Fault> {
        let day = now.millis().div_euclid(DAY_MS);
        let count = "INSERT INTO replay_quota (workspace, day, used) VALUES ($1, $2, 1) \
             ON CONFLICT (workspace, day) DO UPDATE SET used = replay_quota.used + 1 \
             WHERE replay_quota.used < $3 RETURNING used";
        if self.first(count, &[&workspace, &day, &int(limits::REPLAYS_PER_DAY_MAX)]).await?.is_none() {
            return Ok(false);
        }
        let forget = "DELETE FROM replay_quota WHERE workspace = $1 AND day < $2";
        self.execute(forget, &[&workspace, &(day - QUOTA_DAYS_KEPT)]).await?;
        Ok(true)
    }
}
