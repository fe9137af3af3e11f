//! How workspaces and their parts do.

use restante_core::endpoint::EndpointId;
use restante_core::id::{DestinationId, SourceId, WebhookId, WorkspaceId};
use restante_core::stats::Span;
use rustc_hash::FxHashMap;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::postgres::Fault;
use crate::postgres::config::{RecordRow, find_record};
use crate::postgres::sql::{Sql, sql_limit};
use crate::record::Kind;
use crate::stats::{BACKLOG_MAX, Backlog, ENDPOINT_BACKLOG_MAX, EndpointStats, Scope, Stats, worst};
use crate::tally::{COUNT_COLUMNS, Part, SharedTally, read_counts, step, steps, total};

pub(in crate::postgres) async fn stats(
    sql: &Sql,
    tally: &SharedTally,
    workspace: WorkspaceId,
    scope: Scope,
    span: Span,
) -> Result<Option<Stats>, Fault> {
    let Some(record) = find_scope(sql, workspace, scope).await? else { return Ok(None) };
    let row = record.row;
    let backlog = match scope {
        Scope::Workspace => {
            let kinds = [Kind::Destination, Kind::Webhook, Kind::Mailboxes];
            backlog_of_all(sql, &kinds, "workspace", row).await?
        }
        Scope::Source(_) => backlog_of_all(sql, &[Kind::Destination], "parent", row).await?,
        Scope::Destination(_) | Scope::Webhook(_) => {
            backlogs(sql, &[row], BACKLOG_MAX).await?.remove(&row).unwrap_or_default()
        }
    };
    let read = parts(sql, record.workspace, &[row], &span).await?.remove(&row).unwrap_or_default();
    // After the table, so that nothing is missed that is written meanwhile.
    let memory = tally.lock().parts(row, &span);
    Ok(Some(Stats { steps: steps(&span, &read, &memory), backlog }))
}

pub(in crate::postgres) async fn endpoint_stats(
    sql: &Sql,
    tally: &SharedTally,
    workspace: WorkspaceId,
    span: Span,
) -> Result<Vec<EndpointStats>, Fault> {
    let Some(owner) = find_scope(sql, workspace, Scope::Workspace).await? else { return Ok(Vec::new()) };
    let endpoints = endpoints(sql, owner.row).await?;
    let scopes: Vec<i64> = endpoints.iter().map(|it| it.row).collect();
    let read = parts(sql, owner.row, &scopes, &span).await?;
    let memory = tally.lock().parts_of(owner.row, &span);
    let known = endpoints.iter().map(|endpoint| {
        let of = |all: &FxHashMap<i64, Vec<Part>>| all.get(&endpoint.row).cloned().unwrap_or_default();
        // For the time being: something is pending, or nothing.
        let backlog = Backlog { at_least: endpoint.waits, ..Backlog::default() };
        let Endpoint { id, source, .. } = *endpoint;
        EndpointStats { id, source, counts: total(&of(&read), &of(&memory)), backlog }
    });
    let mut worst_ones = worst(known.collect());
    let rows: FxHashMap<EndpointId, i64> = endpoints.iter().map(|it| (it.id, it.row)).collect();
    let asked: Vec<i64> = worst_ones.iter().filter_map(|one| rows.get(&one.id).copied()).collect();
    let backlogs = backlogs(sql, &asked, ENDPOINT_BACKLOG_MAX).await?;
    for one in &mut worst_ones {
        let row = rows.get(&one.id);
        one.backlog = row.and_then(|row| backlogs.get(row)).copied().unwrap_or_default();
    }
    Ok(worst(worst_ones))
}

/// The living record of what is asked for.
async fn find_scope(sql: &Sql, workspace: WorkspaceId, scope: Scope) -> Result<Option<RecordRow>, Fault> {
    let (kind, uuid) = match scope {
        Scope::Workspace => (Kind::Workspace, workspace.uuid()),
        Scope::Source(id) => (Kind::Source, id.uuid()),
        Scope::Destination(id) => (Kind::Destination, id.uuid()),
        Scope::Webhook(id) => (Kind::Webhook, id.uuid()),
    };
    let record = find_record(sql, kind, uuid).await?;
    Ok(record.filter(|it| it.raw.workspace == workspace && it.deleted_at.is_none()))
}

/// What the table has of some scopes of a workspace, for a span.
async fn parts(
    sql: &Sql,
    workspace: i64,
    scopes: &[i64],
    span: &Span,
) -> Result<FxHashMap<i64, Vec<Part>>, Fault> {
    let millis = span.millis();
    let statement = format!(
        "SELECT scope, at, series, {COUNT_COLUMNS} FROM tally WHERE workspace = $1 AND scope = ANY($2) \
         AND step = $3 AND at >= $4 AND at < $5"
    );
    let step = i32::try_from(step(span.grain())).unwrap_or(i32::MAX);
    let rows = sql.query(&statement, &[&workspace, &scopes, &step, &millis.start, &millis.end]).await?;
    let mut parts: FxHashMap<i64, Vec<Part>> = FxHashMap::default();
    for row in &rows {
        let scope = row.try_get(0)?;
        let numbers = [row.try_get(3)?, row.try_get(4)?, row.try_get(5)?, row.try_get(6)?, row.try_get(7)?];
        let counts = read_counts(numbers, row.try_get(8)?, row.try_get(9)?);
        let counts = counts.ok_or_else(|| Fault::Damaged(format!("counts of row {scope}")))?;
        let part = Part { at: row.try_get(1)?, series: Some(row.try_get(2)?), counts };
        parts.entry(scope).or_default().push(part);
    }
    Ok(parts)
}

/// A destination or webhook, and whether it has something pending.
struct Endpoint {
    row: i64,
    id: EndpointId,
    source: Option<SourceId>,
    waits: bool,
}

/// The living destinations and webhooks of a workspace.
async fn endpoints(sql: &Sql, workspace: i64) -> Result<Vec<Endpoint>, Fault> {
    // No EXISTS: that may come to a look at all that waits, of all workspaces.
    let record = living("workspace");
    let statement = format!(
        "SELECT record.row, record.uuid, parent.uuid, record.kind, \
         (SELECT due_at FROM work WHERE work.endpoint = record.row AND work.node IS NULL \
         ORDER BY due_at, work.key LIMIT 1) IS NOT NULL FROM {record} \
         LEFT JOIN record AS parent ON parent.row = record.parent"
    );
    let kinds = [Kind::Destination as i16, Kind::Webhook as i16];
    let read = |row: &Row| {
        let uuid = row.try_get::<_, Uuid>(1)?.as_u128();
        let source = row.try_get::<_, Option<Uuid>>(2)?;
        let id = if row.try_get::<_, i16>(3)? == Kind::Webhook as i16 {
            EndpointId::Webhook(WebhookId::from_uuid(uuid))
        } else {
            EndpointId::Destination(DestinationId::from_uuid(uuid))
        };
        let source = source.map(|it| SourceId::from_uuid(it.as_u128()));
        Ok(Endpoint { row: row.try_get(0)?, id, source, waits: row.try_get(4)? })
    };
    sql.query(&statement, &[&&kinds[..], &workspace]).await?.iter().map(read).collect()
}

/// The living records of the kinds `$1` whose column `of` is `$2`, as `record`.
///
/// Kind by kind: for all kinds at once the database reads all that a workspace has, its suppressions and notices too.
fn living(of: &str) -> String {
    format!(
        "unnest($1::smallint[]) AS wanted (kind), LATERAL (SELECT row, uuid, parent, kind FROM record \
         WHERE record.kind = wanted.kind AND record.{of} = $2 AND record.deleted_at IS NULL OFFSET 0) AS record"
    )
}

/// What some endpoints have pending together: those of a workspace of some kinds, or the destinations of a source
/// (`parent`).
async fn backlog_of_all(sql: &Sql, kinds: &[Kind], of: &str, row: i64) -> Result<Backlog, Fault> {
    let kinds: Vec<i16> = kinds.iter().map(|kind| *kind as i16).collect();
    let record = living(of);
    let statement = format!(
        "SELECT record.row, {OVER}, found.due_at FROM {record} LEFT JOIN LATERAL \
         (SELECT cut FROM health WHERE health.endpoint = record.row OFFSET 0) AS health ON true, LATERAL (SELECT due_at, pauses FROM work WHERE work.endpoint = record.row AND work.node IS NULL \
         ORDER BY due_at, key LIMIT 1) AS found"
    );
    let (mut endpoints, mut oldest) = (Vec::new(), None);
    for row in sql.query(&statement, &[&kinds, &row]).await? {
        endpoints.push(row.try_get::<_, i64>(0)?);
        let first: Option<i64> = Some(row.try_get(2)?).filter(|_| !row.try_get(1).unwrap_or(true));
        oldest = oldest.into_iter().chain(first).min();
    }
    if endpoints.is_empty() {
        return Ok(Backlog::default());
    }
    let statement = format!(
        "SELECT count(*), count(*) FILTER (WHERE NOT over), min(due_at) FILTER (WHERE NOT over) FROM \
         (SELECT {OVER} AS over, found.due_at FROM {PENDING} LIMIT $2) AS looked"
    );
    let looks = sql_limit(BACKLOG_MAX + 1);
    let counted = sql.one(&statement, &[&endpoints, &looks]).await?;
    let counted_oldest: Option<i64> = counted.try_get(2)?;
    // What is not counted any more still has a first due time.
    let oldest = oldest.into_iter().chain(counted_oldest).min();
    Ok(Backlog::of(counted.try_get(0)?, counted.try_get(1)?, oldest, BACKLOG_MAX))
}

/// What each of some endpoints has pending, up to `most`; none for those that have nothing.
async fn backlogs(sql: &Sql, endpoints: &[i64], most: usize) -> Result<FxHashMap<i64, Backlog>, Fault> {
    let statement = format!(
        "SELECT it.endpoint, count(*), count(*) FILTER (WHERE NOT {OVER}), min(found.due_at) FILTER (WHERE NOT {OVER}) \
         FROM {PENDING} GROUP BY it.endpoint"
    );
    let looks = sql_limit(most.saturating_add(1));
    let rows = sql.query(&statement, &[&endpoints, &looks]).await?;
    let read = |row: &Row| {
        let backlog = Backlog::of(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, most);
        Ok((row.try_get(0)?, backlog))
    };
    rows.iter().map(read).collect()
}

/// Whether what was `found` pending is over: its webhook was paused since.
const OVER: &str = "(found.pauses <= coalesce(health.cut, -1))";
/// What the endpoints `$1` have pending, up to `$2` of each, as `found`.
const PENDING: &str = "unnest($1::bigint[]) AS it (endpoint) LEFT JOIN LATERAL \
     (SELECT cut FROM health WHERE health.endpoint = it.endpoint OFFSET 0) AS health ON true, \
     LATERAL (SELECT due_at, pauses FROM work WHERE work.endpoint = it.endpoint AND work.node IS NULL \
     ORDER BY due_at, key LIMIT $2) AS found";
