//! Sending a webhook's events again.

use serde::{Deserialize, Serialize};

use super::word::words;
use crate::Timestamp;

words! {
    /// What is sent again.
    ReplayKind {
        /// What has failed.
        Replay = "replay",
        /// What was skipped.
        Recover = "recover",
    }

    /// Where a replay or a recovery stands.
    ReplayState {
        /// Another one of the same webhook comes first.
        Queued = "queued",
        /// Its turn has come.
        Running = "running",
        /// A replay: all attempts have ended. A recovery: all are on their schedules.
        Done = "done",
        /// It stopped early: the webhook was paused or deleted.
        Ended = "ended",
    }
}

/// A replay or a recovery and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Replay {
    /// `replay`.
    pub object: String,
    /// `rpl_…`.
    pub id: String,
    /// What is sent again.
    pub kind: ReplayKind,
    /// The beginning of the window, inclusive.
    pub since: Timestamp,
    /// The end of the window, inclusive.
    pub until: Timestamp,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// Where it stands.
    pub state: ReplayState,
    /// Events when it was asked for.
    pub total: u64,
    /// Events that it delivered so far.
    pub delivered: u64,
    /// Events whose attempt failed so far.
    pub failed: u64,
    /// Events that had been acknowledged, or erased, when their turn came.
    pub skipped: u64,
}

/// What a replay would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplayPreview {
    /// Events that would be sent again.
    pub events: u64,
}

/// A recovery that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recovery {
    /// `rpl_…`.
    pub id: String,
    /// Skipped events that it delivers.
    pub events: u64,
}

/// A span of time, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Window {
    /// For a replay 24 hours ago unless given; for a recovery since the last pause if neither end is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Now unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Window {
    /// From then until now.
    pub fn since(since: Timestamp) -> Self {
        Self { since: Some(since), until: None }
    }
}
