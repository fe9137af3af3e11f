//! What the operator decides about what is kept.

use std::sync::LazyLock;
use std::time::Duration;

use restante_core::endpoint::MailTerms;
use restante_core::{Timestamp, health};

/// What the operator decides about what is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// When webhooks count as degraded, and when they are paused.
    pub health: health::Limits,
    /// How long events and emails are kept, from the end of their last delivery.
    pub event_retention: Duration,
    /// When mail is tried again, and how much of it at once. Decided once for the life of the process.
    pub mail: &'static MailTerms,
    /// Mail that may have arrived is sent again.
    pub resend_uncertain: bool,
    /// What is kept free on the disk of a data directory.
    pub disk: Disk,
}

/// What is kept free on the disk of a data directory. 0: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disk {
    /// With less free nothing new is accepted.
    pub free_bytes_min: u64,
    /// Held by a file that is given up when the disk is full, so that what was accepted can end.
    pub reserve_bytes: u64,
}

impl Policy {
    /// Events whose last delivery ended at or before this moment have expired, in milliseconds.
    pub(crate) fn events_cutoff(&self, now: Timestamp) -> i64 {
        let retention_ms = i64::try_from(self.event_retention.as_millis()).unwrap_or(i64::MAX);
        now.millis().saturating_sub(retention_ms)
    }
}

static MAIL_TERMS: LazyLock<MailTerms> = LazyLock::new(MailTerms::default);

impl Default for Policy {
    fn default() -> Self {
        let days = u64::from(restante_core::limits::RETENTION_DAYS_DEFAULT);
        Self {
            health: health::Limits::default(),
            event_retention: Duration::from_secs(days * 24 * 3600),
            mail: &MAIL_TERMS,
            resend_uncertain: false,
            disk: Disk::default(),
        }
    }
}
