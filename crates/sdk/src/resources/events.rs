use serde::Serialize;

use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{Event, ListEvents, PublishEvent, PublishedBatch, PublishedEvent};

/// Calls about events: what a workspace publishes to its webhooks.
#[derive(Clone, Debug)]
pub struct Events<C> {
    client: C,
}

impl<C: Clone> Events<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Publishes an event. It is stored before this answers, with a delivery for each webhook that is subscribed to its
    /// type. Retried, under a key.
    ///
    /// Refused with `event_too_large` (413) above 256 KiB, and with `idempotency_key_reuse` (422) when the key was used
    /// for something else. Scope `events:publish`.
    pub fn publish(&self, event: &PublishEvent) -> Pending<C, PublishedEvent> {
        Pending::new(&self.client, &calls::EVENTS_PUBLISH).body(event)
    }

    /// Publishes 1 to 500 events, all or none, of at most 8 MiB together. Retried, under one key.
    ///
    /// Refused with `idempotency_key_reuse` (422) when the key was used for something else. Scope `events:publish`.
    pub fn publish_batch(&self, events: &[PublishEvent]) -> Pending<C, PublishedBatch> {
        Pending::new(&self.client, &calls::EVENTS_PUBLISH_BATCH).body(&Batch { events })
    }

    /// Lists events, newest first, without their deliveries. Scope `events:read`.
    pub fn list(&self, wanted: &ListEvents) -> Listing<C, Event> {
        Listing::new(&self.client, &calls::EVENTS_LIST).query(wanted)
    }

    /// Gets an event by its id, `whe_…`, with its deliveries and all their attempts. Scope `events:read`.
    pub fn get(&self, id: &str) -> Pending<C, Event> {
        Pending::new(&self.client, &calls::EVENTS_GET).param("id", id)
    }
}

#[derive(Serialize)]
struct Batch<'a> {
    events: &'a [PublishEvent],
}
