//! The configuration in memory, and the records it is read from.

use std::collections::HashMap;
use std::sync::Arc;

use restante_core::delivery::CancelReason;
use restante_core::endpoint::{Answer, Destination, Source};
use restante_core::id::{DestinationId, Id, SourceId, WorkspaceId};
use restante_core::{Timestamp, limits};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;

use super::Fault;
use super::engine::Engine;
use crate::endpoint::{Endpoint, Settings};
use crate::record::{Draft, Kind, Raw};
use crate::{Created, Updated, Withdraw};

/// What the writer needs to know of the configuration for each message. Rows are those of `record`.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) workspaces: HashMap<i64, WorkspaceEntry>,
    pub(super) sources: HashMap<i64, SourceEntry>,
    /// Tokens of living sources.
    pub(super) tokens: HashMap<String, i64>,
    pub(super) endpoints: HashMap<i64, EndpointEntry>,
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
    /// their identity, for parcels under way share it.
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

    fn take_workspace(&mut self, conn: &Connection, record: &RecordRow) -> Result<(), Fault> {
        let balance = conn
            .prepare_cached("SELECT balance FROM credit WHERE workspace = ?1")?
            .query_row([record.row], |row| row.get(0))
            .optional()?;
        let id = record.raw.workspace;
        self.workspaces.insert(record.row, WorkspaceEntry { id, balance, balance_changed: false });
        Ok(())
    }

    fn take_source(&mut self, record: &RecordRow) -> Result<(), Fault> {
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

    fn take_destination(&mut self, record: &RecordRow, old: &Self) -> Result<(), Fault> {
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
            Some(known) => {
                known.endpoint.set(settings.clone());
                Arc::clone(&known.endpoint)
            }
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

impl Engine {
    pub(super) fn create(&mut self, draft: &Draft, now: Timestamp) -> Result<Created, Fault> {
        let workspace = match draft.workspace {
            Some(id) => match find_record(&self.conn, Kind::Workspace, id.uuid())? {
                Some(record) => Some(record.row),
                None => return Ok(Created::ParentGone),
            },
            None => None,
        };
        let parent = match draft.parent {
            Some(uuid) => match find_parent(&self.conn, draft.kind, uuid, workspace)? {
                Some(parent) => Some(parent),
                None => return Ok(Created::ParentGone),
            },
            None => None,
        };
        if let (Kind::Destination, Some(source)) = (draft.kind, parent)
            && self
                .config
                .sources
                .get(&source)
                .is_some_and(|entry| entry.endpoints.len() >= limits::DESTINATIONS_PER_SOURCE_MAX)
        {
            return Ok(Created::TooMany);
        }
        if taken(&self.conn, draft.kind, workspace, draft.name.as_deref(), None)? {
            return Ok(Created::NameTaken);
        }
        let key = self.keys.take(now, 1);
        let uuid = Id::<restante_core::id::kind::Source>::new(key, draft.tail).uuid();
        self.conn
            .prepare_cached(
                "INSERT INTO record (kind, uuid, key, workspace, parent, name, lookup, version, created_at, updated_at, body) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?8, ?9)",
            )?
            .execute(params![
                draft.kind as i64,
                uuid.to_be_bytes(),
                key.value(),
                workspace.unwrap_or(0),
                parent,
                draft.name,
                draft.lookup,
                now.millis(),
                draft.body,
            ])?;
        if workspace.is_none() {
            let row = self.conn.last_insert_rowid();
            self.conn.execute("UPDATE record SET workspace = row WHERE row = ?1", [row])?;
        }
        let record = find_record(&self.conn, draft.kind, uuid)?
            .ok_or_else(|| Fault::Damaged("a record just written is not there".into()))?;
        self.follow(draft.kind, &record)?;
        Ok(Created::Done(record.raw))
    }

    pub(super) fn update(&mut self, kind: Kind, new: &Raw, now: Timestamp) -> Result<Updated, Fault> {
        let Some(old) = find_record(&self.conn, kind, new.uuid)? else { return Ok(Updated::NotFound) };
        if old.deleted_at.is_some() || old.raw.workspace != new.workspace {
            return Ok(Updated::NotFound);
        }
        if old.raw.version != new.version {
            return Ok(Updated::Stale);
        }
        if taken(&self.conn, kind, Some(old.workspace), new.name.as_deref(), Some(old.row))? {
            return Ok(Updated::NameTaken);
        }
        self.conn
            .prepare_cached(
                "UPDATE record SET version = version + 1, updated_at = ?2, name = ?3, lookup = ?4, body = ?5 WHERE row = ?1",
            )?
            .execute(params![old.row, now.millis(), new.name, new.lookup, new.body])?;
        let record = find_record(&self.conn, kind, new.uuid)?
            .ok_or_else(|| Fault::Damaged("a record just written is not there".into()))?;
        self.follow(kind, &record)?;
        Ok(Updated::Done(record.raw))
    }

    /// Deletes a record with what belongs to it. Rows stay as tombstones while deliveries refer to them; what is
    /// pending ends bit by bit ([`Engine::sweep`]), and counts as ended from now on.
    pub(super) fn delete(
        &mut self,
        kind: Kind,
        workspace: WorkspaceId,
        uuid: u128,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let Some(record) = find_record(&self.conn, kind, uuid)? else { return Ok(false) };
        if record.deleted_at.is_some() || record.raw.workspace != workspace {
            return Ok(false);
        }
        self.bury(record.row, now)?;
        match kind {
            Kind::Source => {
                let Some(entry) = self.config.sources.get_mut(&record.row) else { return Ok(true) };
                entry.gone_at = Some(now.millis());
                let endpoints = std::mem::take(&mut entry.endpoints);
                self.config.tokens.remove(&self.config.sources[&record.row].token);
                for endpoint in endpoints {
                    self.bury(endpoint, now)?;
                    self.drop_endpoint(endpoint, CancelReason::SourceDeleted);
                }
            }
            Kind::Destination => {
                if let Some(source) = record.parent.and_then(|row| self.config.sources.get_mut(&row)) {
                    source.endpoints.retain(|row| *row != record.row);
                }
                self.drop_endpoint(record.row, CancelReason::EndpointDeleted);
            }
            Kind::Workspace | Kind::ApiKey | Kind::BulkRetry => {}
        }
        Ok(true)
    }

    fn bury(&self, row: i64, now: Timestamp) -> Result<(), Fault> {
        self.conn
            .prepare_cached("UPDATE record SET deleted_at = ?2, updated_at = ?2 WHERE row = ?1")?
            .execute(params![row, now.millis()])?;
        Ok(())
    }

    fn drop_endpoint(&mut self, row: i64, reason: CancelReason) {
        let Some(entry) = self.config.endpoints.get_mut(&row) else { return };
        entry.gone = Some(reason);
        let settings = Settings { gone: true, ..Settings::clone(&entry.settings) };
        entry.endpoint.set(settings.clone());
        entry.settings = Arc::new(settings);
        let endpoint = entry.endpoint.id;
        self.staged.withdrawals.push(Withdraw::Endpoint(endpoint));
        self.relist(row);
        self.unswept.insert(row);
    }

    /// Takes a created or changed record over into memory.
    fn follow(&mut self, kind: Kind, record: &RecordRow) -> Result<(), Fault> {
        match kind {
            Kind::Workspace if record.raw.version == 1 => self.config.take_workspace(&self.conn, record),
            Kind::Workspace | Kind::ApiKey | Kind::BulkRetry => Ok(()),
            Kind::Source => self.config.take_source(record),
            Kind::Destination => self.follow_destination(record),
        }
    }

    fn follow_destination(&mut self, record: &RecordRow) -> Result<(), Fault> {
        let Some(entry) = self.config.endpoints.get_mut(&record.row) else {
            let destination: Destination = parse(&record.raw.body)?;
            self.note_url(record, &destination)?;
            return self.config.take_destination(record, &Config::default());
        };
        let destination: Destination = parse(&record.raw.body)?;
        let old = Arc::clone(&entry.settings);
        let settings = Settings { destination, version: record.raw.version, gone: false };
        entry.endpoint.set(settings.clone());
        entry.settings = Arc::new(settings.clone());
        let endpoint = entry.endpoint.id;
        if old.destination.holds_back().is_none() && settings.destination.holds_back().is_some() {
            self.staged.withdrawals.push(Withdraw::Endpoint(endpoint));
        }
        if old.destination.url != settings.destination.url {
            self.note_url(record, &settings.destination)?;
        }
        self.relist(record.row);
        Ok(())
    }

    fn note_url(&self, record: &RecordRow, destination: &Destination) -> Result<(), Fault> {
        self.conn
            .prepare_cached("INSERT INTO endpoint_url (endpoint, version, url) VALUES (?1, ?2, ?3)")?
            .execute(params![record.row, record.raw.version, destination.url])?;
        Ok(())
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

/// The row of a living parent of the right kind in the same workspace.
fn find_parent(
    conn: &Connection,
    kind: Kind,
    uuid: u128,
    workspace: Option<i64>,
) -> Result<Option<i64>, Fault> {
    let parent_kind = match kind {
        Kind::Destination => Kind::Source,
        Kind::BulkRetry => Kind::Destination,
        Kind::Workspace | Kind::Source | Kind::ApiKey => return Ok(None),
    };
    let parent = find_record(conn, parent_kind, uuid)?;
    Ok(parent.filter(|it| it.deleted_at.is_none() && Some(it.workspace) == workspace).map(|it| it.row))
}

fn taken(
    conn: &Connection,
    kind: Kind,
    workspace: Option<i64>,
    name: Option<&str>,
    besides: Option<i64>,
) -> Result<bool, Fault> {
    let Some(name) = name else { return Ok(false) };
    let row: Option<i64> = conn
        .prepare_cached(
            "SELECT row FROM record WHERE kind = ?1 AND workspace = ?2 AND name = ?3 AND deleted_at IS NULL",
        )?
        .query_row(params![kind as i64, workspace, name], |row| row.get(0))
        .optional()?;
    Ok(row.is_some() && row != besides)
}
