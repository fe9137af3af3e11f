//! Messages to mailboxes, and what is told about them.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::page::listings;
use super::word::words;
use super::{Address, Json, Mode};
use crate::Timestamp;

words! {
    /// What became of an email as a whole.
    EmailStatus {
        /// Waits for its time.
        Scheduled = "scheduled",
        /// Due, and no attempt has begun.
        Queued = "queued",
        /// An attempt has begun, and not all is decided.
        Sending = "sending",
        /// Called off before an attempt began.
        Cancelled = "cancelled",
        /// Delivered to all.
        Sent = "sent",
        /// Delivered to some, or perhaps to some.
        Partial = "partial",
        /// Delivered to none, and a mail server said no for good.
        Bounced = "bounced",
        /// Delivered to none for other reasons.
        Failed = "failed",
        /// It ended, and its time is over: only in answers to calls that send.
        Erased = "erased",
    }

    /// What became of an email for one of those it goes to.
    RecipientStatus {
        /// Not decided.
        Pending = "pending",
        /// A mail server took it.
        Delivered = "delivered",
        /// A mail server said no for good.
        Bounced = "bounced",
        /// No mail server took it while there were attempts left.
        Failed = "failed",
        /// On the suppression list: not sent.
        Suppressed = "suppressed",
        /// All was sent and the answer did not come: a mail server may have it.
        Uncertain = "uncertain",
    }

    /// In which list a recipient is.
    RecipientKind {
        /// Those it is for.
        To = "to",
        /// Those who get a copy that all see.
        Cc = "cc",
        /// Those who get a copy that nobody sees.
        Bcc = "bcc",
    }

    /// The way mail leaves.
    Transport {
        /// By a relay.
        Relay = "relay",
        /// To the mail servers of the recipients' domains.
        Direct = "direct",
        /// Not at all: it is kept and shown.
        Capture = "capture",
    }

    /// To whom an email is written.
    EmailStream {
        /// To one, because of something that happened.
        Transactional = "transactional",
        /// To many.
        Broadcast = "broadcast",
    }

    /// What an email of a batch came to.
    BatchStatus {
        /// Accepted.
        Ok = "ok",
        /// Not accepted.
        Error = "error",
    }
}

/// A message to mailboxes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Email {
    /// `email`.
    pub object: String,
    /// `em_…`.
    pub id: String,
    /// What became of it as a whole.
    pub status: EmailStatus,
    /// That of the key which sent it: an email of the test mode goes nowhere.
    pub mode: Mode,
    /// The sender.
    pub from: Address,
    /// As people read it.
    pub subject: Option<String>,
    /// Of the `Message-ID` header, with brackets.
    pub message_id: Option<String>,
    /// Always `None` so far.
    pub thread_id: Option<String>,
    /// The way it leaves.
    pub transport: Transport,
    /// Attempts begun for the recipient that took most.
    pub attempts: u32,
    /// What went wrong last, for people.
    pub last_error: Option<String>,
    /// Not before this; `None`: at once.
    pub scheduled_at: Option<Timestamp>,
    /// It can be cancelled before this; `None`: not any more.
    pub cancellable_until: Option<Timestamp>,
    /// When the last recipient's mail server took it.
    pub sent_at: Option<Timestamp>,
    /// The caller's own.
    pub tags: BTreeMap<String, String>,
    /// The caller's own.
    pub metadata: Option<Json>,
    /// Always `None` so far.
    pub broadcast_id: Option<String>,
    /// `api`.
    pub source: String,
    /// To whom it is written.
    pub stream: EmailStream,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Those it goes to, each with what became of it.
    pub recipients: Vec<Recipient>,
    /// Whether an earlier call with the same key sent it; `None` but in answers to calls that send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
}

/// Somebody an email goes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recipient {
    /// `er_…`.
    pub id: String,
    /// The address.
    pub email: String,
    /// What stands beside the address.
    pub name: Option<String>,
    /// In which list it is.
    pub kind: RecipientKind,
    /// What became of the email for it.
    pub status: RecipientStatus,
    /// What went wrong last, for people; `None` once it is delivered.
    pub error: Option<String>,
    /// When the mail server took it.
    pub delivered_at: Option<Timestamp>,
}

/// An email in the answer to a call that sends.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SentEmail {
    /// As it is now: a call that is repeated with its key tells what became of it.
    Whole(Box<Email>),
    /// Its time is over while the key that sent it is still held.
    Gone(GoneEmail),
}

/// What is left of an email whose time is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GoneEmail {
    /// `email`.
    pub object: String,
    /// `em_…`.
    pub id: String,
    /// `erased`: it ended, whatever its end was.
    pub status: EmailStatus,
    /// Whether an earlier call with the same key sent it; `None` in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
}

impl SentEmail {
    /// `em_…`.
    pub fn id(&self) -> &str {
        match self {
            Self::Whole(email) => &email.id,
            Self::Gone(gone) => &gone.id,
        }
    }

    /// What became of it.
    pub fn status(&self) -> &EmailStatus {
        match self {
            Self::Whole(email) => &email.status,
            Self::Gone(gone) => &gone.status,
        }
    }

    /// Whether an earlier call with the same key sent it. In a batch it is told once for all: [`SentBatch::replayed`].
    pub fn replayed(&self) -> bool {
        match self {
            Self::Whole(email) => email.replayed.unwrap_or(false),
            Self::Gone(gone) => gone.replayed.unwrap_or(false),
        }
    }

    /// All of it, unless it is gone.
    pub fn email(&self) -> Option<&Email> {
        match self {
            Self::Whole(email) => Some(email),
            Self::Gone(_) => None,
        }
    }
}

impl Serialize for SentEmail {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(email) => email.serialize(serializer),
            Self::Gone(gone) => gone.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SentEmail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let gone: GoneEmail = json.read().map_err(D::Error::custom)?;
        if gone.status == EmailStatus::Erased {
            return Ok(Self::Gone(gone));
        }
        json.read().map(|email| Self::Whole(Box::new(email))).map_err(D::Error::custom)
    }
}

/// What a call that sends several came to. Each was accepted or not by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SentBatch {
    /// In the order of the call.
    pub data: Vec<BatchEmail>,
    /// How many were accepted.
    pub sent: u64,
    /// How many were not. If all, nothing is stored and the key stays free.
    pub failed: u64,
    /// Whether an earlier call with the same key sent them.
    pub replayed: bool,
}

/// What an email of a batch came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BatchEmail {
    /// Its place in the call, from 0.
    pub index: u64,
    /// Whether it was accepted.
    pub status: BatchStatus,
    /// There when it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<SentEmail>,
    /// There when it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<BatchError>,
}

/// Why an email of a batch was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BatchError {
    /// Such as `validation_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong, for programs.
    pub code: String,
    /// The code in PascalCase.
    pub name: String,
    /// What is wrong, for people.
    pub message: String,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
}

/// What an email says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EmailContent {
    /// `email_content`.
    pub object: String,
    /// `em_…`.
    pub email_id: String,
    /// Name and value of each line, encoded words read.
    pub headers: Vec<(String, String)>,
    /// To be shown only where it cannot execute.
    pub html: Option<String>,
    /// The plain text.
    pub text: Option<String>,
    /// What is attached.
    pub attachments: Vec<EmailAttachment>,
    /// Of the whole, in bytes.
    pub source_bytes: u64,
}

/// A file that comes with an email.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EmailAttachment {
    /// Its place in paths, from 0.
    pub index: usize,
    /// As its sender named it.
    pub filename: String,
    /// As its sender said.
    pub content_type: String,
    /// By which the HTML names it.
    pub content_id: Option<String>,
    /// Whether it is shown inside the HTML.
    pub inline: bool,
    /// How large it is.
    pub bytes: u64,
}

/// Something that webhooks were told about an email.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EmailEvent {
    /// `event`.
    pub object: String,
    /// `whe_…`.
    pub id: String,
    /// `email.accepted`, `email.scheduled`, `email.processed`, `email.deferred`, `email.delivered`, `email.bounced`,
    /// `email.rejected` or `email.canceled`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// As receivers got it.
    pub data: Option<Json>,
    /// When it happened.
    pub created_at: Timestamp,
}

listings! {
    /// Which emails are wanted, and which page of them.
    ListEmails {
        /// Any of these; all unless given.
        #[serde(serialize_with = "with_commas")]
        status: Vec<EmailStatus>,
        /// From exactly this address.
        from: Option<String>,
        /// Of a broadcast; there are none yet.
        broadcast_id: Option<String>,
        /// Scheduled for this time or later.
        scheduled_from: Option<Timestamp>,
        /// Scheduled for this time or earlier.
        scheduled_to: Option<Timestamp>,
    }
}

fn with_commas<S: Serializer>(statuses: &[EmailStatus], serializer: S) -> Result<S::Ok, S::Error> {
    let words: Vec<&str> = statuses.iter().map(EmailStatus::as_str).collect();
    serializer.serialize_str(&words.join(","))
}
