//! The calls, by what they are about.
//!
//! A call is described here once and made by either client: it begins when it is awaited, or with `wait`. The scope
//! that its key needs stands at the end of its description. A call that is retried is made again by the client itself
//! after a lost answer, a timeout or a status that passes; one that is not is made once, and after a lost answer it is
//! for the caller to see what became of it.

mod deliveries;
mod destinations;
mod domains;
mod emails;
mod events;
mod keys;
mod notices;
mod requests;
mod sources;
mod stats;
mod suppressions;
mod system;
mod templates;
#[cfg(test)]
mod tests;
mod webhooks;
mod workspace;
mod workspaces;

pub use deliveries::Deliveries;
pub use destinations::Destinations;
pub use domains::Domains;
pub use emails::Emails;
pub use events::Events;
pub use keys::Keys;
pub use notices::Notices;
pub use requests::Requests;
pub use sources::Sources;
pub use stats::Stats;
pub use suppressions::Suppressions;
pub use system::System;
pub use templates::Templates;
pub use webhooks::Webhooks;
pub use workspace::Workspace;
pub use workspaces::Workspaces;

/// Asks a call only to count what it would do.
const DRY_RUN: [(&str, bool); 1] = [("dry_run", true)];
