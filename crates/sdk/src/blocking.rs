//! The client for threads: the same calls, made with `wait` instead of `.await`.
//!
//! Its waits put the calling thread to sleep, and a call returns when its last try is over. It works in any thread,
//! also in one that runs tasks, though it keeps that one from running others.
//!
//! ```no_run
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = restante_sdk::blocking::Client::from_env()?;
//! for request in client.requests().list(&Default::default()).items() {
//!     println!("{}", request?.id);
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;

use http::Method;

use crate::calls::Call;
use crate::client::{Answer, Pending, SetupFault};

/// A client of one server, for threads. Cloning it is cheap; clones share connections and the retry budget.
#[derive(Clone)]
pub struct Client(pub(crate) crate::Client);

impl Client {
    /// As [`crate::Client::new`].
    ///
    /// # Errors
    /// [`SetupFault`].
    pub fn new(url: &str, api_key: &str) -> Result<Self, SetupFault> {
        crate::Client::new(url, api_key).map(Self)
    }

    /// As [`crate::Client::from_env`].
    ///
    /// # Errors
    /// [`SetupFault`].
    pub fn from_env() -> Result<Self, SetupFault> {
        crate::Client::from_env().map(Self)
    }

    /// As [`crate::Client::in_workspace`].
    ///
    /// # Errors
    /// [`SetupFault::Workspace`].
    pub fn in_workspace(&self, id: &str) -> Result<Self, SetupFault> {
        self.0.in_workspace(id).map(Self)
    }

    /// As [`crate::Client::request`].
    pub fn request(&self, method: Method, path: &str) -> Pending<Self, Answer> {
        Pending::bare(self, method, path)
    }

    /// As [`crate::Client::request_as`].
    pub fn request_as(&self, call: &'static Call, method: Method, path: &str) -> Pending<Self, Answer> {
        Pending::bare_as(self, call, method, path)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
