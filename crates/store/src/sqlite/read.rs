//! Reads by cursor, on connections of their own.
//!
//! Every statement is short: a long read transaction would keep the write-ahead log from being reused. A list
//! therefore looks at a bounded number of rows and says where to go on.

mod attempts;
mod ledger;
mod lists;
mod log;
mod mail;
mod records;
mod sift;
mod stats;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use restante_core::Timestamp;
use restante_core::delivery::CancelReason;
use restante_core::endpoint::{EndpointId, Mailboxes, Receiver, Source};
use restante_core::id::{
    DeliveryId, DestinationId, EmailId, EventId, Id, Key, MailboxesId, RequestId, SourceId, Tail, WebhookId,
    WorkspaceId,
};
use restante_core::message::{Headers, MessageId};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::Fault;
use super::claim::event_type;
use super::codec::{DELIVERY_BY_KEY, DeliveryRow, EMAIL, EVENT, PENDING, REQUEST, SENDING, read_delivery};
use super::config::{
    RECORD_COLUMNS, RECORD_TABLES, RecordRow, Standing, ended, gone_reason, parse, read_record, standing,
};
use super::replay::delivery_keys;
use crate::record::{Kind, MailboxesRow};
use crate::{Policy, row};

pub(super) use ledger::{balance, ledger};
pub(super) use records::{record, record_by_lookup, records};
#[cfg(test)]
pub(super) use stats::{BACKLOG, parts_sql, waiting_sql};
pub(super) use stats::{endpoint_stats, stats};

/// What a delivery's endpoint is, as the tables say now.
struct EndpointView {
    id: EndpointId,
    receiver: Receiver,
    gone: Option<CancelReason>,
    standing: Standing,
}

/// Where messages come from: a source, or the events of a workspace.
struct FeedView {
    /// Of a source.
    id: SourceId,
    workspace: WorkspaceId,
    retention_ms: i64,
}

/// One read: a connection and the configuration it has met so far.
pub(super) struct Reader<'a> {
    conn: &'a Connection,
    now: Timestamp,
    policy: Policy,
    endpoints: HashMap<i64, EndpointView>,
    feeds: HashMap<i64, FeedView>,
}

/// A message's columns, without its body.
struct MessageView {
    key: i64,
    tail: Tail,
    kind: i64,
    feed: i64,
    fanout: i64,
    received_at: i64,
    path: String,
    query: Option<String>,
}

impl MessageView {
    fn id(&self) -> MessageId {
        let key = Key::from_value(self.key);
        match self.kind {
            EVENT => MessageId::Event(EventId::new(key, self.tail)),
            EMAIL => MessageId::Email(EmailId::new(key, self.tail)),
            _ => MessageId::Request(RequestId::new(key, self.tail)),
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(conn: &'a Connection, policy: Policy, now: Timestamp) -> Self {
        Self { conn, now, policy, endpoints: HashMap::new(), feeds: HashMap::new() }
    }

    /// Makes the statements that follow see one state of the database, as long as it is held: a settle or an erase
    /// between two of them would show an attempt twice, or half a request.
    fn snapshot(&self) -> Result<Transaction<'a>, Fault> {
        Ok(self.conn.unchecked_transaction()?)
    }

    fn feed(&mut self, row: i64) -> Result<&FeedView, Fault> {
        match self.feeds.entry(row) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                // The feed of a workspace's emails has its row, negated.
                let record = record_by_row(self.conn, row.abs())?;
                let retention = if record.kind == Kind::Source as i64 {
                    parse::<Source>(&record.raw.body)?.retention()
                } else {
                    self.policy.event_retention
                };
                Ok(vacant.insert(FeedView {
                    id: Id::from_uuid(record.raw.uuid),
                    workspace: record.raw.workspace,
                    retention_ms: i64::try_from(retention.as_millis()).unwrap_or(i64::MAX),
                }))
            }
        }
    }

    fn endpoint(&mut self, row: i64) -> Result<&EndpointView, Fault> {
        match self.endpoints.entry(row) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let record = record_by_row(self.conn, row)?;
                if record.kind == Kind::Mailboxes as i64 {
                    let MailboxesRow { domain } = parse(&record.raw.body)?;
                    let terms = self.policy.mail.clone();
                    return Ok(vacant.insert(EndpointView {
                        id: EndpointId::Mailboxes(MailboxesId::from_uuid(record.raw.uuid)),
                        receiver: Receiver::Mailboxes(Mailboxes { domain, terms }),
                        gone: None,
                        standing: Standing::default(),
                    }));
                }
                if record.kind == Kind::Webhook as i64 {
                    return Ok(vacant.insert(EndpointView {
                        id: EndpointId::Webhook(WebhookId::from_uuid(record.raw.uuid)),
                        receiver: Receiver::Webhook(parse(&record.raw.body)?),
                        gone: gone_reason(record.deleted_at, None),
                        standing: standing(self.conn, row)?,
                    }));
                }
                let source = record.parent.unwrap_or(0);
                let source_deleted_at: Option<i64> = self
                    .conn
                    .prepare_cached("SELECT deleted_at FROM record WHERE row = ?1")?
                    .query_row([source], |row| row.get(0))?;
                Ok(vacant.insert(EndpointView {
                    id: EndpointId::Destination(DestinationId::from_uuid(record.raw.uuid)),
                    receiver: Receiver::Destination(parse(&record.raw.body)?),
                    gone: gone_reason(record.deleted_at, source_deleted_at),
                    standing: Standing::default(),
                }))
            }
        }
    }

    fn message(&self, key: i64) -> Result<Option<MessageView>, Fault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT tail, kind, feed, fanout, received_at, path, query FROM message WHERE key = ?1",
        )?;
        let view = statement
            .query_row([key], |row| {
                Ok(MessageView {
                    key,
                    tail: Tail::from_bits(row.get::<_, i64>(0)?.unsigned_abs()),
                    kind: row.get(1)?,
                    feed: row.get(2)?,
                    fanout: row.get(3)?,
                    received_at: row.get(4)?,
                    path: row.get(5)?,
                    query: row.get(6)?,
                })
            })
            .optional()?;
        Ok(view)
    }

    /// A message of the workspace that has not expired.
    fn visible(&mut self, workspace: WorkspaceId, key: i64) -> Result<Option<MessageView>, Fault> {
        let Some(view) = self.message(key)? else { return Ok(None) };
        let now = self.now.millis();
        let feed = self.feed(view.feed)?;
        if feed.workspace != workspace {
            return Ok(None);
        }
        let cutoff = now - feed.retention_ms;
        let expired =
            view.received_at <= cutoff && (view.kind == REQUEST || event_expired(self.conn, key, cutoff)?);
        Ok(Some(view).filter(|_| !expired))
    }

    /// A message of one kind.
    fn visible_of(
        &mut self,
        workspace: WorkspaceId,
        key: i64,
        kind: i64,
    ) -> Result<Option<MessageView>, Fault> {
        Ok(self.visible(workspace, key)?.filter(|view| view.kind == kind))
    }

    pub(super) fn request(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
    ) -> Result<Option<row::Request>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(view) = self.visible_of(workspace, id.key().value(), REQUEST)? else { return Ok(None) };
        if view.tail != id.tail() {
            return Ok(None);
        }
        self.request_row(&view, true).map(Some)
    }

    pub(super) fn event(&mut self, workspace: WorkspaceId, id: EventId) -> Result<Option<row::Event>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(view) = self.visible_of(workspace, id.key().value(), EVENT)? else { return Ok(None) };
        if view.tail != id.tail() {
            return Ok(None);
        }
        let mut event = self.event_row(&view)?;
        for key in delivery_keys(self.conn, view.key, view.fanout)? {
            if let Some(row) = delivery_row(self.conn, key)? {
                event.deliveries.push(self.delivery_view(&row, &view, true)?);
            }
        }
        Ok(Some(event))
    }

    /// The columns of an event, without deliveries.
    fn event_row(&self, view: &MessageView) -> Result<row::Event, Fault> {
        let (name, body): (String, Vec<u8>) = self
            .conn
            .prepare_cached("SELECT type, body FROM message WHERE key = ?1")?
            .query_row([view.key], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(row::Event {
            id: EventId::new(Key::from_value(view.key), view.tail),
            event_type: event_type(&name)?,
            body: body.into(),
            created_at: Timestamp::from_millis(view.received_at),
            fanout: u32::try_from(view.fanout).unwrap_or(u32::MAX),
            deliveries: Vec::new(),
        })
    }

    pub(super) fn request_body(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(view) = self.visible_of(workspace, id.key().value(), REQUEST)? else { return Ok(None) };
        let body = self
            .conn
            .prepare_cached("SELECT body FROM message WHERE key = ?1")?
            .query_row([view.key], |row| row.get(0))
            .optional()?;
        Ok(body.filter(|_| view.tail == id.tail()))
    }

    /// The columns of a message with its deliveries, with attempts or without.
    fn request_row(&mut self, view: &MessageView, attempts: bool) -> Result<row::Request, Fault> {
        let mut request = {
            let mut statement = self.conn.prepare_cached(
                "SELECT replay_of, method, remote, headers, length(body), duplicate_of, rejected FROM message \
                 WHERE key = ?1",
            )?;
            let mut rows = statement.query([view.key])?;
            let row = rows.next()?.ok_or_else(|| Fault::Damaged("a message vanished while read".into()))?;
            let id = |bytes: [u8; 16]| RequestId::from_uuid(u128::from_be_bytes(bytes));
            let headers = Headers::from_packed(row.get::<_, Vec<u8>>(3)?.into())
                .map_err(|fault| Fault::Damaged(fault.to_string()))?;
            row::Request {
                id: RequestId::new(Key::from_value(view.key), view.tail),
                source: SourceId::from_uuid(0),
                method: row.get(1)?,
                path: view.path.clone(),
                query: view.query.clone(),
                headers,
                body_bytes: row.get(4)?,
                remote_address: row.get(2)?,
                received_at: Timestamp::from_millis(view.received_at),
                expires_at: Timestamp::from_millis(view.received_at),
                replay_of: row.get::<_, Option<_>>(0)?.map(id),
                duplicate_of: row.get::<_, Option<_>>(5)?.map(id),
                rejected_because: row.get(6)?,
                deliveries: Vec::new(),
            }
        };
        let source = self.feed(view.feed)?;
        request.source = source.id;
        request.expires_at = Timestamp::from_millis(view.received_at + source.retention_ms);
        for key in delivery_keys(self.conn, view.key, view.fanout)? {
            if let Some(row) = delivery_row(self.conn, key)? {
                request.deliveries.push(self.delivery_view(&row, view, attempts)?);
            }
        }
        Ok(request)
    }

    pub(super) fn delivery(
        &mut self,
        workspace: WorkspaceId,
        id: DeliveryId,
    ) -> Result<Option<row::Delivery>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(row) = delivery_row(self.conn, id.key().value())? else { return Ok(None) };
        let Some(view) = self.visible(workspace, row.message)? else { return Ok(None) };
        if view.tail != id.tail() {
            return Ok(None);
        }
        self.delivery_view(&row, &view, true).map(Some)
    }

    fn delivery_view(
        &mut self,
        row: &DeliveryRow,
        view: &MessageView,
        attempts: bool,
    ) -> Result<row::Delivery, Fault> {
        let now = self.now;
        let mailbox = if view.kind == EMAIL { mail::mailbox(self.conn, row.key)? } else { None };
        let endpoint = self.endpoint(row.endpoint)?;
        // What a deletion or a pause has not swept yet counts as ended.
        let life = ended(endpoint.gone, endpoint.standing, row, now);
        let mut shown = row::Delivery {
            id: DeliveryId::new(Key::from_value(row.key), view.tail),
            message: view.id(),
            endpoint: endpoint.id,
            mailbox,
            receiver: endpoint.receiver.clone(),
            held_back: endpoint.receiver.holds_back(),
            life: life.unwrap_or_else(|| row.life.clone()),
            retry_of: row.retry_of.map(|key| DeliveryId::new(Key::from_value(key), view.tail)),
            created_at: Timestamp::from_millis(row.created_at.unwrap_or(view.received_at)),
            attempts: Vec::new(),
        };
        if attempts {
            shown.attempts = attempts::of(self.conn, row, view, now)?;
        }
        Ok(shown)
    }
}

/// Whether an event's last delivery ended at or before `cutoff`: it is kept from then on. What is not there has not
/// expired.
pub(super) fn event_expired(conn: &Connection, key: i64, cutoff: i64) -> Result<bool, Fault> {
    Ok(event_end(conn, key)?.is_some_and(|end| end <= cutoff))
}

/// When an event's last delivery ended, or it was accepted if it has none; `None` while one is pending or sending.
fn event_end(conn: &Connection, key: i64) -> Result<Option<i64>, Fault> {
    let mut statement = conn.prepare_cached(
        "SELECT max(received_at, coalesce((SELECT max(ended_at) FROM delivery WHERE key > ?1 AND key <= ?1 + fanout), 0)), \
         (SELECT count(*) FROM delivery WHERE key > ?1 AND key <= ?1 + fanout AND +state IN (?2, ?3)) \
         FROM message WHERE key = ?1",
    )?;
    let found: Option<(i64, i64)> = statement
        .query_row(params![key, PENDING, SENDING], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.and_then(|(end, open)| (open == 0).then_some(end)))
}

fn delivery_row(conn: &Connection, key: i64) -> Result<Option<DeliveryRow>, Fault> {
    let mut statement = conn.prepare_cached(DELIVERY_BY_KEY)?;
    let mut rows = statement.query([key])?;
    rows.next()?.map(read_delivery).transpose()
}

fn record_by_row(conn: &Connection, row: i64) -> Result<RecordRow, Fault> {
    let sql = format!("SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.row = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([row])?;
    let found = rows.next()?.map(read_record).transpose()?;
    found.ok_or_else(|| Fault::Damaged(format!("no record {row}")))
}
