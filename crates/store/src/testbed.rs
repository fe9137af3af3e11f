//! A real PostgreSQL for tests, and a bad link to it.
//!
//! [`Cluster`] and [`Pair`] start servers from the installed binaries and leave nothing behind; a [`Database`] is what
//! several nodes share. [`Proxy`] stands
//! between a client and a server and spoils the link where a test wants it: at the frame that carries a COMMIT, at
//! its answer, or wherever a seed says. [`Client`] is a client small enough to see what a link does to it.
//!
//! A test that needs a server is in a module `on_postgres`: by that `./test quick` leaves it out.

#![expect(
    clippy::unwrap_used,
    reason = "these are parts of tests, compiled into the crate so that others can use them"
)]

pub mod client;
pub mod cluster;
pub mod database;
pub mod proxy;
pub mod wire;

pub use client::Client;
pub use cluster::{Cluster, Pair};
pub use database::Database;
pub use proxy::{Fault, Moment, Newcomers, Proxy};
pub use wire::{Frame, Side};
