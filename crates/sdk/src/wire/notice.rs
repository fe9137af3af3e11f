//! What the owners of a workspace are told.

use serde::{Deserialize, Serialize};

use super::word::words;
use crate::Timestamp;

words! {
    /// What a notice is about.
    NoticeKind {
        /// A webhook keeps failing.
        WebhookDegraded = "webhook_degraded",
        /// A webhook was paused because it kept failing.
        WebhookPaused = "webhook_paused",
    }
}

/// Something the owners of a workspace are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Notice {
    /// `notice`.
    pub object: String,
    /// `ntc_…`.
    pub id: String,
    /// What happened.
    pub kind: NoticeKind,
    /// `whk_…`.
    pub webhook_id: String,
    /// When it happened.
    pub created_at: Timestamp,
    /// When it was mailed to the owners.
    pub mailed_at: Option<Timestamp>,
}
