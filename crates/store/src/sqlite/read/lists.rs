//! Lists of requests and deliveries.

use restante_core::Timestamp;
use restante_core::endpoint::EndpointId;
use restante_core::id::{Key, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, params};

use super::{MessageView, Reader, delivery_row};
use crate::record::Kind;
use crate::row::{self, DeliveryFilter, EventFilter, RequestFilter};
use crate::sqlite::codec::{self, EVENT, REQUEST, mail_feed};
use crate::sqlite::config::{find_record, over};
use crate::sqlite::replay::delivery_keys;
use crate::sqlite::scan::{self, Range, Table, sql_limit};
use crate::sqlite::{Fault, history};
use crate::{Page, Paged, Start};

/// Rows a list looks at before it gives what it has.
const LOOK_MAX: usize = 20_000;
/// Rows looked at with one statement.
const CHUNK: usize = 256;
/// Scopes that are walked through one by one; beyond that the whole table is cheaper.
const SCOPES_MAX: usize = 256;

impl Reader<'_> {
    pub(in crate::sqlite) fn requests(
        &mut self,
        workspace: WorkspaceId,
        filter: &RequestFilter,
        page: Page,
    ) -> Result<Paged<row::Request>, Fault> {
        let among = match filter.source {
            Some(source) => match find_record(self.conn, Kind::Source, source.uuid())? {
                Some(record) if record.raw.workspace == workspace => Among::Scopes(vec![record.row]),
                Some(_) | None => Among::Keys(Vec::new()),
            },
            None => few_scopes(self.conn, &[Kind::Source], workspace)?,
        };
        let walk = Walk::new(self.conn, Table::Message, among, filter.since, filter.until)?;
        self.walk(&walk, page, |reader, key| {
            let Some(view) = reader.visible_of(workspace, key, REQUEST)? else { return Ok(None) };
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

    pub(in crate::sqlite) fn events(
        &mut self,
        workspace: WorkspaceId,
        filter: &EventFilter,
        page: Page,
    ) -> Result<Paged<row::Event>, Fault> {
        let owner = find_record(self.conn, Kind::Workspace, workspace.uuid())?;
        let among = owner.map_or(Among::Keys(Vec::new()), |owner| Among::Scopes(vec![owner.row]));
        let walk = Walk::new(self.conn, Table::Message, among, filter.since, filter.until)?;
        self.walk(&walk, page, |reader, key| {
            let Some(view) = reader.visible_of(workspace, key, EVENT)? else { return Ok(None) };
            let at = Timestamp::from_millis(view.received_at);
            if filter.since.is_some_and(|since| at < since) || filter.until.is_some_and(|until| at > until) {
                return Ok(None);
            }
            let event = reader.event_row(&view)?;
            Ok(Some(event)
                .filter(|it| filter.event_type.as_ref().is_none_or(|wanted| *wanted == it.event_type)))
        })
    }

    pub(in crate::sqlite) fn deliveries(
        &mut self,
        workspace: WorkspaceId,
        filter: &DeliveryFilter,
        page: Page,
    ) -> Result<Paged<row::Delivery>, Fault> {
        let states = filter.state.as_deref().and_then(codec::state_range);
        let among = self.deliveries_among(workspace, filter)?;
        let walk = Walk::new(self.conn, Table::Delivery, among, filter.since, filter.until)?;
        self.walk(&walk, page, |reader, key| {
            let Some(row) = delivery_row(reader.conn, key)? else { return Ok(None) };
            let code = codec::state_code(row.life.state);
            let endpoint = reader.endpoint(row.endpoint)?;
            let swept_later = over(endpoint.gone, endpoint.standing, row.key).is_some();
            let excluded = states.is_some_and(|(first, last)| !(first..=last).contains(&code));
            if excluded && !swept_later {
                return Ok(None);
            }
            let Some(view) = reader.visible(workspace, row.message)? else { return Ok(None) };
            let source = reader.feed(view.feed)?.id;
            let shown = reader.delivery_view(&row, &view, false)?;
            let wanted = filter.state.as_ref().is_none_or(|state| shown.life.state.name() == state)
                && filter.is_met_by(shown.message)
                && filter.source.is_none_or(|wanted| view.kind == REQUEST && source == wanted)
                && filter.destination.is_none_or(|id| shown.endpoint == EndpointId::Destination(id))
                && filter.webhook.is_none_or(|id| shown.endpoint == EndpointId::Webhook(id))
                && filter.since.is_none_or(|since| shown.created_at >= since)
                && filter.until.is_none_or(|until| shown.created_at <= until);
            Ok(Some(shown).filter(|_| wanted))
        })
    }

    /// The narrowest set of deliveries that the filter's matches are in.
    fn deliveries_among(&mut self, workspace: WorkspaceId, filter: &DeliveryFilter) -> Result<Among, Fault> {
        let nothing = Among::Keys(Vec::new());
        if let Some(message) = filter.message() {
            let Some(view) = self.visible(workspace, message.key().value())? else { return Ok(nothing) };
            return Ok(Among::Keys(delivery_keys(self.conn, view.key, view.fanout)?));
        }
        if let Some(webhook) = filter.webhook {
            let record = find_record(self.conn, Kind::Webhook, webhook.uuid())?;
            let ours = record.filter(|it| it.raw.workspace == workspace);
            return Ok(ours.map_or(nothing, |it| Among::Scopes(vec![it.row])));
        }
        if let Some(destination) = filter.destination {
            let record = find_record(self.conn, Kind::Destination, destination.uuid())?;
            let ours = record.filter(|it| it.raw.workspace == workspace);
            return Ok(ours.map_or(nothing, |it| Among::Scopes(vec![it.row])));
        }
        if let Some(source) = filter.source {
            let record = find_record(self.conn, Kind::Source, source.uuid())?;
            let Some(record) = record.filter(|it| it.raw.workspace == workspace) else { return Ok(nothing) };
            let mut statement =
                self.conn.prepare_cached("SELECT row FROM record WHERE kind = 3 AND parent = ?1")?;
            let rows = statement.query_map([record.row], |row| row.get(0))?;
            return Ok(Among::Scopes(rows.collect::<Result<_, _>>()?));
        }
        few_scopes(self.conn, &[Kind::Destination, Kind::Webhook, Kind::Mailboxes], workspace)
    }

    /// Walks through a table, page by page of keys, until a page of matches is full or enough was looked at.
    pub(super) fn walk<T: Keyed>(
        &mut self,
        walk: &Walk,
        page: Page,
        mut look: impl FnMut(&mut Self, i64) -> Result<Option<T>, Fault>,
    ) -> Result<Paged<T>, Fault> {
        let mut range = walk.range(page.start);
        let (mut items, mut looked) = (Vec::new(), 0);
        let mut stopped_at = None;
        'walking: while items.len() <= page.limit {
            let chunk = walk.keys(self.conn, range)?;
            let Some(last) = chunk.last().copied() else { break };
            for key in chunk {
                let snapshot = self.snapshot()?;
                items.extend(look(self, key)?);
                drop(snapshot);
                if items.len() > page.limit {
                    break 'walking;
                }
            }
            if range.newest_first {
                range.below = last;
            } else {
                range.above = last;
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
            let chunk = walk.keys(self.conn, range)?;
            let Some(last) = chunk.last().copied() else { return Ok(Some(count)) };
            for key in chunk {
                let _snapshot = self.snapshot()?;
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

/// Where a list looks.
pub(super) enum Among {
    /// Everywhere.
    All,
    /// At what belongs to these sources or endpoints.
    Scopes(Vec<i64>),
    /// At these rows.
    Keys(Vec<i64>),
}

/// What a list walks through.
pub(super) struct Walk {
    table: Table,
    among: Among,
    above: i64,
    below: i64,
}

impl Walk {
    pub(super) fn new(
        conn: &Connection,
        table: Table,
        among: Among,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<Self, Fault> {
        let range = Range::of_times(since, until, history::key_lead(conn)?);
        Ok(Self { table, among, above: range.above, below: range.below })
    }

    fn range(&self, start: Start) -> Range {
        let (above, below) = (self.above, self.below);
        match start {
            Start::Newest => Range { above, below, newest_first: true },
            Start::After(key) => Range { above, below: below.min(key.value()), newest_first: true },
            Start::Before(key) => Range { above: above.max(key.value()), below, newest_first: false },
        }
    }

    /// The next keys of a range.
    fn keys(&self, conn: &Connection, range: Range) -> Result<Vec<i64>, Fault> {
        let scopes = match &self.among {
            Among::All => None,
            Among::Scopes(scopes) => Some(scopes.as_slice()),
            Among::Keys(keys) => return Ok(range.pick(keys)),
        };
        scan::keys(conn, self.table, scopes, range, CHUNK)
    }
}

pub(super) trait Keyed {
    fn key(&self) -> Key;
}

impl Keyed for row::Request {
    fn key(&self) -> Key {
        self.id.key()
    }
}

impl Keyed for row::Event {
    fn key(&self) -> Key {
        self.id.key()
    }
}

impl Keyed for row::Delivery {
    fn key(&self) -> Key {
        self.id.key()
    }
}

impl Keyed for row::Email {
    fn key(&self) -> Key {
        self.id.key()
    }
}

/// All scopes of some kinds in a workspace, the deleted included, if they are few.
fn few_scopes(conn: &Connection, kinds: &[Kind], workspace: WorkspaceId) -> Result<Among, Fault> {
    let Some(owner) = find_record(conn, Kind::Workspace, workspace.uuid())? else {
        return Ok(Among::Keys(Vec::new()));
    };
    let alone: bool = conn
        .prepare_cached("SELECT count(*) = 1 FROM record WHERE kind = 1")?
        .query_row([], |row| row.get(0))?;
    // Requests may be few among many events and emails.
    let mixed = kinds.contains(&Kind::Source)
        && conn
            .prepare_cached("SELECT 1 FROM history WHERE scope IN (?1, ?2) LIMIT 1")?
            .exists([owner.row, mail_feed(owner.row)])?;
    if alone && !mixed {
        return Ok(Among::All);
    }
    let mut statement =
        conn.prepare_cached("SELECT row FROM record WHERE kind = ?1 AND workspace = ?2 LIMIT ?3")?;
    let mut scopes = Vec::new();
    for kind in kinds {
        let rows = statement
            .query_map(params![*kind as i64, owner.row, sql_limit(SCOPES_MAX + 1)], |row| row.get(0))?;
        for row in rows {
            scopes.push(row?);
        }
    }
    Ok(if scopes.len() <= SCOPES_MAX { Among::Scopes(scopes) } else { Among::All })
}
