//! Walking through a workspace's messages and deliveries in the order of their keys.

use std::collections::HashMap;

use restante_core::Timestamp;
use restante_core::id::Key;

use super::Fault;
use super::codec::{DELIVERY_COLUMNS, WORK_OF_DELIVERY};
use super::sql::{Sql, sql_limit};

/// Keys that each of several scopes is asked for at once, at least.
const SHARE_MIN: usize = 16;

/// What is walked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// Messages; scopes are sources, workspaces for events, and these negated for emails.
    Message,
    /// Deliveries; scopes are endpoints.
    Delivery,
}

/// Keys strictly between two bounds, and in which direction they are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) above: i64,
    pub(super) below: i64,
    pub(super) newest_first: bool,
}

impl Range {
    /// Keys that things from `since` to `until` may have, both inclusive. A key is made of the time of its making,
    /// or of a later one, by up to `key_lead_ms`, when the clock went back.
    pub(super) fn of_times(since: Option<Timestamp>, until: Option<Timestamp>, key_lead_ms: i64) -> Self {
        let above = since.map_or(-1, |since| first_key(since.millis()) - 1);
        let below = until.map_or(i64::MAX, |until| {
            first_key(until.millis().saturating_add(key_lead_ms).saturating_add(1))
        });
        Self { above, below, newest_first: true }
    }

    /// The first `limit` of some keys that lie in it, in its order.
    pub(super) fn pick(self, keys: &[i64], limit: usize) -> Vec<i64> {
        let mut picked: Vec<i64> =
            keys.iter().copied().filter(|key| self.above < *key && *key < self.below).collect();
        picked.sort_unstable();
        if self.newest_first {
            picked.reverse();
        }
        picked.truncate(limit);
        picked
    }

    /// What is left of it behind `last`.
    pub(super) fn behind(self, last: i64) -> Self {
        if self.newest_first { Self { below: last, ..self } } else { Self { above: last, ..self } }
    }
}

/// The first key of a millisecond; the last of all for times that no key reaches.
fn first_key(millis: i64) -> i64 {
    if millis > Key::from_value(i64::MAX).at().millis() {
        i64::MAX
    } else {
        Key::first_at(Timestamp::from_millis(millis)).value()
    }
}

/// The next keys of the range in a workspace, up to `limit` of them and none only if there are none. `scopes: None`: of
/// all of it.
pub(super) async fn keys(
    sql: &Sql,
    table: Table,
    workspace: i64,
    scopes: Option<&[i64]>,
    range: Range,
    limit: usize,
) -> Result<Vec<i64>, Fault> {
    let (table, scope) = match table {
        Table::Message => ("message", "feed"),
        Table::Delivery => ("delivery", "endpoint"),
    };
    let order = order(range);
    let rows = match scopes {
        None => {
            let limit = sql_limit(limit);
            let statement = format!(
                "SELECT key FROM {table} WHERE workspace = $1 AND key > $2 AND key < $3 ORDER BY key {order} LIMIT $4"
            );
            sql.query(&statement, &[&workspace, &range.above, &range.below, &limit]).await?
        }
        Some(scopes) => {
            return among(sql, (table, scope), workspace, scopes, range, limit).await;
        }
    };
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

fn order(range: Range) -> &'static str {
    if range.newest_first { "DESC" } else { "ASC" }
}

/// The next keys of some scopes.
async fn among(
    sql: &Sql,
    (table, scope): (&str, &str),
    workspace: i64,
    scopes: &[i64],
    range: Range,
    limit: usize,
) -> Result<Vec<i64>, Fault> {
    // Of many scopes each gives about its share, in the order of its index, or most of what is read would be read again
    // with the next keys.
    let share = (limit * 2 / scopes.len().max(1)).clamp(SHARE_MIN.min(limit), limit);
    let statement = format!(
        "SELECT scope.row, found.key FROM unnest($5::bigint[]) AS scope(row), LATERAL \
         (SELECT key FROM {table} WHERE workspace = $1 AND {scope} = scope.row AND key > $2 AND key < $3 \
         ORDER BY key {} LIMIT $4) AS found",
        order(range)
    );
    let rows =
        sql.query(&statement, &[&workspace, &range.above, &range.below, &sql_limit(share), &scopes]).await?;
    let (mut found, mut whole) = (Vec::with_capacity(rows.len()), range);
    let mut given: HashMap<i64, Vec<i64>> = HashMap::with_capacity(scopes.len());
    for row in rows {
        given.entry(row.try_get(0)?).or_default().push(row.try_get(1)?);
    }
    for keys in given.into_values() {
        // It may have more behind its last: what others have behind that is not next.
        if keys.len() == share && range.newest_first {
            whole.above = keys.iter().map(|last| last - 1).min().unwrap_or(range.above).max(whole.above);
        } else if keys.len() == share {
            whole.below = keys.iter().map(|last| last + 1).max().unwrap_or(range.below).min(whole.below);
        }
        found.extend(keys);
    }
    Ok(whole.pick(&found, limit))
}

/// How far keys may be ahead of the time they were made at, in milliseconds.
pub(super) async fn key_lead(sql: &Sql) -> Result<i64, Fault> {
    let row = sql.first("SELECT value FROM meta WHERE name = 'key_lead_ms'", &[]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
}

/// Rows of a table whose `column` is one of an array of keys, as `FROM` takes them: `$1` is the workspace, `$2` the
/// keys. Each is looked up on its own in the one partition that may hold it; an array would be in all of them.
pub(super) fn by_keys(table: &str, column: &str) -> String {
    format!(
        "unnest($2::bigint[]) AS wanted(key) CROSS JOIN LATERAL \
         (SELECT * FROM {table} WHERE {table}.workspace = $1 AND {table}.{column} = wanted.key OFFSET 0) AS {table}"
    )
}

/// Deliveries by their keys, for [`read_delivery`](super::codec::read_delivery); see [`by_keys`].
pub(super) fn deliveries_by_keys() -> String {
    format!("SELECT {DELIVERY_COLUMNS} FROM {} {WORK_OF_DELIVERY}", by_keys("delivery", "key"))
}
