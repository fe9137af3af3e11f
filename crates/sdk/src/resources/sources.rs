use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{NewSource, Paging, Source, SourceChange};

/// Calls about sources: permanent URLs that receive webhooks.
#[derive(Clone, Debug)]
pub struct Sources<C> {
    client: C,
}

impl<C: Clone> Sources<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Makes a source. Not retried: two would remain.
    ///
    /// Refused with `name_taken` (409) when another has the name. Scope `sources:write`.
    pub fn create(&self, source: &NewSource) -> Pending<C, Source> {
        Pending::new(&self.client, &calls::SOURCES_CREATE).body(source)
    }

    /// Lists sources, newest first. Scope `sources:read`.
    pub fn list(&self, paging: &Paging) -> Listing<C, Source> {
        Listing::new(&self.client, &calls::SOURCES_LIST).query(paging)
    }

    /// Gets a source by its id, `src_…`. Scope `sources:read`.
    pub fn get(&self, id: &str) -> Pending<C, Source> {
        Pending::new(&self.client, &calls::SOURCES_GET).param("id", id)
    }

    /// Changes a source. Retried.
    ///
    /// Refused with `name_taken` (409) when another has the name. Scope `sources:write`.
    pub fn update(&self, id: &str, change: &SourceChange) -> Pending<C, Source> {
        Pending::new(&self.client, &calls::SOURCES_UPDATE).param("id", id).body(change)
    }

    /// Deletes a source: its URL stops working at once, its destinations go with it, and what is pending is cancelled.
    /// Its requests stay readable until they expire. Not retried: a second call would find nothing (404).
    ///
    /// Scope `sources:write`.
    pub fn delete(&self, id: &str) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::SOURCES_DELETE).param("id", id)
    }

    /// Gives a source a new token, and so a new URL: the old one stops working at once. Not retried: a second call
    /// would void the first's.
    ///
    /// Scope `sources:write`.
    pub fn rotate_token(&self, id: &str) -> Pending<C, Source> {
        Pending::new(&self.client, &calls::SOURCES_ROTATE_TOKEN).param("id", id)
    }
}
