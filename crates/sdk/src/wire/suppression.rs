//! Mailboxes that get nothing.

use serde::{Deserialize, Serialize};

use super::word::words;
use crate::Timestamp;

words! {
    /// Why a mailbox gets nothing.
    SuppressionReason {
        /// A mail server said that there is no such mailbox.
        HardBounce = "hard_bounce",
        /// Somebody put it there.
        Manual = "manual",
    }
}

/// A mailbox that gets nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Suppression {
    /// `suppression`.
    pub object: String,
    /// `sup_…`.
    pub id: String,
    /// The address of the mailbox.
    pub email: String,
    /// Why it gets nothing.
    pub reason: SuppressionReason,
    /// What the mail server said.
    pub detail: Option<String>,
    /// Whether it can be deleted.
    pub removable: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A mailbox that is to get nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct NewSuppression {
    /// However it is written: case and needless quotes make no other mailbox.
    pub email: String,
}

impl NewSuppression {
    /// The mailbox of this address.
    pub fn new(email: impl Into<String>) -> Self {
        Self { email: email.into() }
    }
}
