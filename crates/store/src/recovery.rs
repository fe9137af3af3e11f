//! What a recovery of a webhook is asked for.

use restante_core::Timestamp;

use crate::Window;

/// Which skipped deliveries of a webhook a recovery takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Accepted in this window, whenever they were skipped.
    Accepted(Window),
    /// Skipped since the webhook was last paused, accepted up to `until`, inclusive; `None`: at any time.
    SincePause { until: Option<Timestamp> },
}

/// `None`: all since the last pause.
impl From<Option<Window>> for Recovery {
    fn from(window: Option<Window>) -> Self {
        window.map_or(Self::SincePause { until: None }, Self::Accepted)
    }
}
