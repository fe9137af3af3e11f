//! A webhook's health: what failed attempts make of it, and whom that concerns.
//!
//! ```text
//!          failed often and long enough            failed, and the run is 120 h old
//!  Active ──────────────────────────────▶ Degraded ────────────────────────────────▶ Paused
//!     ▲                                      │
//!     └─ delivered, new url, delivered test ─┘
//! ```
//!
//! Only the end of an attempt moves anything; time alone changes nothing.

use std::time::Duration;

use crate::Timestamp;

/// How much failing it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A run degrades from so many failed attempts on, if it is also `degraded_after` long. Default 5.
    pub degraded_failures: u32,
    /// A run degrades from this length on, if it also counts `degraded_failures`. Default 5 minutes.
    pub degraded_after: Duration,
    /// A degraded webhook is paused by a failure that ends so long after the run began. Default 120 hours.
    pub paused_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            degraded_failures: 5,
            degraded_after: Duration::from_secs(5 * 60),
            paused_after: Duration::from_secs(120 * 3600),
        }
    }
}

/// A failing run: automatic attempts that failed, with nothing in between that clears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// When the first of them ended.
    pub since: Timestamp,
    /// How many there were, from 1.
    pub failures: u32,
}

/// What is known of a webhook's health. The default is a webhook that never failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// `None` when nothing failed since creation or since the last clearing.
    pub run: Option<Run>,
    /// Stays until cleared, whatever becomes of the limits meanwhile. Never without a run.
    pub degraded: bool,
}

/// Something the owners are told by mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Deliveries fail; the webhook still gets everything. Once an episode.
    Degraded,
    /// Restante paused the webhook: it gets nothing until somebody resumes it.
    Paused,
}

impl Notice {
    /// The wire's name of the notice.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Degraded => "webhook_degraded",
            Self::Paused => "webhook_paused",
        }
    }
}

/// All that one attempt changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub health: Health,
    /// In the order in which they are to be sent.
    pub notices: Vec<Notice>,
    /// Whether the webhook is to be paused now.
    pub pause: bool,
}

impl Turn {
    /// What a delivered attempt, a delivered test and a changed `url` change: the health is that of a new webhook.
    pub const fn cleared() -> Self {
        Self { health: Health::cleared(), notices: Vec::new(), pause: false }
    }
}

/// What a webhook's `status` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Active,
    Degraded,
    Paused,
}

impl Status {
    /// The wire's `status`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Degraded => "degraded",
            Self::Paused => "paused",
        }
    }
}

/// The status of a webhook; `paused` by hand or automatically.
pub const fn status(paused: bool, health: &Health) -> Status {
    if paused {
        Status::Paused
    } else if health.degraded {
        Status::Degraded
    } else {
        Status::Active
    }
}

impl Health {
    /// What a delivered attempt (automatic or replay), a changed `url`, a delivered test and a resume leave.
    pub const fn cleared() -> Self {
        Self { run: None, degraded: false }
    }

    /// What an automatic attempt makes of it that ended failed while the webhook was not paused.
    ///
    /// Lost attempts, replays and tests are not counted, nor are failures of a webhook that is paused already. A
    /// clock that stands behind the run's begin makes the run no time long.
    #[must_use]
    pub fn failed(&self, ended_at: Timestamp, limits: &Limits) -> Turn {
        debug_assert!(self.run.is_some() || !self.degraded, "degraded without a run");
        let run = match self.run {
            None => Run { since: ended_at, failures: 1 },
            Some(Run { since, failures }) => Run { since, failures: failures.saturating_add(1) },
        };
        let length = ended_at.since(run.since);
        let degrades = run.failures >= limits.degraded_failures && length >= limits.degraded_after;
        let degraded = self.degraded || degrades;
        let pause = degraded && length >= limits.paused_after;
        let mut notices = Vec::new();
        if degraded && !self.degraded {
            notices.push(Notice::Degraded);
        }
        if pause {
            notices.push(Notice::Paused);
        }
        Turn { health: Self { run: Some(run), degraded }, notices, pause }
    }

    /// From when on a failure pauses, provided the webhook is degraded by then; `None` without a run.
    pub fn pauses_at(&self, limits: &Limits) -> Option<Timestamp> {
        self.run.map(|run| run.since + limits.paused_after)
    }
}

#[cfg(test)]
mod tests;
