//! Who takes part: workspaces with their sources and destinations, and the receivers behind those.

use restante_core::endpoint::{Destination as Setting, DestinationKind, IdempotencyHeader};
use restante_core::id::{DestinationId, SourceId, WorkspaceId};
use restante_core::retry::Schedule;

use crate::in_force::InForce;
use crate::plan::Plan;
use crate::random::Random;
use crate::receiver::{Mood, Receiver};
use crate::timeline::Moment;

#[derive(Debug, Default)]
pub struct Cast {
    pub workspaces: Vec<WorkspaceId>,
    pub sources: Vec<Source>,
    pub destinations: Vec<Destination>,
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
}

/// A destination, as its owner knows it.
#[derive(Debug)]
pub struct Destination {
    pub source: usize,
    /// Known once somebody was told.
    pub id: Option<DestinationId>,
    /// `None`: it is deleted, or not made yet.
    pub setting: InForce<Option<Setting>>,
}

impl Cast {
    /// Receivers for all destinations there will ever be: the moody ones, one that is always healthy, one that is
    /// forbidden.
    pub fn receivers(seed: u64, plan: &Plan, sick: Option<Mood>) -> Vec<Receiver> {
        let mut random = Random::keyed(&[seed, 4]);
        let moody = |number| Receiver::moody(seed, number, plan.busy_ms, plan.calm);
        let mut receivers: Vec<Receiver> = (0..plan.destinations as u64).map(moody).collect();
        if let Some(mood) = sick {
            receivers[0] = Receiver::always(0, mood);
        }
        receivers.push(Receiver::always(receivers.len() as u64, Mood::Healthy));
        receivers.push(Receiver::forbidden(&mut random));
        receivers
    }

    /// Destinations of a source that its owner knows to be there.
    pub fn living(&self, source: usize) -> Vec<usize> {
        let all = self.destinations.iter().enumerate();
        all.filter(|(_, it)| it.source == source && it.setting.last().is_some())
            .map(|(place, _)| place)
            .collect()
    }

    pub fn workspace_of_source(&self, source: usize) -> WorkspaceId {
        self.workspaces[self.sources[source].workspace]
    }

    pub fn workspace_of(&self, destination: usize) -> WorkspaceId {
        self.workspace_of_source(self.destinations[destination].source)
    }

    pub fn find(&self, id: DestinationId) -> Option<usize> {
        self.destinations.iter().position(|it| it.id == Some(id))
    }
}

/// The URL of a destination at a receiver.
pub fn url(receiver: usize, destination: usize) -> String {
    format!("https://r{receiver}.example/d{destination}")
}

/// The receiver and the destination that a URL of [`url`] names.
pub fn places(url: &str) -> Option<(usize, usize)> {
    let (receiver, rest) = url.strip_prefix("https://r")?.split_once(".example/d")?;
    let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    Some((receiver.parse().ok()?, rest[..digits].parse().ok()?))
}

/// Settings of a new destination.
pub fn draw_setting(random: &mut Random, destination: usize, receiver: usize, calm: bool) -> Setting {
    let limited = !calm && random.chance(35);
    Setting {
        kind: if !calm && random.chance(4) { DestinationKind::Cli } else { DestinationKind::Http },
        url: url(receiver, destination),
        schedule: draw_schedule(random),
        idempotency_header: IdempotencyHeader::Standard,
        paused: !calm && random.chance(8),
        headers: Vec::new(),
        max_in_flight: if limited { random.pick(&[1, 2, 5]) } else { 64 },
        rate_per_second: if !calm && random.chance(20) { Some(random.pick(&[0.1, 0.5, 4.0])) } else { None },
        timeout_seconds: random.pick(&[1, 5, 15, 30]),
    }
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
