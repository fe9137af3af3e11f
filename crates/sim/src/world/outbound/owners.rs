//! Owners of webhooks: pause, resume, move and change them, test, replay, recover, delete.

use std::time::Duration;

use restante_core::endpoint::{EndpointId, Receiver as Setting, Webhook};
use restante_core::id::{DeliveryId, Tail};
use restante_core::{Outcome, Timestamp};
use restante_store::{Cancelled, Resent, Window, row};

use super::errand::{Errand, Patch};
use crate::cast::{Endpoint, Owner, draw_filters, draw_webhook, draw_webhook_schedule, places, url};
use crate::in_force::InForce;
use crate::story::outbound::{Resend, Taken, What};
use crate::story::{Order, Sighting};
use crate::timeline::Moment;
use crate::world::job::Job;
use crate::world::{Event, World, note};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// So many of 100 replays and recoveries are followed by a crash.
const CRASH_PERCENT: u64 = 4;

impl World {
    /// Somebody does something about a webhook.
    pub(in crate::world) fn keep(&mut self) {
        if !self.faulty || self.node.as_ref().is_none_or(|node| node.stopping) {
            return;
        }
        match self.random.below(34) {
            0..6 => self.pause_or_resume(),
            6..8 => self.move_some(),
            8 => self.patch_some(|world, _| Patch::Events(draw_filters(&mut world.random))),
            9 => self.patch_some(|world, _| Patch::Schedule(draw_webhook_schedule(&mut world.random))),
            10 => self.patch_some(|world, _| {
                let rate = world.random.pick(&[None, Some(0.5), Some(5.0)]);
                Patch::Pace(world.random.pick(&[1, 2, 64]), rate)
            }),
            11 => self.patch_some(|world, _| Patch::Description(format!("{}", world.random.below(9)))),
            12 => self.patch_some(|_, webhook| Patch::Paused(webhook.paused)),
            13..15 => self.test_some(),
            15..20 => self.replay_failures(),
            20..23 => self.replay_one(),
            23..26 => self.recover_some(),
            26 => self.delete_webhook(),
            27 => self.create_webhook(),
            28..30 => self.cancel_event(),
            30..32 => self.change_minds(),
            _ => self.pry_at_event(),
        }
    }

    fn some_webhook(&mut self) -> Option<usize> {
        let all = self.cast.endpoints.iter().enumerate();
        let living: Vec<usize> = all
            .filter(|(_, it)| {
                let is_webhook = matches!(it.owner, Owner::Workspace(_));
                is_webhook && it.id.is_some() && it.setting.last().is_some()
            })
            .map(|(place, _)| place)
            .collect();
        (!living.is_empty()).then(|| self.random.pick(&living))
    }

    fn patch_some(&mut self, draw: impl FnOnce(&mut Self, &Webhook) -> Patch) {
        let Some(endpoint) = self.some_webhook() else { return };
        let Some(Setting::Webhook(webhook)) = self.cast.endpoints[endpoint].setting.last().clone() else {
            return;
        };
        let patch = draw(self, &webhook);
        self.patch(endpoint, patch);
    }

    /// Changes a webhook, if it is there.
    pub(in crate::world) fn patch(&mut self, endpoint: usize, patch: Patch) {
        let Some(at) = self.owned(endpoint) else { return };
        let known = &mut self.cast.endpoints[endpoint].setting;
        let Some(Setting::Webhook(mut webhook)) = known.latest().clone() else { return };
        patch.apply(&mut webhook);
        let entry = known.asked(self.clocks.now, Some(Setting::Webhook(webhook)));
        let now = self.wall();
        self.enqueue(Job::Errand(Box::new(Errand::Patch { endpoint, entry, at, patch, now })));
    }

    fn pause_or_resume(&mut self) {
        let Some(endpoint) = self.some_webhook() else { return };
        let is_paused = self.cast.endpoints[endpoint].setting.last().as_ref().is_some_and(Setting::is_paused);
        if is_paused {
            self.resume(endpoint);
        } else {
            self.patch(endpoint, Patch::Paused(true));
        }
    }

    /// Somebody noticed that a webhook is paused.
    pub(in crate::world) fn resume(&mut self, endpoint: usize) {
        if !self.faulty || self.node.as_ref().is_none_or(|node| node.stopping) {
            return;
        }
        self.patch(endpoint, Patch::Paused(false));
        if self.random.chance(50) {
            let soon_ms = self.random.pick(&[0, 3, 5_000]);
            self.plan_in(soon_ms, Event::Recover(endpoint));
        }
    }

    /// Notices, sooner or later, that a webhook was paused.
    pub(in crate::world) fn notice_pause(&mut self, endpoint: usize) {
        if self.random.chance(70) {
            let later_ms = self.random.below(self.plan.busy_ms / 8);
            self.plan_in(later_ms, Event::Resume(endpoint));
        }
    }

    /// Somebody pauses all webhooks of a workspace, and thinks again before the last commit is cold.
    fn change_minds(&mut self) {
        let Some(delivery) = self.some_event_delivery() else { return };
        let Some(endpoint) = self.cast.find(delivery.endpoint) else { return };
        let all = self.cast.living_of(self.cast.endpoints[endpoint].owner);
        all.iter().for_each(|endpoint| self.patch(*endpoint, Patch::Paused(true)));
        if self.random.chance(20) {
            return self.delete_webhook();
        }
        all.iter().for_each(|endpoint| self.patch(*endpoint, Patch::Paused(false)));
        if self.random.chance(50) {
            self.resend(endpoint, What::One(delivery.id));
        }
    }

    fn move_some(&mut self) {
        let receiver = self.random.index(self.cast.receivers.len());
        self.patch_some(|_, webhook| {
            let place = places(&webhook.url).map_or(0, |(_, place)| place);
            Patch::Url(url(receiver, place))
        });
    }

    /// Puts a webhook right: it may go, at full speed, to somebody who may be reached.
    pub(in crate::world) fn mend(&mut self, endpoint: usize) {
        let Some(setting) = self.cast.endpoints[endpoint].setting.last() else { return };
        let receiver = places(setting.url()).map(|(receiver, _)| receiver);
        let is_forbidden = receiver.is_none_or(|it| self.cast.receivers[it].is_forbidden);
        let url = is_forbidden.then(|| url(0, endpoint));
        self.patch(endpoint, Patch::Mend { url });
    }

    fn test_some(&mut self) {
        let Some(endpoint) = self.some_webhook() else { return };
        let Some(at) = self.owned(endpoint) else { return };
        self.enqueue(Job::Errand(Box::new(Errand::Test { endpoint, at })));
    }

    /// When some failed attempt of a webhook started, as its log says, and whose it was.
    fn some_failure(&mut self, of: usize) -> Option<(Timestamp, DeliveryId)> {
        let failures: Vec<(Timestamp, DeliveryId)> =
            self.story.taken.iter().filter_map(|(_, taken)| failure(taken, of)).collect();
        (!failures.is_empty()).then(|| self.random.pick(&failures))
    }

    /// A time that is, or nearly is, that of something.
    fn near(&mut self, at: Timestamp) -> Timestamp {
        let by_ms = self.random.pick(&[-1, 0, 0, 1]);
        Timestamp::from_millis(at.millis() + by_ms)
    }

    pub(in crate::world) fn replay_failures(&mut self) {
        if self.node.as_ref().is_none_or(|node| node.stopping) {
            return;
        }
        let Some(endpoint) = self.some_webhook() else { return };
        let now = self.wall();
        let mut window = Window { since: now.before(DAY), until: now };
        if let Some((at, _)) = self.some_failure(endpoint).filter(|_| self.random.chance(70)) {
            window.since = self.near(at);
        }
        if let Some((at, _)) = self.some_failure(endpoint).filter(|_| self.random.chance(50)) {
            window.until = self.near(at).max(window.since);
        }
        // A call without sense is refused before it comes here.
        window.until = window.until.max(window.since);
        self.resend(endpoint, What::Failures(window));
        if self.random.chance(25) {
            self.resend(endpoint, What::Failures(window));
        }
        // Second thoughts come while the list is long.
        if let Some((_, delivery)) = self.some_failure(endpoint).filter(|_| self.random.chance(30)) {
            self.cancel_delivery(endpoint, delivery);
        }
    }

    fn replay_one(&mut self) {
        let Some(delivery) = self.some_event_delivery() else { return };
        let Some(endpoint) = self.cast.find(delivery.endpoint) else { return };
        self.resend(endpoint, What::One(delivery.id));
        if self.random.chance(30) {
            let now = self.wall();
            self.resend(endpoint, What::Failures(Window { since: now.before(DAY), until: now }));
        }
    }

    fn recover_some(&mut self) {
        if let Some(endpoint) = self.some_webhook() {
            self.recover(endpoint);
        }
    }

    pub(in crate::world) fn recover(&mut self, endpoint: usize) {
        if self.node.as_ref().is_none_or(|node| node.stopping) {
            return;
        }
        let times: Vec<Timestamp> = self.story.events.iter().map(|known| known.accepted_at).collect();
        let window = (!times.is_empty() && self.random.chance(50)).then(|| {
            let since = self.random.pick(&times);
            let since = self.near(since);
            let until = self.random.pick(&times);
            Window { since, until: self.near(until).max(since) }
        });
        self.resend(endpoint, What::Skipped(window));
    }

    fn resend(&mut self, endpoint: usize, what: What) {
        let Some(at) = self.owned(endpoint) else { return };
        let (asked, now, tail) = (self.clocks.now, self.wall(), Tail::from_bits(self.random.draw()));
        self.story.resends.push(Resend { endpoint, what, asked, asked_at: now, told: None });
        let resend = self.story.resends.len() - 1;
        note!(self, "asks for resend {resend} of e{endpoint}: {what:?}");
        self.enqueue(Job::Errand(Box::new(Errand::Resend { resend, at, now, tail })));
        // Replays must survive a crash, so crashes look for them.
        if self.faulty && self.random.chance(CRASH_PERCENT) {
            let soon_ms = self.random.below(300);
            self.plan_in(soon_ms, Event::Crash);
        }
    }

    fn delete_webhook(&mut self) {
        let Some(endpoint) = self.some_webhook() else { return };
        let Some(at) = self.owned(endpoint) else { return };
        let entry = self.cast.endpoints[endpoint].setting.asked(self.clocks.now, None);
        let now = self.wall();
        self.enqueue(Job::Errand(Box::new(Errand::Delete { endpoint, entry, at, now })));
    }

    fn create_webhook(&mut self) {
        let workspace = self.random.index(self.cast.workspaces.len());
        let (endpoint, now) = (self.cast.endpoints.len(), self.wall());
        let receiver = self.random.index(self.cast.receivers.len());
        let setting = draw_webhook(&mut self.random, endpoint, receiver, false);
        let mut known = InForce::since(Moment::default(), None);
        let entry = known.asked(self.clocks.now, Some(Setting::Webhook(setting.clone())));
        self.cast.endpoints.push(Endpoint { owner: Owner::Workspace(workspace), id: None, setting: known });
        let (workspace, tail) = (self.cast.workspaces[workspace], Tail::from_bits(self.random.draw()));
        self.enqueue(Job::Errand(Box::new(Errand::Create {
            endpoint,
            entry,
            workspace,
            setting,
            tail,
            now,
        })));
    }

    /// Looks at an event somebody was told of, later ones more often. Gives one of its deliveries.
    fn some_event_delivery(&mut self) -> Option<row::Delivery> {
        let count = self.story.events.len();
        if count == 0 {
            return None;
        }
        let back = self.random.index(count).min(self.random.index(count));
        let known = &self.story.events[count - 1 - back];
        let workspace = self.cast.workspaces[self.story.calls[known.call].workspace];
        let now = self.wall();
        let event = self.node.as_ref()?.engine.event(workspace, known.id, now).expect("reads work")?;
        for delivery in &event.deliveries {
            let (taken, state) = (self.story.taken.len(), delivery.life.state);
            self.story.sightings.push(Sighting { taken, delivery: delivery.id, state });
        }
        if event.deliveries.is_empty() {
            return None;
        }
        let chosen = self.random.index(event.deliveries.len());
        event.deliveries.into_iter().nth(chosen)
    }

    fn cancel_event(&mut self) {
        let Some(delivery) = self.some_event_delivery() else { return };
        let Some(endpoint) = self.cast.find(delivery.endpoint) else { return };
        self.cancel_delivery(endpoint, delivery.id);
    }

    fn cancel_delivery(&mut self, endpoint: usize, delivery: DeliveryId) {
        let workspace = self.cast.workspace_of(endpoint);
        let (asked, now) = (self.clocks.now, self.wall());
        self.story.cancels.push(Order { what: delivery, asked, told: None });
        self.enqueue(Job::Cancel { order: self.story.cancels.len() - 1, workspace, delivery, now });
    }

    /// Somebody of another workspace tries to see and to send again what is not theirs.
    fn pry_at_event(&mut self) {
        let Some(delivery) = self.some_event_delivery() else { return };
        let Some(endpoint) = self.cast.find(delivery.endpoint) else { return };
        let EndpointId::Webhook(webhook) = delivery.endpoint else { return };
        let owner = self.cast.workspace_of(endpoint);
        let Some(stranger) = self.cast.workspaces.iter().copied().find(|it| *it != owner) else { return };
        let (now, tail, id) = (self.wall(), Tail::from_bits(0), delivery.id);
        let window = Window { since: now.before(DAY), until: now };
        let Some(node) = &mut self.node else { return };
        let seen = node.engine.delivery(stranger, id, now).expect("reads work").is_some()
            || node.engine.count_replay(stranger, webhook, window, now).expect("reads work").is_some();
        let done = node.engine.transaction(|engine| {
            let resent = [
                engine.replay_webhook(stranger, webhook, window, now, tail)?,
                engine.replay_delivery(stranger, webhook, id, now, tail)?,
                engine.recover(stranger, webhook, None, now, tail)?,
            ];
            let cancelled = engine.cancel(stranger, id, now)? != Cancelled::NotFound;
            let cleared = engine.clear_run(stranger, webhook)?;
            Ok(cancelled || cleared || resent.iter().any(|it| *it != Resent::NotFound))
        });
        if seen || !matches!(done, Ok(false)) {
            self.story.broken.push(format!("{stranger} reaches {id} of {owner}"));
        }
        note!(self, "{stranger} tries to reach {id}");
    }
}

/// When a failed attempt of this webhook started, and of which delivery.
fn failure(taken: &Taken, of: usize) -> Option<(Timestamp, DeliveryId)> {
    match taken {
        Taken::Attempt { endpoint, lease, outcome: Outcome::Failed(_), started_at, .. }
            if *endpoint == of =>
        {
            Some((*started_at, lease.delivery))
        }
        Taken::Attempt { .. }
        | Taken::Call { .. }
        | Taken::Change { .. }
        | Taken::Test { .. }
        | Taken::Deletion { .. }
        | Taken::Resend { .. }
        | Taken::Cancel { .. }
        | Taken::Look { .. } => None,
    }
}
