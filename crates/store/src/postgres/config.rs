//! The configuration, read from records.

use restante_core::Timestamp;
use restante_core::health::{Health, Run};
use restante_core::id::WorkspaceId;
use tokio_postgres::Row;
use uuid::Uuid;

use super::Fault;
use super::sql::Sql;
pub(super) use crate::config::*;
use crate::record::{Kind, Raw};

/// The columns [`read_record`] wants, in its order.
pub(super) const RECORD_COLUMNS: &str = "record.row, record.kind, record.uuid, owner.uuid, parent.uuid, record.version, \
     record.created_at, record.updated_at, record.name, record.lookup, record.body, record.workspace, record.parent, record.deleted_at";
/// Where they come from.
pub(super) const RECORD_TABLES: &str = "record JOIN record AS owner ON owner.row = record.workspace \
     LEFT JOIN record AS parent ON parent.row = record.parent";

pub(super) fn read_record(row: &Row) -> Result<RecordRow, Fault> {
    let uuid = |uuid: Uuid| uuid.as_u128();
    Ok(RecordRow {
        row: row.try_get(0)?,
        kind: i64::from(row.try_get::<_, i16>(1)?),
        workspace: row.try_get(11)?,
        parent: row.try_get(12)?,
        deleted_at: row.try_get(13)?,
        raw: Raw {
            uuid: uuid(row.try_get(2)?),
            workspace: WorkspaceId::from_uuid(uuid(row.try_get(3)?)),
            parent: row.try_get::<_, Option<Uuid>>(4)?.map(uuid),
            version: row.try_get::<_, i32>(5)?.unsigned_abs(),
            created_at: Timestamp::from_millis(row.try_get(6)?),
            updated_at: Timestamp::from_millis(row.try_get(7)?),
            name: row.try_get(8)?,
            lookup: row.try_get(9)?,
            body: row.try_get(10)?,
        },
    })
}

/// The row of a record, living or not.
pub(super) async fn find_record(sql: &Sql, kind: Kind, uuid: u128) -> Result<Option<RecordRow>, Fault> {
    let statement =
        format!("SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.uuid = $1 AND record.kind = $2");
    let row = sql.first(&statement, &[&Uuid::from_u128(uuid), &(kind as i16)]).await?;
    row.as_ref().map(read_record).transpose()
}

/// The row of a workspace, living or not: the first half of the keys of all that is in it.
pub(super) async fn workspace_row(sql: &Sql, workspace: WorkspaceId) -> Result<Option<i64>, Fault> {
    let statement = "SELECT row FROM record WHERE uuid = $1 AND kind = 1";
    let row = sql.first(statement, &[&Uuid::from_u128(workspace.uuid())]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// The columns [`read_standing`] wants, in its order.
pub(super) const STANDING_COLUMNS: &str = "run_since, run_failures, degraded, paused_at, cut, pauses";

pub(super) fn read_standing(row: &Row, first: usize) -> Result<Standing, Fault> {
    let since: Option<i64> = row.try_get(first)?;
    let failures = row.try_get::<_, i32>(first + 1)?.unsigned_abs();
    let run = since.map(|since| Run { since: Timestamp::from_millis(since), failures });
    Ok(Standing {
        health: Health { run, degraded: row.try_get(first + 2)? },
        paused_at: row.try_get(first + 3)?,
        cut: row.try_get(first + 4)?,
        pauses: row.try_get(first + 5)?,
    })
}

/// Reads how a webhook stands.
pub(super) async fn standing(sql: &Sql, endpoint: i64) -> Result<Standing, Fault> {
    let statement = format!("SELECT {STANDING_COLUMNS} FROM health WHERE endpoint = $1");
    let row = sql.first(&statement, &[&endpoint]).await?;
    row.map_or_else(|| Ok(Standing::default()), |row| read_standing(&row, 0))
}
