//! What a workspace may still use, and what it used.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::Page;
use super::word::words;
use crate::Timestamp;

words! {
    /// Why a balance changed.
    ChargeReason {
        /// A request was accepted.
        Request = "request",
        /// A delivery was retried by hand.
        Retry = "retry",
        /// A request was replayed.
        Replay = "replay",
        /// An administrator granted credits, or took some.
        Grant = "grant",
    }
}

/// A balance and what changed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Credits {
    /// `None`: not counted.
    pub balance: Option<i64>,
    /// What changed it, newest first.
    pub ledger: Page<Charge>,
}

/// One change of a balance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Charge {
    /// `chg_…`.
    pub id: String,
    /// When the balance changed.
    pub at: Timestamp,
    /// Below 0 for what was used.
    pub delta: i64,
    /// Why.
    pub reason: ChargeReason,
    /// What was paid for: the id of a request or a delivery; for a grant its note.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
}

/// What is to become of a balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// From then on there is a balance, changed by this much; `None`: nothing is counted any more.
    pub delta: Option<i64>,
    /// Shown in the ledger, at most 500 characters.
    pub note: Option<String>,
}

impl Grant {
    /// So many credits more, or less when it is below 0.
    pub fn of(delta: i64) -> Self {
        Self { delta: Some(delta), note: None }
    }

    /// No more counting.
    pub fn unlimited() -> Self {
        Self { delta: None, note: None }
    }
}

impl Serialize for Grant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.delta {
            Some(delta) => map.serialize_entry("delta", &delta)?,
            None => map.serialize_entry("balance", &())?,
        }
        if let Some(note) = &self.note {
            map.serialize_entry("note", note)?;
        }
        map.end()
    }
}
