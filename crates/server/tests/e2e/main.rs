//! The promises of the inbound and the outbound system, through HTTP.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod client;
mod deliveries;
mod events;
mod harness;
mod health;
mod intake;
mod leaving;
mod metrics;
mod operations;
mod rate_limits;
mod receiver;
mod recover;
mod replay_one;
mod replay_quota;
mod replay_run;
mod replay_window;
mod rules;
mod secrets;
mod settings;
mod tunnel;
mod webhooks;
