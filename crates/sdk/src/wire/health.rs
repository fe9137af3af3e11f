//! What monitoring asks.

use serde::{Deserialize, Serialize};

/// How the process is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Health {
    /// `ok`, or `ready`.
    pub status: String,
}
