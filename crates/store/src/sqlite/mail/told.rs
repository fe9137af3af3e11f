//! What becomes known about an email when one of its attempts ends.

use restante_core::id::{EmailId, Key, RecipientId, Tail};
use restante_core::{Attempt, Delivery, Timestamp, email};
use rusqlite::{OptionalExtension, params};

use crate::NewEvent;
use crate::email::suppression_draft;
use crate::email::told::{About, Happened, Rejection, To, hard_bounce, of_attempt};
use crate::sqlite::Fault;
use crate::sqlite::claim::message_tail;
use crate::sqlite::codec::{DeliveryRow, role};
use crate::sqlite::engine::Engine;

/// A recipient's own row.
pub(in crate::sqlite) struct RecipientRow {
    pub(in crate::sqlite) role: email::Role,
    pub(in crate::sqlite) email: String,
}

impl Engine {
    /// Stores what is told about an email as events of the workspace.
    pub(super) fn tell_all(
        &mut self,
        workspace: i64,
        email: i64,
        told: Vec<NewEvent>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        for event in told {
            let receipt = self.store_event(workspace, event, now)?;
            self.conn
                .prepare_cached("INSERT INTO email_event (email, event) VALUES (?1, ?2)")?
                .execute(params![email, receipt.id.key().value()])?;
        }
        Ok(())
    }

    pub(in crate::sqlite) fn recipient(&self, delivery: i64) -> Result<Option<RecipientRow>, Fault> {
        let found = self
            .conn
            .prepare_cached("SELECT role, email FROM recipient WHERE delivery = ?1")?
            .query_row([delivery], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
            .optional()?;
        let read = |(code, email)| Ok(RecipientRow { role: role(code)?, email });
        found.map(read).transpose()
    }

    /// Tells what an attempt of a delivery to a mailbox came to, and puts a mailbox that does not exist on the list of
    /// suppressions.
    pub(in crate::sqlite) fn tell_attempt(
        &mut self,
        row: &DeliveryRow,
        attempt: &Attempt,
        life: &Delivery,
    ) -> Result<(), Fault> {
        let happened = of_attempt(attempt, life);
        self.tell_recipient(row, &happened)?;
        if let Some(failure) = hard_bounce(&attempt.outcome) {
            self.suppress(row, &failure.message, attempt.ended_at)?;
        }
        Ok(())
    }

    /// Ends a delivery to a mailbox that is on the list of suppressions by now.
    pub(in crate::sqlite) fn reject_suppressed(
        &mut self,
        row: &DeliveryRow,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let Some(to) = self.recipient(row.key)? else { return Ok(false) };
        let workspace = self.endpoint(row.endpoint)?.parent;
        if !self.is_suppressed(workspace, &to.email)? {
            return Ok(false);
        }
        self.conn
            .prepare_cached("UPDATE recipient SET suppressed = 1 WHERE delivery = ?1")?
            .execute([row.key])?;
        self.write_delivery(row, &restante_core::delivery::refuse(&row.life, now))?;
        self.tell_recipient(row, &[(Happened::Rejected(Rejection::Suppressed), now)])?;
        self.tell_delivery(row)?;
        Ok(true)
    }

    fn tell_recipient(
        &mut self,
        row: &DeliveryRow,
        happened: &[(Happened<'_>, Timestamp)],
    ) -> Result<(), Fault> {
        if happened.is_empty() {
            return Ok(());
        }
        let Some(to) = self.recipient(row.key)? else { return Ok(()) };
        let tail = message_tail(&self.conn, row.message)?.unwrap_or(Tail::from_bits(0));
        let details = self.details(row.message)?;
        let entry = self.endpoint(row.endpoint)?;
        let (workspace, owner) = (entry.parent, entry.endpoint.workspace);
        let about = About {
            email: EmailId::new(Key::from_value(row.message), tail),
            workspace: owner,
            details: &details,
        };
        let to = To { id: RecipientId::new(Key::from_value(row.key), tail), role: to.role, email: &to.email };
        let mut told = Vec::with_capacity(happened.len());
        for (what, at) in happened {
            told.push(about.tell(&to, what, *at)?);
        }
        let now = happened.last().map_or(Timestamp::default(), |(_, at)| *at);
        self.tell_all(workspace, row.message, told, now)
    }

    fn suppress(&mut self, row: &DeliveryRow, detail: &str, now: Timestamp) -> Result<(), Fault> {
        let Some(to) = self.recipient(row.key)? else { return Ok(()) };
        let entry = self.endpoint(row.endpoint)?;
        let (workspace, owner) = (entry.parent, entry.endpoint.workspace);
        if self.is_suppressed(workspace, &to.email)? {
            return Ok(());
        }
        let draft = suppression_draft(owner, &to.email, detail, row.key)?;
        self.insert_record(&draft, Some(workspace), None, now)?;
        Ok(())
    }
}
