use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{Attempt, Delivery, ListDeliveries, Paging};

/// Calls about deliveries: one message to one endpoint each.
#[derive(Clone, Debug)]
pub struct Deliveries<C> {
    client: C,
}

impl<C: Clone> Deliveries<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Lists deliveries, newest first, without attempts. Scope `deliveries:read`.
    pub fn list(&self, wanted: &ListDeliveries) -> Listing<C, Delivery> {
        Listing::new(&self.client, &calls::DELIVERIES_LIST).query(wanted)
    }

    /// Gets a delivery by its id, `dlv_…`, with all its attempts. Scope `deliveries:read`.
    pub fn get(&self, id: &str) -> Pending<C, Delivery> {
        Pending::new(&self.client, &calls::DELIVERIES_GET).param("id", id)
    }

    /// Lists a delivery's attempts, newest first. Scope `deliveries:read`.
    pub fn list_attempts(&self, id: &str, paging: &Paging) -> Listing<C, Attempt> {
        Listing::new(&self.client, &calls::DELIVERIES_LIST_ATTEMPTS).param("id", id).query(paging)
    }

    /// Cancels a delivery. Retried.
    ///
    /// An attempt in flight cannot be called back: `cancel_requested` is then true, and its result ends the delivery.
    /// One that is cancelled already stays as it is. Refused with `not_cancellable` (409) when it ended otherwise.
    /// Scope `deliveries:write`.
    pub fn cancel(&self, id: &str) -> Pending<C, Delivery> {
        Pending::new(&self.client, &calls::DELIVERIES_CANCEL).param("id", id)
    }

    /// Retries a delivery of a request: a new delivery to the same destination, with a fresh budget. Costs one credit.
    /// Not retried by the client: there would be two of them.
    ///
    /// Refused with `credits_exhausted` (402), with `not_retryable` (409) when it is not over or was none of a request,
    /// and with `destination_deleted` (409). Scope `deliveries:write`.
    pub fn retry(&self, id: &str) -> Pending<C, Delivery> {
        Pending::new(&self.client, &calls::DELIVERIES_RETRY).param("id", id)
    }
}
