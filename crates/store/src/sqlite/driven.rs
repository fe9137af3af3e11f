//! What whoever drives an engine in its own thread needs: a database without fsync, and reads between transactions.

use std::path::Path;

use restante_core::Timestamp;
use restante_core::id::{DeliveryId, RequestId, WorkspaceId};

use super::Fault;
use super::engine::Engine;
use super::read::{self, Reader};
use crate::record::{Kind, Raw};
use crate::row;

impl Engine {
    /// Opens a database as [`Engine::open`] does, but lets commits outlive only the process, not the machine.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_unsynced(path: &Path) -> Result<Self, Fault> {
        let engine = Self::open(path)?;
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
        Reader::new(&self.conn, now).request(workspace, id)
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
        Reader::new(&self.conn, now).delivery(workspace, id)
    }

    /// See [`crate::Store::record`]. Within a transaction it sees what that changed.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn record(&self, kind: Kind, workspace: WorkspaceId, uuid: u128) -> Result<Option<Raw>, Fault> {
        read::record(&self.conn, kind, workspace, uuid)
    }

    /// See [`crate::Store::balance`].
    ///
    /// # Errors
    /// What SQLite says.
    pub fn balance(&self, workspace: WorkspaceId) -> Result<Option<i64>, Fault> {
        read::balance(&self.conn, workspace)
    }
}
