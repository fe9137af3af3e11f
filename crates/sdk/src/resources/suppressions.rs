use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{NewSuppression, Paging, Suppression};

/// Calls about suppressions: mailboxes that get nothing.
#[derive(Clone, Debug)]
pub struct Suppressions<C> {
    client: C,
}

impl<C: Clone> Suppressions<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Suppresses a mailbox: no email is sent to it any more. One that is suppressed already is answered as it is.
    /// Retried.
    ///
    /// Scope `suppressions:write`.
    pub fn add(&self, suppression: &NewSuppression) -> Pending<C, Suppression> {
        Pending::new(&self.client, &calls::SUPPRESSIONS_ADD).body(suppression)
    }

    /// Lists suppressions, newest first. Scope `suppressions:read`.
    pub fn list(&self, paging: &Paging) -> Listing<C, Suppression> {
        Listing::new(&self.client, &calls::SUPPRESSIONS_LIST).query(paging)
    }

    /// Deletes a suppression by its id, `sup_…`: the mailbox gets emails again. Not retried.
    ///
    /// Scope `suppressions:write`.
    pub fn delete(&self, id: &str) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::SUPPRESSIONS_DELETE).param("id", id)
    }
}
