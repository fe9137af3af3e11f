//! Claiming what is due, giving claims back, and taking over after a crash.

use std::sync::Arc;

use bytes::Bytes;
use restante_core::delivery::{self, Attempt, CancelReason, Claim, Over, Terms};
use restante_core::endpoint::Receiver;
use restante_core::event::EventType;
use restante_core::id::{DeliveryId, Id, Key, Tail};
use restante_core::message::{Content, Headers, Mail, MessageId, Published, Received};
use restante_core::retry::Jitter;
use restante_core::{Delivery, Outcome, State, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::Fault;
use super::accept::Times;
use super::agenda::Room;
use super::codec::{DELIVERY_COLUMNS, DeliveryRow, EMAIL, EVENT, REQUEST, TEST_MODE, read_delivery};
use super::engine::Engine;
use crate::{Changed, Claimed, Finished, Lease};

/// Most deliveries of one endpoint in one claim.
const CLAIM_PER_ENDPOINT: u32 = 64;

impl Engine {
    /// See [`crate::Store::claim`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn claim(&mut self, now: Timestamp, most: usize) -> Result<Claimed, Fault> {
        self.agenda.begin_claim(&mut self.config, now);
        let mut count = 0;
        let mut looks = 0;
        while let Some((due, endpoint)) = self.agenda.first() {
            // An endpoint whose due rows all ended without an attempt costs a look too.
            if due > now.millis() || count >= most || looks >= most {
                break;
            }
            looks += 1;
            count += self.claim_from(endpoint, now, most - count)?;
            self.look_up_due(endpoint)?;
        }
        count += self.advance_jobs(now, most.saturating_sub(count))?;
        self.sweep_pauses(now)?;
        Ok(Claimed { count, next_due: self.agenda.announce(now, self.jobs.squeezed) })
    }

    fn claim_from(&mut self, endpoint: i64, now: Timestamp, most: usize) -> Result<usize, Fault> {
        let Room::Free(room) = self.room(endpoint) else { return Ok(0) };
        let limit = room.min(CLAIM_PER_ENDPOINT).min(u32::try_from(most).unwrap_or(u32::MAX));
        let due = self.due_rows(endpoint, now, limit)?;
        let mut begun = 0;
        for row in due {
            // A few large bodies may take all the memory there is.
            if !matches!(self.room(endpoint), Room::Free(_)) {
                break;
            }
            begun += usize::from(self.begin_attempt(row, now)?);
        }
        Ok(begun)
    }

    /// The first of what is due and may be leased here.
    fn due_rows(&self, endpoint: i64, now: Timestamp, limit: u32) -> Result<Vec<DeliveryRow>, Fault> {
        let entry = self.endpoint(endpoint)?;
        let floor = entry.floor();
        let since = if floor == 0 { "" } else { "AND due_at >= ?4 AND key >= ?5" };
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT {DELIVERY_COLUMNS} FROM delivery WHERE endpoint = ?1 AND state = 0 AND due_at <= ?2 {since} \
             ORDER BY due_at, key LIMIT ?3"
        ))?;
        let mut rows = if floor == 0 {
            statement.query(params![endpoint, now.millis(), limit])?
        } else {
            let due_floor = entry.due_floor(self.key_lead_ms);
            statement.query(params![endpoint, now.millis(), limit, due_floor, floor])?
        };
        let mut due = Vec::new();
        while let Some(row) = rows.next()? {
            due.push(read_delivery(row)?);
        }
        Ok(due)
    }

    /// Begins the next attempt of a due delivery, or ends it. Returns whether an attempt began.
    fn begin_attempt(&mut self, row: DeliveryRow, now: Timestamp) -> Result<bool, Fault> {
        let entry = self.endpoint(row.endpoint)?;
        let settings = Arc::clone(&entry.settings);
        let expired = self.is_expired(&row, now)?.then_some(Over::Gone(CancelReason::Expired));
        let terms = Terms { schedule: settings.receiver.schedule(), over: expired, watch: None };
        let ended = entry.ended(&row, now).filter(|_| expired.is_none()).map(Claim::End);
        match ended.unwrap_or_else(|| delivery::claim(&row.life, terms, now)) {
            Claim::End(ended) => {
                self.write_delivery(&row, &ended)?;
                self.tell_delivery(&row)?;
                Ok(false)
            }
            Claim::Begin(_)
                if matches!(settings.receiver, Receiver::Mailboxes(_))
                    && self.reject_suppressed(&row, now)? =>
            {
                Ok(false)
            }
            Claim::Begin(leased) => {
                self.lease(row, leased, now)?;
                Ok(true)
            }
        }
    }

    /// Leases a delivery for the attempt that `leased` has begun.
    pub(super) fn lease(
        &mut self,
        mut row: DeliveryRow,
        leased: Delivery,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let Some(message) = load_message(&self.conn, row.message)? else {
            return Err(Fault::Damaged(format!("delivery {} has no message", row.key)));
        };
        row.claimed = true;
        // An attempt never starts before the end of the one before, even if the clock went back.
        let start = row.life.ended_at.map_or(now, |ended| ended.max(now));
        row.started_at = Some(start.millis());
        row.endpoint_version = Some(self.endpoint(row.endpoint)?.settings.version);
        self.write_delivery(&row, &leased)?;
        let id = DeliveryId::new(Key::from_value(row.key), message.id.tail());
        let lease = Lease { delivery: id, attempt: leased.attempts_made };
        let endpoint = row.endpoint;
        let due_at = leased.attempt_due_at(start);
        self.count_lease(DeliveryRow { life: leased, ..row });
        let content = Arc::new(self.agenda.content_bytes.hold(message.content));
        let received_at = Timestamp::from_millis(message.received_at);
        let mailbox = match message.id {
            MessageId::Email(_) => self.recipient(lease.delivery.key().value())?.map(|to| to.email),
            MessageId::Request(_) | MessageId::Event(_) => None,
        };
        let times = Times { received_at, due_at, claimed_at: start };
        self.hand_over(endpoint, lease, message.id, &content, mailbox.as_deref(), times);
        Ok(())
    }

    pub(super) fn delivery_id(&self, row: &DeliveryRow) -> Result<Option<DeliveryId>, Fault> {
        let tail = message_tail(&self.conn, row.message)?;
        Ok(tail.map(|tail| DeliveryId::new(Key::from_value(row.key), tail)))
    }

    /// See [`crate::Store::release`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn release(&mut self, leases: &[Lease], now: Timestamp) -> Result<(), Fault> {
        for lease in leases {
            let Some(mut row) = self.leased_row(*lease) else { continue };
            let entry = self.endpoint(row.endpoint)?;
            let over = entry.gone.map(Over::Gone);
            let terms = Terms { schedule: entry.settings.receiver.schedule(), over, watch: None };
            let released = delivery::release(&row.life, terms, entry.standing.behind_pause(now));
            self.end_lease(&row);
            self.unbegin(&row, now)?;
            row.claimed = false;
            row.started_at = None;
            self.write_delivery(&row, &released)?;
            if released.state == State::Pending {
                self.plan(row.endpoint, released.due_at.millis());
            }
            self.tell(row.endpoint, || Changed::Delivery(lease.delivery));
        }
        Ok(())
    }

    /// Settles up to `most` of the leases that were there when the database was opened as lost. Returns how many.
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn take_over(&mut self, now: Timestamp, most: usize) -> Result<usize, Fault> {
        if self.orphans.is_empty() {
            return Ok(0);
        }
        let mut orphans = self.leased_rows(usize::MAX)?;
        orphans.retain(|row| self.orphans.get(&row.key) == Some(&row.life.attempts_made));
        // There will be no more of them: what is leased from now on is leased to this process.
        self.staged.no_orphans = orphans.is_empty();
        orphans.truncate(most);
        for row in &orphans {
            let tail = message_tail(&self.conn, row.message)?.unwrap_or(Tail::from_bits(0));
            let lease =
                Lease { delivery: Id::new(Key::from_value(row.key), tail), attempt: row.life.attempts_made };
            let started_at = Timestamp::from_millis(row.started_at.unwrap_or(now.millis()));
            let ended_at = now.max(started_at);
            let attempt = Attempt { number: lease.attempt, outcome: Outcome::Lost, started_at, ended_at };
            self.settle(&Finished {
                lease,
                attempt,
                endpoint_version: row.endpoint_version.unwrap_or(1),
                jitter: Jitter::NONE,
            })?;
        }
        Ok(orphans.len())
    }

    /// The row of a lease that still holds.
    pub(super) fn leased_row(&self, lease: Lease) -> Option<DeliveryRow> {
        let row = self.leases.get(&lease.delivery.key().value())?;
        debug_assert_eq!(row.life.state, State::Sending);
        (row.life.attempts_made == lease.attempt).then(|| row.clone())
    }

    pub(super) fn endpoint(&self, row: i64) -> Result<&super::config::EndpointEntry, Fault> {
        self.config.endpoints.get(&row).ok_or_else(|| Fault::Damaged(format!("no endpoint {row}")))
    }
}

/// A stored message, as far as a delivery needs it.
pub(super) struct MessageRow {
    pub(super) id: MessageId,
    /// The row of its source, or of its workspace.
    pub(super) feed: i64,
    pub(super) received_at: i64,
    pub(super) content: Content,
}

pub(super) fn load_message(conn: &Connection, key: i64) -> Result<Option<MessageRow>, Fault> {
    let mut statement = conn.prepare_cached(
        "SELECT tail, feed, received_at, kind, type, method, path, query, remote, headers, body FROM message WHERE key = ?1",
    )?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let tail = Tail::from_bits(row.get::<_, i64>(0)?.unsigned_abs());
    let body = Bytes::from(row.get::<_, Vec<u8>>(10)?);
    let (id, content) = match row.get(3)? {
        REQUEST => {
            let headers = Headers::from_packed(Bytes::from(row.get::<_, Vec<u8>>(9)?))
                .map_err(|fault| Fault::Damaged(format!("message {key}: {fault}")))?;
            let received = Received {
                method: row.get(5)?,
                path: row.get(6)?,
                query: row.get(7)?,
                headers,
                body,
                remote_address: row.get(8)?,
            };
            (MessageId::Request(Id::new(Key::from_value(key), tail)), Content::Request(received))
        }
        EVENT => {
            let event_type = event_type(&row.get::<_, String>(4)?)?;
            let published = Published { event_type, body };
            (MessageId::Event(Id::new(Key::from_value(key), tail)), Content::Event(published))
        }
        EMAIL => {
            let test = row.get::<_, String>(5)? == TEST_MODE;
            let mail = Mail { sender: row.get(8)?, test, mime: body };
            (MessageId::Email(Id::new(Key::from_value(key), tail)), Content::Email(mail))
        }
        other => return Err(Fault::Damaged(format!("message {key} is of kind {other}"))),
    };
    Ok(Some(MessageRow { id, feed: row.get(1)?, received_at: row.get(2)?, content }))
}

pub(super) fn event_type(text: &str) -> Result<EventType, Fault> {
    EventType::parse(text).map_err(|fault| Fault::Damaged(format!("event type {text}: {fault}")))
}

pub(super) fn message_tail(conn: &Connection, key: i64) -> Result<Option<Tail>, Fault> {
    let tail: Option<i64> = conn
        .prepare_cached("SELECT tail FROM message WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?;
    Ok(tail.map(|tail| Tail::from_bits(tail.unsigned_abs())))
}
