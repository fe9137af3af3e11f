//! Who may call.

use serde::{Deserialize, Serialize};

use super::Secret;
use super::word::words;
use crate::Timestamp;

words! {
    /// What the emails of a key do. Those of the two modes do not see each other.
    Mode {
        /// They are sent.
        Live = "live",
        /// They go nowhere: they are kept and shown.
        Test = "test",
    }

    /// What a key may do.
    Scope {
        /// See sources and their destinations.
        SourcesRead = "sources:read",
        /// Make, change and delete sources and their destinations.
        SourcesWrite = "sources:write",
        /// See requests and their bodies.
        RequestsRead = "requests:read",
        /// Replay and delete requests.
        RequestsWrite = "requests:write",
        /// See deliveries and attempts.
        DeliveriesRead = "deliveries:read",
        /// Cancel and retry deliveries.
        DeliveriesWrite = "deliveries:write",
        /// Publish events.
        EventsPublish = "events:publish",
        /// See events and their deliveries.
        EventsRead = "events:read",
        /// Send, cancel and change emails.
        EmailsSend = "emails:send",
        /// See emails.
        EmailsRead = "emails:read",
        /// See templates.
        TemplatesRead = "templates:read",
        /// Make, change, publish and delete templates.
        TemplatesWrite = "templates:write",
        /// See domains.
        DomainsRead = "domains:read",
        /// Make, verify and delete domains.
        DomainsWrite = "domains:write",
        /// See suppressions.
        SuppressionsRead = "suppressions:read",
        /// Make and delete suppressions.
        SuppressionsWrite = "suppressions:write",
        /// See webhooks, their attempts and replays.
        WebhooksRead = "webhooks:read",
        /// Make, change, test, replay and delete webhooks.
        WebhooksWrite = "webhooks:write",
        /// See what owners are told.
        NoticesRead = "notices:read",
        /// See the workspace and its credits.
        WorkspaceRead = "workspace:read",
        /// Change the workspace.
        WorkspaceWrite = "workspace:write",
        /// Make, change and delete keys.
        KeysManage = "keys:manage",
        /// Everything, everywhere.
        Admin = "admin",
    }
}

/// A credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApiKey {
    /// `api_key`.
    pub object: String,
    /// `key_…`.
    pub id: String,
    /// For people.
    pub name: String,
    /// What the emails of its holder do.
    pub mode: Mode,
    /// What its holder may do.
    pub scopes: Vec<Scope>,
    /// The token's last four characters.
    pub last4: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// `None`: never. May be some seconds behind.
    pub last_used_at: Option<Timestamp>,
    /// From then on it does not work.
    pub revoked_at: Option<Timestamp>,
    /// What callers show; `None` but in the answer that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
}

/// A key to be made.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct NewKey {
    /// 1 to 128 characters.
    pub name: String,
    /// At least one, each once.
    pub scopes: Vec<Scope>,
    /// Live unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

impl NewKey {
    /// A live key.
    pub fn new(name: impl Into<String>, scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self { name: name.into(), scopes: scopes.into_iter().collect(), mode: None }
    }
}

/// What is to change in a key.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct KeyChange {
    /// 1 to 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// At least one, each once. Replaces all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
}
