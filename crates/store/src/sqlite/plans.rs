//! What keeps reads from looking through tables: each statement that a reading connection runs in tests is explained,
//! once, and a read whose plan scans or sorts a table fails.
//!
//! It hangs on the connections, not on a list of statements: whatever a test reads is judged. Without statistics the
//! planner decides by the schema alone, so the plan with a few rows is the plan with a million.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Mutex;

use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

use super::lock;

/// Tables that hold a few rows, however much is stored.
const SMALL: [&str; 1] = ["meta"];

thread_local! {
    /// What this thread ran since it was last asked.
    static RAN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes from now on what a connection runs.
pub(super) fn watch(conn: &Connection) {
    conn.trace_v2(
        TraceEventCodes::SQLITE_TRACE_STMT,
        Some(|event| {
            if let TraceEvent::Stmt(statement, _) = event {
                let sql = statement.sql().into_owned();
                RAN.with_borrow_mut(|ran| ran.push(sql));
            }
        }),
    );
}

/// Excuses what this thread ran: a test looks at the tables for itself.
#[cfg(test)]
pub(super) fn excuse() {
    RAN.take();
}

/// Judges what this thread ran on a watched connection and nobody has judged yet.
///
/// # Panics
/// A statement looks through a table.
pub(super) fn judge(conn: &Connection) {
    static JUDGED: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    for sql in RAN.take() {
        if lock(&JUDGED).get_or_insert_default().contains(&sql) {
            continue;
        }
        let plan = plan(conn, &sql);
        if let Some(why) = fault(&plan) {
            panic!("a read looks through a table: {why}\n{sql}\n{}", plan.join("\n"));
        }
        lock(&JUDGED).get_or_insert_default().insert(sql);
    }
    // Explaining is a statement too.
    RAN.take();
}

fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("it ran just now");
    // Its parameters stay null: a plan does not depend on them.
    let lines = statement.raw_query().mapped(|row| row.get::<_, String>(3));
    lines.collect::<Result<_, _>>().expect("a plan is text")
}

/// The step of a plan that grows with what is stored, if there is one.
fn fault(plan: &[String]) -> Option<&String> {
    plan.iter().find(|step| {
        let mut words = step.split(' ');
        let (verb, table) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        // A search that names no index looks for the greatest of all.
        let looks = verb == "SCAN" && table != "CONSTANT" && !table.starts_with('(')
            || verb == "SEARCH" && !step.contains(" USING ");
        let scans = looks && !SMALL.contains(&table) && !step.contains(" VIRTUAL TABLE ");
        // Sorting what an index gives as equal is no more than what began in one millisecond.
        let sorts = step.starts_with("USE TEMP B-TREE") && !step.contains(" TERM");
        scans || sorts
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Sqlite;
    use crate::Policy;

    fn store(directory: &Path) -> Sqlite {
        Sqlite::open(directory, Policy::default()).unwrap()
    }

    #[tokio::test]
    async fn a_read_that_looks_through_a_table_fails() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        for bad in [
            "SELECT key FROM message WHERE method = 'PUT'",
            "SELECT count(*) FROM delivery",
            "SELECT key FROM delivery INDEXED BY delivery_retry WHERE retry_of IS NOT NULL",
            "SELECT row FROM record WHERE lookup = 'token'",
            "SELECT key FROM message WHERE key > 5 ORDER BY path",
            "SELECT key FROM message WHERE key = (SELECT max(message) FROM delivery)",
        ] {
            let read = store.read(|conn| Ok(conn.prepare(bad)?.query([])?.next()?.is_some())).await;
            assert!(read.is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_read_by_an_index_does_not_fail() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        for good in [
            "SELECT 1",
            "SELECT value FROM meta",
            "SELECT path FROM message WHERE key = 5",
            "SELECT key FROM message WHERE key > 5 ORDER BY key DESC LIMIT 25",
            "SELECT started_at FROM attempt WHERE webhook = 1 AND started_at > 5 ORDER BY started_at DESC, delivery DESC",
        ] {
            let read = store.read(|conn| Ok(conn.prepare(good)?.query([])?.next()?.is_some())).await;
            assert!(read.is_ok(), "{good}: {read:?}");
        }
    }
}
