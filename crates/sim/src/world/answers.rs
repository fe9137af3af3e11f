//! What callers are told after a commit, and what they make of it.

use restante_core::endpoint::EndpointId;
use restante_core::id::{Id, RequestId};
use restante_core::{Outcome, Timestamp};
use restante_store::{Accepted, Cancelled, Created, Replayed, Retried, Settled};

use super::job::{Answer, Job};
use super::{Event, World, note};
use crate::story::{Known, Told};

/// So many of 100 settles come a second time.
const REPEATED_PERCENT: u64 = 8;

impl World {
    /// Gives one caller its answer.
    pub(super) fn tell(&mut self, job: Job, answer: Answer) {
        let now = self.clocks.now;
        match (job, answer) {
            (Job::Accept { publish, now: received_at, .. }, Answer::Accepted(accepted)) => {
                self.tell_publisher(publish, &accepted, received_at);
            }
            (Job::Claim { .. }, Answer::Claimed(claimed)) => self.claimed(claimed.count, claimed.next_due),
            (Job::Settle { finished, dialled }, Answer::Settled(settled)) => {
                note!(self, "settled {:?}: {}", finished.lease, told(&settled));
                if let Settled::Done(_) = settled {
                    self.story.dialled[dialled].settled = Some(finished.attempt.outcome.clone());
                }
                if self.faulty && self.random.chance(REPEATED_PERCENT) {
                    let late_ms = self.random.below(5_000);
                    self.plan_in(late_ms, Event::LateSettle(finished));
                }
            }
            (Job::Cancel { order, delivery, .. }, Answer::Cancelled(cancelled)) => {
                note!(self, "cancel of {delivery}: {cancelled:?}");
                if cancelled == Cancelled::Done {
                    self.story.cancels[order].told = Some(now);
                }
            }
            (Job::Retry { retry, delivery, .. }, Answer::Retried(retried)) => {
                note!(self, "retry of {delivery}: {retried:?}");
                if let Retried::Fresh(new) = retried {
                    let retry = &mut self.story.retries[retry];
                    (retry.new, retry.told) = (Some(new), Some(now));
                }
            }
            (Job::Replay { known, now: received_at, .. }, Answer::Replayed(replayed)) => {
                note!(self, "replay: {replayed:?}");
                if let Replayed::Fresh(new) = replayed {
                    let old = self.story.requests[known].clone();
                    self.know(new, old.marker, old.source, received_at, Some(old.id));
                }
            }
            (Job::Erase { order, request, .. }, Answer::Done(done)) => {
                note!(self, "erasure of {request}: {done}");
                if done {
                    self.story.erasures[order].told = Some(now);
                }
            }
            (Job::Prune { .. }, Answer::More(true)) => {
                let now = self.wall();
                self.enqueue(Job::Prune { now });
            }
            (Job::Errand(errand), Answer::Errand(report)) => self.tell_errand(*errand, report),
            (job, answer) => self.tell_owner(job, answer),
        }
    }

    /// Gives the answer to a change of destinations, or of many deliveries of one.
    fn tell_owner(&mut self, job: Job, answer: Answer) {
        match (job, answer) {
            (Job::Change { destination, entry, setting, .. }, Answer::Done(done)) => {
                note!(self, "change of e{destination}: {done}, {setting:?}");
                self.came_into_force(destination, entry, done);
            }
            (Job::Delete { destination, entry, .. }, Answer::Done(done)) => {
                note!(self, "deletion of e{destination}: {done}");
                self.came_into_force(destination, entry, done);
            }
            (Job::DeleteSource { entries, .. }, Answer::Done(done)) => {
                note!(self, "deletion of a source: {done}");
                for (destination, entry) in entries {
                    self.came_into_force(destination, entry, done);
                }
            }
            (Job::Create { destination, entry, .. }, Answer::Created(created)) => {
                note!(self, "creation of e{destination}");
                if let Created::Done(raw) = &created {
                    let id = EndpointId::Destination(Id::from_uuid(raw.uuid));
                    self.cast.endpoints[destination].id = Some(id);
                }
                self.came_into_force(destination, entry, matches!(created, Created::Done(_)));
            }
            (Job::Listen { source, entry }, Answer::Done(_)) => self.tell_listening(source, entry),
            (Job::TakePending { source, entry, pending, .. }, Answer::Done(done)) => {
                note!(self, "pending deliveries of s{source} are taken: {pending}, {done}");
                let setting = &mut self.cast.sources[source].takes_pending;
                if done { setting.done(entry, self.clocks.now) } else { setting.refused(entry) }
            }
            (Job::StartBulk { .. }, Answer::Created(Created::Done(raw))) => {
                let id = Id::from_uuid(raw.uuid);
                note!(self, "bulk retry {id}");
                self.bulk_retries.push(id);
                self.plan_in(500, Event::Bulk { life: self.life, id });
            }
            (Job::Bulk { id, .. }, Answer::More(true)) => {
                self.plan_in(500, Event::Bulk { life: self.life, id });
            }
            (_, _) => {}
        }
    }

    pub(super) fn came_into_force(&mut self, endpoint: usize, entry: usize, done: bool) {
        let setting = &mut self.cast.endpoints[endpoint].setting;
        if done { setting.done(entry, self.clocks.now) } else { setting.refused(entry) }
    }

    fn tell_publisher(&mut self, publish: usize, accepted: &Accepted, received_at: Timestamp) {
        note!(self, "publish {publish}: {accepted:?}");
        let source = self.story.publishes[publish].source;
        self.story.publishes[publish].told = match accepted {
            Accepted::Fresh { .. } => Told::Accepted,
            // No source here has rules.
            Accepted::Duplicate { .. }
            | Accepted::Rejected { .. }
            | Accepted::RulesChanged(_)
            | Accepted::UnknownSource
            | Accepted::CreditsExhausted => Told::Refused,
        };
        let Accepted::Fresh { id, .. } = accepted else { return };
        match source {
            Some(source) => self.know(*id, publish as u64, source, received_at, None),
            None => self.story.broken.push(format!("publish {publish}: a token nobody gave out works")),
        }
    }

    fn know(
        &mut self,
        id: RequestId,
        marker: u64,
        source: usize,
        received_at: Timestamp,
        replay_of: Option<RequestId>,
    ) {
        let told = self.clocks.now;
        let mut destinations = self.cast.living(source);
        // What somebody first learned of in this millisecond may have been created behind the request.
        destinations.retain(|place| {
            let known = self.cast.endpoints[*place].setting.known_at(told.before(1));
            known.is_some_and(Option::is_some)
        });
        self.story.requests.push(Known { id, marker, source, destinations, received_at, told, replay_of });
    }
}

fn told(settled: &Settled) -> String {
    match settled {
        Settled::Done(life) => {
            format!("{}, used {}, due {}", life.state.name(), life.attempts_used, life.due_at)
        }
        Settled::LeaseLost => "lease lost".into(),
    }
}

/// A short word for the trace.
pub(super) fn name(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Delivered { status } => format!("delivered {status:?}"),
        Outcome::Failed(failure) | Outcome::Refused(failure) | Outcome::Uncertain(failure) => {
            format!("failed {} {:?}", failure.kind.name(), failure.status)
        }
        Outcome::Lost => "lost".into(),
    }
}
