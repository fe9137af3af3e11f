//! 5, of limits: what is in flight and how fast attempts start, over all nodes, as receivers see it.

use super::super::story::{Dial, Witness};
use super::violation;
use crate::checker::Violation;

/// A late timer is made up for, workers are not equally quick, and nodes' clocks differ.
const SLACK_MS: u64 = 20;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for (place, plan) in witness.plan.endpoints.iter().enumerate() {
        let mut dials: Vec<&Dial> =
            witness.story.dials.iter().filter(|dial| dial.endpoint == place).collect();
        dials.sort_by_key(|dial| dial.started);
        for dial in &dials {
            let open =
                dials.iter().filter(|other| other.started <= dial.started && other.ends > dial.started);
            let count = open.count();
            if count > plan.max_in_flight as usize {
                let what = format!("{count} in flight at e{place}, {} allowed", plan.max_in_flight);
                found.push(violation(5, dial.delivery, &what));
            }
        }
        let Some(rate) = plan.rate_per_second else { continue };
        let step_ms = (1000.0 / rate) as u64;
        for pair in dials.windows(2) {
            let gap_ms = pair[1].started.since(pair[0].started);
            if gap_ms + SLACK_MS < step_ms {
                let (first, second) = (pair[0].life, pair[1].life);
                let what = format!("n{second} {gap_ms} ms after n{first} at e{place}, one each {step_ms} ms");
                found.push(violation(5, pair[1].delivery, &what));
            }
        }
    }
}
