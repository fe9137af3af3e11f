//! The checker: knows what must hold, what the outside saw, and what the public reads show. Nothing else.
//!
//! What it holds against a run has numbers:
//!
//! | | |
//! |---|---|
//! | 0 | the world itself broke: an error that nobody injected, or something of another workspace |
//! | 1 | what was acknowledged is delivered, or visible as failed, cancelled, skipped or pending |
//! | 2 | what was refused is never delivered |
//! | 3 | one key is one message |
//! | 4 | a key used for something else is refused, a repeat gets the answer of the first |
//! | 5 | every request that was sent is recorded once; budgets and limits are kept |
//! | 6 | no attempt is early |
//! | 7 | no attempt starts after cancel, deletion, pause or expiry |
//! | 8 | an endpoint's attempts do not depend on another's failures (`independence.rs`) |
//! | 9 | no attempt while no client is connected; clients get what their source's setting says |
//! | 10 | a manual retry keeps the request and touches one destination; a replay is a new request; an event keeps its id |
//! | 11 | a replay takes what failed in its window and nothing else, one attempt each, 20 replays a day |
//! | 12 | a webhook's health, its notices and its pauses are what its attempts make them |
//! | 13 | a stale lease changes nothing |
//! | 14 | bytes are kept from the door to the receiver; workspaces never see each other |
//! | 15 | once faults stop, all due work starts within a minute, and everything ends |
//! | 17 | no forbidden address is ever reached |

mod attempts;
mod clients;
mod early;
mod events;
mod health;
mod keys;
mod liveness;
mod messages;
mod orders;
mod pace;
mod pauses;
mod replays;
mod retries;
mod waits;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use restante_core::id::DeliveryId;
use restante_core::limits::ATTEMPTS_KEPT;
use restante_core::{State, Timestamp};
use restante_store::Lease;
use restante_store::row::{self, Trigger};

use crate::story::outbound::What;
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
    pub(crate) fn new(invariant: u8, what: impl Into<String>, words: &[&dyn fmt::Display]) -> Self {
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
    clients::check(witness, &mut found);
    early::check(witness, &mut found);
    orders::check(witness, &mut found);
    pace::check(witness, &mut found);
    retries::check(witness, &mut found);
    events::check(witness, &mut found);
    keys::check(witness, &mut found);
    health::check(witness, &mut found);
    pauses::check(witness, &mut found);
    replays::check(witness, &mut found);
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

    /// What made an attempt begin, as the reads say.
    fn trigger(&self, lease: Lease) -> Option<Trigger> {
        let delivery = self.reads.deliveries().find(|delivery| delivery.id == lease.delivery)?;
        delivery.attempts.iter().find(|attempt| attempt.number == lease.attempt).map(|it| it.trigger)
    }

    /// Whether all attempts of a delivery can still be seen: those to webhooks are forgotten after some days.
    fn remembers(&self, delivery: &row::Delivery) -> bool {
        let is_webhook = self.cast.find(delivery.endpoint).is_some_and(|it| self.cast.is_webhook(it));
        !is_webhook || delivery.created_at + ATTEMPTS_KEPT > self.clocks.most_wall()
    }

    /// Whether a delivery's event was not past its time whenever somebody looked.
    fn keeps(&self, delivery: DeliveryId) -> bool {
        let has_it = |event: &&row::Event| event.deliveries.iter().any(|it| it.id == delivery);
        let event = self.reads.visible_events().find(has_it);
        event.is_some_and(|event| !self.reads.gone.contains(&event.id))
    }

    /// Whether somebody may have sent again what had ended so, and it is now something else for that.
    fn may_be_sent_again(&self, delivery: &row::Delivery, had_ended: State) -> bool {
        let endpoint = self.cast.find(delivery.endpoint);
        let mut resends = self.story.resends.iter().filter(|resend| Some(resend.endpoint) == endpoint);
        resends.any(|resend| match resend.what {
            What::Failures(_) | What::One(_) => delivery.life.state == State::Delivered,
            What::Skipped(_) => had_ended == State::Skipped,
        })
    }

    /// When a request is past its source's retention.
    fn expires_at(&self, known: &Known) -> Timestamp {
        let days = self.cast.sources[known.source].retention_days;
        known.received_at + Duration::from_secs(u64::from(days) * 24 * 3600)
    }
}
