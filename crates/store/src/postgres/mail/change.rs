//! What becomes of emails that wait: they are cancelled, changed, or put off.

use restante_core::email::{EmailStatus, Standing};
use restante_core::id::{EmailId, WorkspaceId};
use restante_core::{Delivery, State, Timestamp, delivery, limits};
use rustc_hash::FxHashMap;

use super::Telling;
use crate::NewEvent;
use crate::email::told::About;
use crate::email::{Details, EmailChange, EmailChanged, EmailRow, Frozen, may_be_cancelled, with_id};
use crate::postgres::Fault;
use crate::postgres::codec::{Stored, tail_column};
use crate::postgres::read::event_expired;
use crate::postgres::tx::Tx;

impl Tx {
    /// See [`crate::Store::cancel_email`].
    pub(in crate::postgres) async fn cancel_email(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
        now: Timestamp,
    ) -> Result<EmailChanged, Fault> {
        let Some((email, deliveries)) = self.lock_email(workspace, id, now).await? else {
            return Ok(EmailChanged::NotFound);
        };
        if email.cancelled_at.is_some() {
            return Ok(EmailChanged::Done);
        }
        let standings = self.standings(&email, &deliveries).await?;
        if !may_be_cancelled(&standings) {
            return Ok(EmailChanged::Conflict(email.status(&standings, now)));
        }
        let cancelled =
            |stored: &Stored| Some((stored.clone(), delivery::cancel(&stored.row.life, now).ok()?));
        let waiting = deliveries.iter().filter(|it| it.row.life.state == State::Pending);
        let lives: Vec<(Stored, Delivery)> = waiting.filter_map(cancelled).collect();
        self.write_lives(&lives).await?;
        self.tell_deliveries(&lives).await?;
        let update = "UPDATE email SET cancelled_at = $3 WHERE workspace = $1 AND message = $2";
        self.execute(update, &[&email.workspace, &email.message, &now.millis()]).await?;
        let details = self.details(&email).await?;
        let event = About { email: id, workspace, details: &details }.tell_cancelled(now)?;
        self.tell_of(&email, event, now).await?;
        Ok(EmailChanged::Done)
    }

    /// See [`crate::Store::change_email`].
    pub(in crate::postgres) async fn change_email(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
        change: &EmailChange,
        now: Timestamp,
    ) -> Result<EmailChanged, Fault> {
        let Some((email, deliveries)) = self.lock_email(workspace, id, now).await? else {
            return Ok(EmailChanged::NotFound);
        };
        let status = email.status(&self.standings(&email, &deliveries).await?, now);
        if status != EmailStatus::Scheduled {
            return Ok(EmailChanged::Conflict(status));
        }
        if let Some(frozen) = &change.frozen {
            self.refreeze(&email, id, frozen).await?;
        }
        if let Some(at) = change.scheduled_at {
            self.reschedule(&email, &deliveries, at, now).await?;
            let details = self.details(&email).await?;
            let event = About { email: id, workspace, details: &details }.tell_scheduled(at, now)?;
            self.tell_of(&email, event, now).await?;
        }
        Ok(EmailChanged::Done)
    }

    async fn refreeze(&self, email: &EmailRow, id: EmailId, frozen: &Frozen) -> Result<(), Fault> {
        let Frozen { sender, mime, id_at, details } = frozen;
        let mime = with_id(mime, *id_at, id);
        let update =
            "UPDATE message SET remote = $3, headers = $4, body = $5 WHERE workspace = $1 AND key = $2";
        self.execute(update, &[&email.workspace, &email.message, sender, &details.write()?, &&mime[..]])
            .await?;
        let update = "UPDATE email SET sender = $3 WHERE workspace = $1 AND message = $2";
        self.execute(update, &[&email.workspace, &email.message, &details.from.email]).await?;
        Ok(())
    }

    /// Moves what waits to another time.
    async fn reschedule(
        &mut self,
        email: &EmailRow,
        deliveries: &[Stored],
        at: Timestamp,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let due_at = at.max(now);
        let update = "UPDATE email SET scheduled_at = $3 WHERE workspace = $1 AND message = $2";
        self.execute(update, &[&email.workspace, &email.message, &at.millis()]).await?;
        let waiting = deliveries.iter().filter(|it| it.row.life.state == State::Pending);
        let moved = |it: &Stored| (it.clone(), Delivery { due_at, ..it.row.life.clone() });
        let lives: Vec<(Stored, Delivery)> = waiting.map(moved).collect();
        self.write_lives(&lives).await?;
        self.tell_deliveries(&lives).await?;
        if let Some(key) = &email.key {
            let until = (due_at + limits::IDEMPOTENCY_KEPT_MIN).millis();
            let update = "UPDATE idempotency SET held_until = greatest(held_until, $3) WHERE workspace = $1 AND key = $2";
            self.execute(update, &[&email.workspace, key, &until]).await?;
        }
        Ok(())
    }

    /// An email of the workspace that has not expired, and its deliveries: nobody else changes either until the
    /// transaction ends. Locks are taken as by an erasure.
    async fn lock_email(
        &self,
        workspace: WorkspaceId,
        id: EmailId,
        now: Timestamp,
    ) -> Result<Option<(EmailRow, Vec<Stored>)>, Fault> {
        let (Some(owner), message) = (self.row_of(workspace), id.key().value()) else { return Ok(None) };
        let deliveries = self.hold_deliveries_of(owner, &[message]).await?;
        let statement = "SELECT email.scheduled_at, email.cancelled_at, email.key FROM email \
             JOIN message ON message.workspace = email.workspace AND message.key = email.message \
             WHERE email.workspace = $1 AND email.message = $2 AND message.key = $2 AND message.tail = $3";
        let row = self.first(statement, &[&owner, &message, &tail_column(id.tail())]).await?;
        let Some(row) = row else { return Ok(None) };
        if event_expired(self, owner, message, self.node.policy.events_cutoff(now)).await? {
            return Ok(None);
        }
        let (scheduled_at, cancelled_at, key) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok(Some((EmailRow { message, workspace: owner, scheduled_at, cancelled_at, key }, deliveries)))
    }

    async fn standings(&self, email: &EmailRow, deliveries: &[Stored]) -> Result<Vec<Standing>, Fault> {
        let keys: Vec<i64> = deliveries.iter().map(|it| it.row.key).collect();
        let statement =
            "SELECT delivery, suppressed FROM recipient WHERE workspace = $1 AND delivery = ANY($2)";
        let rows = self.query(statement, &[&email.workspace, &keys]).await?;
        let read = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let suppressed = rows.iter().map(read).collect::<Result<FxHashMap<i64, bool>, Fault>>()?;
        let standing = |it: &Stored| {
            let suppressed = suppressed.get(&it.row.key).copied();
            let suppressed =
                suppressed.ok_or_else(|| Fault::Damaged(format!("no recipient {}", it.row.key)))?;
            Ok(Standing { delivery: it.row.life.clone(), suppressed })
        };
        deliveries.iter().map(standing).collect()
    }

    async fn details(&self, email: &EmailRow) -> Result<Details, Fault> {
        let statement = "SELECT headers FROM message WHERE workspace = $1 AND key = $2";
        let row = self.one(statement, &[&email.workspace, &email.message]).await?;
        Ok(Details::read(row.try_get(0)?)?)
    }

    async fn tell_of(&mut self, email: &EmailRow, event: NewEvent, now: Timestamp) -> Result<(), Fault> {
        self.tell_all(vec![Telling { workspace: email.workspace, email: email.message, event, now }]).await
    }
}
