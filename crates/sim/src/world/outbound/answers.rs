//! What publishers and owners of webhooks are told, and what the store took.

use restante_core::endpoint::{EndpointId, Receiver as Setting};
use restante_core::id::WebhookId;
use restante_core::{Outcome, Timestamp};
use restante_store::{Cancelled, Created, Finished, Published, Settled};

use super::errand::{Errand, Report};
use crate::story::outbound::{Answered, KnownEvent, Taken};
use crate::world::job::{Answer, Job};
use crate::world::{World, note};

impl World {
    /// Notes what the store took in a commit that was made, whether or not anybody will be told.
    pub(in crate::world) fn note_taken(&mut self, jobs: &[Job], answers: &[Answer]) {
        for (job, answer) in jobs.iter().zip(answers) {
            match (job, answer) {
                (Job::Settle { finished, dialled }, Answer::Settled(Settled::Done(life))) => {
                    let endpoint = self.story.dialled[*dialled].endpoint;
                    if self.cast.is_webhook(endpoint) {
                        self.take(attempt(endpoint, finished, life.ended_at.unwrap_or_default()));
                    }
                }
                (Job::Cancel { delivery, .. }, Answer::Cancelled(Cancelled::Done)) => {
                    self.take(Taken::Cancel { delivery: *delivery });
                }
                (Job::Errand(errand), Answer::Errand(report)) => self.note_errand(errand, report),
                (_, _) => {}
            }
        }
    }

    fn note_errand(&mut self, errand: &Errand, report: &Report) {
        match (errand, report) {
            (Errand::Publish { call, .. }, Report::Published(Published::Fresh { events, .. })) => {
                self.take(Taken::Call { call: *call, events: events.clone() });
            }
            (Errand::Patch { endpoint, .. }, Report::Patched(Some(change))) => {
                let (before, after) = &**change;
                let (new_url, paused) = (before.url != after.url, after.paused);
                self.take(Taken::Change { endpoint: *endpoint, new_url, paused });
            }
            (Errand::Create { endpoint, setting, .. }, Report::Created(Created::Done(_))) => {
                self.take(Taken::Change { endpoint: *endpoint, new_url: false, paused: setting.paused });
            }
            (Errand::Test { endpoint, .. }, Report::Done(true)) => {
                self.take(Taken::Test { endpoint: *endpoint });
            }
            (Errand::Delete { endpoint, .. }, Report::Done(true)) => {
                self.take(Taken::Deletion { endpoint: *endpoint });
            }
            (Errand::Resend { resend, .. }, Report::Resent { resent, counted }) => {
                self.take(Taken::Resend { resend: *resend, resent: *resent, counted: *counted });
            }
            (_, _) => {}
        }
    }

    /// Notes something the store took.
    pub(in crate::world) fn take(&mut self, taken: Taken) {
        self.story.taken.push((self.clocks.now, taken));
    }

    /// Looks at the webhooks that the latest commits may have moved.
    pub(in crate::world) fn look_at_webhooks(&mut self) {
        let mut endpoints: Vec<usize> = Vec::new();
        for (_, taken) in &self.story.taken[self.looked..] {
            match taken {
                Taken::Attempt { endpoint, .. }
                | Taken::Change { endpoint, .. }
                | Taken::Test { endpoint } => endpoints.push(*endpoint),
                Taken::Call { .. }
                | Taken::Deletion { .. }
                | Taken::Resend { .. }
                | Taken::Cancel { .. }
                | Taken::Look { .. } => {}
            }
        }
        endpoints.sort_unstable();
        endpoints.dedup();
        for endpoint in endpoints {
            self.look_at(endpoint);
        }
        self.looked = self.story.taken.len();
    }

    /// Reads how a webhook stands. A pause that nobody asked for is met here first.
    pub(in crate::world) fn look_at(&mut self, endpoint: usize) {
        let Some((webhook, health)) = self.read_webhook(endpoint) else { return };
        let paused = webhook.paused;
        self.take(Taken::Look { endpoint, paused, health });
        let known = &self.cast.endpoints[endpoint].setting;
        let met = known.latest().as_ref().is_none_or(Setting::is_paused);
        if paused && !met {
            note!(self, "e{endpoint} is paused");
            self.notice_pause(endpoint);
            let known = &mut self.cast.endpoints[endpoint].setting;
            let entry = known.asked(self.clocks.now, Some(Setting::Webhook(webhook)));
            known.done(entry, self.clocks.now);
        }
    }

    /// Gives the answer to an errand.
    pub(in crate::world) fn tell_errand(&mut self, errand: Errand, report: Report) {
        let now = self.clocks.now;
        match (errand, report) {
            (Errand::Publish { call, now: accepted_at, .. }, Report::Published(published)) => {
                self.tell_caller(call, published, accepted_at);
            }
            (Errand::Patch { endpoint, entry, patch, .. }, Report::Patched(change)) => {
                note!(self, "change of e{endpoint}: {}, {patch:?}", change.is_some());
                let setting = &mut self.cast.endpoints[endpoint].setting;
                match change {
                    Some(change) => setting.done_as(entry, now, Some(Setting::Webhook(change.1))),
                    None => setting.refused(entry),
                }
            }
            (Errand::Delete { endpoint, entry, .. }, Report::Done(done)) => {
                note!(self, "deletion of e{endpoint}: {done}");
                self.came_into_force(endpoint, entry, done);
            }
            (Errand::Create { endpoint, entry, .. }, Report::Created(created)) => {
                note!(self, "creation of e{endpoint}");
                if let Created::Done(raw) = &created {
                    let id = EndpointId::Webhook(WebhookId::from_uuid(raw.uuid));
                    self.cast.endpoints[endpoint].id = Some(id);
                }
                self.came_into_force(endpoint, entry, matches!(created, Created::Done(_)));
            }
            (Errand::Resend { resend, .. }, Report::Resent { resent, counted }) => {
                note!(self, "resend {resend}: {resent:?}, {counted:?} counted");
                self.story.resends[resend].told = Some(now);
            }
            (Errand::Test { endpoint, .. }, Report::Done(done)) => note!(self, "test of e{endpoint}: {done}"),
            (_, _) => {}
        }
    }

    fn tell_caller(&mut self, place: usize, published: Published, accepted_at: Timestamp) {
        note!(self, "call {place}: {published:?}");
        let (told, events) = match published {
            Published::Fresh { events, .. } => (Answered::Fresh(events.clone()), events),
            Published::Replayed(events) => (Answered::Replayed(events.clone()), events),
            Published::KeyReused => (Answered::KeyReused, Vec::new()),
            Published::NoWorkspace => {
                self.story.broken.push(format!("call {place}: its workspace is not there"));
                (Answered::Refused, Vec::new())
            }
        };
        self.story.calls[place].told = told;
        for (item, receipt) in events.into_iter().enumerate() {
            if self.story.events.iter().any(|known| known.id == receipt.id) {
                continue;
            }
            let (id, deliveries, told) = (receipt.id, receipt.deliveries, self.clocks.now);
            self.story.events.push(KnownEvent { id, call: place, item, deliveries, accepted_at, told });
        }
        self.plan_late_key(place);
    }

    /// The database refused the commit an errand was part of.
    pub(in crate::world) fn refuse_errand(&mut self, errand: &Errand) {
        match errand {
            Errand::Publish { call, .. } => self.story.calls[*call].told = Answered::Refused,
            Errand::Patch { endpoint, entry, .. }
            | Errand::Delete { endpoint, entry, .. }
            | Errand::Create { endpoint, entry, .. } => {
                self.cast.endpoints[*endpoint].setting.refused(*entry);
            }
            Errand::Test { .. } | Errand::Resend { .. } => {}
        }
    }
}

fn attempt(endpoint: usize, finished: &Finished, ended_at: Timestamp) -> Taken {
    let took = finished.attempt.ended_at.since(finished.attempt.started_at);
    let outcome: Outcome = finished.attempt.outcome.clone();
    Taken::Attempt { endpoint, lease: finished.lease, outcome, started_at: ended_at.before(took), ended_at }
}
