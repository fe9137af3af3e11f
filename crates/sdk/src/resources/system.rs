use crate::calls;
use crate::client::Pending;
use crate::wire::{Found, Health, Json, Server};

/// Calls about the server itself. They need no scope.
#[derive(Clone, Debug)]
pub struct System<C> {
    client: C,
}

impl<C: Clone> System<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Whether the process lives. It looks at nothing else.
    pub fn health(&self) -> Pending<C, Health> {
        Pending::new(&self.client, &calls::SYSTEM_HEALTH)
    }

    /// Whether it can take requests: the store answers, the disk has room, and the node is not stopping.
    ///
    /// Refused with `not_ready` (503) when not, after as many retries as the client makes.
    pub fn ready(&self) -> Pending<C, Health> {
        Pending::new(&self.client, &calls::SYSTEM_READY)
    }

    /// What the server allows, and the key that asks. Any key may ask.
    pub fn server(&self) -> Pending<C, Server> {
        Pending::new(&self.client, &calls::SYSTEM_SERVER)
    }

    /// Finds what an id of any kind stands for, or the UUID that receivers know a request by.
    ///
    /// Refused with 404 when nothing in the workspace has it, and with `insufficient_scope` (403) when the key may not
    /// read things of its kind.
    pub fn find(&self, id: &str) -> Pending<C, Found> {
        Pending::new(&self.client, &calls::SYSTEM_FIND).param("id", id)
    }

    /// Metrics in Prometheus' text format.
    pub fn metrics(&self) -> Pending<C, String> {
        Pending::text(&self.client, &calls::SYSTEM_METRICS)
    }

    /// The description of the API, OpenAPI 3.1.
    pub fn openapi(&self) -> Pending<C, Json> {
        Pending::new(&self.client, &calls::SYSTEM_OPENAPI)
    }
}
