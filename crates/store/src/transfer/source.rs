//! The data directory, read as of one moment.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use restante_core::id::Key;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::Fault;
use super::table::Table;
use crate::postgres::partition::{day_of, first_key};
use crate::sqlite::engine::highest_key;
use crate::sqlite::migrate::is_current;
use crate::sqlite::{DATABASE_FILE, meta, own};

/// See the module.
pub(super) struct Source {
    pub(super) conn: Connection,
    _lock: File,
}

/// What is not in rows that are copied as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    pub(super) key_lead_ms: i64,
    /// The highest key that was handed out.
    pub(super) last_key: i64,
    /// The highest number that a record ever had.
    pub(super) last_row: i64,
    /// Deliveries that were leased when the process died.
    pub(super) in_flight: u64,
    /// The lowest key of these.
    pub(super) floor: i64,
}

impl Source {
    pub(super) fn open(directory: &Path) -> Result<Self, Fault> {
        let database = directory.join(DATABASE_FILE);
        if !database.is_file() {
            return Err(Fault::NoData(directory.to_owned()));
        }
        let lock = own(directory)?;
        let conn = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // What a crash left in the log stays there.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        if !is_current(&conn)? {
            return Err(Fault::Outdated(directory.to_owned()));
        }
        conn.execute_batch("BEGIN")?;
        Ok(Self { conn, _lock: lock })
    }

    /// The days of all keys that are partitioned by.
    pub(super) fn days(&self) -> Result<BTreeSet<i64>, Fault> {
        let mut days = BTreeSet::new();
        for (table, column) in [("message", "key"), ("delivery", "key"), ("attempt", "delivery")] {
            let sql = format!("SELECT min({column}) FROM {table} WHERE {column} >= ?1");
            let mut next = self.conn.prepare(&sql)?;
            let mut from = 0;
            while let Some(key) = next.query_row([from], |row| row.get::<_, Option<i64>>(0))? {
                let day = day_of(Key::from_value(key));
                days.insert(day);
                from = first_key(day + 1);
            }
        }
        Ok(days)
    }

    pub(super) fn marks(&self) -> Result<Marks, Fault> {
        let rows = "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'record'), 0), \
             coalesce((SELECT max(row) FROM record), 0))";
        let leased = "SELECT count(*), coalesce(min(key), 0) FROM delivery WHERE state = 1";
        let (in_flight, floor) =
            self.conn.query_row(leased, [], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
        Ok(Marks {
            key_lead_ms: meta(&self.conn, "key_lead_ms")?.unwrap_or(0),
            last_key: highest_key(&self.conn)?,
            last_row: self.conn.query_row(rows, [], |row| row.get(0))?,
            in_flight: in_flight.unsigned_abs(),
            floor,
        })
    }

    /// How many rows a table of the database will have.
    pub(super) fn count(&self, table: &Table) -> Result<u64, Fault> {
        let sql = format!("SELECT count(*) FROM {}", table.counted);
        let count: i64 = self.conn.query_row(&sql, [], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }
}
