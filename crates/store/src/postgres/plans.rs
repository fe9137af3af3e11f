//! What keeps reads from looking through tables: each statement that a reading transaction runs in tests is explained, once
//! for each node, and a read whose plan scans or sorts a table fails.
//!
//! It hangs on the transactions, not on a list of statements: whatever a test reads is judged. The nodes' connections have
//! plans that do not depend on parameters and take any index before a scan, so a scan means that there is no index.

use std::collections::HashSet;
use std::sync::Mutex;

use serde_json::Value;

use super::Fault;
use super::node::lock;
use super::sql::Sql;

/// Tables that hold a few rows, however much is stored.
const SMALL: [&str; 1] = ["meta"];
/// Indexes that may be read whole, and why.
const WHOLE: [(&str, &str); 2] = [
    ("work_claimed", "what is leased is no more than what nodes hold in memory"),
    ("credit_pkey", "a workspace has one balance"),
];
/// Statements that sort what they find, and why they may.
const SORTS: [(&str, &str); 1] = [(
    "min(started_at) AS first FROM",
    "a replay takes the oldest of what failed in its window, and a window is as long as attempts are kept",
)];

/// Statements that were judged.
#[derive(Debug, Default)]
pub(super) struct Judged(Mutex<HashSet<String>>);

impl Judged {
    /// Judges what a transaction asked and nobody has judged yet.
    ///
    /// # Panics
    /// A statement looks through a table.
    pub(super) async fn judge(&self, sql: &Sql) -> Result<(), Fault> {
        for (statement, params) in sql.asked() {
            if !lock(&self.0).insert(statement.clone()) {
                continue;
            }
            let (plan, tiny) = (plan(sql, &statement, params).await?, tiny_tables(sql).await?);
            if let Some(why) = fault(&plan, &statement, &tiny) {
                // Whoever reads again is told again.
                lock(&self.0).remove(&statement);
                panic!("a read looks through a table: {why}\n{statement}\n{plan:#}");
            }
        }
        Ok(())
    }
}

/// The plan for whatever parameters. Partitions that these leave out are in it: with no parameter all would be.
async fn plan(sql: &Sql, statement: &str, params: usize) -> Result<Value, Fault> {
    let nulls = vec!["NULL"; params].join(", ");
    let nulls = if params == 0 { nulls } else { format!("({nulls})") };
    let lines = sql
        .plain(&format!(
            "SET LOCAL enable_partition_pruning = off; PREPARE judged AS {statement}; \
             EXPLAIN (FORMAT JSON) EXECUTE judged{nulls}; DEALLOCATE judged"
        ))
        .await?;
    serde_json::from_str(&lines.concat()).map_err(|error| Fault::Damaged(format!("a plan: {error}")))
}

/// Tables that are known to hold next to nothing: reading one whole is then the best plan, and another is made once the
/// database has counted more.
async fn tiny_tables(sql: &Sql) -> Result<HashSet<String>, Fault> {
    let tiny =
        sql.plain("SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples BETWEEN 0 AND 100").await?;
    Ok(tiny.into_iter().collect())
}

/// The step of a plan that grows with what is stored, if there is one. `tiny`: tables that may be read whole.
fn fault(plan: &Value, statement: &str, tiny: &HashSet<String>) -> Option<String> {
    let mut faults = Vec::new();
    look(&plan[0]["Plan"], &Judging { statement, tiny }, false, &mut faults);
    faults.into_iter().next()
}

/// What a plan is judged by.
struct Judging<'a> {
    statement: &'a str,
    tiny: &'a HashSet<String>,
}

/// `limited`: no more is taken of what the step gives than a limit says.
fn look(node: &Value, judging: &Judging<'_>, limited: bool, faults: &mut Vec<String>) {
    let kind = node["Node Type"].as_str().unwrap_or_default();
    let table = node["Relation Name"].as_str().unwrap_or_default();
    let tiny = judging.tiny.contains(table);
    let table = table.trim_end_matches(|it: char| it.is_ascii_digit()).trim_end_matches('_');
    match kind {
        "Seq Scan" | "Sample Scan" if !tiny && !SMALL.contains(&table) => {
            faults.push(format!("{kind} on {table}"))
        }
        "Index Scan" | "Index Only Scan" | "Bitmap Index Scan" if !tiny && is_whole(node, limited) => {
            faults.push(format!("{kind} on the whole of {}", node["Index Name"]));
        }
        "Sort"
            if !is_bounded(node)
                && !is_tiny(node, judging.tiny)
                && !SORTS.iter().any(|(part, _)| judging.statement.contains(part)) =>
        {
            faults.push(format!("{kind} by {}", node["Sort Key"]));
        }
        _ => {}
    }
    let limited = kind == "Limit" || limited && matches!(kind, "Append" | "Merge Append" | "Subquery Scan");
    for child in children(node) {
        look(child, judging, limited, faults);
    }
}

/// Whether a step reads all of an index, or all that it holds of a workspace.
fn is_whole(node: &Value, limited: bool) -> bool {
    if limited && node["Filter"].is_null() {
        return false;
    }
    let name = node["Index Name"].as_str().unwrap_or_default();
    let condition = node["Index Cond"].as_str().unwrap_or_default();
    let of_workspace = condition.starts_with("(workspace = ") && !condition.contains(" AND ");
    (condition.is_empty() || of_workspace) && !WHOLE.iter().any(|(index, _)| *index == name)
}

/// Whether all that a step reads is of tiny tables.
fn is_tiny(node: &Value, tiny: &HashSet<String>) -> bool {
    match node["Relation Name"].as_str() {
        Some(table) => tiny.contains(table),
        None => children(node).next().is_some() && children(node).all(|child| is_tiny(child, tiny)),
    }
}

/// Whether what a step gives is bounded by the statement itself: by a limit, or by an array that it was given.
fn is_bounded(node: &Value) -> bool {
    let kind = node["Node Type"].as_str().unwrap_or_default();
    matches!(kind, "Limit" | "Function Scan" | "Result") || children(node).any(is_bounded)
}

fn children(node: &Value) -> impl Iterator<Item = &Value> {
    node["Plans"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(plan: &Value) -> Option<String> {
        fault(&json!([{ "Plan": plan }]), "SELECT", &HashSet::from(["credit".to_owned()]))
    }

    #[test]
    fn what_grows_with_the_tables_is_a_fault() {
        let scan = json!({ "Node Type": "Seq Scan", "Relation Name": "message_21186" });
        assert_eq!(judge(&scan).unwrap(), "Seq Scan on message");
        let whole = json!({ "Node Type": "Index Only Scan", "Index Name": "work_due" });
        assert_eq!(judge(&whole).unwrap(), "Index Only Scan on the whole of \"work_due\"");
        let by_key = json!({ "Node Type": "Index Scan", "Index Cond": "(key > $1)" });
        assert_eq!(
            judge(&json!({ "Node Type": "Append", "Plans": [by_key, scan] })).unwrap(),
            "Seq Scan on message"
        );
        assert_eq!(
            judge(&json!({ "Node Type": "Sort", "Sort Key": ["path"], "Plans": [by_key] })).unwrap(),
            "Sort by [\"path\"]"
        );
        assert_eq!(judge(&by_key), None);
        let limited = json!({ "Node Type": "Limit", "Plans": [by_key] });
        assert_eq!(judge(&json!({ "Node Type": "Sort", "Sort Key": ["key"], "Plans": [limited] })), None);
        assert_eq!(judge(&json!({ "Node Type": "Seq Scan", "Relation Name": "meta" })), None);
        assert_eq!(judge(&json!({ "Node Type": "Seq Scan", "Relation Name": "credit" })), None);
    }
}
