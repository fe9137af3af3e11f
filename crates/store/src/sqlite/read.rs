//! Reads by cursor, on connections of their own.
//!
//! Every statement is short: a long read transaction would keep the write-ahead log from being reused. A list
//! therefore looks at a bounded number of rows and says where to go on.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use restante_core::delivery::{self, CancelReason};
use restante_core::endpoint::{Destination, Source};
use restante_core::id::{
    ChargeId, DeliveryId, DestinationId, Id, Key, RequestId, SourceId, Tail, WorkspaceId,
};
use restante_core::message::{self, Headers};
use restante_core::{Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, params};

use super::Fault;
use super::codec::{self, DELIVERY_COLUMNS, DeliveryRow};
use super::config::{RECORD_COLUMNS, RECORD_TABLES, find_record, gone_reason, parse, read_record};
use super::replay::delivery_keys;
use super::scan::{self, Range, Table, sql_limit};
use crate::record::{Kind, Raw};
use crate::row::{self, ChargeReason, DeliveryFilter, RequestFilter};
use crate::{BulkRetry, Page, Paged, Start};

/// Rows a list looks at before it gives what it has.
const LOOK_MAX: usize = 20_000;
/// Rows looked at with one statement.
const CHUNK: usize = 256;
/// Scopes that are walked through one by one; beyond that the whole table is cheaper.
const SCOPES_MAX: usize = 256;

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
            shown.attempts = attempts_of(self.conn, row, view)?;
        }
        Ok(shown)
    }

    pub(super) fn requests(
        &mut self,
        workspace: WorkspaceId,
        filter: &RequestFilter,
        page: Page,
    ) -> Result<Paged<row::Request>, Fault> {
        let scopes = match filter.source {
            Some(source) => match find_record(self.conn, Kind::Source, source.uuid())? {
                Some(record) if record.raw.workspace == workspace => Some(vec![record.row]),
                _ => return Ok(Paged::cut(Vec::new(), page, |it: &row::Request| it.id.key())),
            },
            None => few_rows(self.conn, Kind::Source, workspace)?,
        };
        let walk = Walk { table: Table::Message, scopes, since: filter.since, until: filter.until };
        self.walk(&walk, page, |reader, key| {
            let Some(view) = reader.visible(workspace, key)? else { return Ok(None) };
            if !reader.matches(&view, filter)? {
                return Ok(None);
            }
            let request = reader.request_row(&view, false)?;
            Ok(Some(request).filter(|it| filter.state.is_none_or(|state| it.state() == state)))
        })
    }

    fn matches(&self, view: &MessageView, filter: &RequestFilter) -> Result<bool, Fault> {
        let at = Timestamp::from_millis(view.received_at);
        let cheap = filter.since.is_none_or(|since| at >= since)
            && filter.until.is_none_or(|until| at <= until)
            && filter.path.as_ref().is_none_or(|part| view.path.contains(part.as_str()));
        if !cheap {
            return Ok(false);
        }
        if filter.method.is_none() && filter.text.is_none() {
            return Ok(true);
        }
        let matches = self
            .conn
            .prepare_cached(
                "SELECT (?2 IS NULL OR method = ?2) AND (?3 IS NULL OR instr(body, ?3) > 0) FROM message WHERE key = ?1",
            )?
            .query_row(
                params![view.key, filter.method, filter.text.as_ref().map(String::as_bytes)],
                |row| row.get(0),
            )
            .optional()?;
        Ok(matches.unwrap_or(false))
    }

    pub(super) fn deliveries(
        &mut self,
        workspace: WorkspaceId,
        filter: &DeliveryFilter,
        page: Page,
    ) -> Result<Paged<row::Delivery>, Fault> {
        let nothing = || Ok(Paged::cut(Vec::new(), page, |it: &row::Delivery| it.id.key()));
        let states = filter.state.as_deref().and_then(codec::state_range);
        let Some(scopes) = self.delivery_scopes(workspace, filter)? else { return nothing() };
        let walk = Walk { table: Table::Delivery, scopes, since: filter.since, until: filter.until };
        self.walk(&walk, page, |reader, key| {
            let Some(row) = delivery_row(reader.conn, key)? else { return Ok(None) };
            let code = codec::state_code(row.life.state);
            let swept_later = reader.endpoint(row.endpoint)?.gone.is_some();
            let excluded = states.is_some_and(|(first, last)| !(first..=last).contains(&code));
            if excluded && !swept_later {
                return Ok(None);
            }
            let Some(view) = reader.visible(workspace, row.message)? else { return Ok(None) };
            let request = RequestId::new(Key::from_value(view.key), view.tail);
            if filter.request.is_some_and(|wanted| wanted != request) {
                return Ok(None);
            }
            let shown = reader.delivery_view(&row, &view, false)?;
            let wanted = filter.state.as_ref().is_none_or(|state| shown.life.state.name() == state)
                && filter.since.is_none_or(|since| shown.created_at >= since)
                && filter.until.is_none_or(|until| shown.created_at <= until);
            Ok(Some(shown).filter(|_| wanted))
        })
    }

    /// The endpoints to walk through: `Some(None)` is the whole table, `None` is nothing.
    #[expect(clippy::option_option, reason = "nothing and everything are two answers")]
    fn delivery_scopes(
        &mut self,
        workspace: WorkspaceId,
        filter: &DeliveryFilter,
    ) -> Result<Option<Option<Vec<i64>>>, Fault> {
        if let Some(destination) = filter.destination {
            let record = find_record(self.conn, Kind::Destination, destination.uuid())?;
            return Ok(record.filter(|it| it.raw.workspace == workspace).map(|it| Some(vec![it.row])));
        }
        if let Some(request) = filter.request {
            let Some(view) = self.visible(workspace, request.key().value())? else { return Ok(None) };
            let mut endpoints = Vec::new();
            for key in delivery_keys(self.conn, view.key, view.fanout)? {
                endpoints.extend(delivery_row(self.conn, key)?.map(|row| row.endpoint));
            }
            endpoints.sort_unstable();
            endpoints.dedup();
            return Ok(Some(Some(endpoints)));
        }
        if let Some(source) = filter.source {
            let record = find_record(self.conn, Kind::Source, source.uuid())?;
            let Some(record) = record.filter(|it| it.raw.workspace == workspace) else { return Ok(None) };
            let mut statement =
                self.conn.prepare_cached("SELECT row FROM record WHERE kind = 3 AND parent = ?1")?;
            let rows = statement.query_map([record.row], |row| row.get(0))?;
            return Ok(Some(Some(rows.collect::<Result<_, _>>()?)));
        }
        Ok(Some(few_rows(self.conn, Kind::Destination, workspace)?))
    }

    /// Walks through a table, page by page of keys, until a page of matches is full or enough was looked at.
    fn walk<T: Keyed>(
        &mut self,
        walk: &Walk,
        page: Page,
        mut look: impl FnMut(&mut Self, i64) -> Result<Option<T>, Fault>,
    ) -> Result<Paged<T>, Fault> {
        let mut range = walk.range(page.start);
        let (mut items, mut looked) = (Vec::new(), 0);
        let mut stopped_at = None;
        'walking: while items.len() <= page.limit {
            let chunk = scan::keys(self.conn, walk.table, walk.scopes.as_deref(), range, CHUNK)?;
            let Some(last) = chunk.last().copied() else { break };
            for key in chunk {
                if let Some(item) = look(self, key)? {
                    items.push(item);
                    if items.len() > page.limit {
                        break 'walking;
                    }
                }
            }
            if range.newest_first {
                range.below = last
            } else {
                range.above = last
            }
            looked += CHUNK;
            if looked >= LOOK_MAX {
                stopped_at = Some(Key::from_value(last));
                break;
            }
        }
        let mut paged = Paged::cut(items, page, Keyed::key);
        if let Some(key) = stopped_at {
            if range.newest_first { paged.next = Some(key) } else { paged.prev = Some(key) }
        }
        if page.total {
            paged.total = self.count(walk, look)?;
        }
        Ok(paged)
    }

    /// Counts all matches; `None` when there is more to look at than a read may take.
    fn count<T>(
        &mut self,
        walk: &Walk,
        mut look: impl FnMut(&mut Self, i64) -> Result<Option<T>, Fault>,
    ) -> Result<Option<u64>, Fault> {
        let mut range = walk.range(Start::Newest);
        let (mut count, mut looked) = (0, 0);
        loop {
            let chunk = scan::keys(self.conn, walk.table, walk.scopes.as_deref(), range, CHUNK)?;
            let Some(last) = chunk.last().copied() else { return Ok(Some(count)) };
            for key in chunk {
                count += u64::from(look(self, key)?.is_some());
            }
            range.below = last;
            looked += CHUNK;
            if looked >= LOOK_MAX {
                return Ok(None);
            }
        }
    }
}

/// What a list walks through.
struct Walk {
    table: Table,
    scopes: Option<Vec<i64>>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Walk {
    fn range(&self, start: Start) -> Range {
        let above = self.since.map_or(-1, |since| Key::first_at(since).value() - 1);
        // After the clock went back, keys run ahead of the times they stand for.
        let slack = limits::TEXT_SEARCH_SPAN_DEFAULT;
        let below = self.until.map_or(i64::MAX, |until| Key::first_at(until + slack).value());
        match start {
            Start::Newest => Range { above, below, newest_first: true },
            Start::After(key) => Range { above, below: below.min(key.value()), newest_first: true },
            Start::Before(key) => Range { above: above.max(key.value()), below, newest_first: false },
        }
    }
}

trait Keyed {
    fn key(&self) -> Key;
}

impl Keyed for row::Request {
    fn key(&self) -> Key {
        self.id.key()
    }
}

impl Keyed for row::Delivery {
    fn key(&self) -> Key {
        self.id.key()
    }
}

fn delivery_row(conn: &Connection, key: i64) -> Result<Option<DeliveryRow>, Fault> {
    let mut statement =
        conn.prepare_cached(&format!("SELECT {DELIVERY_COLUMNS} FROM delivery WHERE key = ?1"))?;
    let mut rows = statement.query([key])?;
    rows.next()?.map(DeliveryRow::read).transpose()
}

fn attempts_of(conn: &Connection, row: &DeliveryRow, view: &MessageView) -> Result<Vec<row::Attempt>, Fault> {
    let mut attempts = Vec::new();
    let mut statement = conn.prepare_cached(
        "SELECT number, endpoint_version, started_at, duration_ms, result, status, failure, message, uses_budget \
         FROM attempt WHERE delivery = ?1 ORDER BY number",
    )?;
    let mut rows = statement.query([row.key])?;
    while let Some(stored) = rows.next()? {
        let number: u32 = stored.get(0)?;
        let result: i64 = stored.get(4)?;
        let status: Option<u16> = stored.get(5)?;
        let failure = stored.get::<_, Option<i64>>(6)?.map(codec::failure).transpose()?;
        attempts.push(row::Attempt {
            number,
            manual: number == 1 && row.retry_of.is_some(),
            url: attempt_url(conn, row.endpoint, stored.get(1)?, view)?,
            started_at: Timestamp::from_millis(stored.get(2)?),
            result: Some(row::AttemptResult {
                duration_ms: stored.get(3)?,
                delivered: result == codec::DELIVERED,
                status,
                failure,
                lost: result == codec::LOST,
                message: stored.get::<_, Option<String>>(7)?.or_else(|| status_message(failure, status)),
                uses_budget: stored.get(8)?,
            }),
        });
    }
    if let (Some(started_at), Some(version)) = (row.started_at, row.endpoint_version) {
        let started_at = Timestamp::from_millis(started_at);
        let result = row.life.state.is_final().then(|| row::AttemptResult {
            duration_ms: row.life.ended_at.map_or(0, |ended| ended.since(started_at).as_millis() as u64),
            delivered: true,
            status: row.status,
            failure: None,
            lost: false,
            message: None,
            uses_budget: true,
        });
        let number = row.life.attempts_made;
        let url = attempt_url(conn, row.endpoint, version, view)?;
        let manual = number == 1 && row.retry_of.is_some();
        attempts.push(row::Attempt { number, manual, url, started_at, result });
    }
    Ok(attempts)
}

/// The message of a failed status is not stored: it is made of the status.
fn status_message(failure: Option<restante_core::FailureKind>, status: Option<u16>) -> Option<String> {
    failure?;
    match restante_core::Outcome::of_status(status?, None) {
        restante_core::Outcome::Failed(failure) => Some(failure.message),
        restante_core::Outcome::Delivered { .. } | restante_core::Outcome::Lost => None,
    }
}

fn attempt_url(conn: &Connection, endpoint: i64, version: u32, view: &MessageView) -> Result<String, Fault> {
    let url: Option<String> = conn
        .prepare_cached(
            "SELECT url FROM endpoint_url WHERE endpoint = ?1 AND version <= ?2 ORDER BY version DESC LIMIT 1",
        )?
        .query_row(params![endpoint, version], |row| row.get(0))
        .optional()?;
    Ok(message::target(&url.unwrap_or_default(), &view.path, view.query.as_deref()))
}

fn record_by_row(conn: &Connection, row: i64) -> Result<super::config::RecordRow, Fault> {
    let sql = format!("SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.row = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([row])?;
    let found = rows.next()?.map(read_record).transpose()?;
    found.ok_or_else(|| Fault::Damaged(format!("no record {row}")))
}

/// Rows of all records of a kind in a workspace, the deleted included, if they are few.
fn few_rows(conn: &Connection, kind: Kind, workspace: WorkspaceId) -> Result<Option<Vec<i64>>, Fault> {
    let Some(owner) = find_record(conn, Kind::Workspace, workspace.uuid())? else {
        return Ok(Some(Vec::new()));
    };
    let alone: bool = conn
        .prepare_cached("SELECT count(*) = 1 FROM record WHERE kind = 1")?
        .query_row([], |row| row.get(0))?;
    if alone {
        return Ok(None);
    }
    let mut statement =
        conn.prepare_cached("SELECT row FROM record WHERE kind = ?1 AND workspace = ?2 LIMIT ?3")?;
    let rows = statement
        .query_map(params![kind as i64, owner.row, sql_limit(SCOPES_MAX + 1)], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    Ok(Some(rows).filter(|rows| rows.len() <= SCOPES_MAX))
}

/// Whether a bulk retry takes a delivery: it is in the state and nobody retried it yet.
pub(super) fn is_bulk_match(conn: &Connection, key: i64, state: &str) -> Result<bool, Fault> {
    let Some((first, last)) = codec::state_range(state) else { return Ok(false) };
    let matches: Option<bool> = conn
        .prepare_cached(
            "SELECT state BETWEEN ?2 AND ?3 AND NOT EXISTS \
             (SELECT 1 FROM delivery AS later WHERE later.message = delivery.message AND later.retry_of = delivery.key) \
             FROM delivery WHERE key = ?1",
        )?
        .query_row(params![key, first, last], |row| row.get(0))
        .optional()?;
    Ok(matches.unwrap_or(false))
}

pub(super) fn count_bulk_retry(
    conn: &Connection,
    workspace: WorkspaceId,
    destination: DestinationId,
    bulk: &BulkRetry,
) -> Result<u64, Fault> {
    let record = find_record(conn, Kind::Destination, destination.uuid())?;
    let Some(record) = record.filter(|it| it.raw.workspace == workspace) else { return Ok(0) };
    let mut range = bulk_range(bulk);
    let mut count = 0;
    loop {
        let chunk = scan::keys(conn, Table::Delivery, Some(&[record.row]), range, CHUNK)?;
        let Some(last) = chunk.last().copied() else { return Ok(count) };
        for key in chunk {
            count += u64::from(is_bulk_match(conn, key, &bulk.state)?);
        }
        range.above = last;
    }
}

/// The keys of the deliveries a bulk retry may take. A delivery's key is made when it is created.
pub(super) fn bulk_range(bulk: &BulkRetry) -> Range {
    let after = Timestamp::from_millis(bulk.until.millis().saturating_add(1));
    Range {
        above: Key::first_at(bulk.since).value() - 1,
        below: Key::first_at(after).value(),
        newest_first: false,
    }
}

pub(super) fn record(
    conn: &Connection,
    kind: Kind,
    workspace: WorkspaceId,
    uuid: u128,
) -> Result<Option<Raw>, Fault> {
    let found = find_record(conn, kind, uuid)?;
    Ok(found.filter(|it| it.deleted_at.is_none() && it.raw.workspace == workspace).map(|it| it.raw))
}

pub(super) fn record_by_lookup(conn: &Connection, kind: Kind, lookup: &str) -> Result<Option<Raw>, Fault> {
    let sql = format!(
        "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.kind = ?1 AND record.lookup = ?2 AND record.deleted_at IS NULL"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![kind as i64, lookup])?;
    Ok(rows.next()?.map(read_record).transpose()?.map(|it| it.raw))
}

pub(super) fn records(
    conn: &Connection,
    kind: Kind,
    workspace: Option<WorkspaceId>,
    parent: Option<u128>,
    page: Page,
) -> Result<Paged<Raw>, Fault> {
    let condition = "record.kind = ?1 AND record.deleted_at IS NULL AND (?2 IS NULL OR owner.uuid = ?2) \
                     AND (?3 IS NULL OR parent.uuid = ?3)";
    let (bound, order) = match page.start {
        Start::Newest => ("record.key < 9223372036854775807 AND ?4 = ?4", "DESC"),
        Start::After(_) => ("record.key < ?4", "DESC"),
        Start::Before(_) => ("record.key > ?4", "ASC"),
    };
    let from = match page.start {
        Start::Newest => 0,
        Start::After(key) | Start::Before(key) => key.value(),
    };
    let owner = workspace.map(|id| id.uuid().to_be_bytes());
    let parent = parent.map(u128::to_be_bytes);
    let sql = format!(
        "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE {condition} AND {bound} ORDER BY record.key {order} LIMIT ?5"
    );
    let mut found = Vec::new();
    {
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows =
            statement.query(params![kind as i64, owner, parent, from, sql_limit(page.limit + 1)])?;
        while let Some(row) = rows.next()? {
            found.push(read_record(row)?.raw);
        }
    }
    let mut paged = Paged::cut(found, page, Raw::key);
    if page.total {
        let sql = format!("SELECT count(*) FROM {RECORD_TABLES} WHERE {condition}");
        paged.total = conn
            .prepare_cached(&sql)?
            .query_row(params![kind as i64, owner, parent], |row| row.get(0))
            .optional()?;
    }
    Ok(paged)
}

pub(super) fn balance(conn: &Connection, workspace: WorkspaceId) -> Result<Option<i64>, Fault> {
    let Some(record) = find_record(conn, Kind::Workspace, workspace.uuid())? else { return Ok(None) };
    let balance = conn
        .prepare_cached("SELECT balance FROM credit WHERE workspace = ?1")?
        .query_row([record.row], |row| row.get(0))
        .optional()?;
    Ok(balance)
}

pub(super) fn ledger(
    conn: &Connection,
    workspace: WorkspaceId,
    page: Page,
) -> Result<Paged<row::Charge>, Fault> {
    let owner = find_record(conn, Kind::Workspace, workspace.uuid())?.map_or(0, |record| record.row);
    let (above, below, order) = match page.start {
        Start::Newest => (-1, i64::MAX, "DESC"),
        Start::After(key) => (-1, key.value(), "DESC"),
        Start::Before(key) => (key.value(), i64::MAX, "ASC"),
    };
    let sql = format!(
        "SELECT key, tail, at, delta, reason, reference FROM ledger WHERE workspace = ?1 AND key > ?2 AND key < ?3 \
         ORDER BY key {order} LIMIT ?4"
    );
    let mut found = Vec::new();
    {
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![owner, above, below, sql_limit(page.limit + 1)])?;
        while let Some(row) = rows.next()? {
            let tail = Tail::from_bits(row.get::<_, i64>(1)?.unsigned_abs());
            found.push(row::Charge {
                id: ChargeId::new(Key::from_value(row.get(0)?), tail),
                at: Timestamp::from_millis(row.get(2)?),
                delta: row.get(3)?,
                reason: charge_reason(row.get(4)?)?,
                reference: row.get(5)?,
            });
        }
    }
    let mut paged = Paged::cut(found, page, |charge| charge.id.key());
    if page.total {
        paged.total = conn
            .prepare_cached("SELECT count(*) FROM ledger WHERE workspace = ?1")?
            .query_row([owner], |row| row.get(0))
            .optional()?;
    }
    Ok(paged)
}

fn charge_reason(code: i64) -> Result<ChargeReason, Fault> {
    [ChargeReason::Request, ChargeReason::Retry, ChargeReason::Replay, ChargeReason::Grant]
        .into_iter()
        .find(|reason| *reason as i64 == code)
        .ok_or_else(|| Fault::Damaged(format!("charge reason {code}")))
}
