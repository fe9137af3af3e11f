use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{Credits, Grant, NewWorkspace, Paging, Workspace};

/// Calls about all workspaces, for administrators.
#[derive(Clone, Debug)]
pub struct Workspaces<C> {
    client: C,
}

impl<C: Clone> Workspaces<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Lists all workspaces, newest first. Scope `admin`.
    pub fn list(&self, paging: &Paging) -> Listing<C, Workspace> {
        Listing::new(&self.client, &calls::WORKSPACES_LIST).query(paging)
    }

    /// Makes a workspace, with a first key that may do everything in it and is shown only here. Not retried: two would
    /// remain.
    ///
    /// Scope `admin`.
    pub fn create(&self, workspace: &NewWorkspace) -> Pending<C, Workspace> {
        Pending::new(&self.client, &calls::WORKSPACES_CREATE).body(workspace)
    }

    /// Grants credits to a workspace (`ws_…`), takes some, or ends the counting. Not retried: it would be granted
    /// twice.
    ///
    /// Scope `admin`.
    pub fn grant_credits(&self, id: &str, grant: &Grant) -> Pending<C, Credits> {
        Pending::new(&self.client, &calls::WORKSPACES_GRANT_CREDITS).param("id", id).body(grant)
    }
}
