//! Reads of emails.

use restante_core::Timestamp;
use restante_core::email::Standing;
use restante_core::id::{EmailId, Key, RecipientId, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, params};

use super::lists::{Among, Walk};
use super::{MessageView, Reader, delivery_row};
use crate::email::{Details, Mailbox, Sent, kept_key};
use crate::record::{Kind, Mode};
use crate::row::{self, EmailFilter};
use crate::sqlite::codec::{EMAIL, EVENT, mail_feed, role};
use crate::sqlite::config::find_record;
use crate::sqlite::replay::delivery_keys;
use crate::sqlite::scan::Table;
use crate::sqlite::{Fault, publish};
use crate::{KeyClaim, Page, Paged};

impl Reader<'_> {
    pub(in crate::sqlite) fn known_send(
        &self,
        workspace: WorkspaceId,
        mode: Mode,
        claim: &KeyClaim,
    ) -> Result<Option<Sent>, Fault> {
        let Some(owner) = find_record(self.conn, Kind::Workspace, workspace.uuid())? else { return Ok(None) };
        let held = publish::held(self.conn, owner.row, &kept_key(mode, claim), claim)?;
        Ok(held.map(|(same, answer)| Sent::known(same, &answer, claim)).transpose()?)
    }

    pub(in crate::sqlite) fn email(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
    ) -> Result<Option<row::Email>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(view) = self.visible_of(workspace, id.key().value(), EMAIL)? else { return Ok(None) };
        if view.tail != id.tail() {
            return Ok(None);
        }
        self.email_row(&view).map(Some)
    }

    pub(in crate::sqlite) fn email_mime(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(view) = self.visible_of(workspace, id.key().value(), EMAIL)? else { return Ok(None) };
        let mime = self
            .conn
            .prepare_cached("SELECT body FROM message WHERE key = ?1")?
            .query_row([view.key], |row| row.get(0))
            .optional()?;
        Ok(mime.filter(|_| view.tail == id.tail()))
    }

    pub(in crate::sqlite) fn emails(
        &mut self,
        workspace: WorkspaceId,
        filter: &EmailFilter,
        page: Page,
    ) -> Result<Paged<row::Email>, Fault> {
        let owner = find_record(self.conn, Kind::Workspace, workspace.uuid())?;
        let among = owner.map_or(Among::Keys(Vec::new()), |owner| Among::Scopes(vec![mail_feed(owner.row)]));
        let walk = Walk::new(self.conn, Table::Message, among, None, None)?;
        let now = self.now;
        self.walk(
            &walk,
            page,
            |_, keys| Ok(keys),
            |reader, key| {
                let Some(view) = reader.visible_of(workspace, key, EMAIL)? else { return Ok(None) };
                if !reader.is_wanted(&view, filter)? {
                    return Ok(None);
                }
                let email = reader.email_row(&view)?;
                Ok(Some(email).filter(|it| filter.is_met_by(it, now)))
            },
        )
    }

    /// What of a filter an email's own row tells.
    fn is_wanted(&self, view: &MessageView, filter: &EmailFilter) -> Result<bool, Fault> {
        let mut statement =
            self.conn.prepare_cached("SELECT test, sender, scheduled_at FROM email WHERE message = ?1")?;
        let found: Option<(bool, String, Option<i64>)> =
            statement.query_row([view.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let Some((test, sender, scheduled_at)) = found else { return Ok(false) };
        Ok(filter.is_met(test, &sender, scheduled_at.map(Timestamp::from_millis)))
    }

    /// What was told about an email, oldest first.
    pub(in crate::sqlite) fn email_events(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
    ) -> Result<Option<Vec<row::Event>>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(view) = self.visible_of(workspace, id.key().value(), EMAIL)? else { return Ok(None) };
        if view.tail != id.tail() {
            return Ok(None);
        }
        let keys: Vec<i64> = {
            let mut statement =
                self.conn.prepare_cached("SELECT event FROM email_event WHERE email = ?1 ORDER BY event")?;
            let rows = statement.query_map([view.key], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut events = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(view) = self.visible_of(workspace, key, EVENT)? {
                events.push(self.event_row(&view)?);
            }
        }
        Ok(Some(events))
    }

    fn email_row(&mut self, view: &MessageView) -> Result<row::Email, Fault> {
        let (details, test, scheduled_at, cancelled_at): (Vec<u8>, bool, Option<i64>, Option<i64>) = self
            .conn
            .prepare_cached(
                "SELECT headers, test, scheduled_at, cancelled_at FROM message JOIN email ON email.message = message.key \
                 WHERE message.key = ?1",
            )?
            .query_row([view.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let mut email = row::Email {
            id: EmailId::new(Key::from_value(view.key), view.tail),
            test,
            details: Details::read(&details)?,
            scheduled_at: scheduled_at.map(Timestamp::from_millis),
            cancelled_at: cancelled_at.map(Timestamp::from_millis),
            created_at: Timestamp::from_millis(view.received_at),
            recipients: Vec::new(),
        };
        for key in delivery_keys(self.conn, view.key, view.fanout)? {
            email.recipients.extend(self.recipient_row(key, view)?);
        }
        Ok(email)
    }

    fn recipient_row(&self, key: i64, view: &MessageView) -> Result<Option<row::Recipient>, Fault> {
        let Some(delivery) = delivery_row(self.conn, key)? else { return Ok(None) };
        let mut statement = self
            .conn
            .prepare_cached("SELECT role, email, name, suppressed FROM recipient WHERE delivery = ?1")?;
        let found: Option<(i64, String, Option<String>, bool)> = statement
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()?;
        let Some((code, email, name, suppressed)) = found else { return Ok(None) };
        let error = self
            .conn
            .prepare_cached(
                "SELECT message FROM attempt WHERE delivery = ?1 AND message IS NOT NULL ORDER BY number DESC LIMIT 1",
            )?
            .query_row(params![key], |row| row.get(0))
            .optional()?;
        Ok(Some(row::Recipient {
            id: RecipientId::new(Key::from_value(key), view.tail),
            role: role(code)?,
            mailbox: Mailbox { email, name },
            standing: Standing { delivery: delivery.life, suppressed },
            error,
        }))
    }
}

/// The address that a delivery of an email goes to.
pub(super) fn mailbox(conn: &Connection, delivery: i64) -> Result<Option<String>, Fault> {
    let mut statement = conn.prepare_cached("SELECT email FROM recipient WHERE delivery = ?1")?;
    Ok(statement.query_row([delivery], |row| row.get(0)).optional()?)
}
