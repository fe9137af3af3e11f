//! Forward-only migrations, each with a checksum.

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::Fault;
use crate::code::hex;

struct Migration {
    number: u32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "inbound", sql: include_str!("../../migrations/sqlite/0001_inbound.sql") },
    Migration { number: 2, name: "outbound", sql: include_str!("../../migrations/sqlite/0002_outbound.sql") },
    Migration { number: 3, name: "email", sql: include_str!("../../migrations/sqlite/0003_email.sql") },
    Migration { number: 4, name: "tally", sql: include_str!("../../migrations/sqlite/0004_tally.sql") },
    Migration { number: 5, name: "scope", sql: include_str!("../../migrations/sqlite/0005_scope.sql") },
    Migration { number: 6, name: "intake", sql: include_str!("../../migrations/sqlite/0006_intake.sql") },
];

/// Brings the schema up to date, each migration in a transaction of its own.
///
/// # Errors
/// `Damaged` when a migration that ran had another text, or the database was written by a newer Restante.
pub(super) fn migrate(conn: &Connection) -> Result<(), Fault> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)",
    )?;
    let newest = version(conn)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > newest) {
        run(conn, migration)?;
    }
    Ok(())
}

/// The number of the newest migration that ran, 0 if none did.
///
/// # Errors
/// `Damaged` when a migration that ran had another text, or the database was written by a newer Restante.
pub(crate) fn version(conn: &Connection) -> Result<u32, Fault> {
    let newest: u32 =
        conn.query_row("SELECT coalesce(max(number), 0) FROM migration", [], |row| row.get(0))?;
    let known = MIGRATIONS.last().map_or(0, |migration| migration.number);
    if newest > known {
        return Err(Fault::Damaged(format!(
            "it has migration {newest}, this version knows {known}: it was written by a newer Restante"
        )));
    }
    for migration in MIGRATIONS.iter().take_while(|migration| migration.number <= newest) {
        let ran: Option<String> = conn
            .query_row("SELECT checksum FROM migration WHERE number = ?1", [migration.number], |row| {
                row.get(0)
            })
            .optional()?;
        if ran.is_none_or(|ran| ran != checksum(migration)) {
            return Err(Fault::Damaged(format!(
                "migration {} ({}) differs from what this database was made with",
                migration.number, migration.name
            )));
        }
    }
    Ok(newest)
}

fn checksum(migration: &Migration) -> String {
    hex(&Sha256::digest(migration.sql))
}

/// Whether all migrations ran, as they are now.
pub(crate) fn is_current(conn: &Connection) -> Result<bool, Fault> {
    let mut statement = conn.prepare("SELECT checksum FROM migration ORDER BY number")?;
    let ran = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let known = MIGRATIONS.iter().map(checksum);
    Ok(ran.into_iter().eq(known))
}

fn run(conn: &Connection, migration: &Migration) -> Result<(), Fault> {
    let transaction = conn.unchecked_transaction()?;
    transaction.execute_batch(migration.sql)?;
    transaction.execute(
        "INSERT INTO migration (number, name, checksum) VALUES (?1, ?2, ?3)",
        params![migration.number, migration.name, checksum(migration)],
    )?;
    transaction.commit()?;
    Ok(())
}
