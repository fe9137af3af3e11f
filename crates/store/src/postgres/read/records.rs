//! Configuration records.

use restante_core::id::WorkspaceId;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::postgres::Fault;
use crate::postgres::config::{RECORD_COLUMNS, RECORD_TABLES, find_record, read_record, workspace_row};
use crate::postgres::sql::{Sql, sql_limit};
use crate::record::{Kind, Raw};
use crate::{Page, Paged, Start};

pub(in crate::postgres) async fn record(
    sql: &Sql,
    kind: Kind,
    workspace: WorkspaceId,
    uuid: u128,
) -> Result<Option<Raw>, Fault> {
    let found = find_record(sql, kind, uuid).await?;
    Ok(found.filter(|it| it.deleted_at.is_none() && it.raw.workspace == workspace).map(|it| it.raw))
}

pub(in crate::postgres) async fn record_by_lookup(
    sql: &Sql,
    kind: Kind,
    lookup: &str,
) -> Result<Option<Raw>, Fault> {
    // The database has no texts with a NUL, and refuses to look for them.
    if lookup.contains('\0') {
        return Ok(None);
    }
    let statement = format!(
        "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.kind = $1 AND record.lookup = $2 AND record.deleted_at IS NULL"
    );
    let row = sql.first(&statement, &[&(kind as i16), &lookup]).await?;
    Ok(row.as_ref().map(read_record).transpose()?.map(|it| it.raw))
}

pub(in crate::postgres) async fn records(
    sql: &Sql,
    kind: Kind,
    workspace: Option<WorkspaceId>,
    parent: Option<u128>,
    page: Page,
) -> Result<Paged<Raw>, Fault> {
    let Some(choice) = Choice::new(sql, kind, workspace, parent).await? else {
        return Ok(Paged { total: page.total.then_some(0), ..Paged::cut(Vec::new(), page, Raw::key) });
    };
    let rows = sql.query(&choice.page_sql(page), &params(&choice.page_values(page))).await?;
    let found = rows.iter().map(|row| Ok(read_record(row)?.raw)).collect::<Result<_, Fault>>()?;
    let mut paged = Paged::cut(found, page, Raw::key);
    if page.total {
        let statement = format!("SELECT count(*) FROM record WHERE {}", choice.condition);
        let counted = sql.one(&statement, &params(&choice.values)).await?;
        paged.total = Some(counted.try_get::<_, i64>(0)?.unsigned_abs());
    }
    Ok(paged)
}

fn params(values: &[i64]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as _).collect()
}

/// Which records a list is about, as SQL that meets an index: `record_child` with a parent, else `record_list`.
struct Choice {
    condition: String,
    values: Vec<i64>,
}

impl Choice {
    /// `None` when there can be none.
    async fn new(
        sql: &Sql,
        kind: Kind,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
    ) -> Result<Option<Self>, Fault> {
        let condition = format!("record.kind = {} AND record.deleted_at IS NULL", kind as i16);
        let mut choice = Self { condition, values: Vec::new() };
        if let Some(workspace) = workspace {
            let Some(owner) = workspace_row(sql, workspace).await? else { return Ok(None) };
            choice.narrow("workspace", owner);
        }
        if let Some(parent) = parent {
            let found =
                sql.first("SELECT row FROM record WHERE uuid = $1", &[&Uuid::from_u128(parent)]).await?;
            let Some(found) = found else { return Ok(None) };
            choice.narrow("parent", found.try_get(0)?);
        }
        Ok(Some(choice))
    }

    fn narrow(&mut self, column: &str, row: i64) {
        self.values.push(row);
        self.condition.push_str(&format!(" AND record.{column} = ${}", self.values.len()));
    }

    fn page_sql(&self, page: Page) -> String {
        let (bound, order) = match page.start {
            Start::Newest | Start::After(_) => ("<", "DESC"),
            Start::Before(_) => (">", "ASC"),
        };
        let next = self.values.len() + 1;
        format!(
            "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE {} AND record.key {bound} ${next} \
             ORDER BY record.key {order} LIMIT ${}",
            self.condition,
            next + 1
        )
    }

    fn page_values(&self, page: Page) -> Vec<i64> {
        let bound = match page.start {
            Start::Newest => i64::MAX,
            Start::After(key) | Start::Before(key) => key.value(),
        };
        let mut values = self.values.clone();
        values.extend([bound, sql_limit(page.limit.saturating_add(1))]);
        values
    }
}
