//! Which deliveries a bulk retry takes.

use restante_core::id::{DestinationId, WorkspaceId};

use crate::BulkRetry;
use crate::postgres::config::find_record;
use crate::postgres::scan::{self, Range, Table, by_keys};
use crate::postgres::sql::Sql;
use crate::postgres::{Fault, codec};
use crate::record::Kind;

/// Deliveries looked at with one statement.
const CHUNK: usize = 1024;

pub(in crate::postgres) async fn count_bulk_retry(
    sql: &Sql,
    workspace: WorkspaceId,
    destination: DestinationId,
    bulk: &BulkRetry,
) -> Result<u64, Fault> {
    let record = find_record(sql, Kind::Destination, destination.uuid()).await?;
    let ours = record.filter(|it| it.raw.workspace == workspace && it.deleted_at.is_none());
    let Some(record) = ours else { return Ok(0) };
    let mut range = bulk_range(bulk, scan::key_lead(sql).await?);
    let mut count = 0;
    loop {
        let scopes = Some(&[record.row][..]);
        let chunk = scan::keys(sql, Table::Delivery, record.workspace, scopes, range, CHUNK).await?;
        let Some(last) = chunk.last().copied() else { return Ok(count) };
        count += matches(sql, record.workspace, &chunk, bulk).await?.len() as u64;
        range = range.behind(last);
    }
}

/// Those of some deliveries that a bulk retry takes, oldest first: created within its bounds, in its state, and
/// nobody retried them yet.
pub(in crate::postgres) async fn matches(
    sql: &Sql,
    workspace: i64,
    keys: &[i64],
    bulk: &BulkRetry,
) -> Result<Vec<i64>, Fault> {
    let Some((first, last)) = codec::state_range(&bulk.state) else { return Ok(Vec::new()) };
    let (first, last) = (codec::small(first), codec::small(last));
    // The subqueries are no joins, so that each looks at its own rows only, whatever the planner thinks of them.
    let statement = format!(
        "SELECT delivery.key FROM {} WHERE delivery.state BETWEEN $3 AND $4 \
         AND coalesce(delivery.created_at, (SELECT received_at FROM message \
         WHERE message.workspace = delivery.workspace AND message.key = delivery.message)) BETWEEN $5 AND $6 \
         AND (SELECT count(*) FROM delivery AS later WHERE later.workspace = delivery.workspace \
         AND later.message = delivery.message AND later.retry_of = delivery.key) = 0 ORDER BY delivery.key",
        by_keys("delivery", "key")
    );
    let (since, until) = (bulk.since.millis(), bulk.until.millis());
    let rows = sql.query(&statement, &[&workspace, &keys, &first, &last, &since, &until]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// The keys of the deliveries a bulk retry may take.
pub(in crate::postgres) fn bulk_range(bulk: &BulkRetry, key_lead_ms: i64) -> Range {
    Range { newest_first: false, ..Range::of_times(Some(bulk.since), Some(bulk.until), key_lead_ms) }
}
