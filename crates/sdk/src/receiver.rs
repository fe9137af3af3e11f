//! A kit for receivers of webhooks.
//!
//! # What a receiver owes its sender, and itself
//!
//! - **Verify before processing.** Anybody can reach a public address; only the signature, over the raw bytes, tells who
//!   wrote. [`Verifier`](crate::signature::Verifier) does it, and an [`Event`] cannot be had without it.
//! - **Validate.** A signature proves the sender, not that the data are what this code expects: read them into a type.
//! - **Be idempotent.** An event comes again after every answer that got lost on its way, and when somebody replays it.
//!   [`Deduplicator`] tells by the `webhook-id`, which all attempts share.
//! - **Commit the event's id with the work**, in one transaction where the work goes into a database: then no crash can
//!   leave the one without the other. That is what [`Store`] is for.
//! - **Answer 2xx only after taking responsibility.** It ends the retries, and an event that was acknowledged and then
//!   lost is lost. Store first, do slow work later.
//! - **Take a failed attempt for one that may have been processed.** An error or a timeout says what the sender saw, not
//!   what happened here.
//! - **Take a 2xx for no more than it is.** It proves that the event was handed over, not that the business operation
//!   behind it succeeded.
//! - **Expect any order.** An older event may come after a newer one: [`Latest`] and [`CostLedger`] go by the time at
//!   which it happened.
//! - **Answer errors with error statuses.** A refused event stays with its sender, who tries again and can replay it.
//!
//! With axum, the module `axum` (feature `axum`) does all this before the handler is called.

mod cost;
mod dedup;
mod event;
mod latest;
mod store;

#[cfg(feature = "axum")]
pub mod axum;

pub use cost::{CostError, CostLedger, Merged, SmsCost, Total};
pub use dedup::{Begun, CAPACITY_DEFAULT, Deduplicator, Processed, Ticket};
pub use event::{Event, NotAnEvent};
pub use latest::{Latest, Offered};
pub use rust_decimal::Decimal;
pub use store::{NotStored, Store, process_in};
