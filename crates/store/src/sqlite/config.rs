//! The configuration in memory, and how it is read from records.

use std::sync::Arc;

use restante_core::delivery::{self, CancelReason, Over};
use restante_core::endpoint::{Answer, Destination, EndpointId, Receiver, Source, Webhook};
use restante_core::event::EventType;
use restante_core::health::{Health, Run};
use restante_core::id::{DestinationId, SourceId, WebhookId, WorkspaceId};
use restante_core::{Delivery, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;

use super::Fault;
use super::codec::DeliveryRow;
use crate::endpoint::{Endpoint, Feed, Settings};
use crate::record::{Kind, Raw};

/// What the writer needs to know of the configuration for each message. Rows are those of `record`.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) workspaces: FxHashMap<i64, WorkspaceEntry>,
    pub(super) workspace_rows: FxHashMap<WorkspaceId, i64>,
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
    /// Living webhooks, oldest first.
    pub(super) webhooks: Vec<i64>,
    /// Which of them want which type, as far as it was asked.
    routes: FxHashMap<EventType, Arc<[i64]>>,
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
    /// The row of the source of a destination, of the workspace of a webhook.
    pub(super) parent: i64,
    pub(super) gone: Option<CancelReason>,
    /// Of a webhook: how it stands, and what its last pause did.
    pub(super) standing: Standing,
    /// Deliveries leased now.
    pub(super) leased: u32,
    /// A lower bound of the due times of its pending deliveries; `i64::MAX` when there are none.
    pub(super) next_due: i64,
    /// Where it stands in the agenda.
    pub(super) listed_at: Option<i64>,
}

/// A row of `health`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) health: Health,
    /// When it was last paused.
    pub(super) paused_at: Option<i64>,
    /// Pending deliveries with keys up to this were ended by that pause.
    pub(super) cut: Option<i64>,
}

impl Standing {
    /// `now`, but not before the last pause: what it skipped is told by the time, and whoever publishes looks at the
    /// clock a little earlier than it is stored.
    pub(super) fn behind_pause(&self, now: Timestamp) -> Timestamp {
        self.paused_at.map_or(now, |at| now.max(Timestamp::from_millis(at)))
    }
}

impl EndpointEntry {
    /// See [`ended`].
    pub(super) fn ended(&self, row: &DeliveryRow, now: Timestamp) -> Option<Delivery> {
        ended(self.gone, self.standing, row, now)
    }
}

/// Why a pending delivery is over: its endpoint is gone, or was paused while it was pending.
///
/// What a pause ended has ended: a deletion that comes later finds nothing to cancel.
pub(super) fn over(gone: Option<CancelReason>, standing: Standing, key: i64) -> Option<Over> {
    let paused = standing.cut.filter(|cut| key <= *cut).map(|_| Over::Paused);
    paused.or(gone.map(Over::Gone))
}

/// What a pending delivery came to by a deletion or a pause that has not marked it yet; `None` if neither ended it.
pub(super) fn ended(
    gone: Option<CancelReason>,
    standing: Standing,
    row: &DeliveryRow,
    now: Timestamp,
) -> Option<Delivery> {
    let over = over(gone, standing, row.key)?;
    let at = match over {
        Over::Paused => standing.paused_at.map_or(now, Timestamp::from_millis),
        Over::Gone(_) => now,
    };
    delivery::abandon(&row.life, over, at)
}

/// Types whose routes are remembered for each workspace: a caller may make up any number.
const ROUTES_MAX: usize = 4096;

impl WorkspaceEntry {
    /// Forgets which webhooks want what.
    pub(super) fn forget_routes(&mut self) {
        self.routes.clear();
    }
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
            "SELECT {RECORD_COLUMNS} FROM {RECORD_TABLES} WHERE record.kind IN (1, 2, 3, 6) ORDER BY record.row"
        );
        let mut statement = conn.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let record = read_record(row)?;
            match record.kind {
                1 => config.take_workspace(conn, &record)?,
                2 => config.take_source(&record)?,
                3 => config.take_destination(&record, old)?,
                _ => config.take_webhook(conn, &record, old)?,
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
        let (webhooks, routes) = (Vec::new(), FxHashMap::default());
        let entry = WorkspaceEntry { id, balance, balance_changed: false, webhooks, routes };
        self.workspaces.insert(record.row, entry);
        self.workspace_rows.insert(id, record.row);
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
        let source_id = record.raw.parent.map_or(SourceId::from_uuid(0), SourceId::from_uuid);
        let source_entry = self.sources.get_mut(&source);
        let gone = gone_reason(record.deleted_at, source_entry.as_ref().and_then(|entry| entry.gone_at));
        if let Some(entry) = source_entry.filter(|_| gone.is_none()) {
            entry.endpoints.push(record.row);
        }
        let new = NewEndpoint {
            id: EndpointId::Destination(DestinationId::from_uuid(record.raw.uuid)),
            feed: Feed::Source(source_id),
            receiver: Receiver::Destination(destination),
            parent: source,
            gone,
            standing: Standing::default(),
        };
        self.take_endpoint(record, new, old);
        Ok(())
    }

    pub(super) fn take_webhook(
        &mut self,
        conn: &Connection,
        record: &RecordRow,
        old: &Self,
    ) -> Result<(), Fault> {
        let webhook: Webhook = parse(&record.raw.body)?;
        let gone = record.deleted_at.map(|_| CancelReason::EndpointDeleted);
        if let Some(entry) = self.workspaces.get_mut(&record.workspace).filter(|_| gone.is_none()) {
            entry.webhooks.push(record.row);
            entry.forget_routes();
        }
        let new = NewEndpoint {
            id: EndpointId::Webhook(WebhookId::from_uuid(record.raw.uuid)),
            feed: Feed::Events,
            receiver: Receiver::Webhook(webhook),
            parent: record.workspace,
            gone,
            standing: standing(conn, record.row)?,
        };
        self.take_endpoint(record, new, old);
        Ok(())
    }

    fn take_endpoint(&mut self, record: &RecordRow, new: NewEndpoint, old: &Self) {
        let settings = Settings {
            receiver: new.receiver,
            version: record.raw.version,
            gone: record.deleted_at.is_some(),
        };
        let endpoint = match old.endpoints.get(&record.row) {
            Some(known) => Arc::clone(&known.endpoint),
            None => Arc::new(Endpoint::new(new.id, new.feed, record.raw.workspace, settings.clone())),
        };
        let entry = EndpointEntry {
            endpoint,
            settings: Arc::new(settings),
            parent: new.parent,
            gone: new.gone,
            standing: new.standing,
            leased: 0,
            next_due: i64::MAX,
            listed_at: None,
        };
        self.endpoints.insert(record.row, entry);
    }

    /// Living webhooks of a workspace that want a type, paused ones included.
    pub(super) fn subscribers(&mut self, workspace: i64, event_type: &EventType) -> Arc<[i64]> {
        let Some(entry) = self.workspaces.get_mut(&workspace) else { return Arc::from([]) };
        if let Some(known) = entry.routes.get(event_type) {
            return Arc::clone(known);
        }
        let wants = |row: &i64| match self.endpoints.get(row).map(|it| &it.settings.receiver) {
            Some(Receiver::Webhook(webhook)) => webhook.events.iter().any(|it| it.matches(event_type)),
            Some(Receiver::Destination(_)) | None => false,
        };
        let found: Arc<[i64]> = entry.webhooks.iter().copied().filter(wants).collect();
        if entry.routes.len() >= ROUTES_MAX {
            entry.forget_routes();
        }
        entry.routes.insert(event_type.clone(), Arc::clone(&found));
        found
    }

    /// The row of the workspace that an endpoint belongs to.
    pub(super) fn workspace_of(&self, endpoint: &EndpointEntry) -> Result<i64, Fault> {
        match endpoint.endpoint.feed {
            Feed::Source(_) => Ok(self.source(endpoint.parent)?.workspace),
            Feed::Events => Ok(endpoint.parent),
        }
    }

    /// How long an endpoint's messages are kept from when they came; `None`: not counted from there.
    pub(super) fn retention_ms(&self, endpoint: &EndpointEntry) -> Result<Option<i64>, Fault> {
        match endpoint.endpoint.feed {
            Feed::Source(_) => Ok(Some(self.source(endpoint.parent)?.retention_ms)),
            Feed::Events => Ok(None),
        }
    }

    fn source(&self, row: i64) -> Result<&SourceEntry, Fault> {
        self.sources.get(&row).ok_or_else(|| Fault::Damaged("an endpoint without a source".into()))
    }
}

/// What differs between a destination and a webhook.
struct NewEndpoint {
    id: EndpointId,
    feed: Feed,
    receiver: Receiver,
    parent: i64,
    gone: Option<CancelReason>,
    standing: Standing,
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
            Ok(Standing { health, paused_at: row.get(3)?, cut: row.get(4)? })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
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
