//! Forward-only migrations, each with a checksum; of several nodes that start at once one runs them.

use sha2::{Digest, Sha256};
use tokio_postgres::Client;

use super::Fault;
use crate::code::hex;

struct Migration {
    number: i32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "inbound", sql: include_str!("../../migrations/postgres/0001_inbound.sql") },
    Migration {
        number: 2,
        name: "outbound",
        sql: include_str!("../../migrations/postgres/0002_outbound.sql"),
    },
    Migration { number: 3, name: "email", sql: include_str!("../../migrations/postgres/0003_email.sql") },
    Migration { number: 4, name: "tally", sql: include_str!("../../migrations/postgres/0004_tally.sql") },
    Migration { number: 5, name: "scope", sql: include_str!("../../migrations/postgres/0005_scope.sql") },
    Migration { number: 6, name: "intake", sql: include_str!("../../migrations/postgres/0006_intake.sql") },
];

/// Held while migrations run: any number that nobody else takes.
const LOCK: i64 = 0x7265_7374_0001;

/// Brings the schema up to date, all in one transaction.
///
/// # Errors
/// `Damaged` when a migration that ran had another text, or the database was written by a newer Restante.
pub(crate) async fn migrate(client: &mut Client) -> Result<(), Fault> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS migration (number int PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)",
        )
        .await?;
    let ran = transaction.query("SELECT number, checksum FROM migration ORDER BY number", &[]).await?;
    let newest = ran.last().map_or(0, |row| row.get::<_, i32>(0));
    let known = MIGRATIONS.last().map_or(0, |migration| migration.number);
    if newest > known {
        return Err(Fault::Damaged(format!(
            "the database has migration {newest}, this version knows {known}: it was written by a newer Restante"
        )));
    }
    for migration in MIGRATIONS {
        let checksum = hex(&Sha256::digest(migration.sql));
        match ran.iter().find(|row| row.get::<_, i32>(0) == migration.number) {
            Some(row) if row.get::<_, String>(1) == checksum => {}
            Some(_) => {
                return Err(Fault::Damaged(format!(
                    "migration {} ({}) differs from what this database was made with",
                    migration.number, migration.name
                )));
            }
            None => {
                transaction.batch_execute(migration.sql).await?;
                transaction
                    .execute(
                        "INSERT INTO migration (number, name, checksum) VALUES ($1, $2, $3)",
                        &[&migration.number, &migration.name, &checksum],
                    )
                    .await?;
            }
        }
    }
    Ok(transaction.commit().await?)
}
