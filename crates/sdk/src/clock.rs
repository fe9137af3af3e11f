//! The one place that reads clocks and draws random bytes.

use std::time::SystemTime;

use crate::Timestamp;

/// The time of day by this machine's clock.
#[expect(clippy::disallowed_methods, reason = "everything else gets the time from here")]
pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Random bytes; `None` when the machine has none.
#[cfg(feature = "client")]
#[expect(clippy::disallowed_methods, reason = "everything else gets its random bytes from here")]
pub(crate) fn draw() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}
