//! 5, of rates: attempts of an endpoint start as evenly as its owner wants.

use restante_core::endpoint::Receiver as Setting;
use restante_core::limits::RATE_PER_SECOND;

use super::Violation;
use crate::story::Dialled;
use crate::world::Witness;

/// A late timer is made up for, and workers are not equally quick.
const SLACK_MS: u64 = 20;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for place in 0..witness.cast.endpoints.len() {
        let mut starts: Vec<&Dialled> =
            witness.story.dialled.iter().filter(|dialled| dialled.endpoint == place).collect();
        starts.sort_by_key(|dialled| dialled.started);
        for pair in starts.windows(2) {
            if let [first, second] = pair {
                check_pair(witness, first, second, found);
            }
        }
    }
}

fn check_pair(witness: &Witness<'_>, first: &Dialled, second: &Dialled, found: &mut Vec<Violation>) {
    // A node that starts anew knows nothing of the rate so far, and a wall clock that jumped takes it along.
    let (from, to) = (first.started.before(SLACK_MS), second.started);
    if first.life != second.life || witness.clocks.has_jumped(from, to) {
        return;
    }
    let settings = witness.cast.endpoints[first.endpoint].setting.possible(from, to).flatten();
    let rates: Option<Vec<f64>> = settings.map(Setting::rate_per_second).collect();
    let Some(fastest) = rates.and_then(|rates| rates.into_iter().reduce(f64::max)) else { return };
    let step_ms = (1000.0 / fastest.max(*RATE_PER_SECOND.start())) as u64;
    let gap_ms = to.since(first.started);
    if gap_ms + SLACK_MS < step_ms {
        let id = second.lease.delivery;
        let what = format!("{id}: {gap_ms} ms after another attempt at a rate of {fastest} a second");
        found.push(Violation::new(5, what, &[&id, &first.lease.delivery]));
    }
}
