//! The server, as its callers may know it.

use serde::{Deserialize, Serialize};

use super::word::words;
use super::{Mode, Scope, Transport};

words! {
    /// Which addresses of the server's own networks targets may have.
    PrivateTargets {
        /// None.
        None = "none",
        /// Those that its operator has listed.
        Some = "some",
        /// All: for development.
        All = "all",
    }
}

/// What a caller can know of the server, and of the key it calls with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Server {
    /// `server`.
    pub object: String,
    /// Of the server's program.
    pub version: String,
    /// Which private addresses targets may have.
    pub private_targets: PrivateTargets,
    /// Whether targets may be plain http.
    pub http_targets: bool,
    /// The way mail leaves.
    pub mail_transport: Transport,
    /// The workspace that the call acts in, `ws_…`.
    pub workspace_id: String,
    /// The key that the call is made with.
    pub key: OwnKey,
}

/// What an id stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Found {
    /// `found`.
    pub object: String,
    /// As it was asked for.
    pub id: String,
    /// What it is, such as `delivery`.
    pub kind: String,
    /// Where the API shows it, or what it is a part of.
    pub url: String,
    /// Where the dashboard does.
    pub page: String,
}

/// The key that a call is made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OwnKey {
    /// `key_…`.
    pub id: String,
    /// As it was given.
    pub name: String,
    /// Whether its emails leave.
    pub mode: Mode,
    /// What it may do.
    pub scopes: Vec<Scope>,
}
