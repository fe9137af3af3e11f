//! Emails: what sends them, changes them, and tells about them, each in one transaction.

mod told;

use std::sync::Arc;

use restante_core::delivery;
use restante_core::email::{Address, EmailStatus, Role, Standing};
use restante_core::id::{EmailId, Id, Key, WorkspaceId};
use restante_core::message::{Content, Mail, MessageId};
use restante_core::{State, Timestamp, limits};
use rusqlite::{OptionalExtension, params};

use super::Fault;
use super::accept::{Birth, NewDelivery, Times, tail_column};
use super::codec::{EMAIL, LIVE_MODE, TEST_MODE, mail_feed, role_code};
use super::engine::Engine;
use crate::email::told::About;
use crate::email::{
    Details, EmailChange, EmailChanged, EmailRow, Frozen, NewEmail, Sending, Sent, kept_key, mailboxes_draft,
    may_be_cancelled, suppression_key, with_id,
};
use crate::receipts::write_items;
use crate::record::{Kind, Mode};
use crate::tally::Counted;
use crate::{Change, Changed, Created, KeyClaim, Lease};

impl Engine {
    /// See [`crate::Store::send`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn send(&mut self, sending: Sending) -> Result<Sent, Fault> {
        let Some(workspace) = self.config.workspace_rows.get(&sending.workspace).copied() else {
            return Ok(Sent::NoWorkspace);
        };
        if let Some(claim) = &sending.claim
            && let Some(known) = self.known_send(workspace, sending.mode, claim)?
        {
            return Ok(known);
        }
        let key = sending.claim.as_ref().map(|claim| kept_key(sending.mode, claim));
        let now = sending.now;
        let until = sending.key_held_until(&self.policy);
        let mut items = Vec::with_capacity(sending.items.len());
        for item in sending.items {
            items.push(match item {
                Ok(email) => Ok(self.store_email(workspace, sending.mode, email, key.as_deref(), now)?),
                Err(told) => Err(told),
            });
        }
        if let (Some(claim), Some(key)) = (&sending.claim, &key) {
            self.hold(workspace, key, claim, &write_items(&items), until)?;
        }
        Ok(Sent::Fresh(items))
    }

    /// What an earlier call with this key was answered, if there was one.
    fn known_send(&self, workspace: i64, mode: Mode, claim: &KeyClaim) -> Result<Option<Sent>, Fault> {
        let held = super::publish::held(&self.conn, workspace, &kept_key(mode, claim), claim)?;
        Ok(held.map(|(same, answer)| Sent::known(same, &answer, claim)).transpose()?)
    }

    fn store_email(
        &mut self,
        workspace: i64,
        mode: Mode,
        new: NewEmail,
        key: Option<&str>,
        now: Timestamp,
    ) -> Result<EmailId, Fault> {
        let fanout = u32::try_from(new.recipients.len()).unwrap_or(u32::MAX);
        let mut endpoints = Vec::with_capacity(new.recipients.len());
        for (_, address) in &new.recipients {
            endpoints.push(self.mailboxes_of(workspace, address.domain(), now)?);
        }
        let first = self.take_keys(now, 1 + fanout)?;
        let id = EmailId::new(first, new.tail);
        let scheduled_at = new.scheduled_at.filter(|at| *at > now);
        let test = mode == Mode::Test;
        let Frozen { sender, mime, id_at, details } = new.frozen;
        let mail = Mail { sender, test, mime: with_id(&mime, id_at, id) };
        self.insert_email(workspace, id, fanout, &mail, &details, now)?;
        self.conn
            .prepare_cached(
                "INSERT INTO email (message, workspace, test, sender, scheduled_at, key) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                first.value(),
                workspace,
                test,
                details.from.email,
                scheduled_at.map(Timestamp::millis),
                key
            ])?;
        self.staged.counted.push(Counted::Accepted { workspace, source: None, at: now });
        let owner = self.config.workspaces.get(&workspace).map(|entry| entry.id);
        let about =
            About { email: id, workspace: owner.unwrap_or(WorkspaceId::from_uuid(0)), details: &details };
        let content = Arc::new(self.agenda.content_bytes.hold(Content::Email(mail)));
        let mut suppressed = Vec::with_capacity(new.recipients.len());
        for (index, ((role, address), endpoint)) in (1..).zip(new.recipients.iter().zip(endpoints)) {
            let key = first.plus(index);
            let refused = self.is_suppressed(workspace, &address.email)?;
            suppressed.push(refused);
            self.insert_recipient(key, *role, address, refused)?;
            let birth = if refused {
                Birth::Refused
            } else if scheduled_at.is_none() && self.may_be_born_leased(endpoint, now) {
                Birth::Leased
            } else {
                Birth::Due
            };
            let due_at = scheduled_at.unwrap_or(now);
            let new = NewDelivery { key, message: first, endpoint, now, due_at, birth, retry_of: None };
            self.insert_delivery(&new)?;
            if birth == Birth::Leased {
                let lease = Lease { delivery: Id::new(key, id.tail()), attempt: 1 };
                let times = Times::all(now);
                self.hand_over(endpoint, lease, MessageId::Email(id), &content, Some(&address.email), times);
            }
        }
        let told = about.tell_accepted(&new.recipients, &suppressed, scheduled_at, now)?;
        self.tell_all(workspace, first.value(), told, now)?;
        Ok(id)
    }

    fn insert_email(
        &mut self,
        workspace: i64,
        id: EmailId,
        fanout: u32,
        mail: &Mail,
        details: &Details,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let feed = mail_feed(workspace);
        self.conn
            .prepare_cached(
                "INSERT INTO message (key, tail, feed, fanout, received_at, method, path, remote, headers, body, kind) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                id.key().value(),
                tail_column(id.tail()),
                feed,
                fanout,
                now.millis(),
                if mail.test { TEST_MODE } else { LIVE_MODE },
                mail.sender,
                details.write()?,
                &mail.mime[..],
                EMAIL,
            ])?;
        self.history.add(feed, id.key().value());
        if let Some(entry) = self.config.workspaces.get(&workspace).filter(|_| self.watched) {
            self.staged.changes.push(Change { workspace: entry.id, what: Changed::Email(id) });
        }
        Ok(())
    }

    fn insert_recipient(
        &self,
        key: Key,
        role: Role,
        address: &Address,
        suppressed: bool,
    ) -> Result<(), Fault> {
        self.conn
            .prepare_cached(
                "INSERT INTO recipient (delivery, role, email, name, suppressed) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![key.value(), role_code(role), address.email, address.name, suppressed])?;
        Ok(())
    }

    /// The endpoint of a domain's mailboxes, made if there is none yet.
    fn mailboxes_of(&mut self, workspace: i64, domain: &str, now: Timestamp) -> Result<i64, Fault> {
        let entry = self.config.workspaces.get(&workspace);
        if let Some(row) = entry.and_then(|entry| entry.mailboxes.get(domain)) {
            return Ok(*row);
        }
        let owner = entry.map_or(WorkspaceId::from_uuid(0), |entry| entry.id);
        let draft = mailboxes_draft(owner, domain, now)?;
        match self.create(&draft, now)? {
            Created::Done(_) => {}
            refused @ (Created::NameTaken | Created::ParentGone | Created::TooMany) => {
                return Err(Fault::Damaged(format!("mailboxes of {domain}: {refused:?}")));
            }
        }
        let made = self.config.workspaces.get(&workspace).and_then(|entry| entry.mailboxes.get(domain));
        made.copied().ok_or_else(|| Fault::Damaged(format!("mailboxes of {domain} are not there")))
    }

    /// Whether a mailbox gets nothing.
    pub(super) fn is_suppressed(&self, workspace: i64, address: &str) -> Result<bool, Fault> {
        let sql =
            "SELECT 1 FROM record WHERE kind = ?1 AND workspace = ?2 AND name = ?3 AND deleted_at IS NULL";
        let name = suppression_key(address);
        Ok(self.conn.prepare_cached(sql)?.exists(params![Kind::Suppression as i64, workspace, name])?)
    }

    /// See [`crate::Store::cancel_email`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn cancel_email(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
        now: Timestamp,
    ) -> Result<EmailChanged, Fault> {
        let Some(email) = self.email_row(workspace, id, now)? else { return Ok(EmailChanged::NotFound) };
        if email.cancelled_at.is_some() {
            return Ok(EmailChanged::Done);
        }
        let deliveries = self.email_deliveries(email.message)?;
        let standings = self.standings(&deliveries)?;
        if !may_be_cancelled(&standings) {
            return Ok(EmailChanged::Conflict(email.status(&standings, now)));
        }
        for row in deliveries.iter().filter(|row| row.life.state == State::Pending) {
            let Ok(cancelled) = delivery::cancel(&row.life, now) else { continue };
            self.write_delivery(row, &cancelled)?;
            self.tell_delivery(row)?;
        }
        self.conn
            .prepare_cached("UPDATE email SET cancelled_at = ?2 WHERE message = ?1")?
            .execute(params![email.message, now.millis()])?;
        let details = self.details(email.message)?;
        let event = About { email: id, workspace, details: &details }.tell_cancelled(now)?;
        self.tell_all(email.workspace, email.message, vec![event], now)?;
        Ok(EmailChanged::Done)
    }

    /// See [`crate::Store::change_email`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn change_email(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
        change: EmailChange,
        now: Timestamp,
    ) -> Result<EmailChanged, Fault> {
        let Some(email) = self.email_row(workspace, id, now)? else { return Ok(EmailChanged::NotFound) };
        let deliveries = self.email_deliveries(email.message)?;
        let status = email.status(&self.standings(&deliveries)?, now);
        if status != EmailStatus::Scheduled {
            return Ok(EmailChanged::Conflict(status));
        }
        if let Some(Frozen { sender, mime, id_at, details }) = change.frozen {
            let mime = with_id(&mime, id_at, id);
            self.conn
                .prepare_cached("UPDATE message SET remote = ?2, headers = ?3, body = ?4 WHERE key = ?1")?
                .execute(params![email.message, sender, details.write()?, &mime[..]])?;
            self.conn
                .prepare_cached("UPDATE email SET sender = ?2 WHERE message = ?1")?
                .execute(params![email.message, details.from.email])?;
        }
        if let Some(at) = change.scheduled_at {
            self.reschedule(&email, &deliveries, at, now)?;
            let details = self.details(email.message)?;
            let event = About { email: id, workspace, details: &details }.tell_scheduled(at, now)?;
            self.tell_all(email.workspace, email.message, vec![event], now)?;
        }
        Ok(EmailChanged::Done)
    }

    /// Moves what waits to another time.
    fn reschedule(
        &mut self,
        email: &EmailRow,
        deliveries: &[super::codec::DeliveryRow],
        at: Timestamp,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let due_at = at.max(now);
        self.conn
            .prepare_cached("UPDATE email SET scheduled_at = ?2 WHERE message = ?1")?
            .execute(params![email.message, at.millis()])?;
        for row in deliveries.iter().filter(|row| row.life.state == State::Pending) {
            let moved = restante_core::Delivery { due_at, ..row.life.clone() };
            self.write_delivery(row, &moved)?;
            self.look_up_due(row.endpoint)?;
            self.tell_delivery(row)?;
        }
        if let Some(key) = &email.key {
            let until = due_at + limits::IDEMPOTENCY_KEPT_MIN;
            self.conn
                .prepare_cached(
                    "UPDATE idempotency SET held_until = max(held_until, ?3) WHERE workspace = ?1 AND key = ?2",
                )?
                .execute(params![email.workspace, key, until.millis()])?;
        }
        Ok(())
    }

    /// See [`crate::Store::data_sent`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn data_sent(&mut self, lease: Lease) -> Result<bool, Fault> {
        if self.leased_row(lease).is_none() {
            return Ok(false);
        }
        self.conn
            .prepare_cached("UPDATE delivery SET data_sent = ?2 WHERE key = ?1")?
            .execute(params![lease.delivery.key().value(), lease.attempt])?;
        Ok(true)
    }

    /// Whether the running attempt of a delivery had sent the whole message.
    pub(super) fn had_sent_data(&self, row: &super::codec::DeliveryRow) -> Result<bool, Fault> {
        let sent: Option<Option<u32>> = self
            .conn
            .prepare_cached("SELECT data_sent FROM delivery WHERE key = ?1")?
            .query_row([row.key], |row| row.get(0))
            .optional()?;
        Ok(sent.flatten() == Some(row.life.attempts_made))
    }

    /// The row of an email of the workspace that has not expired.
    fn email_row(
        &self,
        workspace: WorkspaceId,
        id: EmailId,
        now: Timestamp,
    ) -> Result<Option<EmailRow>, Fault> {
        let Some(owner) = self.config.workspace_rows.get(&workspace).copied() else { return Ok(None) };
        let mut statement = self.conn.prepare_cached(
            "SELECT message, email.workspace, scheduled_at, cancelled_at, email.key FROM email \
             JOIN message ON message.key = email.message \
             WHERE message = ?1 AND email.workspace = ?2 AND message.tail = ?3",
        )?;
        let found = statement
            .query_row(params![id.key().value(), owner, tail_column(id.tail())], |row| {
                Ok(EmailRow {
                    message: row.get(0)?,
                    workspace: row.get(1)?,
                    scheduled_at: row.get(2)?,
                    cancelled_at: row.get(3)?,
                    key: row.get(4)?,
                })
            })
            .optional()?;
        let Some(found) = found else { return Ok(None) };
        let expired = super::read::event_expired(&self.conn, found.message, self.policy.events_cutoff(now))?;
        Ok(Some(found).filter(|_| !expired))
    }

    fn email_deliveries(&self, message: i64) -> Result<Vec<super::codec::DeliveryRow>, Fault> {
        let fanout: i64 = self
            .conn
            .prepare_cached("SELECT fanout FROM message WHERE key = ?1")?
            .query_row([message], |row| row.get(0))?;
        let mut rows = Vec::new();
        for key in message + 1..=message + fanout {
            rows.extend(self.delivery_row(key)?);
        }
        Ok(rows)
    }

    fn standings(&self, deliveries: &[super::codec::DeliveryRow]) -> Result<Vec<Standing>, Fault> {
        let mut standings = Vec::with_capacity(deliveries.len());
        for row in deliveries {
            let suppressed: bool = self
                .conn
                .prepare_cached("SELECT suppressed FROM recipient WHERE delivery = ?1")?
                .query_row([row.key], |row| row.get(0))?;
            standings.push(Standing { delivery: row.life.clone(), suppressed });
        }
        Ok(standings)
    }

    /// What is shown of an email.
    pub(super) fn details(&self, message: i64) -> Result<Details, Fault> {
        let json: Vec<u8> = self
            .conn
            .prepare_cached("SELECT headers FROM message WHERE key = ?1")?
            .query_row([message], |row| row.get(0))?;
        Ok(Details::read(&json)?)
    }
}
