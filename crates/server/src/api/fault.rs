//! Collects what is wrong with a request, so that the caller learns all of it at once.

use super::error::{ApiError, Detail};

/// The faults found so far.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Detail>);

impl Faults {
    pub(crate) fn add(&mut self, param: impl Into<String>, message: impl Into<String>) {
        self.0.push(Detail { param: param.into(), message: message.into() });
    }

    /// Adds a fault unless `fine`.
    pub(crate) fn unless(&mut self, fine: bool, param: &str, message: impl Into<String>) {
        if !fine {
            self.add(param, message);
        }
    }

    /// # Errors
    /// 422 with everything that was added.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        if self.0.is_empty() { Ok(()) } else { Err(ApiError::many("invalid_field", self.0)) }
    }
}
