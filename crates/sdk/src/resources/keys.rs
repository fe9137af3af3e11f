use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{ApiKey, KeyChange, NewKey, Paging};

/// Calls about keys: who may call. What concerns a key with the scope `admin` needs that scope itself.
#[derive(Clone, Debug)]
pub struct Keys<C> {
    client: C,
}

impl<C: Clone> Keys<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Makes a key. Its token is shown only in this answer. Not retried: two would remain.
    ///
    /// Scope `keys:manage`.
    pub fn create(&self, key: &NewKey) -> Pending<C, ApiKey> {
        Pending::new(&self.client, &calls::KEYS_CREATE).body(key)
    }

    /// Lists keys, newest first. Scope `keys:manage`.
    pub fn list(&self, paging: &Paging) -> Listing<C, ApiKey> {
        Listing::new(&self.client, &calls::KEYS_LIST).query(paging)
    }

    /// Gets a key by its id, `key_…`. Scope `keys:manage`.
    pub fn get(&self, id: &str) -> Pending<C, ApiKey> {
        Pending::new(&self.client, &calls::KEYS_GET).param("id", id)
    }

    /// Changes a key. Retried.
    ///
    /// Scope `keys:manage`.
    pub fn update(&self, id: &str, change: &KeyChange) -> Pending<C, ApiKey> {
        Pending::new(&self.client, &calls::KEYS_UPDATE).param("id", id).body(change)
    }

    /// Deletes a key. Not retried: a second call would find nothing (404).
    ///
    /// Scope `keys:manage`.
    pub fn delete(&self, id: &str) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::KEYS_DELETE).param("id", id)
    }

    /// Gives a key a new token, which is shown only here. The old one stops working at once. Not retried: the token of
    /// the first call would be lost.
    ///
    /// Refused with `key_revoked` (409). Scope `keys:manage`.
    pub fn rotate(&self, id: &str) -> Pending<C, ApiKey> {
        Pending::new(&self.client, &calls::KEYS_ROTATE).param("id", id)
    }

    /// Revokes a key: it stops working at once and stays listed. One that is revoked already stays as it is. Retried.
    ///
    /// Scope `keys:manage`.
    pub fn revoke(&self, id: &str) -> Pending<C, ApiKey> {
        Pending::new(&self.client, &calls::KEYS_REVOKE).param("id", id)
    }
}
