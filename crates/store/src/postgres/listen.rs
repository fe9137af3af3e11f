//! Who listens at this node: `cli` destinations are open here while somebody does.

use std::sync::Arc;

use restante_core::id::SourceId;

use super::Fault;
use super::config::EndpointEntry;
use super::node::Node;
use super::state::State;
use crate::agenda::UNKNOWN_DUE;
use crate::clients::LastKey;
use crate::{Listening, Withdraw};

impl Node {
    /// See [`crate::Store::listen`].
    pub(super) async fn listen_to(
        self: &Arc<Self>,
        source: SourceId,
        clients: Option<Listening>,
    ) -> Result<(), Fault> {
        let (slotless, idle) = {
            let mut state = self.state();
            state.listen(source, clients);
            state.slots_of(source)
        };
        self.wake();
        self.give_slots_up(&idle).await?;
        self.ask_once_for_slots(slotless).await
    }
}

impl State {
    fn listen(&mut self, source: SourceId, clients: Option<Listening>) {
        if let Some(listening) = clients {
            // What is made here from now on is told from what was made before by its key, whatever the clock does.
            self.keys.skip_to(listening.since);
        }
        let last = LastKey { key: self.last_key, led: self.keys_lead };
        self.config.clients.set(source, clients, last);
        self.seat_all(source);
    }

    /// Brings a source's destinations up to date with who listens and what the source is set to.
    pub(super) fn seat_all(&mut self, source: SourceId) {
        for row in self.config.destinations(source) {
            self.seat(row);
        }
    }

    /// The same for one of them.
    pub(super) fn seat(&mut self, row: i64) {
        let Some((before, seating)) = self.config.seat(row) else { return };
        let Some(entry) = self.config.endpoints.get_mut(&row) else { return };
        let endpoint = entry.endpoint.id;
        // Where to look and what is due was told with another floor. It may be too early.
        entry.low = 0;
        entry.next_due = UNKNOWN_DUE;
        self.agenda.relist(&mut self.config, row);
        if seating.is_narrower_than(before) {
            self.withdraw(Withdraw::Endpoint(endpoint));
        }
        if let Some(dispatch) = self.dispatch.as_ref().filter(|_| seating.seats > before.seats) {
            dispatch.widen(endpoint);
        }
    }

    /// Destinations of a source that may be sent to and that this node has no slots of; and those of which it has slots
    /// and no clients.
    fn slots_of(&self, source: SourceId) -> (Vec<i64>, Vec<i64>) {
        let rows = self.config.destinations(source);
        let those = |want: fn(&EndpointEntry) -> bool| {
            let wanted = rows.iter().copied();
            wanted.filter(|row| self.config.endpoints.get(row).is_some_and(want)).collect()
        };
        let idle = |it: &EndpointEntry| it.leaves_slots() && it.endpoint.shared_slots() > 0;
        (those(EndpointEntry::wants_slots), those(idle))
    }
}
