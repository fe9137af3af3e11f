//! Emails on their way in, and what is told about them.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use restante_core::email::{self, Address, EmailStatus, Role, Standing};
use restante_core::id::{EmailId, Tail, WorkspaceId};
use restante_core::{Delivery, Outcome, State, Timestamp, limits};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::code::Damaged;
use crate::receipts::read_items;
use crate::record::{Draft, Kind, MailboxesRow, Mode, Suppression, SuppressionReason};
use crate::{KeyClaim, Policy};

pub(crate) mod told;

/// Emails of one call. What is wrong with one does not keep the others.
#[derive(Debug)]
pub struct Sending {
    pub workspace: WorkspaceId,
    /// Keys of the two modes are apart, and what is sent in test mode goes nowhere.
    pub mode: Mode,
    /// In the order of the call, one of them an email at least. `Err`: what the caller is told about an item that is not
    /// one, remembered with the key.
    pub items: Vec<Result<NewEmail, String>>,
    pub claim: Option<KeyClaim>,
    pub now: Timestamp,
}

/// An email to be stored.
#[derive(Debug)]
pub struct NewEmail {
    pub frozen: Frozen,
    /// In the order in which they are listed.
    pub recipients: Vec<(Role, Address)>,
    /// Not before this; `None`: at once.
    pub scheduled_at: Option<Timestamp>,
    /// Random part of the new ids.
    pub tail: Tail,
}

/// An email's bytes and what is shown of it.
#[derive(Debug)]
pub struct Frozen {
    /// Where bounces go.
    pub sender: String,
    /// All of it, but for its id, which is written over the [`ID_TEXT_BYTES`] bytes from `id_at` on.
    pub mime: Bytes,
    pub id_at: usize,
    pub details: Details,
}

/// Length of an email's id as text.
pub const ID_TEXT_BYTES: usize = 29;

/// What is shown of an email besides its recipients.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Details {
    pub from: Mailbox,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reply_to: Vec<Mailbox>,
    pub subject: Option<String>,
    /// Further header lines that the caller asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// A JSON object of the caller's.
    pub metadata: Option<Box<RawValue>>,
    /// Id and version of the template it was made from.
    pub template: Option<(String, u32)>,
    pub has_html: bool,
    pub has_text: bool,
    pub attachments: u32,
}

/// An address as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    pub email: String,
    pub name: Option<String>,
}

impl From<Address> for Mailbox {
    fn from(address: Address) -> Self {
        Self { email: address.email, name: address.name }
    }
}

/// What became of a call that sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// Stored durably, with a delivery for each recipient.
    Fresh(Vec<Item>),
    /// An earlier call with this key asked for the same: this is what it was answered.
    Replayed(Vec<Item>),
    /// An earlier call with this key asked for something else. Nothing was stored.
    KeyReused,
    NoWorkspace,
}

/// An email of a call, or what its caller was told instead.
pub type Item = Result<EmailId, String>;

/// What is to become of a scheduled email.
#[derive(Debug)]
pub struct EmailChange {
    pub frozen: Option<Frozen>,
    pub scheduled_at: Option<Timestamp>,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmailChanged {
    Done,
    NotFound,
    /// It is past being changed.
    Conflict(EmailStatus),
}

/// What an address is known by on the list of suppressions.
pub fn suppression_key(email: &str) -> String {
    Address { email: email.to_owned(), name: None }.suppression_key()
}

/// An email's own row.
pub(crate) struct EmailRow {
    pub(crate) message: i64,
    pub(crate) workspace: i64,
    pub(crate) scheduled_at: Option<i64>,
    pub(crate) cancelled_at: Option<i64>,
    /// The caller's key, as it is kept.
    pub(crate) key: Option<String>,
}

impl EmailRow {
    pub(crate) fn status(&self, recipients: &[Standing], now: Timestamp) -> EmailStatus {
        let scheduled_at = self.scheduled_at.map(Timestamp::from_millis);
        email::email_status(recipients, self.cancelled_at.is_some(), scheduled_at, now)
    }
}

/// Whether an email can be cancelled: something of it waits, and no attempt has begun.
pub(crate) fn may_be_cancelled(recipients: &[Standing]) -> bool {
    let lives = || recipients.iter().map(|it| &it.delivery);
    let unbegun = |life: &Delivery| life.state == State::Pending && life.attempts_made == 0;
    lives().any(|life| life.state == State::Pending)
        && lives().all(|life| unbegun(life) || life.state.is_final())
}

/// What a lost attempt came to that had sent the whole message before.
pub(crate) fn lost_behind_data(policy: &Policy) -> Outcome {
    if policy.resend_uncertain { Outcome::Lost } else { Outcome::lost_behind_data() }
}

/// How a caller's key is kept: those of the test mode apart, by a sign that no key has.
pub(crate) fn kept_key(mode: Mode, claim: &KeyClaim) -> String {
    match mode {
        Mode::Live => claim.key.as_str().to_owned(),
        Mode::Test => format!("!{}", claim.key.as_str()),
    }
}

impl Sending {
    /// Until when its key is held: as long as events are kept, and for a while after the last email is due.
    pub(crate) fn key_held_until(&self, policy: &Policy) -> Timestamp {
        let due = self.items.iter().flatten().filter_map(|it| it.scheduled_at);
        let latest = due.max().map_or(self.now, |at| at.max(self.now));
        let kept = policy.event_retention.max(limits::IDEMPOTENCY_KEPT_MIN);
        (self.now + kept).max(latest + limits::IDEMPOTENCY_KEPT_MIN)
    }
}

impl Sent {
    /// What a call is answered whose key is held. `same`: for the same call.
    pub(crate) fn known(same: bool, answer: &[u8], claim: &KeyClaim) -> Result<Self, Damaged> {
        if !same {
            return Ok(Self::KeyReused);
        }
        let damaged = || Damaged(format!("idempotency key {}", claim.key.as_str()));
        read_items(answer).map(Self::Replayed).ok_or_else(damaged)
    }
}

/// The bytes of an email with its id where the place for that is.
pub(crate) fn with_id(mime: &Bytes, id_at: usize, id: EmailId) -> Bytes {
    let mut bytes = BytesMut::from(&mime[..]);
    if let Some(place) = bytes.get_mut(id_at..id_at + ID_TEXT_BYTES) {
        place.copy_from_slice(id.to_string().as_bytes());
    }
    bytes.freeze()
}

impl Details {
    /// As it is stored.
    pub(crate) fn write(&self) -> Result<Vec<u8>, Damaged> {
        serde_json::to_vec(self).map_err(|error| Damaged(error.to_string()))
    }

    pub(crate) fn read(json: &[u8]) -> Result<Self, Damaged> {
        serde_json::from_slice(json).map_err(|error| Damaged(format!("details of an email: {error}")))
    }
}

/// The record of a domain's mailboxes.
pub(crate) fn mailboxes_draft(
    workspace: WorkspaceId,
    domain: &str,
    now: Timestamp,
) -> Result<Draft, Damaged> {
    let body = MailboxesRow { domain: domain.to_owned() };
    let tail = Tail::from_bits(now.millis().unsigned_abs());
    draft(Kind::Mailboxes, workspace, domain.to_owned(), &body, tail)
}

/// The record of a mailbox that does not exist, as the mail server said in `detail`. `delivery`: the key of the one that
/// was refused.
pub(crate) fn suppression_draft(
    workspace: WorkspaceId,
    email: &str,
    detail: &str,
    delivery: i64,
) -> Result<Draft, Damaged> {
    let body = Suppression {
        email: email.to_owned(),
        reason: SuppressionReason::HardBounce,
        detail: Some(detail.to_owned()),
    };
    let tail = Tail::from_bits(delivery.unsigned_abs());
    draft(Kind::Suppression, workspace, suppression_key(email), &body, tail)
}

fn draft(
    kind: Kind,
    workspace: WorkspaceId,
    name: String,
    body: &impl Serialize,
    tail: Tail,
) -> Result<Draft, Damaged> {
    let body = serde_json::to_string(body).map_err(|error| Damaged(error.to_string()))?;
    Ok(Draft { kind, workspace: Some(workspace), parent: None, name: Some(name), lookup: None, body, tail })
}
