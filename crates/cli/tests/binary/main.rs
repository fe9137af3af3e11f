//! The real binary: killed, restarted, lied to.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod clients;
mod hostile;
mod kill;
mod outage;
mod process;
mod sink;
mod stop;
mod usage;
