//! 12: how webhooks stand, and what their owners are told, worked out a second time from their attempts.

use std::collections::BTreeMap;

use restante_core::id::DeliveryId;
use restante_core::{Outcome, Timestamp};
use restante_store::record::NoticeKind;
use restante_store::row::Trigger;

use super::Violation;
use crate::story::outbound::Taken;
use crate::timeline::Moment;
use crate::world::Witness;

/// A webhook stopped or began to get anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// How much the store had taken before.
    pub(super) place: usize,
    pub(super) at: Moment,
    pub(super) paused: bool,
}

/// How a webhook stands.
#[derive(Debug, Default)]
struct Standing {
    failing_since: Option<Timestamp>,
    failures: u32,
    degraded: bool,
    paused: bool,
    deleted: bool,
    notices: Vec<(NoticeKind, Timestamp)>,
}

/// What made attempts begin, as the reads say.
type Triggers = BTreeMap<(DeliveryId, u32), Trigger>;

pub(super) fn check(witness: &Witness<'_>, found: &mut Vec<Violation>) {
    let triggers = triggers(witness);
    for endpoint in 0..witness.cast.endpoints.len() {
        let Some(id) = witness.cast.endpoints[endpoint].id.filter(|_| witness.cast.is_webhook(endpoint))
        else {
            continue;
        };
        match follow(witness, endpoint, &triggers) {
            Ok(Some((standing, _))) => {
                let told = witness.reads.notices.get(&id);
                if told.is_some_and(|told| *told != standing.notices) {
                    let what = format!("e{endpoint}: notices {told:?}, due were {:?}", standing.notices);
                    found.push(Violation::new(
                        12,
                        what,
                        &[&format!("e{endpoint} "), &format!("/e{endpoint},")],
                    ));
                }
            }
            // Some of its attempts cannot be seen any more.
            Ok(None) => {}
            Err(what) => {
                let words: &[&dyn std::fmt::Display] = &[&format!("e{endpoint} "), &format!("/e{endpoint},")];
                found.push(Violation::new(12, format!("e{endpoint}: {what}"), words));
            }
        }
    }
}

/// When a webhook was paused and resumed; `None` when not all of its attempts can be seen any more.
pub(super) fn turns(witness: &Witness<'_>, endpoint: usize) -> Option<Vec<Turn>> {
    follow(witness, endpoint, &triggers(witness)).ok().flatten().map(|(_, turns)| turns)
}

pub(super) fn triggers(witness: &Witness<'_>) -> Triggers {
    let deliveries = witness.reads.visible_events().flat_map(|event| &event.deliveries);
    let attempts = deliveries.flat_map(|it| it.attempts.iter().map(|attempt| (it.id, attempt)));
    attempts.map(|(id, attempt)| ((id, attempt.number), attempt.trigger)).collect()
}

/// Follows a webhook through all that the store took, and compares with what was shown.
fn follow(
    witness: &Witness<'_>,
    of: usize,
    triggers: &Triggers,
) -> Result<Option<(Standing, Vec<Turn>)>, String> {
    let (mut standing, mut turns) = (Standing::default(), Vec::new());
    for (place, (at, taken)) in witness.story.taken.iter().enumerate() {
        let paused = standing.paused;
        match taken {
            Taken::Attempt { endpoint, lease, outcome, ended_at, .. } if *endpoint == of => {
                let Some(trigger) = triggers.get(&(lease.delivery, lease.attempt)) else { return Ok(None) };
                standing.attempt(witness, outcome, *trigger, *ended_at);
            }
            Taken::Change { endpoint, new_url, paused } if *endpoint == of => {
                if *new_url || (standing.paused && !paused) {
                    standing.clear();
                }
                standing.paused = *paused;
            }
            Taken::Test { endpoint } if *endpoint == of => standing.clear(),
            Taken::Deletion { endpoint } if *endpoint == of => standing.deleted = true,
            Taken::Look { endpoint, paused, health } if *endpoint == of => {
                let failing = health.run.map(|run| (run.since, run.failures));
                let shown = (*paused, health.degraded, failing);
                let due = (standing.paused, standing.degraded, standing.failing());
                if shown != due {
                    return Err(format!("stands {shown:?} at {at:?}, should stand {due:?}"));
                }
            }
            Taken::Attempt { .. }
            | Taken::Change { .. }
            | Taken::Test { .. }
            | Taken::Deletion { .. }
            | Taken::Look { .. }
            | Taken::Call { .. }
            | Taken::Resend { .. }
            | Taken::Cancel { .. } => {}
        }
        if standing.paused != paused {
            turns.push(Turn { place, at: *at, paused: standing.paused });
        }
    }
    Ok(Some((standing, turns)))
}

impl Standing {
    fn failing(&self) -> Option<(Timestamp, u32)> {
        self.failing_since.map(|since| (since, self.failures))
    }

    fn clear(&mut self) {
        (self.failing_since, self.failures, self.degraded) = (None, 0, false);
    }

    fn attempt(&mut self, witness: &Witness<'_>, outcome: &Outcome, trigger: Trigger, ended_at: Timestamp) {
        match outcome {
            Outcome::Delivered { .. } => self.clear(),
            Outcome::Lost => {}
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_)
                if trigger == Trigger::Replay || self.paused || self.deleted => {}
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_) => self.fail(witness, ended_at),
        }
    }

    fn fail(&mut self, witness: &Witness<'_>, ended_at: Timestamp) {
        let limits = &witness.policy.health;
        let since = *self.failing_since.get_or_insert(ended_at);
        self.failures += 1;
        let lasts = ended_at.since(since);
        if !self.degraded && self.failures >= limits.degraded_failures && lasts >= limits.degraded_after {
            self.degraded = true;
            self.notices.push((NoticeKind::WebhookDegraded, ended_at));
        }
        if self.degraded && lasts >= limits.paused_after {
            self.paused = true;
            self.notices.push((NoticeKind::WebhookPaused, ended_at));
        }
    }
}
