//! Who listens: `cli` destinations are open while somebody does.

use restante_core::id::SourceId;

use super::Fault;
use super::engine::Engine;
use crate::clients::LastKey;
use crate::{Listening, Withdraw};

impl Engine {
    /// See [`crate::Store::listen`].
    ///
    /// # Errors
    /// What SQLite says; the transaction must be rolled back.
    pub fn listen(&mut self, source: SourceId, clients: Option<Listening>) -> Result<(), Fault> {
        if let Some(listening) = clients {
            // What is made from now on is told from what was made before by its key, whatever the clock does.
            self.keys.skip_to(listening.since);
        }
        let last = LastKey { key: self.last_key, led: self.keys_lead };
        self.config.clients.set(source, clients, last);
        if clients.is_none() {
            // Also again: the commit that was to give back what they had may have failed.
            for row in self.config.destinations(source) {
                let entry = self.endpoint(row)?;
                if entry.settings.receiver.needs_client() {
                    self.staged.withdrawals.push(Withdraw::Endpoint(entry.endpoint.id));
                }
            }
        }
        self.seat_all(source)
    }

    /// Brings a source's destinations up to date with who listens and what the source is set to.
    pub(super) fn seat_all(&mut self, source: SourceId) -> Result<(), Fault> {
        for row in self.config.destinations(source) {
            let Some((before, seating)) = self.config.seat(row) else { continue };
            let endpoint = self.endpoint(row)?.endpoint.id;
            if seating.is_narrower_than(before) {
                self.staged.withdrawals.push(Withdraw::Endpoint(endpoint));
            }
            if seating.seats > before.seats {
                self.staged.widened.push(endpoint);
            }
            self.look_up_due(row)?;
        }
        Ok(())
    }
}
