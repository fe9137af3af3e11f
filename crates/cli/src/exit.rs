//! Exit codes. 0 is success.

/// Something went wrong while it ran.
pub(crate) const RUNTIME: u8 = 1;
/// A wrong command line or setting, or a request that the server finds wrong.
pub(crate) const USAGE: u8 = 2;
/// The key is missing, wrong, or may not do this.
pub(crate) const AUTH: u8 = 3;
/// There is no such thing.
pub(crate) const NOT_FOUND: u8 = 4;
/// Something is in the way: the state of a thing, or a key used for another request.
pub(crate) const CONFLICT: u8 = 5;
/// No answer came.
pub(crate) const NETWORK: u8 = 6;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
