//! Walking through messages and deliveries in the order of their keys.

use restante_core::Timestamp;
use restante_core::id::Key;
use rusqlite::{Connection, params};

use super::Fault;
use super::history::watermark;

/// Keys that each of several scopes is asked for at once, at least.
const SHARE_MIN: usize = 16;

/// What is walked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// Messages; scopes are sources and, for events, workspaces.
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

    /// What is left of it behind `last`.
    pub(super) fn behind(self, last: i64) -> Self {
        if self.newest_first { Self { below: last, ..self } } else { Self { above: last, ..self } }
    }

    /// Those of some keys that lie in it, in its order.
    pub(super) fn pick(self, keys: &[i64]) -> Vec<i64> {
        let mut picked: Vec<i64> =
            keys.iter().copied().filter(|key| self.above < *key && *key < self.below).collect();
        picked.sort_unstable();
        if self.newest_first {
            picked.reverse();
        }
        picked
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

/// The next keys of the range, up to `limit` of them and none only if there are none. `scopes: None`: of all.
pub(super) fn keys(
    conn: &Connection,
    table: Table,
    scopes: Option<&[i64]>,
    range: Range,
    limit: usize,
) -> Result<Vec<i64>, Fault> {
    let Some(scopes) = scopes else { return all(conn, table, range, limit) };
    // Complete up to the watermark; what is behind it is found in the table itself.
    let watermark = watermark(conn)?;
    let mut found = Vec::new();
    // Of many scopes each gives about its share, or most of what is read would be read again with the next keys.
    let share = (limit * 2 / scopes.len().max(1)).clamp(SHARE_MIN.min(limit), limit);
    let mut whole = range;
    for scope in scopes {
        let before = found.len();
        indexed(conn, *scope, range, watermark, share, &mut found)?;
        if found.len() - before == share {
            // It may have more behind its last: what others have behind that is not next.
            let last = found[found.len() - 1];
            if range.newest_first {
                whole.above = whole.above.max(last - 1);
            } else {
                whole.below = whole.below.min(last + 1);
            }
        }
    }
    tail(conn, table, scopes, range, watermark, limit, &mut found)?;
    let mut keys = whole.pick(&found);
    keys.truncate(limit);
    Ok(keys)
}

fn order(range: Range) -> &'static str {
    if range.newest_first { "DESC" } else { "ASC" }
}

fn name(table: Table) -> (&'static str, &'static str) {
    match table {
        Table::Message => ("message", "feed"),
        Table::Delivery => ("delivery", "endpoint"),
    }
}

fn all(conn: &Connection, table: Table, range: Range, limit: usize) -> Result<Vec<i64>, Fault> {
    let sql = format!(
        "SELECT key FROM {} WHERE key > ?1 AND key < ?2 ORDER BY key {} LIMIT ?3",
        name(table).0,
        order(range)
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map(params![range.above, range.below, sql_limit(limit)], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Keys of one scope that the index holds, up to `watermark`.
pub(super) fn indexed(
    conn: &Connection,
    scope: i64,
    range: Range,
    watermark: i64,
    limit: usize,
    found: &mut Vec<i64>,
) -> Result<(), Fault> {
    let sql = format!(
        "SELECT key FROM history WHERE scope = ?1 AND key > ?2 AND key < ?3 ORDER BY key {} LIMIT ?4",
        order(range)
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let below = range.below.min(watermark.saturating_add(1));
    let rows = statement.query_map(params![scope, range.above, below, sql_limit(limit)], |row| row.get(0))?;
    for key in rows {
        found.push(key?);
    }
    Ok(())
}

fn tail(
    conn: &Connection,
    table: Table,
    scopes: &[i64],
    range: Range,
    watermark: i64,
    limit: usize,
    found: &mut Vec<i64>,
) -> Result<(), Fault> {
    let (table, column) = name(table);
    let sql = format!(
        "SELECT key, {column} FROM {table} WHERE key > ?1 AND key < ?2 ORDER BY key {}",
        order(range)
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![range.above.max(watermark), range.below])?;
    let mut matches = 0;
    while let Some(row) = rows.next()? {
        if matches == limit {
            break;
        }
        if scopes.contains(&row.get(1)?) {
            found.push(row.get(0)?);
            matches += 1;
        }
    }
    Ok(())
}

pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
