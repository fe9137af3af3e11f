//! Reads by cursor, on connections of their own.
//!
//! Every statement is short: a long read transaction would keep the write-ahead log from being reused. A list
//! therefore looks at a bounded number of rows and says where to go on.

mod attempts;
mod ledger;
mod lists;
mod records;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use restante_core::Timestamp;
use restante_core::delivery::{self, CancelReason};
use restante_core::endpoint::{Destination, Source};
use restante_core::id::{DeliveryId, DestinationId, Id, Key, RequestId, SourceId, Tail, WorkspaceId};
use restante_core::message::Headers;
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::Fault;
use super::codec::{DELIVERY_BY_KEY, DeliveryRow};
use super::config::{RECORD_COLUMNS, RECORD_TABLES, RecordRow, gone_reason, parse, read_record};
use super::replay::delivery_keys;
use crate::row;

pub(super) use ledger::{balance, ledger};
pub(super) use records::{record, record_by_lookup, records};

/// What a delivery's endpoint is, as the tables say now.
struct EndpointView {
    id: DestinationId,
    destination: Destination,
    gone: Option<CancelReason>,
}

struct SourceView {
    id: SourceId,
    workspace: WorkspaceId,
    retention_ms: i64,
}

/// One read: a connection and the configuration it has met so far.
pub(super) struct Reader<'a> {
    conn: &'a Connection,
    now: Timestamp,
    endpoints: HashMap<i64, EndpointView>,
    sources: HashMap<i64, SourceView>,
}

/// A message's columns, without its body.
struct MessageView {
    key: i64,
    tail: Tail,
    source: i64,
    fanout: i64,
    received_at: i64,
    path: String,
    query: Option<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(conn: &'a Connection, now: Timestamp) -> Self {
        Self { conn, now, endpoints: HashMap::new(), sources: HashMap::new() }
    }

    /// Makes the statements that follow see one state of the database, as long as it is held: a settle or an erase
    /// between two of them would show an attempt twice, or half a request.
    fn snapshot(&self) -> Result<Transaction<'a>, Fault> {
        Ok(self.conn.unchecked_transaction()?)
    }

    fn source(&mut self, row: i64) -> Result<&SourceView, Fault> {
        match self.sources.entry(row) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let record = record_by_row(self.conn, row)?;
                let source: Source = parse(&record.raw.body)?;
                Ok(vacant.insert(SourceView {
                    id: Id::from_uuid(record.raw.uuid),
                    workspace: record.raw.workspace,
                    retention_ms: i64::try_from(source.retention().as_millis()).unwrap_or(i64::MAX),
                }))
            }
        }
    }

    fn endpoint(&mut self, row: i64) -> Result<&EndpointView, Fault> {
        match self.endpoints.entry(row) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                let record = record_by_row(self.conn, row)?;
                let source = record.parent.unwrap_or(0);
                let source_deleted_at: Option<i64> = self
                    .conn
                    .prepare_cached("SELECT deleted_at FROM record WHERE row = ?1")?
                    .query_row([source], |row| row.get(0))?;
                Ok(vacant.insert(EndpointView {
                    id: Id::from_uuid(record.raw.uuid),
                    destination: parse(&record.raw.body)?,
                    gone: gone_reason(record.deleted_at, source_deleted_at),
                }))
            }
        }
    }

    fn message(&self, key: i64) -> Result<Option<MessageView>, Fault> {
        let mut statement = self.conn.prepare_cached(
            "SELECT tail, source, fanout, received_at, path, query FROM message WHERE key = ?1",
        )?;
        let view = statement
            .query_row([key], |row| {
                Ok(MessageView {
                    key,
                    tail: Tail::from_bits(row.get::<_, i64>(0)?.unsigned_abs()),
                    source: row.get(1)?,
                    fanout: row.get(2)?,
                    received_at: row.get(3)?,
                    path: row.get(4)?,
                    query: row.get(5)?,
                })
            })
            .optional()?;
        Ok(view)
    }

    /// A message of the workspace that has not expired.
    fn visible(&mut self, workspace: WorkspaceId, key: i64) -> Result<Option<MessageView>, Fault> {
        let Some(view) = self.message(key)? else { return Ok(None) };
        let now = self.now.millis();
        let source = self.source(view.source)?;
        let ours = source.workspace == workspace && view.received_at + source.retention_ms > now;
        Ok(Some(view).filter(|_| ours))
    }

    pub(super) fn request(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
    ) -> Result<Option<row::Request>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(view) = self.visible(workspace, id.key().value())? else { return Ok(None) };
        if view.tail != id.tail() {
            return Ok(None);
        }
        self.request_row(&view, true).map(Some)
    }

    pub(super) fn request_body(
        &mut self,
        workspace: WorkspaceId,
        id: RequestId,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let _snapshot = self.snapshot()?;
        let Some(view) = self.visible(workspace, id.key().value())? else { return Ok(None) };
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
                "SELECT replay_of, method, remote, headers, length(body) FROM message WHERE key = ?1",
            )?;
            let mut rows = statement.query([view.key])?;
            let row = rows.next()?.ok_or_else(|| Fault::Damaged("a message vanished while read".into()))?;
            let replay_of: Option<[u8; 16]> = row.get(0)?;
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
                replay_of: replay_of.map(|bytes| RequestId::from_uuid(u128::from_be_bytes(bytes))),
                deliveries: Vec::new(),
            }
        };
        let source = self.source(view.source)?;
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
        let endpoint = self.endpoint(row.endpoint)?;
        // What a deletion has not swept yet counts as ended.
        let life = endpoint.gone.and_then(|reason| delivery::abandon(&row.life, reason, now));
        let mut shown = row::Delivery {
            id: DeliveryId::new(Key::from_value(row.key), view.tail),
            request: RequestId::new(Key::from_value(view.key), view.tail),
            destination_id: endpoint.id,
            destination: endpoint.destination.clone(),
            life: life.unwrap_or_else(|| row.life.clone()),
            retry_of: row.retry_of.map(|key| DeliveryId::new(Key::from_value(key), view.tail)),
            created_at: Timestamp::from_millis(row.created_at.unwrap_or(view.received_at)),
            attempts: Vec::new(),
        };
        if attempts {
            shown.attempts = attempts::of(self.conn, row, view)?;
        }
        Ok(shown)
    }
}

fn delivery_row(conn: &Connection, key: i64) -> Result<Option<DeliveryRow>, Fault> {
    let mut statement = conn.prepare_cached(DELIVERY_BY_KEY)?;
    let mut rows = statement.query([key])?;
    rows.next()?.map(DeliveryRow::read).transpose()
}

fn record_by_row(conn: &Connection, row: i64) -> Result<RecordRow, Fault> {
    let sql = format!("SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.row = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([row])?;
    let found = rows.next()?.map(read_record).transpose()?;
    found.ok_or_else(|| Fault::Damaged(format!("no record {row}")))
}
