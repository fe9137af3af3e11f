//! People: cancel, retry, replay, erase, and change their minds about destinations.

use restante_core::Timestamp;
use restante_core::endpoint::{Destination, EndpointId, Receiver as Setting};
use restante_core::id::{DeliveryId, Tail};
use restante_store::{BulkRetry, Cancelled, Grant, row};

use super::job::{Job, Owned};
use super::{World, note};
use crate::cast::{Endpoint, Owner, draw_destination, draw_schedule, url};
use crate::in_force::InForce;
use crate::story::{Known, Order, Retry};

impl World {
    /// Somebody does something.
    pub(super) fn act(&mut self) {
        if !self.faulty || self.node.as_ref().is_none_or(|node| node.stopping) {
            return;
        }
        match self.random.below(24) {
            0..6 => self.cancel_some(),
            6..8 => self.retry_some(),
            8..10 => self.replay_some(),
            10 => self.erase_some(),
            11 => self.retry_many(),
            12..15 => self.change_some(|_, _, setting| setting.paused = !setting.paused),
            15..17 => self.change_some(move_elsewhere),
            17 => self.change_some(|world, _, setting| setting.schedule = draw_schedule(&mut world.random)),
            18..20 => self.change_some(|world, _, setting| {
                setting.max_in_flight = world.random.pick(&[1, 2, 64]);
                setting.rate_per_second = world.random.pick(&[None, Some(0.2), Some(5.0)]);
            }),
            20 => self.delete_some(),
            21 => self.create_one(),
            22 => self.grant_some(),
            _ => self.pry(),
        }
    }

    /// A request somebody was told of, later ones more often: their deliveries are not over yet.
    fn some_request(&mut self) -> Option<usize> {
        let count = self.story.requests.len();
        if count == 0 {
            return None;
        }
        let back = self.random.index(count).min(self.random.index(count));
        Some(count - 1 - back)
    }

    /// A delivery as the read side shows it, with its request's place.
    fn some_delivery(&mut self) -> Option<(usize, row::Delivery)> {
        let place = self.some_request()?;
        let now = self.wall();
        let known = &self.story.requests[place];
        let workspace = self.cast.workspace_of_source(known.source);
        let shown = self.node.as_ref()?.engine.request(workspace, known.id, now).expect("reads work")?;
        if shown.deliveries.is_empty() {
            return None;
        }
        // Whoever cancels prefers what is not over.
        let open: Vec<_> = shown.deliveries.iter().filter(|it| !it.life.state.is_final()).cloned().collect();
        let among = if open.is_empty() { shown.deliveries } else { open };
        let chosen = self.random.index(among.len());
        among.into_iter().nth(chosen).map(|delivery| (place, delivery))
    }

    fn cancel_some(&mut self) {
        let Some((place, delivery)) = self.some_delivery() else { return };
        let workspace = self.cast.workspace_of_source(self.story.requests[place].source);
        let (asked, now) = (self.clocks.now, self.wall());
        let delivery = delivery.id;
        self.story.cancels.push(Order { what: delivery, asked, told: None });
        self.enqueue(Job::Cancel { order: self.story.cancels.len() - 1, workspace, delivery, now });
    }

    fn retry_some(&mut self) {
        let Some(place) = self.some_request() else { return };
        let now = self.wall();
        let Known { id, source, .. } = self.story.requests[place].clone();
        let workspace = self.cast.workspace_of_source(source);
        let shown =
            self.node.as_ref().map(|node| node.engine.request(workspace, id, now).expect("reads work"));
        let Some(shown) = shown.flatten() else { return };
        let over: Vec<DeliveryId> =
            shown.deliveries.iter().filter(|it| it.life.state.is_final()).map(|it| it.id).collect();
        if over.is_empty() {
            return;
        }
        let delivery = self.random.pick(&over);
        self.story.retries.push(Retry {
            request: id,
            of: delivery,
            asked: self.clocks.now,
            new: None,
            told: None,
        });
        self.enqueue(Job::Retry { retry: self.story.retries.len() - 1, workspace, delivery, now });
    }

    fn replay_some(&mut self) {
        let Some(known) = self.some_request() else { return };
        let (now, tail) = (self.wall(), Tail::from_bits(self.random.draw()));
        let Known { id: request, source, .. } = self.story.requests[known].clone();
        let workspace = self.cast.workspace_of_source(source);
        self.enqueue(Job::Replay { known, workspace, request, now, tail });
    }

    fn erase_some(&mut self) {
        let Some(place) = self.some_request() else { return };
        let (asked, now) = (self.clocks.now, self.wall());
        let Known { id: request, source, .. } = self.story.requests[place].clone();
        let workspace = self.cast.workspace_of_source(source);
        self.story.erasures.push(Order { what: request, asked, told: None });
        self.enqueue(Job::Erase { order: self.story.erasures.len() - 1, workspace, request, now });
    }

    fn some_destination(&mut self) -> Option<usize> {
        let all = self.cast.endpoints.iter().enumerate();
        let living: Vec<usize> = all
            .filter(|(_, it)| {
                let is_destination = matches!(it.owner, Owner::Source(_));
                is_destination && it.id.is_some() && it.setting.last().is_some()
            })
            .map(|(place, _)| place)
            .collect();
        (!living.is_empty()).then(|| self.random.pick(&living))
    }

    fn retry_many(&mut self) {
        let Some(place) = self.some_destination() else { return };
        let Some(EndpointId::Destination(id)) = self.cast.endpoints[place].id else { return };
        let at = Owned { workspace: self.cast.workspace_of(place), id };
        let (now, tail) = (self.wall(), Tail::from_bits(self.random.draw()));
        let state = self.random.pick(&["failed", "cancelled", "delivered"]).to_owned();
        let bulk = BulkRetry { since: Timestamp::from_millis(0), until: now, state };
        self.story.bulk_retries += 1;
        self.enqueue(Job::StartBulk { at, bulk, tail, now });
    }

    fn change_some(&mut self, change: impl FnOnce(&mut Self, usize, &mut Destination)) {
        let Some(place) = self.some_destination() else { return };
        self.change(place, change);
    }

    /// Changes a destination's settings, if it is there.
    pub(super) fn change(&mut self, place: usize, change: impl FnOnce(&mut Self, usize, &mut Destination)) {
        let destination = &self.cast.endpoints[place];
        let (Some(EndpointId::Destination(id)), Some(Setting::Destination(setting))) =
            (destination.id, destination.setting.last())
        else {
            return;
        };
        let mut setting = setting.clone();
        change(self, place, &mut setting);
        let (asked, now) = (self.clocks.now, self.wall());
        let at = Owned { workspace: self.cast.workspace_of(place), id };
        let known = Some(Setting::Destination(setting.clone()));
        let entry = self.cast.endpoints[place].setting.asked(asked, known);
        self.enqueue(Job::Change { destination: place, entry, at, setting: Box::new(setting), now });
    }

    fn delete_some(&mut self) {
        let Some(place) = self.some_destination() else { return };
        let (asked, now) = (self.clocks.now, self.wall());
        if self.random.chance(25) {
            let owner = self.cast.endpoints[place].owner;
            let Owner::Source(source) = owner else { return };
            let mut entries = Vec::new();
            for (place, it) in self.cast.endpoints.iter_mut().enumerate().filter(|(_, it)| it.owner == owner)
            {
                entries.push((place, it.setting.asked(asked, None)));
            }
            let source = &mut self.cast.sources[source];
            source.deletion_asked.get_or_insert(asked);
            let at = Owned { workspace: self.cast.workspaces[source.workspace], id: source.id };
            return self.enqueue(Job::DeleteSource { entries, at, now });
        }
        let Some(EndpointId::Destination(id)) = self.cast.endpoints[place].id else { return };
        let at = Owned { workspace: self.cast.workspace_of(place), id };
        let entry = self.cast.endpoints[place].setting.asked(asked, None);
        self.enqueue(Job::Delete { destination: place, entry, at, now });
    }

    fn create_one(&mut self) {
        let source = self.random.index(self.cast.sources.len());
        let (place, now) = (self.cast.endpoints.len(), self.wall());
        let receiver = self.random.index(self.cast.receivers.len());
        let mut setting = draw_destination(&mut self.random, place, receiver, false);
        self.draw_tunnel(place, &mut setting);
        let mut known = InForce::since(self.clocks.now, None);
        let entry = known.asked(self.clocks.now, Some(Setting::Destination(setting.clone())));
        self.cast.endpoints.push(Endpoint { owner: Owner::Source(source), id: None, setting: known });
        let at = Owned { workspace: self.cast.workspace_of(place), id: self.cast.sources[source].id };
        let tail = Tail::from_bits(self.random.draw());
        self.enqueue(Job::Create { destination: place, entry, at, setting: Box::new(setting), tail, now });
    }

    fn grant_some(&mut self) {
        let workspace = self.random.index(self.cast.workspaces.len());
        let workspace = self.cast.workspaces[workspace];
        let grant =
            self.random.pick(&[Grant::Delta(-4), Grant::Delta(90), Grant::Unlimited, Grant::Unlimited]);
        let now = self.wall();
        self.enqueue(Job::Grant { workspace, grant, now });
    }

    /// Somebody of another workspace tries to see and to cancel what is not theirs.
    fn pry(&mut self) {
        let Some((place, delivery)) = self.some_delivery() else { return };
        let now = self.wall();
        let known = &self.story.requests[place];
        let owner = self.cast.workspace_of_source(known.source);
        let Some(stranger) = self.cast.workspaces.iter().copied().find(|it| *it != owner) else { return };
        let Some(node) = &mut self.node else { return };
        let seen = node.engine.request(stranger, known.id, now).expect("reads work").is_some()
            || node.engine.delivery(stranger, delivery.id, now).expect("reads work").is_some();
        let cancelled = node.engine.transaction(|engine| engine.cancel(stranger, delivery.id, now));
        if seen || !matches!(cancelled, Ok(Cancelled::NotFound)) {
            self.story.broken.push(format!("{stranger} reaches {} of {owner}", delivery.id));
        }
        note!(self, "{stranger} tries to reach {}", delivery.id);
    }
}

fn move_elsewhere(world: &mut World, place: usize, setting: &mut Destination) {
    let receiver = world.random.index(world.cast.receivers.len());
    setting.url = url(receiver, place);
}
