//! How workspaces and their parts do.

use restante_core::endpoint::EndpointId;
use restante_core::id::{DestinationId, SourceId, WebhookId, WorkspaceId};
use restante_core::stats::Span;
use rusqlite::{Connection, params};

use crate::record::Kind;
use crate::sqlite::Fault;
use crate::sqlite::config::{RecordRow, find_record, standing};
use crate::sqlite::scan::sql_limit;
use crate::stats::{BACKLOG_MAX, Backlog, Counts, ENDPOINT_BACKLOG_MAX, EndpointStats, Scope, Stats, worst};
use crate::tally::{COUNT_COLUMNS, Part, SharedTally, read_counts, step, steps, total};

/// When the first pending delivery of the endpoint `record.row` is due.
const FIRST_DUE: &str = "(SELECT due_at FROM delivery WHERE delivery.endpoint = record.row AND state = 0 \
     ORDER BY due_at, delivery.key LIMIT 1)";

pub(in crate::sqlite) fn stats(
    conn: &Connection,
    tally: &SharedTally,
    workspace: WorkspaceId,
    scope: Scope,
    span: Span,
) -> Result<Option<Stats>, Fault> {
    let Some(record) = find_scope(conn, workspace, scope)? else { return Ok(None) };
    let backlog = match scope {
        Scope::Workspace => {
            let mut endpoints = Vec::new();
            for kind in [Kind::Destination, Kind::Webhook, Kind::Mailboxes] {
                endpoints.extend(waiting(conn, kind, "workspace", record.row)?);
            }
            backlog_of_all(conn, &endpoints)?
        }
        Scope::Source(_) => backlog_of_all(conn, &waiting(conn, Kind::Destination, "parent", record.row)?)?,
        Scope::Destination(_) | Scope::Webhook(_) => backlog(conn, record.row, BACKLOG_MAX)?,
    };
    let read = parts(conn, record.workspace, record.row, &span)?;
    // After the table, so that nothing is missed that is written meanwhile.
    let memory = tally.lock().parts(record.row, &span);
    Ok(Some(Stats { steps: steps(&span, &read, &memory), backlog }))
}

pub(in crate::sqlite) fn endpoint_stats(
    conn: &Connection,
    tally: &SharedTally,
    workspace: WorkspaceId,
    span: Span,
) -> Result<Vec<EndpointStats>, Fault> {
    let Some(owner) = find_scope(conn, workspace, Scope::Workspace)? else { return Ok(Vec::new()) };
    let endpoints = endpoints(conn, owner.row)?;
    let mut read = Vec::with_capacity(endpoints.len());
    for endpoint in &endpoints {
        read.push(parts(conn, owner.row, endpoint.row, &span)?);
    }
    let memory = tally.lock().parts_of(owner.row, &span);
    let known = endpoints.iter().zip(read).map(|(endpoint, read)| {
        let memory = memory.get(&endpoint.row).map_or(&[][..], Vec::as_slice);
        // For the time being: something is pending, or nothing.
        let backlog = Backlog { at_least: endpoint.first_due.is_some(), ..Backlog::default() };
        let Endpoint { id, source, .. } = *endpoint;
        EndpointStats { id, source, counts: total(&read, memory), backlog }
    });
    let mut worst_ones = worst(known.collect());
    for one in &mut worst_ones {
        let endpoint = endpoints.iter().find(|it| it.id == one.id && it.first_due.is_some());
        if let Some(endpoint) = endpoint {
            one.backlog = backlog(conn, endpoint.row, ENDPOINT_BACKLOG_MAX)?;
        }
    }
    Ok(worst(worst_ones))
}

/// The living record of what is asked for.
fn find_scope(conn: &Connection, workspace: WorkspaceId, scope: Scope) -> Result<Option<RecordRow>, Fault> {
    let (kind, uuid) = match scope {
        Scope::Workspace => (Kind::Workspace, workspace.uuid()),
        Scope::Source(id) => (Kind::Source, id.uuid()),
        Scope::Destination(id) => (Kind::Destination, id.uuid()),
        Scope::Webhook(id) => (Kind::Webhook, id.uuid()),
    };
    let record = find_record(conn, kind, uuid)?;
    Ok(record.filter(|it| it.raw.workspace == workspace && it.deleted_at.is_none()))
}

/// What the table has of a scope, for a span.
fn parts(conn: &Connection, workspace: i64, scope: i64, span: &Span) -> Result<Vec<Part>, Fault> {
    let millis = span.millis();
    let mut statement = conn.prepare_cached(&parts_sql())?;
    let mut rows =
        statement.query(params![workspace, scope, step(span.grain()), millis.start, millis.end])?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next()? {
        let numbers = [row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?];
        let (arrival, duration): (Vec<u8>, Vec<u8>) = (row.get(7)?, row.get(8)?);
        let counts: Option<Counts> = read_counts(numbers, &arrival, &duration);
        let counts = counts.ok_or_else(|| Fault::Damaged(format!("counts of row {scope}")))?;
        parts.push(Part { at: row.get(0)?, series: row.get(1)?, counts });
    }
    Ok(parts)
}

pub(in crate::sqlite) fn parts_sql() -> String {
    format!(
        "SELECT at, series, {COUNT_COLUMNS} FROM tally \
         WHERE workspace = ?1 AND scope = ?2 AND step = ?3 AND at >= ?4 AND at < ?5"
    )
}

/// A destination or webhook, and when its first pending delivery is due.
struct Endpoint {
    row: i64,
    id: EndpointId,
    source: Option<SourceId>,
    first_due: Option<i64>,
}

/// The living destinations and webhooks of a workspace.
fn endpoints(conn: &Connection, workspace: i64) -> Result<Vec<Endpoint>, Fault> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT record.row, record.uuid, parent.uuid, {FIRST_DUE} FROM record \
         LEFT JOIN record AS parent ON parent.row = record.parent \
         WHERE record.kind = ?1 AND record.workspace = ?2 AND record.deleted_at IS NULL"
    ))?;
    let mut found = Vec::new();
    for kind in [Kind::Destination, Kind::Webhook] {
        let mut rows = statement.query(params![kind as i64, workspace])?;
        while let Some(row) = rows.next()? {
            let uuid = u128::from_be_bytes(row.get(1)?);
            let source = row.get::<_, Option<[u8; 16]>>(2)?.map(u128::from_be_bytes);
            let id = if kind == Kind::Webhook {
                EndpointId::Webhook(WebhookId::from_uuid(uuid))
            } else {
                EndpointId::Destination(DestinationId::from_uuid(uuid))
            };
            let source = source.map(SourceId::from_uuid);
            found.push(Endpoint { row: row.get(0)?, id, source, first_due: row.get(3)? });
        }
    }
    Ok(found)
}

/// Endpoints of a kind that have something pending: those of a workspace, or the destinations of a source (`parent`).
fn waiting(conn: &Connection, kind: Kind, of: &str, row: i64) -> Result<Vec<i64>, Fault> {
    let mut statement = conn.prepare_cached(&waiting_sql(of))?;
    let mut rows = statement.query(params![kind as i64, row])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get::<_, Option<i64>>(1)?.is_some() {
            found.push(row.get(0)?);
        }
    }
    Ok(found)
}

pub(in crate::sqlite) fn waiting_sql(of: &str) -> String {
    format!("SELECT row, {FIRST_DUE} FROM record WHERE kind = ?1 AND {of} = ?2 AND deleted_at IS NULL")
}

/// What endpoints have pending together.
fn backlog_of_all(conn: &Connection, endpoints: &[i64]) -> Result<Backlog, Fault> {
    let mut all = Backlog::default();
    for endpoint in endpoints {
        let counted = usize::try_from(all.pending).unwrap_or(BACKLOG_MAX);
        // What is not counted any more still has a first due time.
        all.add(backlog(conn, *endpoint, BACKLOG_MAX.saturating_sub(counted))?);
    }
    Ok(all)
}

/// What an endpoint has pending. What a pause ended is over, marked or not.
fn backlog(conn: &Connection, endpoint: i64, most: usize) -> Result<Backlog, Fault> {
    let cut = standing(conn, endpoint)?.cut.unwrap_or(-1);
    let looks = sql_limit(most.saturating_add(1));
    let backlog = conn.prepare_cached(BACKLOG)?.query_row(params![endpoint, looks, cut], |row| {
        Ok(Backlog::of(row.get(0)?, row.get(1)?, row.get(2)?, most))
    })?;
    Ok(backlog)
}

pub(in crate::sqlite) const BACKLOG: &str = "SELECT count(*), count(*) FILTER (WHERE key > ?3), min(due_at) FILTER (WHERE key > ?3) \
     FROM (SELECT due_at, key FROM delivery WHERE endpoint = ?1 AND state = 0 ORDER BY due_at, key LIMIT ?2)";
