//! Balances and what changed them.

use restante_core::Timestamp;
use restante_core::id::{ChargeId, Key, Tail, WorkspaceId};
use tokio_postgres::Row;

use crate::postgres::Fault;
use crate::postgres::config::workspace_row;
use crate::postgres::sql::{Sql, sql_limit};
use crate::row::{self, ChargeReason, LEDGER_COUNT_MAX};
use crate::{Page, Paged, Start};

pub(in crate::postgres) async fn balance(sql: &Sql, workspace: WorkspaceId) -> Result<Option<i64>, Fault> {
    let Some(owner) = workspace_row(sql, workspace).await? else { return Ok(None) };
    let row = sql.first("SELECT balance FROM credit WHERE workspace = $1", &[&owner]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

pub(in crate::postgres) async fn ledger(
    sql: &Sql,
    workspace: WorkspaceId,
    page: Page,
) -> Result<Paged<row::Charge>, Fault> {
    let owner = workspace_row(sql, workspace).await?.unwrap_or(0);
    let (above, below, order) = match page.start {
        Start::Newest => (-1, i64::MAX, "DESC"),
        Start::After(key) => (-1, key.value(), "DESC"),
        Start::Before(key) => (key.value(), i64::MAX, "ASC"),
    };
    let statement = format!(
        "SELECT key, tail, at, delta, reason, reference FROM ledger WHERE workspace = $1 AND key > $2 AND key < $3 \
         ORDER BY key {order} LIMIT $4"
    );
    let rows = sql.query(&statement, &[&owner, &above, &below, &sql_limit(page.limit + 1)]).await?;
    let found = rows.iter().map(read_charge).collect::<Result<_, _>>()?;
    let mut paged = Paged::cut(found, page, |charge| charge.id.key());
    if page.total {
        let statement = "SELECT count(*) FROM (SELECT FROM ledger WHERE workspace = $1 LIMIT $2) AS counted";
        let count: i64 = sql.one(statement, &[&owner, &sql_limit(LEDGER_COUNT_MAX + 1)]).await?.try_get(0)?;
        paged.total = Some(count.unsigned_abs()).filter(|count| *count <= LEDGER_COUNT_MAX as u64);
    }
    Ok(paged)
}

fn read_charge(row: &Row) -> Result<row::Charge, Fault> {
    let tail = Tail::from_bits(row.try_get::<_, i64>(1)?.unsigned_abs());
    Ok(row::Charge {
        id: ChargeId::new(Key::from_value(row.try_get(0)?), tail),
        at: Timestamp::from_millis(row.try_get(2)?),
        delta: row.try_get(3)?,
        reason: charge_reason(row.try_get(4)?)?,
        reference: row.try_get(5)?,
    })
}

fn charge_reason(code: i16) -> Result<ChargeReason, Fault> {
    [ChargeReason::Request, ChargeReason::Retry, ChargeReason::Replay, ChargeReason::Grant]
        .into_iter()
        .find(|reason| *reason as i16 == code)
        .ok_or_else(|| Fault::Damaged(format!("charge reason {code}")))
}
