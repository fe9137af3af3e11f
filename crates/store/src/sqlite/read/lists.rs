//! Lists of requests and deliveries.

use restante_core::Timestamp;
use restante_core::endpoint::EndpointId;
use restante_core::id::{Key, WorkspaceId};
use rusqlite::{Connection, params};

use super::{Reader, delivery_row};
use crate::record::Kind;
use crate::row::{self, DeliveryFilter, EventFilter, RequestFilter};
use crate::sqlite::codec::{EVENT, REQUEST, mail_feed};
use crate::sqlite::config::find_record;
use crate::sqlite::replay::delivery_keys;
use crate::sqlite::scan::{self, Range, Table, sql_limit};
use crate::sqlite::{Fault, history};
use crate::{Page, Paged, Start};

/// What a list may cost before it gives what it has, in rows that are sifted out.
const COST_MAX: usize = 20_000;
/// Rows that counting all matches looks at.
const COUNT_MAX: usize = 20_000;
/// Rows sifted with one statement.
const CHUNK: usize = 256;
/// A row that is looked at in full costs as much as so many that are sifted out.
const LOOK_COST: usize = 8;
/// And one whose deliveries are looked at as much as so many.
const DELIVERIES_COST: usize = 2;
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
        let mut walk = Walk::new(self.conn, Table::Message, among, filter.since, filter.until)?;
        walk.row_cost = if filter.state.is_some() { DELIVERIES_COST } else { 1 };
        let sift = |reader: &mut Self, keys| reader.sift_requests(keys, filter);
        self.walk(&walk, page, sift, |reader, key| {
            let Some(view) = reader.visible_of(workspace, key, REQUEST)? else { return Ok(None) };
            let at = Timestamp::from_millis(view.received_at);
            if filter.since.is_some_and(|since| at < since) || filter.until.is_some_and(|until| at > until) {
                return Ok(None);
            }
            let request = reader.request_row(&view, false)?;
            Ok(Some(request).filter(|it| filter.state.is_none_or(|state| it.state() == state)))
        })
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
        let sift = |reader: &mut Self, keys| reader.sift_events(keys, filter);
        self.walk(&walk, page, sift, |reader, key| {
            let Some(view) = reader.visible_of(workspace, key, EVENT)? else { return Ok(None) };
            let at = Timestamp::from_millis(view.received_at);
            if filter.since.is_some_and(|since| at < since) || filter.until.is_some_and(|until| at > until) {
                return Ok(None);
            }
            reader.event_row(&view).map(Some)
        })
    }

    pub(in crate::sqlite) fn deliveries(
        &mut self,
        workspace: WorkspaceId,
        filter: &DeliveryFilter,
        page: Page,
    ) -> Result<Paged<row::Delivery>, Fault> {
        let among = self.deliveries_among(workspace, filter)?;
        let walk = Walk::new(self.conn, Table::Delivery, among, filter.since, filter.until)?;
        let sift = |reader: &mut Self, keys| reader.sift_deliveries(keys, filter);
        self.walk(&walk, page, sift, |reader, key| {
            let Some(row) = delivery_row(reader.conn, key)? else { return Ok(None) };
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
            let mut statement = self
                .conn
                .prepare_cached("SELECT row FROM record WHERE kind = 3 AND workspace = ?1 AND parent = ?2")?;
            let rows = statement.query_map([record.workspace, record.row], |row| row.get(0))?;
            return Ok(Among::Scopes(rows.collect::<Result<_, _>>()?));
        }
        few_scopes(self.conn, &[Kind::Destination, Kind::Webhook, Kind::Mailboxes], workspace)
    }

    /// Walks through a table, chunk by chunk of keys, until a page of matches is full or enough was looked at. `sift` leaves
    /// out what surely does not match, `look` tells of the rest.
    pub(super) fn walk<T: Keyed>(
        &mut self,
        walk: &Walk,
        page: Page,
        mut sift: impl FnMut(&mut Self, Vec<i64>) -> Result<Vec<i64>, Fault>,
        mut look: impl FnMut(&mut Self, i64) -> Result<Option<T>, Fault>,
    ) -> Result<Paged<T>, Fault> {
        let mut range = walk.range(page.start);
        let (mut items, mut cost) = (Vec::new(), 0);
        let mut stopped_at = None;
        'walking: while items.len() <= page.limit {
            let chunk = walk.keys(self.conn, range)?;
            let Some(last) = chunk.last().copied() else { break };
            cost += chunk.len() * walk.row_cost;
            for key in sift(self, chunk)? {
                let snapshot = self.snapshot()?;
                items.extend(look(self, key)?);
                drop(snapshot);
                if items.len() > page.limit {
                    break 'walking;
                }
                cost += LOOK_COST;
                if cost >= COST_MAX {
                    stopped_at = Some(Key::from_value(key));
                    break 'walking;
                }
            }
            range = range.behind(last);
            if cost >= COST_MAX {
                stopped_at = Some(Key::from_value(last));
                break;
            }
        }
        let mut paged = Paged::cut(items, page, Keyed::key);
        if let Some(key) = stopped_at {
            if range.newest_first { paged.next = Some(key) } else { paged.prev = Some(key) }
        }
        if page.total {
            paged.total = self.count(walk, sift, look)?;
        }
        Ok(paged)
    }

    /// Counts all matches; `None` when there is more to look at than a read may take.
    fn count<T>(
        &mut self,
        walk: &Walk,
        mut sift: impl FnMut(&mut Self, Vec<i64>) -> Result<Vec<i64>, Fault>,
        mut look: impl FnMut(&mut Self, i64) -> Result<Option<T>, Fault>,
    ) -> Result<Option<u64>, Fault> {
        let mut range = walk.range(Start::Newest);
        let (mut count, mut looked) = (0, 0);
        loop {
            let chunk = walk.keys(self.conn, range)?;
            let Some(last) = chunk.last().copied() else { return Ok(Some(count)) };
            looked += chunk.len();
            for key in sift(self, chunk)? {
                let _snapshot = self.snapshot()?;
                count += u64::from(look(self, key)?.is_some());
            }
            range = range.behind(last);
            if looked >= COUNT_MAX {
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
    row_cost: usize,
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
        Ok(Self { table, among, above: range.above, below: range.below, row_cost: 1 })
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
        .prepare_cached(
            "SELECT count(*) = 1 FROM (SELECT 1 FROM record WHERE kind = 1 AND deleted_at IS NULL LIMIT 2)",
        )?
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
