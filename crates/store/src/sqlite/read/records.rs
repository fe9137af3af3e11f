//! Configuration records.

use restante_core::id::WorkspaceId;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use crate::record::{Kind, Raw};
use crate::sqlite::Fault;
use crate::sqlite::config::{RECORD_COLUMNS, RECORD_TABLES, find_record, read_record};
use crate::sqlite::scan::sql_limit;
use crate::{Page, Paged, Start};

pub(in crate::sqlite) fn record(
    conn: &Connection,
    kind: Kind,
    workspace: WorkspaceId,
    uuid: u128,
) -> Result<Option<Raw>, Fault> {
    let found = find_record(conn, kind, uuid)?;
    Ok(found.filter(|it| it.deleted_at.is_none() && it.raw.workspace == workspace).map(|it| it.raw))
}

pub(in crate::sqlite) fn record_by_lookup(
    conn: &Connection,
    kind: Kind,
    lookup: &str,
) -> Result<Option<Raw>, Fault> {
    let sql = format!(
        "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.kind = ?1 AND record.lookup = ?2 AND record.deleted_at IS NULL"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![kind as i64, lookup])?;
    Ok(rows.next()?.map(read_record).transpose()?.map(|it| it.raw))
}

pub(in crate::sqlite) fn records(
    conn: &Connection,
    kind: Kind,
    workspace: Option<WorkspaceId>,
    parent: Option<u128>,
    page: Page,
) -> Result<Paged<Raw>, Fault> {
    let Some(choice) = Choice::new(conn, kind, workspace, parent)? else {
        return Ok(Paged { total: page.total.then_some(0), ..Paged::cut(Vec::new(), page, Raw::key) });
    };
    let mut found = Vec::new();
    {
        let mut statement = conn.prepare_cached(&choice.page_sql(page))?;
        let mut rows = statement.query(params_from_iter(choice.values.iter()))?;
        while let Some(row) = rows.next()? {
            found.push(read_record(row)?.raw);
        }
    }
    let mut paged = Paged::cut(found, page, Raw::key);
    if page.total {
        let sql = format!("SELECT count(*) FROM record WHERE {}", choice.condition);
        paged.total = conn
            .prepare_cached(&sql)?
            .query_row(params_from_iter(choice.values.iter()), |row| row.get(0))
            .optional()?;
    }
    Ok(paged)
}

/// Which records a list is about, as SQL that meets an index: `record_child` with a parent, else `record_list`.
struct Choice {
    condition: String,
    values: Vec<Value>,
}

impl Choice {
    /// `None` when there can be none.
    fn new(
        conn: &Connection,
        kind: Kind,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
    ) -> Result<Option<Self>, Fault> {
        let mut choice = Self {
            condition: "record.kind = ?1 AND record.deleted_at IS NULL".into(),
            values: vec![Value::Integer(kind as i64)],
        };
        if let Some(workspace) = workspace {
            let Some(owner) = find_record(conn, Kind::Workspace, workspace.uuid())? else { return Ok(None) };
            choice.narrow("workspace", owner.row);
        }
        if let Some(parent) = parent {
            let row: Option<i64> = conn
                .prepare_cached("SELECT row FROM record WHERE uuid = ?1")?
                .query_row([parent.to_be_bytes()], |row| row.get(0))
                .optional()?;
            let Some(row) = row else { return Ok(None) };
            choice.narrow("parent", row);
        }
        Ok(Some(choice))
    }

    fn narrow(&mut self, column: &str, row: i64) {
        self.values.push(Value::Integer(row));
        self.condition.push_str(&format!(" AND record.{column} = ?{}", self.values.len()));
    }

    fn page_sql(&self, page: Page) -> String {
        let (bound, order) = match page.start {
            Start::Newest => (String::new(), "DESC"),
            Start::After(key) => (format!(" AND record.key < {}", key.value()), "DESC"),
            Start::Before(key) => (format!(" AND record.key > {}", key.value()), "ASC"),
        };
        format!(
            "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE {}{bound} ORDER BY record.key {order} LIMIT {}",
            self.condition,
            sql_limit(page.limit.saturating_add(1))
        )
    }
}

#[cfg(test)]
mod tests {
    use restante_core::Timestamp;
    use restante_core::id::Key;

    use super::*;
    use crate::Policy;
    use crate::sqlite::engine::Engine;

    #[test]
    fn lists_meet_an_index() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(&directory.path().join("restante.db"), Policy::default()).unwrap();
        let page = Page::newest(25);
        let later = Page { start: Start::After(Key::first_at(Timestamp::from_millis(1))), ..page };
        for page in [page, later] {
            let mut choice = Choice {
                condition: "record.kind = ?1 AND record.deleted_at IS NULL".into(),
                values: vec![Value::Integer(3)],
            };
            choice.narrow("workspace", 1);
            assert!(plan(&engine.conn, &choice, page).contains("INDEX record_list (kind=? AND workspace=?"));
            choice.narrow("parent", 2);
            let plan = plan(&engine.conn, &choice, page);
            assert!(plan.contains("INDEX record_child (kind=? AND parent=?"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "it is sorted by the index: {plan}");
        }
    }

    fn plan(conn: &Connection, choice: &Choice, page: Page) -> String {
        let sql = format!("EXPLAIN QUERY PLAN {}", choice.page_sql(page));
        let mut statement = conn.prepare(&sql).unwrap();
        let lines = statement
            .query_map(params_from_iter(choice.values.iter()), |row| row.get::<_, String>(3))
            .unwrap();
        lines.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
    }
}
