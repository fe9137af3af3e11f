//! 10: a manual retry keeps the request and its destination; a replay is a new request.

use std::collections::BTreeMap;

use restante_core::id::DeliveryId;

use super::Violation;
use crate::world::Witness;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let mut successors: BTreeMap<DeliveryId, usize> = BTreeMap::new();
    for request in witness.reads.visible() {
        for delivery in &request.deliveries {
            let Some(of) = delivery.retry_of else { continue };
            *successors.entry(of).or_default() += 1;
            let origin = request.deliveries.iter().find(|it| it.id == of);
            if origin.is_none_or(|origin| origin.endpoint != delivery.endpoint) {
                let what = format!("{} retries {of} of another destination or request", delivery.id);
                found.push(Violation::new(10, what, &[&delivery.id, &of]));
            }
        }
    }
    for (of, count) in successors {
        let asked = witness.story.retries.iter().filter(|retry| retry.of == of).count();
        if count > asked + witness.story.bulk_retries {
            found.push(Violation::new(
                10,
                format!("{of} was retried {count} times, asked for {asked}"),
                &[&of],
            ));
        }
    }
    check_told(witness, found);
    for dialled in &witness.story.dialled {
        let recorded = witness.reads.deliveries().find(|it| it.id == dialled.lease.delivery);
        if recorded.is_some_and(|it| it.message != dialled.message) {
            let id = dialled.lease.delivery;
            found.push(Violation::new(10, format!("{id} carries the key of another request"), &[&id]));
        }
    }
}

fn check_told(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    for retry in &witness.story.retries {
        let Some(new) = retry.new else { continue };
        let Some(Some(request)) = witness.reads.requests.get(&retry.request) else { continue };
        if !request.deliveries.iter().any(|it| it.id == new && it.retry_of == Some(retry.of)) {
            found.push(Violation::new(10, format!("the retry {new} of {} is not there", retry.of), &[&new]));
        }
    }
    for known in &witness.story.requests {
        let Some(Some(request)) = witness.reads.requests.get(&known.id) else { continue };
        if request.replay_of != known.replay_of || known.replay_of == Some(known.id) {
            found.push(Violation::new(10, format!("{} replays another request", known.id), &[&known.id]));
        }
    }
}
