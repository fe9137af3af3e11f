//! Ways out of the house: what carries one attempt to its receiver.
//!
//! A channel makes exactly one attempt and says what became of it, as an [`Outcome`](restante_core::Outcome).
//! It never retries, follows a redirect, decompresses, or reads a proxy from the environment.

use std::path::PathBuf;

pub mod guard;
pub mod http;
pub mod smtp;

/// What the operator decides about outgoing connections.
#[derive(Clone, Debug, Default)]
pub struct ChannelConfig {
    /// Which addresses may be dialled.
    pub rules: guard::Rules,
    /// `RESTANTE_EXTRA_CA_FILE`: certificates (PEM) trusted beside the public roots.
    pub extra_ca_file: Option<PathBuf>,
}
