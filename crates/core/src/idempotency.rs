//! Whether a call is one that was made before: its key, and a fingerprint of what it asks for.
//!
//! A known key with the same fingerprint is a repeat; with another it is a mistake of the caller. What must not
//! tell two calls apart has to be gone before it is hashed, so JSON of the caller's own making goes in canonical.

use sha2::{Digest, Sha256};

use crate::limits::{IDEMPOTENCY_KEY_CHARS_MAX, JSON_DEPTH_MAX};

mod json;

pub use json::{canonical, compact};

/// Length of a fingerprint in bytes.
pub const FINGERPRINT_BYTES: usize = 33;

/// The form that fingerprints are made in: how JSON is made canonical, and how fields become bytes.
///
/// A change of either needs the next number, and a way to compare with what is stored under this one.
const FORM: u8 = 1;

/// What is wrong with a key, or with JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error(
        "an idempotency key is 1 to {IDEMPOTENCY_KEY_CHARS_MAX} letters, digits, underscores, dots, colons or dashes"
    )]
    Key,
    #[error("the JSON is nested more than {JSON_DEPTH_MAX} levels deep")]
    TooDeep,
    /// With the place of the first byte that does not fit.
    #[error("not JSON from byte {0} on")]
    NotJson(usize),
}

/// A name that a caller gives to one deliberate call and all its repeats.
///
/// 1 to [`IDEMPOTENCY_KEY_CHARS_MAX`] ASCII letters, digits, `_ . : -`; upper and lower case differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Reads the value of an `Idempotency-Key` header.
    ///
    /// # Errors
    /// `Fault::Key`: the call is to be refused, for without its key it would not be what the caller meant.
    pub fn parse(value: &[u8]) -> Result<Self, Fault> {
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(byte);
        if value.is_empty() || value.len() > IDEMPOTENCY_KEY_CHARS_MAX || !value.iter().all(allowed) {
            return Err(Fault::Key);
        }
        String::from_utf8(value.to_vec()).map(Self).map_err(|_| Fault::Key)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a call asks for, condensed: equal for two calls that mean the same, and for no others.
///
/// Stored beside the key. The first byte is the number of the form, the rest is a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// Begins the fingerprint of a call. `operation` names what it does, such as `events.publish`.
    pub fn builder(operation: &str) -> Builder {
        Builder { hash: Sha256::new() }.add(Tag::Operation, operation, "")
    }

    /// A fingerprint read back from where [`Fingerprint::as_bytes`] was stored; `None` when the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub const fn as_bytes(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.0
    }
}

/// A fingerprint in the making.
///
/// Fields are told apart by name, kind and order: whoever builds gives them in one fixed order and takes repeated
/// names for a list. Another sequence of fields, items or values never makes the same bytes.
#[must_use]
#[derive(Clone, Debug)]
pub struct Builder {
    hash: Sha256,
}

/// What stands before each entry, so that none can pass for one of another kind.
#[derive(Clone, Copy, Debug)]
enum Tag {
    Operation = 1,
    Field = 2,
    Json = 3,
    Item = 4,
}

impl Builder {
    /// Adds text that is compared as it is. `None` is the same as no call.
    pub fn field(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.add(Tag::Field, name, value),
            None => self,
        }
    }

    /// Adds JSON in which order of keys, white space and escapes do not matter. `None` is the same as no call.
    ///
    /// `Some("null")` is a value like any other.
    ///
    /// # Errors
    /// `Fault::TooDeep` or `Fault::NotJson`, as [`canonical`].
    pub fn json(self, name: &str, text: Option<&str>) -> Result<Self, Fault> {
        let Some(text) = text else { return Ok(self) };
        let mut form = String::with_capacity(text.len());
        canonical(text, &mut form)?;
        Ok(self.add(Tag::Json, name, &form))
    }

    /// Begins an item of a list, such as an email of a batch: what is added from here to the next item is its own.
    pub fn item(self, name: &str) -> Self {
        self.add(Tag::Item, name, "")
    }

    pub fn finish(self) -> Fingerprint {
        let mut bytes = [FORM; FINGERPRINT_BYTES];
        bytes[1..].copy_from_slice(&self.hash.finalize());
        Fingerprint(bytes)
    }

    /// Adds one entry: the tag, then name and value, each behind its length.
    fn add(mut self, tag: Tag, name: &str, value: &str) -> Self {
        self.hash.update([tag as u8]);
        for part in [name, value] {
            self.hash.update((part.len() as u64).to_be_bytes());
            self.hash.update(part);
        }
        self
    }
}

#[cfg(test)]
mod tests;
