//! Domains that mail is sent from.

use serde::{Deserialize, Serialize};

use super::word::words;
use crate::Timestamp;

words! {
    /// Whether something was found in the DNS.
    DomainStatus {
        /// It was not looked up, or a record is not there.
        Pending = "pending",
        /// It is as it should be.
        Verified = "verified",
        /// It is not: of a domain, its key was not found; of a record, it says something else.
        Failed = "failed",
    }

    /// The type of a DNS record.
    RecordKind {
        /// A text.
        Txt = "TXT",
    }

    /// What a DNS record is for.
    RecordPurpose {
        /// The public key. With it the domain is verified; the others are advice.
        Dkim = "dkim",
        /// Which hosts send for the domain.
        Spf = "spf",
        /// What receivers do with mail that is neither signed nor from these hosts.
        Dmarc = "dmarc",
    }
}

/// A domain that mail is sent from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Domain {
    /// `domain`.
    pub object: String,
    /// `dom_…`.
    pub id: String,
    /// In lower case and as A-labels.
    pub name: String,
    /// Whether mail can be sent from it.
    pub sending: DomainSending,
    /// What is to be set in the DNS.
    pub records: Vec<DomainRecord>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether mail can be sent from a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DomainSending {
    /// `verified`: its key is in the DNS and its mail is signed.
    pub status: DomainStatus,
    /// Whether mail is taken from it, signed or not.
    pub can_send: bool,
    /// When the records were last looked up.
    pub checked_at: Option<Timestamp>,
    /// What was wrong then, for people.
    pub error: Option<String>,
    /// What follows from the status, for people.
    pub note: Option<String>,
}

/// A record to set in the DNS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DomainRecord {
    /// The type of the record.
    #[serde(rename = "type")]
    pub kind: RecordKind,
    /// The whole name, without a dot at its end.
    pub name: String,
    /// What it is to say.
    pub value: String,
    /// Of MX records only.
    pub priority: Option<u16>,
    /// What it is for.
    pub purpose: RecordPurpose,
    /// What is said of `spf` and `dmarc` is only in the answer to a verification.
    pub status: DomainStatus,
}

/// A domain to send from.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct NewDomain {
    /// As `example.com`. Letters beyond ASCII are written as A-labels from then on.
    pub name: String,
}

impl NewDomain {
    /// The domain of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// A change of a domain, of which there is nothing to change yet.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct DomainChange {
    /// The name that it has; another one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
