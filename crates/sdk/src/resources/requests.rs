use bytes::Bytes;

use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{ListRequests, Request};

/// Calls about requests: what sources received.
#[derive(Clone, Debug)]
pub struct Requests<C> {
    client: C,
}

impl<C: Clone> Requests<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Lists requests, newest first, without headers and deliveries. Scope `requests:read`.
    pub fn list(&self, wanted: &ListRequests) -> Listing<C, Request> {
        Listing::new(&self.client, &calls::REQUESTS_LIST).query(wanted)
    }

    /// Gets a request by its id, `req_…`, with its headers, its deliveries and all their attempts.
    ///
    /// Scope `requests:read`.
    pub fn get(&self, id: &str) -> Pending<C, Request> {
        Pending::new(&self.client, &calls::REQUESTS_GET).param("id", id)
    }

    /// Gets a request's body, byte by byte as received. Scope `requests:read`.
    pub fn get_body(&self, id: &str) -> Pending<C, Bytes> {
        Pending::bytes(&self.client, &calls::REQUESTS_GET_BODY).param("id", id)
    }

    /// Deletes a request for good, with its deliveries and attempts; what is pending is cancelled. Not retried: a
    /// second call would find nothing (404).
    ///
    /// Scope `requests:write`.
    pub fn delete(&self, id: &str) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::REQUESTS_DELETE).param("id", id)
    }

    /// Replays a request: a new one, copied from it, with a new key, is delivered to the destinations of now. Costs one
    /// credit. Not retried: there would be two copies.
    ///
    /// Refused with `credits_exhausted` (402), and with `source_deleted` (409) when its source is gone. Scope
    /// `requests:write`.
    pub fn replay(&self, id: &str) -> Pending<C, Request> {
        Pending::new(&self.client, &calls::REQUESTS_REPLAY).param("id", id)
    }
}
