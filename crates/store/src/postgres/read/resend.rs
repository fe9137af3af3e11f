//! Which deliveries a replay of a webhook is about.

use restante_core::endpoint::Webhook;
use restante_core::id::{WebhookId, WorkspaceId};
use restante_core::{Timestamp, limits};

use super::has_expired;
use crate::Window;
use crate::postgres::Fault;
use crate::postgres::codec::{DELIVERED_STATE, FAILED, small};
use crate::postgres::config::{RecordRow, find_record, parse};
use crate::postgres::sql::{Sql, sql_limit};
use crate::record::Kind;

/// A living webhook of a workspace.
pub(in crate::postgres) async fn find_webhook(
    sql: &Sql,
    workspace: WorkspaceId,
    webhook: WebhookId,
) -> Result<Option<RecordRow>, Fault> {
    let record = find_record(sql, Kind::Webhook, webhook.uuid()).await?;
    Ok(record.filter(|it| it.raw.workspace == workspace && it.deleted_at.is_none()))
}

/// The oldest moment an attempt may have started at and still be known.
pub(in crate::postgres) fn attempts_kept_from(now: Timestamp) -> i64 {
    now.millis() - limits::ATTEMPTS_KEPT.as_millis() as i64 + 1
}

/// Deliveries of a webhook with a failed attempt in the window and no delivered one, whose events have not expired:
/// the oldest by their first failure in it, up to the most that one replay takes.
pub(in crate::postgres) async fn failed_in(
    sql: &Sql,
    workspace: i64,
    webhook: i64,
    window: Window,
    now: Timestamp,
    cutoff: i64,
) -> Result<Vec<i64>, Fault> {
    // While a replay is in flight a delivery is still what it was. Only as many are looked at as are wanted: the
    // failures are sorted before. What ended behind `cutoff` needs no look at its event.
    let statement = format!(
        "SELECT delivery FROM \
         (SELECT delivery, min(started_at) AS first FROM \
         (SELECT delivery, started_at FROM attempt WHERE workspace = $1 AND webhook = $2 \
         AND started_at BETWEEN $3 AND $4 AND result = $5 OFFSET 0) AS attempt \
         GROUP BY delivery ORDER BY first, delivery) AS failed \
         WHERE (SELECT coalesce(back_to, state) <> $6 AND (ended_at IS NULL OR ended_at > $8 OR \
         (SELECT NOT ({}) FROM message WHERE message.workspace = $1 AND message.key = delivery.message)) \
         FROM delivery WHERE delivery.workspace = $1 AND delivery.key = failed.delivery) \
         ORDER BY first, delivery LIMIT $7",
        has_expired("$8")
    );
    let (since, until) = (window.since.millis().max(attempts_kept_from(now)), window.until.millis());
    let (failed, delivered) = (small(FAILED), small(DELIVERED_STATE));
    let most = sql_limit(limits::REPLAY_EVENTS_MAX);
    let rows = sql
        .query(&statement, &[&workspace, &webhook, &since, &until, &failed, &delivered, &most, &cutoff])
        .await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// How many events [`crate::Store::replay_webhook`] would take.
pub(in crate::postgres) async fn count_replay(
    sql: &Sql,
    workspace: WorkspaceId,
    webhook: WebhookId,
    window: Window,
    now: Timestamp,
    cutoff: i64,
) -> Result<Option<u64>, Fault> {
    let Some(record) = find_webhook(sql, workspace, webhook).await? else { return Ok(None) };
    if parse::<Webhook>(&record.raw.body)?.paused {
        return Ok(Some(0));
    }
    Ok(Some(failed_in(sql, record.workspace, record.row, window, now, cutoff).await?.len() as u64))
}
