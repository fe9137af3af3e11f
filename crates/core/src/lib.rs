//! The rules of Restante, as pure functions.
//!
//! Whatever decides something lives here and exists once: schedules, what an attempt changes, what a delivery
//! waits for, how fast a lane may go, what an id looks like. Nothing here reads a clock, draws a random number
//! or does input and output; `now` and `jitter` are arguments.
//!
//! ```text
//!             accept / claim                    settle: 2xx
//!  Pending ───────────────────▶ Sending ─────────────────────────▶ Delivered
//!     ▲ ▲                         │ │ │
//!     │ └── failed, budget left ──┘ │ └── failed, budget used up ─▶ Failed(exhausted)
//!     └──── lost: due at once ──────┘
//!
//!  Pending ── cancel, deletion, expiry ─▶ Cancelled ◀─ anything but 2xx ── Sending with cancel requested
//!  Pending ── its webhook is paused ─▶ Failed(endpoint_paused) after an attempt, else Skipped
//!  Skipped ── recover ─▶ Pending;  any but Sending ── replay ─▶ Sending ─▶ Delivered, or back to where it was
//! ```

pub mod delivery;
pub mod email;
pub mod endpoint;
pub mod event;
pub mod health;
pub mod histogram;
pub mod id;
pub mod idempotency;
pub mod intake;
pub mod limits;
pub mod message;
pub mod outcome;
pub mod pacing;
pub mod retry;
pub mod shares;
pub mod smtp;
pub mod stats;
pub mod time;
pub mod verification;

pub use delivery::{Attempt, Delivery, State};
pub use id::Id;
pub use outcome::{FailureKind, Outcome};
pub use time::Timestamp;
