//! The configuration in memory, and how it is read from records.

use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::delivery::CancelReason;
use restante_core::endpoint::{Answer, Destination, Source};
use restante_core::id::{DestinationId, SourceId, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;

use super::Fault;
use crate::endpoint::{Endpoint, Settings};
use crate::record::{Kind, Raw};

/// What the writer needs to know of the configuration for each message. Rows are those of `record`.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) workspaces: FxHashMap<i64, WorkspaceEntry>,
    pub(super) sources: FxHashMap<i64, SourceEntry>,
    /// Tokens of living sources.
    pub(super) tokens: FxHashMap<String, i64>,
    pub(super) endpoints: FxHashMap<i64, EndpointEntry>,
}

#[derive(Debug)]
pub(super) struct WorkspaceEntry {
    pub(super) id: WorkspaceId,
    /// Changed in memory at once, in the table at the end of the transaction.
    pub(super) balance: Option<i64>,
    pub(super) balance_changed: bool,
}

#[derive(Debug)]
pub(super) struct SourceEntry {
    pub(super) workspace: i64,
    pub(super) token: String,
    pub(super) answer: Option<Arc<Answer>>,
    pub(super) retention_ms: i64,
    /// Living destinations, oldest first.
    pub(super) endpoints: Vec<i64>,
    /// When it was deleted.
    pub(super) gone_at: Option<i64>,
}

#[derive(Debug)]
pub(super) struct EndpointEntry {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) settings: Arc<Settings>,
    pub(super) source: i64,
    pub(super) gone: Option<CancelReason>,
    /// Deliveries leased now.
    pub(super) leased: u32,
    /// A lower bound of the due times of its pending deliveries; `i64::MAX` when there are none.
    pub(super) next_due: i64,
    /// Where it stands in the agenda.
    pub(super) listed_at: Option<i64>,
}

/// The columns [`read_record`] wants, in its order.
pub(super) const RECORD_COLUMNS: &str = "record.row, record.kind, record.uuid, owner.uuid, parent.uuid, record.version, \
     record.created_at, record.updated_at, record.name, record.lookup, record.body, record.workspace, record.parent, record.deleted_at";
/// Where they come from.
pub(super) const RECORD_TABLES: &str = "record JOIN record AS owner ON owner.row = record.workspace \
     LEFT JOIN record AS parent ON parent.row = record.parent";

/// A record with its database-internal references.
#[derive(Debug)]
pub(super) struct RecordRow {
    pub(super) row: i64,
    pub(super) kind: i64,
    pub(super) workspace: i64,
    pub(super) parent: Option<i64>,
    pub(super) deleted_at: Option<i64>,
    pub(super) raw: Raw,
}

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

pub(super) fn parse<T: DeserializeOwned>(body: &str) -> Result<T, Fault> {
    serde_json::from_str(body).map_err(|error| Fault::Damaged(format!("record body: {error}")))
}

impl Config {
    /// Reads all that is living, and the dead that deliveries may still refer to. Endpoints that `old` had keep
    /// their identity, for parcels under way share it; their settings change only with a commit.
    pub(super) fn load(conn: &Connection, old: &Self) -> Result<Self, Fault> {
        let mut config = Self::default();
        let sql = format!(
            "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.kind IN (1, 2, 3) ORDER BY record.row"
        );
        let mut statement = conn.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let record = read_record(row)?;
            match record.kind {
                1 => config.take_workspace(conn, &record)?,
                2 => config.take_source(&record)?,
                _ => config.take_destination(&record, old)?,
            }
        }
        Ok(config)
    }

    pub(super) fn take_workspace(&mut self, conn: &Connection, record: &RecordRow) -> Result<(), Fault> {
        let balance = conn
            .prepare_cached("SELECT balance FROM credit WHERE workspace = ?1")?
            .query_row([record.row], |row| row.get(0))
            .optional()?;
        let id = record.raw.workspace;
        self.workspaces.insert(record.row, WorkspaceEntry { id, balance, balance_changed: false });
        Ok(())
    }

    pub(super) fn take_source(&mut self, record: &RecordRow) -> Result<(), Fault> {
        let source: Source = parse(&record.raw.body)?;
        if let Some(old) = self.sources.get(&record.row) {
            self.tokens.remove(&old.token);
        }
        if record.deleted_at.is_none() {
            self.tokens.insert(source.token.clone(), record.row);
        }
        let endpoints = self.sources.remove(&record.row).map(|old| old.endpoints).unwrap_or_default();
        let retention_ms = i64::try_from(source.retention().as_millis()).unwrap_or(i64::MAX);
        self.sources.insert(
            record.row,
            SourceEntry {
                workspace: record.workspace,
                token: source.token,
                answer: source.response.map(Arc::new),
                retention_ms,
                endpoints,
                gone_at: record.deleted_at,
            },
        );
        Ok(())
    }

    pub(super) fn take_destination(&mut self, record: &RecordRow, old: &Self) -> Result<(), Fault> {
        let destination: Destination = parse(&record.raw.body)?;
        let source = record.parent.ok_or_else(|| Fault::Damaged("a destination without a source".into()))?;
        let settings =
            Settings { destination, version: record.raw.version, gone: record.deleted_at.is_some() };
        let workspace = record.raw.workspace;
        let source_id = record.raw.parent.map_or(SourceId::from_uuid(0), SourceId::from_uuid);
        let source_entry = self.sources.get_mut(&source);
        let gone = gone_reason(record.deleted_at, source_entry.as_ref().and_then(|entry| entry.gone_at));
        if let Some(entry) = source_entry.filter(|_| gone.is_none()) {
            entry.endpoints.push(record.row);
        }
        let endpoint = match old.endpoints.get(&record.row) {
            Some(known) => Arc::clone(&known.endpoint),
            None => {
                let id = DestinationId::from_uuid(record.raw.uuid);
                Arc::new(Endpoint::new(id, source_id, workspace, settings.clone()))
            }
        };
        let entry = EndpointEntry {
            endpoint,
            settings: Arc::new(settings),
            source,
            gone,
            leased: 0,
            next_due: i64::MAX,
            listed_at: None,
        };
        self.endpoints.insert(record.row, entry);
        Ok(())
    }

    pub(super) fn source_of(&self, endpoint: &EndpointEntry) -> Result<&SourceEntry, Fault> {
        self.sources
            .get(&endpoint.source)
            .ok_or_else(|| Fault::Damaged("an endpoint without a source".into()))
    }
}

/// Why the deliveries of a deleted destination end: a source takes its destinations with it.
pub(super) fn gone_reason(deleted_at: Option<i64>, source_deleted_at: Option<i64>) -> Option<CancelReason> {
    deleted_at?;
    Some(if deleted_at == source_deleted_at {
        CancelReason::SourceDeleted
    } else {
        CancelReason::EndpointDeleted
    })
}
