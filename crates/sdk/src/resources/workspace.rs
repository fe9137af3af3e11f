use crate::calls;
use crate::client::Pending;
use crate::wire::{self, Credits, Paging, WorkspaceChange};

/// Calls about the workspace that the client acts in.
#[derive(Clone, Debug)]
pub struct Workspace<C> {
    client: C,
}

impl<C: Clone> Workspace<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Gets the workspace. Scope `workspace:read`.
    pub fn get(&self) -> Pending<C, wire::Workspace> {
        Pending::new(&self.client, &calls::WORKSPACE_GET)
    }

    /// Changes the workspace. Retried.
    ///
    /// Refused with `retention_in_use` (409) when one of its sources keeps for longer than is to be allowed. Scope
    /// `workspace:write`; `retention_days_max` and `quotas` need `admin`.
    pub fn update(&self, change: &WorkspaceChange) -> Pending<C, wire::Workspace> {
        Pending::new(&self.client, &calls::WORKSPACE_UPDATE).body(change)
    }

    /// Gets the balance, and a page of what changed it, newest first. Scope `workspace:read`.
    pub fn get_credits(&self, paging: &Paging) -> Pending<C, Credits> {
        Pending::new(&self.client, &calls::WORKSPACE_GET_CREDITS).query(paging)
    }
}
