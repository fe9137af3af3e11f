//! Addresses, as callers write them and as they are shown.

use serde::{Deserialize, Serialize};

/// An address as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Address {
    /// As `a@example.com`.
    pub email: String,
    /// What stands beside the address.
    pub name: Option<String>,
}

/// An address as callers write it: a text that the server reads, or its parts.
///
/// ```
/// use restante_sdk::wire::Mailbox;
///
/// let plain: Mailbox = "ada@example.com".into();
/// let named: Mailbox = "Ada <ada@example.com>".into();
/// // Parts need no quotes, whatever is in the name.
/// let parts = Mailbox::named("ada@example.com", "Lovelace, Ada");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Mailbox {
    /// `a@example.com` or `Name <a@example.com>`.
    Text(String),
    /// What no quotes are needed in.
    Parts {
        /// As `a@example.com`.
        email: String,
        /// What stands beside the address, at most 256 characters.
        name: Option<String>,
    },
}

impl Mailbox {
    /// An address with a name beside it.
    pub fn named(email: impl Into<String>, name: impl Into<String>) -> Self {
        Self::Parts { email: email.into(), name: Some(name.into()) }
    }
}

impl Default for Mailbox {
    /// An empty text, which is none: the server refuses it.
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for Mailbox {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Mailbox {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Address> for Mailbox {
    fn from(address: Address) -> Self {
        Self::Parts { email: address.email, name: address.name }
    }
}
