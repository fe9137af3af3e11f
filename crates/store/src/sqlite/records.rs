//! Creating, changing and deleting records, and what follows from it at once.

use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::delivery::CancelReason;
use restante_core::endpoint::{Destination, Receiver, Sealed, Webhook};
use restante_core::id::{Id, SourceId, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Fault;
use super::config::{Config, RecordRow, Standing, balance, find_record, parse};
use super::engine::Engine;
use crate::endpoint::Settings;
use crate::record::{Draft, Kind, Raw, Workspace};
use crate::{Created, Updated, Withdraw};

impl Engine {
    /// See [`crate::Store::create`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn create(&mut self, draft: &Draft, now: Timestamp) -> Result<Created, Fault> {
        let owner = match draft.workspace {
            Some(id) => match find_record(&self.conn, Kind::Workspace, id.uuid())? {
                Some(record) if record.deleted_at.is_none() => Some(record),
                Some(_) | None => return Ok(Created::ParentGone),
            },
            None => None,
        };
        let workspace = owner.as_ref().map(|owner| owner.row);
        let parent = match draft.parent {
            Some(uuid) => match find_parent(&self.conn, draft.kind, uuid, workspace)? {
                Some(parent) => Some(parent),
                None => return Ok(Created::ParentGone),
            },
            None => None,
        };
        let quota = match &owner {
            Some(owner) => parse::<Workspace>(&owner.raw.body)?.quotas.of(draft.kind),
            None => None,
        };
        if self.is_full(draft.kind, quota, workspace, parent)? {
            return Ok(Created::TooMany);
        }
        let (name, lookup) = (draft.name.as_deref(), draft.lookup.as_deref());
        if taken(&self.conn, draft.kind, workspace, name, lookup, None)? {
            return Ok(Created::NameTaken);
        }
        let uuid = self.insert_record(draft, workspace, parent, now)?;
        let record = find_record(&self.conn, draft.kind, uuid)?
            .ok_or_else(|| Fault::Damaged("a record just written is not there".into()))?;
        self.follow(draft.kind, &record)?;
        Ok(Created::Done(record.raw))
    }

    /// Whether as many live there as may.
    fn is_full(
        &self,
        kind: Kind,
        quota: Option<u32>,
        workspace: Option<i64>,
        parent: Option<i64>,
    ) -> Result<bool, Fault> {
        let quota = quota.map(|quota| usize::try_from(quota).unwrap_or(usize::MAX));
        let Some(most) = kind.most().into_iter().chain(quota).min() else { return Ok(false) };
        let (statement, owner) = match kind.parent() {
            Some(_) => {
                ("SELECT count(*) FROM record WHERE kind = ?1 AND parent = ?2 AND deleted_at IS NULL", parent)
            }
            None => (
                "SELECT count(*) FROM record WHERE kind = ?1 AND workspace = ?2 AND deleted_at IS NULL",
                workspace,
            ),
        };
        let living: i64 =
            self.conn.prepare_cached(statement)?.query_row(params![kind as i64, owner], |row| row.get(0))?;
        Ok(usize::try_from(living).is_ok_and(|living| living >= most))
    }

    /// Inserts a record and gives its id. A workspace owns itself.
    pub(super) fn insert_record(
        &mut self,
        draft: &Draft,
        workspace: Option<i64>,
        parent: Option<i64>,
        now: Timestamp,
    ) -> Result<u128, Fault> {
        let key = self.take_keys(now, 1)?;
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
        Ok(uuid)
    }

    /// See [`crate::Store::update`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn update(&mut self, kind: Kind, new: &Raw, now: Timestamp) -> Result<Updated, Fault> {
        let Some(old) = find_record(&self.conn, kind, new.uuid)? else { return Ok(Updated::NotFound) };
        if old.deleted_at.is_some() || old.raw.workspace != new.workspace {
            return Ok(Updated::NotFound);
        }
        if old.raw.version != new.version {
            return Ok(Updated::Stale);
        }
        let (name, lookup) = (new.name.as_deref(), new.lookup.as_deref());
        if taken(&self.conn, kind, Some(old.workspace), name, lookup, Some(old.row))? {
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
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn delete(
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
        match kind {
            Kind::Source => self.delete_source(record.row, now)?,
            Kind::Destination => {
                self.bury(record.row, now)?;
                if let Some(source) = record.parent.and_then(|row| self.config.sources.get_mut(&row)) {
                    source.endpoints.retain(|row| *row != record.row);
                }
                self.drop_endpoint(record.row, CancelReason::EndpointDeleted);
            }
            Kind::Webhook => {
                self.bury(record.row, now)?;
                if let Some(workspace) = self.config.workspaces.get_mut(&record.workspace) {
                    workspace.webhooks.retain(|row| *row != record.row);
                    workspace.forget_routes();
                }
                self.drop_endpoint(record.row, CancelReason::EndpointDeleted);
                self.end_jobs(record.row, now)?;
            }
            // Mail may go on to them.
            Kind::Mailboxes => return Ok(false),
            Kind::Workspace
            | Kind::ApiKey
            | Kind::BulkRetry
            | Kind::Replay
            | Kind::Notice
            | Kind::Domain
            | Kind::Template
            | Kind::TemplateVersion
            | Kind::Suppression => {
                self.bury(record.row, now)?;
            }
        }
        Ok(true)
    }

    fn delete_source(&mut self, row: i64, now: Timestamp) -> Result<(), Fault> {
        // Destinations that die with their source share its time of death; those that died before must not.
        let earlier: Option<i64> = self
            .conn
            .prepare_cached("SELECT max(deleted_at) FROM record WHERE kind = 3 AND parent = ?1")?
            .query_row([row], |row| row.get(0))?;
        let at = earlier.map_or(now, |earlier| now.max(Timestamp::from_millis(earlier + 1)));
        self.bury(row, at)?;
        let Some(entry) = self.config.sources.get_mut(&row) else { return Ok(()) };
        entry.gone_at = Some(at.millis());
        let endpoints = std::mem::take(&mut entry.endpoints);
        self.config.tokens.remove(&entry.token);
        self.config.book.set(&entry.token, None);
        for endpoint in endpoints {
            self.bury(endpoint, at)?;
            self.drop_endpoint(endpoint, CancelReason::SourceDeleted);
        }
        Ok(())
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
        let settings = Arc::new(Settings { gone: true, ..Settings::clone(&entry.settings) });
        entry.settings = Arc::clone(&settings);
        self.staged.withdrawals.push(Withdraw::Endpoint(entry.endpoint.id));
        self.staged.settings.push((Arc::clone(&entry.endpoint), settings));
        self.config.seat(row);
        self.relist(row);
        self.unswept.insert(row);
    }

    /// See [`crate::Store::secret_check`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn secret_check(&mut self, fresh: Option<Sealed>) -> Result<Option<Sealed>, Fault> {
        if let Some(Sealed(fresh)) = fresh {
            self.conn
                .prepare_cached("INSERT OR IGNORE INTO secret_check (id, sealed) VALUES (1, ?1)")?
                .execute([fresh])?;
        }
        let kept = self
            .conn
            .prepare_cached("SELECT sealed FROM secret_check")?
            .query_row([], |row| row.get(0))
            .optional()?;
        Ok(kept.map(Sealed))
    }

    /// Takes a created or changed record over into memory.
    fn follow(&mut self, kind: Kind, record: &RecordRow) -> Result<(), Fault> {
        match kind {
            Kind::Workspace if record.raw.version == 1 => {
                let balance = balance(&self.conn, record.row)?;
                self.config.take_workspace(record, balance);
                Ok(())
            }
            Kind::Workspace
            | Kind::ApiKey
            | Kind::BulkRetry
            | Kind::Replay
            | Kind::Notice
            | Kind::Domain
            | Kind::Template
            | Kind::TemplateVersion
            | Kind::Suppression => Ok(()),
            Kind::Mailboxes => {
                self.note_url(record, &self.config.mailboxes(record)?)?;
                Ok(self.config.take_mailboxes(record, &Config::default())?)
            }
            Kind::Source => {
                self.config.take_source(record)?;
                self.seat_all(SourceId::from_uuid(record.raw.uuid))
            }
            Kind::Destination => {
                let destination: Destination = parse(&record.raw.body)?;
                if self.change_endpoint(record, Receiver::Destination(destination))?.is_none() {
                    self.config.take_destination(record, &Config::default())?;
                }
                Ok(())
            }
            Kind::Webhook => self.follow_webhook(record),
        }
    }

    fn follow_webhook(&mut self, record: &RecordRow) -> Result<(), Fault> {
        let webhook: Webhook = parse(&record.raw.body)?;
        let Some(old) = self.change_endpoint(record, Receiver::Webhook(webhook.clone()))? else {
            self.config.take_webhook(record, Standing::default(), &Config::default())?;
            return match webhook.paused {
                true => self.write_standing(record.row, Standing::paused_from_the_start(record)),
                false => Ok(()),
            };
        };
        let Receiver::Webhook(old) = &old.receiver else {
            return Err(Fault::Damaged("a webhook's row is another's".into()));
        };
        if old.events != webhook.events
            && let Some(workspace) = self.config.workspaces.get_mut(&record.workspace)
        {
            workspace.forget_routes();
        }
        // Another receiver, or one that somebody answers for, starts afresh.
        if old.url != webhook.url || (old.paused && !webhook.paused) {
            self.clear_health(record.row)?;
        }
        if webhook.paused && !old.paused {
            self.cut_off(record.row, record.raw.updated_at)?;
        }
        Ok(())
    }

    /// Gives an endpoint its new settings; returns the old ones, `None` for a new endpoint.
    fn change_endpoint(
        &mut self,
        record: &RecordRow,
        receiver: Receiver,
    ) -> Result<Option<Arc<Settings>>, Fault> {
        let Some(entry) = self.config.endpoints.get_mut(&record.row) else {
            self.note_url(record, &receiver)?;
            return Ok(None);
        };
        let opened = entry.is_open();
        let settings = Arc::new(Settings { receiver, version: record.raw.version, gone: false });
        let old = std::mem::replace(&mut entry.settings, Arc::clone(&settings));
        self.config.seat(record.row);
        let entry = &self.config.endpoints[&record.row];
        if opened && !entry.is_open() {
            self.staged.withdrawals.push(Withdraw::Endpoint(entry.endpoint.id));
        }
        self.staged.settings.push((Arc::clone(&entry.endpoint), Arc::clone(&settings)));
        if old.receiver.url() != settings.receiver.url() {
            self.note_url(record, &settings.receiver)?;
        }
        self.look_up_due(record.row)?;
        Ok(Some(old))
    }

    fn note_url(&self, record: &RecordRow, receiver: &Receiver) -> Result<(), Fault> {
        self.conn
            .prepare_cached("INSERT INTO endpoint_url (endpoint, version, url) VALUES (?1, ?2, ?3)")?
            .execute(params![record.row, record.raw.version, receiver.url()])?;
        Ok(())
    }
}

/// The row of a living parent of the right kind in the same workspace.
fn find_parent(
    conn: &Connection,
    kind: Kind,
    uuid: u128,
    workspace: Option<i64>,
) -> Result<Option<i64>, Fault> {
    let Some(parent_kind) = kind.parent() else { return Ok(None) };
    let parent = find_record(conn, parent_kind, uuid)?;
    Ok(parent.filter(|it| it.deleted_at.is_none() && Some(it.workspace) == workspace).map(|it| it.row))
}

/// Whether another living record has the name in its workspace, or the lookup anywhere.
fn taken(
    conn: &Connection,
    kind: Kind,
    workspace: Option<i64>,
    name: Option<&str>,
    lookup: Option<&str>,
    besides: Option<i64>,
) -> Result<bool, Fault> {
    let besides = besides.unwrap_or(-1);
    if let Some(name) = name {
        let sql = "SELECT 1 FROM record \
                   WHERE kind = ?1 AND workspace = ?2 AND name = ?3 AND deleted_at IS NULL AND row <> ?4";
        if conn.prepare_cached(sql)?.exists(params![kind as i64, workspace, name, besides])? {
            return Ok(true);
        }
    }
    let Some(lookup) = lookup else { return Ok(false) };
    let sql = "SELECT 1 FROM record WHERE kind = ?1 AND lookup = ?2 AND deleted_at IS NULL AND row <> ?3";
    Ok(conn.prepare_cached(sql)?.exists(params![kind as i64, lookup, besides])?)
}
