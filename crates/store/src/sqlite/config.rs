//! The configuration, read from records.

use restante_core::Timestamp;
use restante_core::health::{Health, Run};
use restante_core::id::WorkspaceId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Fault;
pub(super) use crate::config::*;
use crate::record::{Kind, Raw};

/// The columns [`read_record`] wants, in its order.
pub(super) const RECORD_COLUMNS: &str = "record.row, record.kind, record.uuid, owner.uuid, parent.uuid, record.version, \
     record.created_at, record.updated_at, record.name, record.lookup, record.body, record.workspace, record.parent, record.deleted_at";
/// Where they come from.
pub(super) const RECORD_TABLES: &str = "record JOIN record AS owner ON owner.row = record.workspace \
     LEFT JOIN record AS parent ON parent.row = record.parent";

pub(super) fn read_record(row: &Row<'_>) -> Result<RecordRow, Fault> {
    let uuid = |bytes: [u8; 16]| u128::from_be_bytes(bytes);
    Ok(RecordRow {
        row: row.get(0)?,
        kind: row.get(1)?,
        workspace: row.get(11)?,
        parent: row.get(12)?,
        deleted_at: row.get(13)?,
        raw: Raw {
            uuid: uuid(row.get(2)?),
            workspace: WorkspaceId::from_uuid(uuid(row.get(3)?)),
            parent: row.get::<_, Option<[u8; 16]>>(4)?.map(uuid),
            version: row.get(5)?,
            created_at: Timestamp::from_millis(row.get(6)?),
            updated_at: Timestamp::from_millis(row.get(7)?),
            name: row.get(8)?,
            lookup: row.get(9)?,
            body: row.get(10)?,
        },
    })
}

/// The row of a record, living or not.
pub(super) fn find_record(conn: &Connection, kind: Kind, uuid: u128) -> Result<Option<RecordRow>, Fault> {
    let sql =
        format!("SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.uuid = ?1 AND record.kind = ?2");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![uuid.to_be_bytes(), kind as i64])?;
    rows.next()?.map(read_record).transpose()
}

/// Reads all that is living, and the dead that deliveries may still refer to. Endpoints that `old` had keep
/// their identity, for parcels under way share it; their settings change only with a commit.
pub(super) fn load(conn: &Connection, old: &Config) -> Result<Config, Fault> {
    let mut config = Config {
        mail_terms: old.mail_terms.clone(),
        clients: old.clients.clone(),
        served: old.served.clone(),
        book: old.book.clone(),
        ..Config::default()
    };
    let sql = format!(
        "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.kind IN (1, 2, 3, 6, 9) ORDER BY record.row"
    );
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let record = read_record(row)?;
        match record.kind {
            1 => config.take_workspace(&record, balance(conn, record.row)?),
            2 => config.take_source(&record)?,
            3 => config.take_destination(&record, old)?,
            9 => config.take_mailboxes(&record, old)?,
            _ => config.take_webhook(&record, standing(conn, record.row)?, old)?,
        }
    }
    config.book.retain(|token| config.tokens.contains_key(token));
    Ok(config)
}

pub(super) fn balance(conn: &Connection, workspace: i64) -> Result<Option<i64>, Fault> {
    let found = conn
        .prepare_cached("SELECT balance FROM credit WHERE workspace = ?1")?
        .query_row([workspace], |row| row.get(0))
        .optional()?;
    Ok(found)
}

/// Reads how a webhook stands.
pub(super) fn standing(conn: &Connection, endpoint: i64) -> Result<Standing, Fault> {
    let mut statement = conn.prepare_cached(
        "SELECT run_since, run_failures, degraded, paused_at, cut FROM health WHERE endpoint = ?1",
    )?;
    let found = statement
        .query_row([endpoint], |row| {
            let since: Option<i64> = row.get(0)?;
            let failures = row.get(1)?;
            let run = since.map(|since| Run { since: Timestamp::from_millis(since), failures });
            let health = Health { run, degraded: row.get(2)? };
            Ok(Standing { health, paused_at: row.get(3)?, cut: row.get(4)?, pauses: 0 })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}
