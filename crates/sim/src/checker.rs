//! The checker: knows what must hold, what the outside saw, and what the public reads show. Nothing else.
//!
//! What it holds against a run has numbers:
//!
//! | | |
//! |---|---|
//! | 0 | the world itself broke: an error that nobody injected, or something of another workspace |
//! | 1 | what was acknowledged is delivered, or visible as failed, cancelled or pending |
//! | 2 | what was refused is never delivered |
//! | 5 | every request that was sent is recorded once; budgets and limits are kept |
//! | 6 | no attempt is early |
//! | 7 | no attempt starts after cancel, deletion, pause or expiry |
//! | 8 | a destination's attempts do not depend on another's failures (`independence.rs`) |
//! | 9 | no attempt while no client is connected |
//! | 10 | a manual retry keeps the request and touches one destination; a replay is a new request |
//! | 13 | a stale lease changes nothing |
//! | 14 | bytes are kept from the door to the receiver; workspaces never see each other |
//! | 15 | once faults stop, all due work starts within a minute, and everything ends |
//! | 17 | no forbidden address is ever reached |

mod attempts;
mod early;
mod liveness;
mod messages;
mod orders;
mod pace;
mod retries;
mod waits;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use restante_core::Timestamp;
use restante_core::id::DeliveryId;

use crate::story::{Dialled, Known};
use crate::world::Witness;

/// A promise that was not kept.
#[derive(Debug, Clone)]
pub struct Violation {
    /// See the module.
    pub invariant: u8,
    pub what: String,
    /// Words by which the trace tells the story.
    pub words: Vec<String>,
}

impl Violation {
    fn new(invariant: u8, what: impl Into<String>, words: &[&dyn fmt::Display]) -> Self {
        Self { invariant, what: what.into(), words: words.iter().map(ToString::to_string).collect() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {}: {}", self.invariant, self.what)
    }
}

/// Judges a run.
pub fn check(witness: &Witness<'_>) -> Vec<Violation> {
    let mut found: Vec<Violation> =
        witness.story.broken.iter().map(|what| Violation::new(0, what.clone(), &[])).collect();
    messages::check(witness, &mut found);
    attempts::check(witness, &mut found);
    early::check(witness, &mut found);
    orders::check(witness, &mut found);
    pace::check(witness, &mut found);
    retries::check(witness, &mut found);
    liveness::check(witness, &mut found);
    found
}

impl Witness<'_> {
    /// All dials of each delivery, in the order they happened.
    fn dials(&self) -> BTreeMap<DeliveryId, Vec<&Dialled>> {
        let mut dials: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for dialled in &self.story.dialled {
            dials.entry(dialled.lease.delivery).or_default().push(dialled);
        }
        dials
    }

    /// When a request is past its source's retention.
    fn expires_at(&self, known: &Known) -> Timestamp {
        let days = self.cast.sources[known.source].retention_days;
        known.received_at + Duration::from_secs(u64::from(days) * 24 * 3600)
    }
}
