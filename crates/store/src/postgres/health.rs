//! How webhooks stand: failing runs, notices, and what pausing does.
//!
//! The run of failures is counted by whoever settles, under the row's lock. Pauses are configuration: nodes remember
//! them, and find them by their epoch.

use restante_core::delivery;
use restante_core::endpoint::Webhook;
use restante_core::health::{self, Health, Turn};
use restante_core::id::{Tail, WebhookId, WorkspaceId};
use restante_core::{State, Timestamp};

use super::Fault;
use super::codec::{SENDING, ending_code, int, small};
use super::config::{RecordRow, STANDING_COLUMNS, Standing, find_record, parse, read_standing};
use super::read::find_webhook;
use super::tx::{Access, EndpointView, Tx};
use crate::Updated;
use crate::record::{Draft, Kind, Notice};

impl Tx {
    /// Takes over what an attempt changed: the run, notices to the owners, a pause.
    ///
    /// # Errors
    /// `NeedsConfiguration` when it pauses the webhook: repeat the transaction with that access.
    pub(super) async fn turn_health(
        &mut self,
        endpoint: i64,
        turn: &Turn,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if turn.health == Health::default() && turn.notices.is_empty() && !turn.pause {
            return self.clear_health(endpoint).await;
        }
        if turn.pause && self.access == Access::Messages {
            return Err(Fault::NeedsConfiguration);
        }
        let view = self.endpoint(endpoint)?;
        let pausing = if turn.pause { self.to_pause(&view).await? } else { None };
        if turn.pause && pausing.is_none() {
            // Another settlement of this transaction did all that; failures of a paused webhook are not counted.
            return Ok(());
        }
        let standing = Standing { health: turn.health, ..Standing::default() };
        self.write_standing(endpoint, standing, false).await?;
        for notice in &turn.notices {
            self.give_notice(&view, *notice, now).await?;
        }
        match pausing {
            Some((record, webhook)) => self.pause(record, webhook, now).await,
            None => Ok(()),
        }
    }

    /// A webhook's record and settings, unless it is paused or gone already.
    async fn to_pause(&self, view: &EndpointView) -> Result<Option<(RecordRow, Webhook)>, Fault> {
        let record = find_record(self, Kind::Webhook, view.endpoint.id.uuid()).await?;
        let Some(record) = record.filter(|it| it.deleted_at.is_none()) else { return Ok(None) };
        let webhook: Webhook = parse(&record.raw.body)?;
        Ok((!webhook.paused).then_some((record, webhook)))
    }

    /// See [`crate::Store::clear_run`].
    pub(super) async fn clear_run(
        &mut self,
        workspace: WorkspaceId,
        webhook: WebhookId,
    ) -> Result<bool, Fault> {
        let Some(record) = find_webhook(self, workspace, webhook).await? else { return Ok(false) };
        self.clear_health(record.row).await?;
        Ok(true)
    }

    /// Ends a webhook's run of failures, if it has one.
    pub(super) async fn clear_health(&self, endpoint: i64) -> Result<(), Fault> {
        self.execute(
            "UPDATE health SET run_since = NULL, run_failures = 0, degraded = false \
             WHERE endpoint = $1 AND (run_since IS NOT NULL OR degraded)",
            &[&endpoint],
        )
        .await?;
        Ok(())
    }

    async fn give_notice(
        &mut self,
        view: &EndpointView,
        notice: health::Notice,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let body = Notice { kind: notice.into(), mailed_at: None };
        let draft = Draft {
            kind: Kind::Notice,
            workspace: Some(view.endpoint.workspace),
            parent: Some(view.endpoint.id.uuid()),
            name: None,
            lookup: None,
            body: serde_json::to_string(&body).map_err(|error| Fault::Damaged(error.to_string()))?,
            // Nobody gains from guessing it: it is looked up within a workspace only.
            tail: Tail::from_bits(now.millis().unsigned_abs()),
        };
        self.insert_record(draft, Some(view.workspace), Some(view.row), now).await?;
        Ok(())
    }

    /// Pauses a webhook because it kept failing. What follows is what follows when somebody does it by hand.
    async fn pause(&mut self, record: RecordRow, webhook: Webhook, now: Timestamp) -> Result<(), Fault> {
        let webhook = Webhook { paused: true, ..webhook };
        let mut raw = record.raw;
        raw.body = serde_json::to_string(&webhook).map_err(|error| Fault::Damaged(error.to_string()))?;
        match self.update(Kind::Webhook, &raw, now).await? {
            Updated::Done(_) | Updated::NotFound => Ok(()),
            Updated::NameTaken | Updated::Stale => Err(Fault::Damaged("a webhook cannot be paused".into())),
        }
    }

    /// Ends what a webhook that was just paused has pending: from now on it counts as ended, and is marked bit by
    /// bit. What is in flight ends with its attempt.
    pub(super) async fn cut_off(
        &mut self,
        endpoint: i64,
        workspace: i64,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let old = self.lock_standing(endpoint).await?;
        let new = Standing {
            paused_at: Some(now.millis()),
            cut: Some(old.pauses),
            pauses: old.pauses + 1,
            health: old.health,
        };
        self.write_standing(endpoint, new, true).await?;
        self.pause_in_flight(endpoint, workspace).await?;
        self.staged.unswept.push((endpoint, true));
        self.staged.replays_ready = true;
        self.end_jobs(endpoint, now).await
    }

    /// Marks what is in flight on any node: its attempt is its last. All in few statements, for meanwhile no node
    /// writes anything.
    async fn pause_in_flight(&self, endpoint: i64, workspace: i64) -> Result<(), Fault> {
        let statement = "SELECT key FROM work WHERE endpoint = $1 AND node IS NOT NULL \
             UNION SELECT key FROM delivery WHERE workspace = $2 AND endpoint = $1 AND state = $3 \
             AND key >= (SELECT coalesce(min(floor), 0) FROM node)";
        let rows = self.query(statement, &[&endpoint, &workspace, &small(SENDING)]).await?;
        let keys = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        let mut marked = Vec::new();
        for stored in self.lock_deliveries(workspace, &keys).await? {
            let life = delivery::pause(&stored.row.life);
            if stored.row.life.state == State::Sending && life != stored.row.life {
                marked.push((stored, life));
            }
        }
        if marked.is_empty() {
            return Ok(());
        }
        let keys: Vec<i64> = marked.iter().map(|(stored, _)| stored.row.key).collect();
        let endings: Vec<i16> = marked.iter().map(|(_, life)| small(ending_code(life.ending))).collect();
        self.execute(
            "UPDATE delivery SET ending = new.ending FROM unnest($2::bigint[], $3::smallint[]) AS new (key, ending) \
             WHERE delivery.workspace = $1 AND delivery.key = new.key",
            &[&workspace, &keys, &endings],
        )
        .await?;
        let mut state = self.node.state();
        for (stored, life) in marked {
            let held = state.leases.get_mut(&stored.row.key).filter(|_| stored.node == Some(self.me));
            if let Some(held) = held {
                // What memory knows of it is what the next settle finds.
                held.row.life = life;
            }
        }
        Ok(())
    }

    /// How a webhook stands, and nobody else changes it until the transaction ends.
    pub(super) async fn lock_standing(&self, endpoint: i64) -> Result<Standing, Fault> {
        let lock = format!("SELECT {STANDING_COLUMNS} FROM health WHERE endpoint = $1 FOR UPDATE");
        if let Some(row) = self.first(&lock, &[&endpoint]).await? {
            return read_standing(&row, 0);
        }
        // A row to lock, for a webhook that only succeeded so far.
        let insert = "INSERT INTO health (endpoint, run_failures, degraded, pauses, epoch) \
             VALUES ($1, 0, false, 0, 0) ON CONFLICT DO NOTHING";
        self.execute(insert, &[&endpoint]).await?;
        read_standing(&self.one(&lock, &[&endpoint]).await?, 0)
    }

    /// Writes the run of failures; with `config` also what the last pause did, which nodes then take over.
    pub(super) async fn write_standing(
        &self,
        endpoint: i64,
        standing: Standing,
        config: bool,
    ) -> Result<(), Fault> {
        let run = standing.health.run;
        let since = run.map(|run| run.since.millis());
        let failures = run.map_or(0, |run| int(run.failures));
        let degraded = standing.health.degraded;
        if config {
            debug_assert_eq!(self.access, Access::Configuration);
            self.execute(
                "INSERT INTO health (endpoint, run_since, run_failures, degraded, paused_at, cut, pauses, epoch) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (endpoint) DO UPDATE SET run_since = $2, \
                 run_failures = $3, degraded = $4, paused_at = $5, cut = $6, pauses = $7, epoch = $8",
                &[
                    &endpoint,
                    &since,
                    &failures,
                    &degraded,
                    &standing.paused_at,
                    &standing.cut,
                    &standing.pauses,
                    &self.epoch,
                ],
            )
            .await?;
        } else {
            self.execute(
                "INSERT INTO health (endpoint, run_since, run_failures, degraded, pauses, epoch) \
                 VALUES ($1, $2, $3, $4, 0, 0) \
                 ON CONFLICT (endpoint) DO UPDATE SET run_since = $2, run_failures = $3, degraded = $4",
                &[&endpoint, &since, &failures, &degraded],
            )
            .await?;
        }
        Ok(())
    }
}
