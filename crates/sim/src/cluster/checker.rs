//! The checker of the cluster. The numbers are those of the other one (`crate::checker`); besides, 16: a node that
//! died or froze holds nobody up for longer than its leases last.

mod attempts;
mod limits;
mod promises;

use std::collections::BTreeMap;

use restante_core::id::DeliveryId;

use super::story::{Dial, Witness};
use crate::checker::Violation;
use crate::met::Met;

/// Judges a run.
pub(super) fn check(witness: &Witness<'_>) -> Vec<Violation> {
    let broken = witness.story.broken.iter();
    let mut found: Vec<Violation> = broken.map(|what| Violation::new(0, what.clone(), &[])).collect();
    promises::check(witness, &mut found);
    attempts::check(witness, &mut found);
    limits::check(witness, &mut found);
    found
}

/// What happened in a run: a promise about something else holds because nothing happened.
pub(super) fn met(witness: &Witness<'_>) -> Met {
    let mut met = witness.story.met.clone();
    let mut add = |what: &'static str, times: usize| *met.entry(what).or_default() += times;
    let story = witness.story;
    add("cancel answered", story.cancels.iter().filter(|it| it.told.is_some()).count());
    add(
        "publish without an answer",
        story.publishes.iter().filter(|it| it.told == super::story::Told::Nothing).count(),
    );
    let lost = witness.reads.attempts.values().filter(|it| it.outcome == restante_core::Outcome::Lost);
    add("attempt lost", lost.count());
    let dials = witness.dials();
    let moved = dials.values().filter(|dials| dials.windows(2).any(|pair| pair[0].life != pair[1].life));
    add("delivery tried by two nodes", moved.count());
    met
}

impl Witness<'_> {
    /// All dials of each delivery, in the order they happened.
    fn dials(&self) -> BTreeMap<DeliveryId, Vec<&Dial>> {
        let mut dials: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for dial in &self.story.dials {
            dials.entry(dial.delivery).or_default().push(dial);
        }
        dials
    }
}

fn violation(invariant: u8, delivery: DeliveryId, what: &str) -> Violation {
    let delivery = format!("{delivery:?}");
    Violation::new(invariant, format!("{delivery}: {what}"), &[&delivery])
}
