use crate::calls;
use crate::client::Pending;
use crate::wire::{self, EndpointStatsList, WantedStats};

/// Calls about what went through in the last hours, and what waits.
#[derive(Clone, Debug)]
pub struct Stats<C> {
    client: C,
}

impl<C: Clone> Stats<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Gets the statistics of the workspace, or of one source, destination or webhook, step by step. Scope
    /// `deliveries:read`.
    pub fn get(&self, wanted: &WantedStats) -> Pending<C, wire::Stats> {
        Pending::new(&self.client, &calls::STATS_GET).query(wanted)
    }

    /// Lists destinations and webhooks by how they did in the last hours, 1 to 48, 24 unless given: those with the
    /// largest share of failed attempts first, at most 100. Scope `deliveries:read`.
    pub fn endpoints(&self, hours: Option<u32>) -> Pending<C, EndpointStatsList> {
        let hours: Vec<(&str, u32)> = hours.map(|hours| ("hours", hours)).into_iter().collect();
        Pending::new(&self.client, &calls::STATS_ENDPOINTS).query(&hours)
    }
}
