use super::DRY_RUN;
use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{
    BulkRetry, BulkRetryPreview, Destination, DestinationChange, NewBulkRetry, NewDestination, Paging,
};

/// Calls about destinations: the receivers of a source. Each call names the source (`src_…`) first.
#[derive(Clone, Debug)]
pub struct Destinations<C> {
    client: C,
}

impl<C: Clone> Destinations<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Makes a destination, which receives what the source takes in from now on. Not retried: two would remain.
    ///
    /// Refused with `limit_reached` (409) when the source has 1,000. Scope `sources:write`.
    pub fn create(&self, source_id: &str, destination: &NewDestination) -> Pending<C, Destination> {
        Pending::new(&self.client, &calls::DESTINATIONS_CREATE).param("id", source_id).body(destination)
    }

    /// Lists a source's destinations, newest first. Scope `sources:read`.
    pub fn list(&self, source_id: &str, paging: &Paging) -> Listing<C, Destination> {
        Listing::new(&self.client, &calls::DESTINATIONS_LIST).param("id", source_id).query(paging)
    }

    /// Gets a destination by its id, `dst_…`. Scope `sources:read`.
    pub fn get(&self, source_id: &str, id: &str) -> Pending<C, Destination> {
        Pending::new(&self.client, &calls::DESTINATIONS_GET)
            .param("id", source_id)
            .param("destination_id", id)
    }

    /// Changes a destination. Retried.
    ///
    /// Scope `sources:write`.
    pub fn update(&self, source_id: &str, id: &str, change: &DestinationChange) -> Pending<C, Destination> {
        Pending::new(&self.client, &calls::DESTINATIONS_UPDATE)
            .param("id", source_id)
            .param("destination_id", id)
            .body(change)
    }

    /// Deletes a destination: its pending deliveries are cancelled. Not retried: a second call would find nothing
    /// (404).
    ///
    /// Scope `sources:write`.
    pub fn delete(&self, source_id: &str, id: &str) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::DESTINATIONS_DELETE)
            .param("id", source_id)
            .param("destination_id", id)
    }

    /// Retries many deliveries in the background, each with a fresh budget and for one credit. Not retried: the same
    /// would be delivered, and paid, twice.
    ///
    /// It ends early when the credits run out. Scope `deliveries:write`.
    pub fn retry(&self, source_id: &str, id: &str, wanted: &NewBulkRetry) -> Pending<C, BulkRetry> {
        Pending::new(&self.client, &calls::DESTINATIONS_RETRY)
            .param("id", source_id)
            .param("destination_id", id)
            .body(wanted)
    }

    /// Counts what [`retry`](Self::retry) would do, and does nothing.
    ///
    /// Scope `deliveries:write`.
    pub fn retry_preview(
        &self,
        source_id: &str,
        id: &str,
        wanted: &NewBulkRetry,
    ) -> Pending<C, BulkRetryPreview> {
        Pending::new(&self.client, &calls::DESTINATIONS_RETRY)
            .param("id", source_id)
            .param("destination_id", id)
            .query(&DRY_RUN)
            .body(wanted)
    }

    /// Lists a destination's bulk retries and how far they are, newest first. Scope `deliveries:read`.
    pub fn list_retries(&self, source_id: &str, id: &str, paging: &Paging) -> Listing<C, BulkRetry> {
        Listing::new(&self.client, &calls::DESTINATIONS_LIST_RETRIES)
            .param("id", source_id)
            .param("destination_id", id)
            .query(paging)
    }
}
