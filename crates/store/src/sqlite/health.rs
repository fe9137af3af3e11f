//! How webhooks stand: failing runs, notices, and what pausing does.

use restante_core::Timestamp;
use restante_core::delivery;
use restante_core::endpoint::Receiver;
use restante_core::health::{self, Health, Turn};
use restante_core::id::{Tail, WebhookId, WorkspaceId};
use rusqlite::{Connection, params};

use super::Fault;
use super::config::{Standing, find_record, standing};
use super::engine::Engine;
use super::resend::find_webhook;
use crate::Updated;
use crate::record::{Draft, Kind, Notice};

impl Engine {
    /// Takes over what an attempt changed: the run, notices to the owners, a pause.
    pub(super) fn turn_health(&mut self, endpoint: i64, turn: &Turn, now: Timestamp) -> Result<(), Fault> {
        let standing = self.endpoint(endpoint)?.standing;
        self.write_standing(endpoint, Standing { health: turn.health, ..standing })?;
        for notice in &turn.notices {
            self.give_notice(endpoint, *notice, now)?;
        }
        if turn.pause { self.pause(endpoint, now) } else { Ok(()) }
    }

    /// See [`crate::Store::clear_run`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn clear_run(&mut self, workspace: WorkspaceId, webhook: WebhookId) -> Result<bool, Fault> {
        let Some(record) = find_webhook(&self.conn, workspace, webhook)? else { return Ok(false) };
        self.clear_health(record.row)?;
        Ok(true)
    }

    pub(super) fn clear_health(&mut self, endpoint: i64) -> Result<(), Fault> {
        let standing = self.endpoint(endpoint)?.standing;
        if standing.health == Health::default() {
            return Ok(());
        }
        self.write_standing(endpoint, Standing { health: Health::default(), ..standing })
    }

    fn give_notice(&mut self, endpoint: i64, notice: health::Notice, now: Timestamp) -> Result<(), Fault> {
        let entry = self.endpoint(endpoint)?;
        let (workspace, parent, uuid) = (entry.endpoint.workspace, entry.parent, entry.endpoint.id.uuid());
        let body = Notice { kind: notice.into(), mailed_at: None };
        let draft = Draft {
            kind: Kind::Notice,
            workspace: Some(workspace),
            parent: Some(uuid),
            name: None,
            lookup: None,
            body: serde_json::to_string(&body).map_err(|error| Fault::Damaged(error.to_string()))?,
            // Nobody gains from guessing it: it is looked up within a workspace only.
            tail: Tail::from_bits(now.millis().unsigned_abs()),
        };
        self.insert_record(&draft, Some(parent), Some(endpoint), now)?;
        Ok(())
    }

    /// Pauses a webhook because it kept failing. What follows is what follows when somebody does it by hand.
    fn pause(&mut self, endpoint: i64, now: Timestamp) -> Result<(), Fault> {
        let entry = self.endpoint(endpoint)?;
        let uuid = entry.endpoint.id.uuid();
        let Receiver::Webhook(mut webhook) = entry.settings.receiver.clone() else { return Ok(()) };
        webhook.paused = true;
        let Some(record) = find_record(&self.conn, Kind::Webhook, uuid)? else { return Ok(()) };
        let mut raw = record.raw;
        raw.body = serde_json::to_string(&webhook).map_err(|error| Fault::Damaged(error.to_string()))?;
        match self.update(Kind::Webhook, &raw, now)? {
            Updated::Done(_) | Updated::NotFound => Ok(()),
            Updated::NameTaken | Updated::Stale => Err(Fault::Damaged("a webhook cannot be paused".into())),
        }
    }

    /// Ends what a webhook that was just paused has pending: from now on it counts as ended, and is marked bit by
    /// bit. What is in flight ends with its attempt.
    pub(super) fn cut_off(&mut self, endpoint: i64, now: Timestamp) -> Result<(), Fault> {
        let standing = self.endpoint(endpoint)?.standing;
        let cut = Standing { paused_at: Some(now.millis()), cut: Some(self.last_key), ..standing };
        self.write_standing(endpoint, cut)?;
        let in_flight: Vec<_> =
            self.leases.values().filter(|row| row.endpoint == endpoint).cloned().collect();
        for row in in_flight {
            let life = delivery::pause(&row.life);
            self.write_delivery(&row, &life)?;
        }
        self.unswept.insert(endpoint);
        self.jobs.ready = true;
        self.end_jobs(endpoint, now)
    }

    /// All that the last pause ended is marked.
    pub(super) fn mend_cut(&mut self, endpoint: i64) -> Result<(), Fault> {
        let standing = self.endpoint(endpoint)?.standing;
        self.write_standing(endpoint, Standing { cut: None, ..standing })
    }

    pub(super) fn write_standing(&mut self, endpoint: i64, standing: Standing) -> Result<(), Fault> {
        let Some(entry) = self.config.endpoints.get_mut(&endpoint) else { return Ok(()) };
        if entry.standing == standing {
            return Ok(());
        }
        entry.standing = standing;
        let run = standing.health.run;
        self.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO health (endpoint, run_since, run_failures, degraded, paused_at, cut) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                endpoint,
                run.map(|run| run.since.millis()),
                run.map_or(0, |run| run.failures),
                standing.health.degraded,
                standing.paused_at,
                standing.cut,
            ])?;
        Ok(())
    }
}

/// How webhooks stand, in their order.
pub(super) fn healths(conn: &Connection, webhooks: &[WebhookId]) -> Result<Vec<Health>, Fault> {
    webhooks
        .iter()
        .map(|id| match find_record(conn, Kind::Webhook, id.uuid())? {
            Some(record) => Ok(standing(conn, record.row)?.health),
            None => Ok(Health::default()),
        })
        .collect()
}
