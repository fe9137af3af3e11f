//! Who takes part: workspaces with their sources, destinations and webhooks, and the receivers behind those.

use restante_core::Timestamp;
use restante_core::endpoint::{
    Destination, DestinationKind, EndpointId, IdempotencyHeader, Receiver as Setting, Sealed, SigningSecret,
    Webhook,
};
use restante_core::event::Filter;
use restante_core::id::{SourceId, WorkspaceId};
use restante_core::retry::Schedule;
use restante_store::Listening;

use crate::in_force::InForce;
use crate::plan::Plan;
use crate::random::Random;
use crate::receiver::{Mood, Receiver};
use crate::timeline::Moment;

/// Types that are published.
pub const EVENT_TYPES: [&str; 4] = ["order.paid", "order.paid.late", "order.made", "user.made"];
/// What webhooks are subscribed to.
const FILTERS: [&str; 6] = ["*", "*", "order.*", "order.paid", "order.paid.*", "user.made"];

#[derive(Debug, Default)]
pub struct Cast {
    pub workspaces: Vec<WorkspaceId>,
    pub sources: Vec<Source>,
    /// Destinations and webhooks.
    pub endpoints: Vec<Endpoint>,
    pub receivers: Vec<Receiver>,
}

/// A source, as its owner knows it.
#[derive(Debug)]
pub struct Source {
    pub workspace: usize,
    pub id: SourceId,
    pub token: String,
    pub retention_days: u32,
    /// When somebody asked for its deletion.
    pub deletion_asked: Option<Moment>,
    /// `deliver_pending_on_connect`.
    pub takes_pending: InForce<bool>,
    /// Its command-line clients that are connected, those that came first in front.
    pub clients: Vec<Client>,
    /// `None`: nobody listens.
    pub listening: InForce<Option<Listeners>>,
}

/// Those who listen to a source. Unless pending deliveries are for them, what was made before `least` is not, and what was
/// made after `most` is; in between, clocks that were set do not tell.
#[derive(Clone, Copy, Debug)]
pub struct Listeners {
    pub least: Moment,
    pub most: Moment,
}

/// A command-line client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub came: Moment,
    /// The node's clock when it came.
    pub since: Timestamp,
    pub seats: u32,
}

impl Source {
    /// What the node tells its store about the clients there are.
    pub fn heard(&self) -> Option<Listening> {
        let since = self.clients.first()?.since;
        Some(Listening { since, seats: self.clients.iter().map(|client| client.seats).sum() })
    }
}

/// A destination or a webhook, as its owner knows it.
#[derive(Debug)]
pub struct Endpoint {
    pub owner: Owner,
    /// Known once somebody was told.
    pub id: Option<EndpointId>,
    /// `None`: it is deleted, or not made yet.
    pub setting: InForce<Option<Setting>>,
}

/// What an endpoint belongs to, as a place in the cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is a destination.
    Source(usize),
    /// It is a webhook.
    Workspace(usize),
}

impl Cast {
    /// Receivers for all endpoints there are in the beginning: the moody ones, one that is always healthy, one that
    /// is forbidden. `sick`: which of them is always in which mood.
    pub fn receivers(seed: u64, plan: &Plan, sick: Option<(usize, Mood)>) -> Vec<Receiver> {
        let mut random = Random::keyed(&[seed, 4]);
        let moody = |number| Receiver::moody(seed, number, plan.busy_ms, plan.calm);
        let count = (plan.destinations + plan.webhooks) as u64;
        let mut receivers: Vec<Receiver> = (0..count).map(moody).collect();
        if let Some((place, mood)) = sick {
            receivers[place] = Receiver::always(place as u64, mood);
        }
        receivers.push(Receiver::always(receivers.len() as u64, Mood::Healthy));
        receivers.push(Receiver::forbidden(&mut random));
        receivers
    }

    /// Destinations of a source that its owner knows to be there.
    pub fn living(&self, source: usize) -> Vec<usize> {
        self.living_of(Owner::Source(source))
    }

    /// Endpoints that their owner knows to be there.
    pub fn living_of(&self, owner: Owner) -> Vec<usize> {
        let all = self.endpoints.iter().enumerate();
        all.filter(|(_, it)| it.owner == owner && it.setting.last().is_some())
            .map(|(place, _)| place)
            .collect()
    }

    pub fn workspace_of_source(&self, source: usize) -> WorkspaceId {
        self.workspaces[self.sources[source].workspace]
    }

    pub fn workspace_of(&self, endpoint: usize) -> WorkspaceId {
        match self.endpoints[endpoint].owner {
            Owner::Source(source) => self.workspace_of_source(source),
            Owner::Workspace(workspace) => self.workspaces[workspace],
        }
    }

    pub fn is_webhook(&self, endpoint: usize) -> bool {
        matches!(self.endpoints[endpoint].owner, Owner::Workspace(_))
    }

    pub fn find(&self, id: EndpointId) -> Option<usize> {
        self.endpoints.iter().position(|it| it.id == Some(id))
    }
}

/// The URL of an endpoint at a receiver.
pub fn url(receiver: usize, endpoint: usize) -> String {
    format!("https://r{receiver}.example/e{endpoint}")
}

/// The receiver and the endpoint that a URL of [`url`] names.
pub fn places(url: &str) -> Option<(usize, usize)> {
    let (receiver, rest) = url.strip_prefix("https://r")?.split_once(".example/e")?;
    let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    Some((receiver.parse().ok()?, rest[..digits].parse().ok()?))
}

/// Settings of a new destination.
pub fn draw_destination(random: &mut Random, place: usize, receiver: usize, calm: bool) -> Destination {
    let limited = !calm && random.chance(35);
    Destination {
        kind: if !calm && random.chance(4) { DestinationKind::Cli } else { DestinationKind::Http },
        url: url(receiver, place),
        schedule: draw_schedule(random),
        idempotency_header: IdempotencyHeader::Standard,
        paused: !calm && random.chance(8),
        headers: Vec::new(),
        max_in_flight: if limited { random.pick(&[1, 2, 5]) } else { 64 },
        rate_per_second: if !calm && random.chance(20) { Some(random.pick(&[0.1, 0.5, 4.0])) } else { None },
        timeout_seconds: random.pick(&[1, 5, 15, 30]),
    }
}

/// Settings of a new webhook.
pub fn draw_webhook(random: &mut Random, place: usize, receiver: usize, calm: bool) -> Webhook {
    let limited = !calm && random.chance(35);
    Webhook {
        url: url(receiver, place),
        description: None,
        events: draw_filters(random),
        secrets: vec![SigningSecret { secret: Sealed("sealed".into()), until: None }],
        paused: !calm && random.chance(5),
        schedule: draw_webhook_schedule(random),
        headers: Vec::new(),
        max_in_flight: if limited { random.pick(&[1, 2, 5]) } else { 64 },
        rate_per_second: if !calm && random.chance(15) { Some(random.pick(&[0.5, 4.0])) } else { None },
        timeout_seconds: random.pick(&[1, 5, 15]),
    }
}

pub fn draw_filters(random: &mut Random) -> Vec<Filter> {
    let count = random.between(1..=2);
    (0..count).map(|_| Filter::parse(random.pick(&FILTERS)).expect("a filter of ours is one")).collect()
}

pub fn draw_schedule(random: &mut Random) -> Schedule {
    match random.below(4) {
        0 => Schedule::Standard,
        1 => Schedule::Custom {
            waits_seconds: (0..random.below(6))
                .map(|_| random.pick(&[0.0, 0.25, 2.0, 30.0, 600.5]))
                .collect(),
            jitter: random.pick(&[0.0, 0.1, 0.5]),
        },
        _ => Schedule::Quadratic { attempts: random.between(1..=6).try_into().expect("at most 6") },
    }
}

/// Webhooks try often, so that their receivers' outages show.
pub fn draw_webhook_schedule(random: &mut Random) -> Schedule {
    if random.chance(25) {
        return Schedule::Standard;
    }
    let short = random.chance(50);
    let waits: &[f64] = if short { &[0.0, 0.25, 2.0, 5.0] } else { &[1.0, 30.0, 300.5, 1200.0] };
    Schedule::Custom {
        waits_seconds: (0..random.below(8)).map(|_| random.pick(waits)).collect(),
        jitter: random.pick(&[0.0, 0.1, 0.5]),
    }
}
