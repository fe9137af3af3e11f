//! The parts that are no rate.

pub(super) mod claims;
pub(super) mod dead;
pub(super) mod hanging;
pub(super) mod hostile;
pub(super) mod instant;
pub(super) mod large;
pub(super) mod latency;
pub(super) mod mail;
pub(super) mod memory;
pub(super) mod nodes;
pub(super) mod sdk;
pub(super) mod start;
