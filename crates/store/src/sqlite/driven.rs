//! What whoever drives an engine in its own thread needs: a database without fsync, and reads between transactions.

use std::path::Path;

use restante_core::Timestamp;
use restante_core::health::Health;
use restante_core::id::{DeliveryId, EventId, RequestId, WebhookId, WorkspaceId};

use super::engine::Engine;
use super::read::{self, Reader};
use super::{Fault, health, resend};
use crate::record::{Kind, Raw};
use crate::{Page, Paged, Policy, Window, row};

impl Engine {
    /// Opens a database as [`Engine::open`] does, but lets commits outlive only the process, not the machine.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_unsynced(path: &Path, policy: Policy) -> Result<Self, Fault> {
        let engine = Self::open(path, policy)?;
        engine.conn.execute_batch("PRAGMA synchronous = OFF")?;
        Ok(engine)
    }

    /// See [`crate::Store::request`]. Sees what is committed.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn request(
        &self,
        workspace: WorkspaceId,
        id: RequestId,
        now: Timestamp,
    ) -> Result<Option<row::Request>, Fault> {
        let mut request = Reader::new(&self.conn, self.policy, now).request(workspace, id)?;
        let deliveries = request.iter_mut().flat_map(|request| &mut request.deliveries);
        deliveries.for_each(|it| self.config.served.show(it));
        Ok(request)
    }

    /// See [`crate::Store::delivery`]. Sees what is committed.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn delivery(
        &self,
        workspace: WorkspaceId,
        id: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<row::Delivery>, Fault> {
        let mut delivery = Reader::new(&self.conn, self.policy, now).delivery(workspace, id)?;
        delivery.iter_mut().for_each(|it| self.config.served.show(it));
        Ok(delivery)
    }

    /// See [`crate::Store::event`]. Sees what is committed.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn event(
        &self,
        workspace: WorkspaceId,
        id: EventId,
        now: Timestamp,
    ) -> Result<Option<row::Event>, Fault> {
        Reader::new(&self.conn, self.policy, now).event(workspace, id)
    }

    /// See [`crate::Store::healths`].
    ///
    /// # Errors
    /// What SQLite says.
    pub fn healths(&self, webhooks: &[WebhookId]) -> Result<Vec<Health>, Fault> {
        health::healths(&self.conn, webhooks)
    }

    /// See [`crate::Store::count_replay`].
    ///
    /// # Errors
    /// What SQLite says.
    pub fn count_replay(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
        window: Window,
        now: Timestamp,
    ) -> Result<Option<u64>, Fault> {
        resend::count_replay(&self.conn, workspace, webhook, window, now, self.policy.events_cutoff(now))
    }

    /// See [`crate::Store::record`]. Within a transaction it sees what that changed.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn record(&self, kind: Kind, workspace: WorkspaceId, uuid: u128) -> Result<Option<Raw>, Fault> {
        read::record(&self.conn, kind, workspace, uuid)
    }

    /// See [`crate::Store::records`].
    ///
    /// # Errors
    /// What SQLite says.
    pub fn records(
        &self,
        kind: Kind,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
        page: Page,
    ) -> Result<Paged<Raw>, Fault> {
        read::records(&self.conn, kind, workspace, parent, page)
    }

    /// See [`crate::Store::balance`].
    ///
    /// # Errors
    /// What SQLite says.
    pub fn balance(&self, workspace: WorkspaceId) -> Result<Option<i64>, Fault> {
        read::balance(&self.conn, workspace)
    }
}
