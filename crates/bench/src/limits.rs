//! Limits of the operating system on this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files this process may have open as far as it may itself.
///
/// A receiver that hangs holds thousands of connections; where the limit cannot be raised it stays as it was.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
