//! Permanent URLs that receive webhooks.

use serde::{Deserialize, Serialize};

use super::{Change, Dedupe, Json, NewVerification};
use crate::Timestamp;

/// A permanent URL that receives webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Source {
    /// `source`.
    pub object: String,
    /// `src_…`.
    pub id: String,
    /// Unique in the workspace.
    pub name: String,
    /// Where to send webhooks. Who knows it can send: it holds the token.
    pub url: String,
    /// The secret part of the URL.
    pub token: String,
    /// What it answers; `None`: 200 and the request's id.
    pub response: Option<SourceAnswer>,
    /// Whether a command-line client that connects is given what was pending before.
    pub deliver_pending_on_connect: bool,
    /// Days from reception until a request is gone, 1 to 365.
    pub retention_days: u32,
    /// By what it knows repeats, which it does not deliver, as [`Dedupe`] is written; `None`: it knows none.
    pub dedupe: Option<Json>,
    /// How what it delivers is signed, as [`NewVerification`] is written but without the secret; `None`: it delivers
    /// what comes.
    pub verification: Option<Json>,
    /// Command-line clients connected to it now.
    pub clients_connected: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A source's own answer to what it receives.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceAnswer {
    /// 200 to 599.
    pub status: u16,
    /// 1 to 256 bytes.
    pub content_type: String,
    /// At most 64 KiB; empty with 204, 205 and 304.
    pub body: String,
}

/// A source to be made.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct NewSource {
    /// Unique in the workspace, 1 to 128 characters.
    pub name: String,
    /// What it answers; 200 and the request's id unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<SourceAnswer>,
    /// Whether a command-line client that connects is given what was pending before; true unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_pending_on_connect: Option<bool>,
    /// Days from reception until a request is gone: 1 to 365, and at most the workspace's `retention_days_max`; 30
    /// unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u32>,
    /// By what it knows repeats, which it does not deliver; it knows none unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedupe: Option<Dedupe>,
    /// How requests are signed; what is not is rejected. It delivers what comes unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<NewVerification>,
}

impl NewSource {
    /// A source of this name; the rest has its defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// What is to change in a source.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct SourceChange {
    /// Unique in the workspace, 1 to 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it answers; reset: 200 and the request's id.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub response: Change<SourceAnswer>,
    /// Whether a client that connects is given what was pending before; reset: true. Applies at once.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub deliver_pending_on_connect: Change<bool>,
    /// Days from reception until a request is gone, also of those already received; reset: 30.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub retention_days: Change<u32>,
    /// By what it knows repeats; reset: it knows none. What it knows by something else is forgotten.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub dedupe: Change<Dedupe>,
    /// How requests are signed, with the secret; reset: it delivers what comes.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub verification: Change<NewVerification>,
}
