//! What the links tell whoever shows it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use restante_core::Timestamp;

use super::forward::head::Line;

/// Something happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A source's connection is in another state.
    Link { source: usize, at: Timestamp, state: LinkState },
    /// The one look at the local service before anything is sent to it.
    Local { source: usize, url: String, fault: Option<String> },
    /// An attempt begins.
    Began(Arc<Attempt>),
    /// An attempt has ended.
    Ended { attempt: Arc<Attempt>, end: End },
    /// The body of an answer is there.
    Answered { serial: u64, body: Bytes, whole: bool },
    /// So many attempts are not shown: they came faster than they could be.
    Missed { count: usize },
    /// What came of something that was asked for.
    Note(String),
    /// Nothing new is begun; so many attempts may still end.
    Stopping { running: usize },
    /// The last one: there is nothing more to be shown.
    Over,
}

/// Whether a source's requests can come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// For the first time.
    Connecting,
    Connected,
    /// `next` is when it will be tried; `None`: it is being tried now.
    Reconnecting {
        why: String,
        next: Option<Timestamp>,
    },
    /// For good.
    Failed {
        why: String,
    },
    /// Because somebody wanted it.
    Stopped,
}

/// A request on its way to the local service.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// In this process, from 1.
    pub(crate) serial: u64,
    /// Index of the source.
    pub(crate) source: usize,
    /// When it began.
    pub(crate) at: Timestamp,
    pub(crate) request_id: Option<String>,
    pub(crate) delivery_id: Option<String>,
    pub(crate) destination_id: Option<String>,
    /// From 1.
    pub(crate) number: u32,
    /// Most attempts that count.
    pub(crate) attempts_max: Option<u32>,
    pub(crate) method: String,
    /// What followed the source's URL.
    pub(crate) uri: String,
    /// Where it goes.
    pub(crate) url: String,
    /// As sent, without `Host`.
    pub(crate) lines: Vec<Line>,
    /// Empty when nobody wants to see it.
    pub(crate) body: Bytes,
    pub(crate) body_bytes: usize,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    pub(crate) duration: Duration,
    /// The headers of the answer.
    pub(crate) lines: Vec<Line>,
    /// Whether the server was told. What it was not told it counts as failed.
    pub(crate) reported: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The local service answered.
    Answer { status: u16 },
    /// It did not.
    Fault { kind: FaultKind, detail: String },
    /// The server called it off.
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The target is no URL.
    InvalidUrl,
    Network,
    /// No answer came within the destination's timeout.
    Timeout,
}

impl Outcome {
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::Answer { status: 200..=299 })
    }
}
