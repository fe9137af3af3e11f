//! Tenants.

use serde::{Deserialize, Serialize};

use super::{ApiKey, Change};
use crate::Timestamp;

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Workspace {
    /// `workspace`.
    pub object: String,
    /// `ws_…`.
    pub id: String,
    /// For people.
    pub name: String,
    /// Mail addresses that are told about trouble.
    pub owners: Vec<String>,
    /// The balance; `None`: not counted.
    pub credits: Option<i64>,
    /// Most `retention_days` its sources may have.
    pub retention_days_max: u32,
    /// How many of each there may be in it.
    #[serde(default)]
    pub quotas: Quotas,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its first key, with its token; `None` but in the answer that made the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<ApiKey>,
}

/// How many of each there may be in a workspace; `None`: as many as the server allows anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quotas {
    /// Sources.
    pub sources: Option<u32>,
    /// Webhooks, at most 1,000 anyway.
    pub webhooks: Option<u32>,
    /// Domains that mail is sent from.
    pub domains: Option<u32>,
    /// Templates.
    pub templates: Option<u32>,
}

/// A workspace to be made.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct NewWorkspace {
    /// 1 to 128 characters.
    pub name: String,
    /// Mail addresses that are told about trouble, at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Most `retention_days` its sources may have, 1 to 365; 365 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days_max: Option<u32>,
    /// How many of each there may be in it; without them: as many as the server allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Quotas>,
}

impl NewWorkspace {
    /// One without owners.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// What is to change in a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct WorkspaceChange {
    /// 1 to 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Mail addresses that are told about trouble, at most 20. Replaces all; reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub owners: Change<Vec<String>>,
    /// Most `retention_days` its sources may have, 1 to 365; reset: 365. Only an administrator changes it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub retention_days_max: Change<u32>,
    /// How many of each there may be in it. Replaces all; reset: none has one. Only an administrator changes them.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub quotas: Change<Quotas>,
}
