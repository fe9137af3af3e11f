use crate::calls;
use crate::client::Listing;
use crate::wire::{Notice, Paging};

/// Calls about notices: what the owners of a workspace are told.
#[derive(Clone, Debug)]
pub struct Notices<C> {
    client: C,
}

impl<C: Clone> Notices<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Lists notices, newest first. Scope `notices:read`.
    pub fn list(&self, paging: &Paging) -> Listing<C, Notice> {
        Listing::new(&self.client, &calls::NOTICES_LIST).query(paging)
    }
}
