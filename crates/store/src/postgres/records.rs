//! Creating, changing and deleting records, and what follows from it in the tables. What nodes know of it follows when
//! the transaction has committed (`follow.rs`).

use restante_core::Timestamp;
use restante_core::endpoint::{Destination, Receiver, Sealed, Source, Webhook};
use restante_core::id::{Id, WorkspaceId};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::Fault;
use super::codec::int;
use super::config::{Config, RecordRow, Standing, find_record, parse};
use super::tx::{Access, Tx};
use crate::record::{Draft, Kind, Raw, Workspace};
use crate::{Created, Updated};

impl Tx {
    /// See [`crate::Store::create`].
    pub(super) async fn create(&mut self, draft: &Draft, now: Timestamp) -> Result<Created, Fault> {
        self.may_change(draft.kind)?;
        let owner = match draft.workspace {
            Some(id) => match find_record(self, Kind::Workspace, id.uuid()).await? {
                Some(record) if record.deleted_at.is_none() => Some(record),
                Some(_) | None => return Ok(Created::ParentGone),
            },
            None => None,
        };
        let workspace = owner.as_ref().map(|owner| owner.row);
        let parent = match draft.parent {
            Some(uuid) => match self.find_parent(draft.kind, uuid, workspace).await? {
                Some(parent) => Some(parent),
                None => return Ok(Created::ParentGone),
            },
            None => None,
        };
        let quota = match &owner {
            Some(owner) => parse::<Workspace>(&owner.raw.body)?.quotas.of(draft.kind),
            None => None,
        };
        if quota.is_some() {
            // Of those who make one at the same time each must see those before it.
            self.execute("SELECT 1 FROM record WHERE row = $1 FOR UPDATE", &[&workspace]).await?;
        }
        if self.is_full(draft.kind, quota, workspace, parent).await? {
            return Ok(Created::TooMany);
        }
        let Some((_, uuid)) = self.insert_unless_taken(draft, workspace, parent, now).await? else {
            return Ok(Created::NameTaken);
        };
        let record = self.written(draft.kind, uuid).await?;
        self.follow_up(draft.kind, None, &record).await?;
        Ok(Created::Done(record.raw))
    }

    /// Asks for the access that a change of such a record takes: nodes keep some in memory.
    fn may_change(&self, kind: Kind) -> Result<(), Fault> {
        if kind.is_configuration() && self.access == Access::Messages {
            return Err(Fault::NeedsConfiguration);
        }
        Ok(())
    }

    /// The epoch that nodes are to find a changed record by; `None`: it stays.
    fn new_epoch(&self) -> Option<i64> {
        (self.access == Access::Configuration).then_some(self.epoch)
    }

    /// The row of a living parent of the right kind in the same workspace.
    async fn find_parent(
        &self,
        kind: Kind,
        uuid: u128,
        workspace: Option<i64>,
    ) -> Result<Option<i64>, Fault> {
        let Some(parent_kind) = kind.parent() else { return Ok(None) };
        let parent = find_record(self, parent_kind, uuid).await?;
        Ok(parent.filter(|it| it.deleted_at.is_none() && Some(it.workspace) == workspace).map(|it| it.row))
    }

    /// Whether as many live there as may.
    async fn is_full(
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
                ("SELECT count(*) FROM record WHERE kind = $1 AND parent = $2 AND deleted_at IS NULL", parent)
            }
            None => (
                "SELECT count(*) FROM record WHERE kind = $1 AND workspace = $2 AND deleted_at IS NULL",
                workspace,
            ),
        };
        let living: i64 = self.one(statement, &[&(kind as i16), &owner]).await?.try_get(0)?;
        Ok(usize::try_from(living).is_ok_and(|living| living >= most))
    }

    /// Inserts a record without a name and gives its row and its id.
    pub(super) async fn insert_record(
        &mut self,
        draft: Draft,
        workspace: Option<i64>,
        parent: Option<i64>,
        now: Timestamp,
    ) -> Result<(i64, u128), Fault> {
        let inserted = self.insert_unless_taken(&draft, workspace, parent, now).await?;
        inserted.ok_or_else(|| Fault::Damaged("a new record's id is taken".into()))
    }

    /// `None`: another living record has the name in its workspace, or the lookup anywhere. A workspace owns itself.
    pub(super) async fn insert_unless_taken(
        &mut self,
        draft: &Draft,
        workspace: Option<i64>,
        parent: Option<i64>,
        now: Timestamp,
    ) -> Result<Option<(i64, u128)>, Fault> {
        let key = self.take_keys(now, 1).await?;
        let uuid = Id::<restante_core::id::kind::Source>::new(key, draft.tail).uuid();
        let inserted = self
            .first(
                "INSERT INTO record (kind, uuid, key, workspace, parent, name, lookup, version, created_at, updated_at, \
                 body, epoch) VALUES ($1, $2, $3, $4, $5, $6, $7, 1, $8, $8, $9, $10) \
                 ON CONFLICT DO NOTHING RETURNING row",
                &[
                    &(draft.kind as i16),
                    &Uuid::from_u128(uuid),
                    &key.value(),
                    &workspace.unwrap_or(0),
                    &parent,
                    &draft.name,
                    &draft.lookup,
                    &now.millis(),
                    &draft.body,
                    &self.new_epoch().unwrap_or(0),
                ],
            )
            .await?;
        let Some(inserted) = inserted else { return Ok(None) };
        let row: i64 = inserted.try_get(0)?;
        if workspace.is_none() {
            self.execute("UPDATE record SET workspace = row WHERE row = $1", &[&row]).await?;
        }
        Ok(Some((row, uuid)))
    }

    /// See [`crate::Store::update`].
    pub(super) async fn update(&mut self, kind: Kind, new: &Raw, now: Timestamp) -> Result<Updated, Fault> {
        self.may_change(kind)?;
        let Some(old) = self.lock_record(kind, new.uuid).await? else { return Ok(Updated::NotFound) };
        if old.deleted_at.is_some() || old.raw.workspace != new.workspace {
            return Ok(Updated::NotFound);
        }
        if old.raw.version != new.version {
            return Ok(Updated::Stale);
        }
        if !self.write_unless_taken(&old, new, now).await? {
            return Ok(Updated::NameTaken);
        }
        let record = self.written(kind, new.uuid).await?;
        self.follow_up(kind, Some(&old), &record).await?;
        Ok(Updated::Done(record.raw))
    }

    /// `false`: another living record has the name in its workspace, or the lookup anywhere. Nothing was written.
    async fn write_unless_taken(&self, old: &RecordRow, new: &Raw, now: Timestamp) -> Result<bool, Fault> {
        let renames = old.raw.name != new.name || old.raw.lookup != new.lookup;
        if renames {
            // A taken name is an answer, and must not undo what the transaction did before.
            self.batch("SAVEPOINT renaming").await?;
        }
        let written = self
            .execute(
                "UPDATE record SET version = version + 1, updated_at = $2, name = $3, lookup = $4, body = $5, \
                 epoch = coalesce($6, epoch) WHERE row = $1",
                &[&old.row, &now.millis(), &new.name, &new.lookup, &new.body, &self.new_epoch()],
            )
            .await;
        match written {
            Ok(_) => Ok(true),
            Err(fault) if renames && fault.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                self.batch("ROLLBACK TO SAVEPOINT renaming").await?;
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    /// A record that nobody else changes until the transaction ends, living or not.
    async fn lock_record(&self, kind: Kind, uuid: u128) -> Result<Option<RecordRow>, Fault> {
        let lock = "SELECT 1 FROM record WHERE uuid = $1 AND kind = $2 FOR UPDATE";
        if self.first(lock, &[&Uuid::from_u128(uuid), &(kind as i16)]).await?.is_none() {
            return Ok(None);
        }
        // Read behind the lock: what it waited for has changed the row.
        find_record(self, kind, uuid).await
    }

    async fn written(&self, kind: Kind, uuid: u128) -> Result<RecordRow, Fault> {
        let record = find_record(self, kind, uuid).await?;
        record.ok_or_else(|| Fault::Damaged("a record just written is not there".into()))
    }

    /// Deletes a record with what belongs to it. Rows stay as tombstones while deliveries refer to them; what is
    /// pending ends bit by bit, and counts as ended from now on.
    pub(super) async fn delete(
        &mut self,
        kind: Kind,
        workspace: WorkspaceId,
        uuid: u128,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        self.may_change(kind)?;
        let Some(record) = self.lock_record(kind, uuid).await? else { return Ok(false) };
        if record.deleted_at.is_some() || record.raw.workspace != workspace {
            return Ok(false);
        }
        match kind {
            Kind::Source => self.delete_source(record.row, now).await?,
            Kind::Webhook => {
                self.bury(record.row, now).await?;
                self.end_jobs(record.row, now).await?;
            }
            // Mail may go on to them.
            Kind::Mailboxes => return Ok(false),
            Kind::Workspace
            | Kind::Destination
            | Kind::ApiKey
            | Kind::BulkRetry
            | Kind::Replay
            | Kind::Notice
            | Kind::Domain
            | Kind::Template
            | Kind::TemplateVersion
            | Kind::Suppression => self.bury(record.row, now).await?,
        }
        Ok(true)
    }

    async fn delete_source(&self, row: i64, now: Timestamp) -> Result<(), Fault> {
        // Destinations that die with their source share its time of death; those that died before must not.
        let statement = "SELECT max(deleted_at) FROM record WHERE kind = 3 AND parent = $1";
        let earlier: Option<i64> = self.one(statement, &[&row]).await?.try_get(0)?;
        let at = earlier.map_or(now, |earlier| now.max(Timestamp::from_millis(earlier + 1)));
        self.bury(row, at).await?;
        self.execute(
            "UPDATE record SET deleted_at = $2, updated_at = $2, epoch = coalesce($3, epoch) \
             WHERE kind = 3 AND parent = $1 AND deleted_at IS NULL",
            &[&row, &at.millis(), &self.new_epoch()],
        )
        .await?;
        Ok(())
    }

    async fn bury(&self, row: i64, now: Timestamp) -> Result<(), Fault> {
        let statement =
            "UPDATE record SET deleted_at = $2, updated_at = $2, epoch = coalesce($3, epoch) WHERE row = $1";
        self.execute(statement, &[&row, &now.millis(), &self.new_epoch()]).await?;
        Ok(())
    }

    /// See [`crate::Store::secret_check`].
    pub(super) async fn secret_check(&mut self, fresh: Option<Sealed>) -> Result<Option<Sealed>, Fault> {
        if let Some(Sealed(fresh)) = fresh {
            let insert = "INSERT INTO secret_check (id, sealed) VALUES (1, $1) ON CONFLICT DO NOTHING";
            self.execute(insert, &[&fresh]).await?;
        }
        let kept = self.first("SELECT sealed FROM secret_check", &[]).await?;
        Ok(kept.map(|row| row.try_get(0)).transpose()?.map(Sealed))
    }

    /// Does what a created or changed record asks for beyond its row.
    ///
    /// # Errors
    /// Also for a body that cannot be read: every node would stumble over it.
    async fn follow_up(
        &mut self,
        kind: Kind,
        old: Option<&RecordRow>,
        record: &RecordRow,
    ) -> Result<(), Fault> {
        if kind == Kind::Source {
            parse::<Source>(&record.raw.body)?;
        }
        let Some(new) = receiver(kind, record, &self.node.state().config)? else { return Ok(()) };
        let old = old.map(|old| receiver(kind, old, &self.node.state().config)).transpose()?.flatten();
        if old.as_ref().map(Receiver::url) != Some(new.url()) {
            self.note_url(record, &new).await?;
        }
        match (&old, &new) {
            (Some(Receiver::Webhook(old)), Receiver::Webhook(new)) => {
                self.follow_webhook(record, old, new).await
            }
            (None, Receiver::Webhook(new)) if new.paused => {
                self.write_standing(record.row, Standing::paused_from_the_start(record), true).await
            }
            (Some(_) | None, Receiver::Destination(_) | Receiver::Webhook(_) | Receiver::Mailboxes(_)) => {
                Ok(())
            }
        }
    }

    async fn follow_webhook(
        &mut self,
        record: &RecordRow,
        old: &Webhook,
        new: &Webhook,
    ) -> Result<(), Fault> {
        // Another receiver, or one that somebody answers for, starts afresh.
        if old.url != new.url || (old.paused && !new.paused) {
            self.clear_health(record.row).await?;
        }
        if new.paused && !old.paused {
            self.cut_off(record.row, record.workspace, record.raw.updated_at).await?;
        }
        Ok(())
    }

    async fn note_url(&self, record: &RecordRow, receiver: &Receiver) -> Result<(), Fault> {
        let version = int(record.raw.version);
        let insert = "INSERT INTO endpoint_url (endpoint, version, url) VALUES ($1, $2, $3)";
        self.execute(insert, &[&record.row, &version, &receiver.url()]).await?;
        Ok(())
    }
}

/// What a record says of an endpoint; `None` if it is none.
fn receiver(kind: Kind, record: &RecordRow, config: &Config) -> Result<Option<Receiver>, Fault> {
    Ok(match kind {
        Kind::Destination => Some(Receiver::Destination(parse::<Destination>(&record.raw.body)?)),
        Kind::Webhook => Some(Receiver::Webhook(parse::<Webhook>(&record.raw.body)?)),
        Kind::Mailboxes => Some(config.mailboxes(record)?),
        Kind::Workspace
        | Kind::Source
        | Kind::ApiKey
        | Kind::BulkRetry
        | Kind::Replay
        | Kind::Notice
        | Kind::Domain
        | Kind::Template
        | Kind::TemplateVersion
        | Kind::Suppression => None,
    })
}
