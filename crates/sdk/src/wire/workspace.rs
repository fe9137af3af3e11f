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
    /// When it was made.
    pub created_at: Timestamp,
    /// Its first key, with its token; `None` but in the answer that made the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<ApiKey>,
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
}
