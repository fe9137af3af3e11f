//! Balances and what changed them.

use restante_core::Timestamp;
use restante_core::id::{ChargeId, Key, Tail, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::record::Kind;
use crate::row::{self, ChargeReason, LEDGER_COUNT_MAX};
use crate::sqlite::Fault;
use crate::sqlite::config::find_record;
use crate::sqlite::scan::sql_limit;
use crate::{Page, Paged, Start};

pub(in crate::sqlite) fn balance(conn: &Connection, workspace: WorkspaceId) -> Result<Option<i64>, Fault> {
    let Some(record) = find_record(conn, Kind::Workspace, workspace.uuid())? else { return Ok(None) };
    let balance = conn
        .prepare_cached("SELECT balance FROM credit WHERE workspace = ?1")?
        .query_row([record.row], |row| row.get(0))
        .optional()?;
    Ok(balance)
}

pub(in crate::sqlite) fn ledger(
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
        let count: u64 = conn
            .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM ledger WHERE workspace = ?1 LIMIT ?2)")?
            .query_row(params![owner, sql_limit(LEDGER_COUNT_MAX + 1)], |row| row.get(0))?;
        paged.total = Some(count).filter(|count| *count <= LEDGER_COUNT_MAX as u64);
    }
    Ok(paged)
}

fn charge_reason(code: i64) -> Result<ChargeReason, Fault> {
    [ChargeReason::Request, ChargeReason::Retry, ChargeReason::Replay, ChargeReason::Grant]
        .into_iter()
        .find(|reason| *reason as i64 == code)
        .ok_or_else(|| Fault::Damaged(format!("charge reason {code}")))
}
