//! The tunnel: command-line clients that are connected, and the attempts that go through them.
//!
//! A client logs in with the token of a source and connects ([`login`]). Its connection is a [`session`]; the [`hub`]
//! knows who is connected, tells the store, and finds a seat for each attempt. docs/tunnel.md has the protocol.

mod attempt;
mod client;
mod hub;
mod login;
mod session;

use std::time::Duration;

pub(crate) use attempt::Handover;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use attempt::judge;
pub(crate) use hub::{Hub, Seat};
pub(crate) use login::routes;

/// Clients of one source at this node.
const CLIENTS_MAX: usize = 16;
/// Attempts that a client of our protocol makes at the same time.
const SEATS: u32 = 64;
/// How long an access token opens a connection.
const TOKEN_TIME: Duration = Duration::from_secs(300);
/// How often a client is pinged.
const PING_EVERY: Duration = Duration::from_secs(15);
/// A link that is silent for so long is cut. A client of the first protocol says nothing while it makes an attempt.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How long clients have to show that they live, when one more wants to connect than may.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// What a client may take longer than a delivery's timeout: its own clock says first that time is up.
const GRACE: Duration = Duration::from_secs(5);

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// One request at a time; an attempt begins when it is handed over.
    First,
    /// `restante.v1`.
    V1,
}
