//! The promises of the inbound system, through HTTP.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod deliveries;
mod harness;
mod intake;
mod leaving;
mod operations;
mod receiver;
mod settings;
