//! The shapes of emails and of what is told about them.

use std::collections::BTreeMap;

use restante_core::Timestamp;
use restante_core::delivery::State;
use restante_core::email::{Attachment, EmailStatus};
use restante_core::id::{EmailId, EventId, RecipientId};
use restante_store::email::Mailbox;
use restante_store::row;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A message to mailboxes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Email {
    #[schema(example = "email")]
    object: &'static str,
    #[schema(value_type = String)]
    id: EmailId,
    /// `scheduled`, `queued`, `sending`, `cancelled`, `sent`, `partial`, `bounced` or `failed`.
    status: &'static str,
    /// `live` or `test`: an email of the test mode goes nowhere.
    mode: &'static str,
    from: AddressShown,
    subject: Option<String>,
    /// Of the `Message-ID` header, with brackets.
    message_id: Option<String>,
    #[schema(value_type = Option<String>)]
    thread_id: Option<()>,
    /// `relay`, `direct`, or `capture`: it is kept and shown, and goes nowhere.
    transport: &'static str,
    /// Attempts begun for the recipient that took most.
    attempts: u32,
    /// What went wrong last.
    last_error: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    scheduled_at: Option<Timestamp>,
    /// It can be cancelled before this; null: not any more.
    #[schema(value_type = Option<String>, format = DateTime)]
    cancellable_until: Option<Timestamp>,
    /// When the last recipient's mail server took it.
    #[schema(value_type = Option<String>, format = DateTime)]
    sent_at: Option<Timestamp>,
    tags: BTreeMap<String, String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    #[schema(value_type = Option<String>)]
    broadcast_id: Option<()>,
    #[schema(example = "api")]
    source: &'static str,
    #[schema(example = "transactional")]
    stream: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    recipients: Vec<Recipient>,
    /// Whether an earlier call with the same key sent it; only in answers to calls that send.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    replayed: Option<bool>,
}

/// An email in the answer to a call that sends.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum SentEmail {
    Whole(Box<Email>),
    Gone(GoneEmail),
}

/// What is left of an email whose time is over while the key that sent it is still held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GoneEmail {
    #[schema(example = "email")]
    object: &'static str,
    #[schema(value_type = String)]
    id: EmailId,
    status: GoneStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    replayed: Option<bool>,
}

/// What tells it from an email that is still there.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum GoneStatus {
    /// It ended, whatever its end was.
    Erased,
}

impl SentEmail {
    /// `None`: it is not there any more.
    pub(crate) fn new(id: EmailId, email: Option<Email>) -> Self {
        match email {
            Some(email) => Self::Whole(Box::new(email)),
            None => Self::Gone(GoneEmail { object: "email", id, status: GoneStatus::Erased, replayed: None }),
        }
    }

    pub(crate) fn answering(self, replayed: bool) -> Self {
        match self {
            Self::Whole(email) => Self::Whole(Box::new(email.answering(replayed))),
            Self::Gone(gone) => Self::Gone(GoneEmail { replayed: Some(replayed), ..gone }),
        }
    }
}

/// An address as it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AddressShown {
    email: String,
    name: Option<String>,
}

/// Somebody an email goes to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Recipient {
    #[schema(value_type = String)]
    id: RecipientId,
    email: String,
    name: Option<String>,
    /// `to`, `cc` or `bcc`.
    kind: &'static str,
    /// `pending`, `delivered`, `bounced`, `failed`, `suppressed` or `uncertain`.
    status: &'static str,
    error: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    delivered_at: Option<Timestamp>,
}

impl From<Mailbox> for AddressShown {
    fn from(mailbox: Mailbox) -> Self {
        Self { email: mailbox.email, name: mailbox.name }
    }
}

impl Email {
    /// `transport`: the way mail leaves now.
    pub(crate) fn new(email: row::Email, transport: &'static str, now: Timestamp) -> Self {
        let status = email.status(now);
        let waits = matches!(status, EmailStatus::Scheduled);
        let lives = || email.recipients.iter().map(|it| &it.standing.delivery);
        let delivered = lives().filter(|it| it.state == State::Delivered);
        let domain = email.details.from.email.rsplit_once('@').map_or("", |(_, domain)| domain);
        Self {
            object: "email",
            id: email.id,
            status: status.name(),
            mode: if email.test { "test" } else { "live" },
            message_id: Some(format!("<{}@{domain}>", email.id)),
            from: email.details.from.clone().into(),
            subject: email.details.subject,
            thread_id: None,
            transport: if email.test { "capture" } else { transport },
            attempts: lives().map(|it| it.attempts_made).max().unwrap_or(0),
            last_error: email.recipients.iter().rev().find_map(|it| it.error.clone()),
            scheduled_at: email.scheduled_at,
            cancellable_until: email.scheduled_at.filter(|_| waits),
            sent_at: delivered.filter_map(|it| it.ended_at).max(),
            tags: email.details.tags,
            metadata: email.details.metadata,
            broadcast_id: None,
            source: "api",
            stream: "transactional",
            created_at: email.created_at,
            recipients: email.recipients.into_iter().map(Recipient::new).collect(),
            replayed: None,
        }
    }

    pub(crate) fn answering(self, replayed: bool) -> Self {
        Self { replayed: Some(replayed), ..self }
    }
}

impl Recipient {
    fn new(recipient: row::Recipient) -> Self {
        let life = &recipient.standing.delivery;
        Self {
            id: recipient.id,
            email: recipient.mailbox.email,
            name: recipient.mailbox.name,
            kind: recipient.role.name(),
            status: recipient.standing.status().name(),
            error: recipient.error.filter(|_| life.state != State::Delivered),
            delivered_at: life.ended_at.filter(|_| life.state == State::Delivered),
        }
    }
}

/// What an email of a batch came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchEmail {
    index: usize,
    /// `ok` or `error`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    email: Option<SentEmail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, required = false)]
    error: Option<Box<RawValue>>,
}

impl BatchEmail {
    pub(crate) fn ok(index: usize, email: SentEmail) -> Self {
        Self { index, status: "ok", email: Some(email), error: None }
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.email.is_some()
    }

    /// `told`: JSON.
    pub(crate) fn error(index: usize, told: String) -> Self {
        Self { index, status: "error", email: None, error: RawValue::from_string(told).ok() }
    }
}

/// What a call that sends several came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SentBatch {
    pub(crate) data: Vec<BatchEmail>,
    pub(crate) sent: usize,
    pub(crate) failed: usize,
    pub(crate) replayed: bool,
}

/// What an email says.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmailContent {
    #[schema(example = "email_content")]
    object: &'static str,
    #[schema(value_type = String)]
    email_id: EmailId,
    /// Name and value of each line, encoded words read.
    headers: Vec<[String; 2]>,
    /// Somebody else's: to be shown only where it cannot execute.
    html: Option<String>,
    text: Option<String>,
    attachments: Vec<AttachmentShown>,
    /// Of the whole.
    source_bytes: usize,
}

/// A file that comes with an email.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttachmentShown {
    /// Its place in paths, from 0.
    index: usize,
    filename: String,
    /// As its sender said.
    content_type: String,
    /// By which the HTML names it.
    content_id: Option<String>,
    /// Whether it is shown inside the HTML.
    inline: bool,
    bytes: usize,
}

impl EmailContent {
    /// `texts`: HTML and plain.
    pub(crate) fn new(
        email_id: EmailId,
        headers: Vec<[String; 2]>,
        texts: (Option<String>, Option<String>),
        attachments: &[Attachment],
        source_bytes: usize,
    ) -> Self {
        let attachments = attachments.iter().enumerate().map(|(index, attachment)| AttachmentShown {
            index,
            filename: attachment.filename.clone(),
            content_type: attachment.content_type.clone(),
            content_id: attachment.content_id.clone(),
            inline: attachment.content_id.is_some(),
            bytes: attachment.content.len(),
        });
        let attachments = attachments.collect();
        let (html, text) = texts;
        Self { object: "email_content", email_id, headers, html, text, attachments, source_bytes }
    }
}

/// Something that webhooks were told about an email.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmailEvent {
    #[schema(example = "event")]
    object: &'static str,
    #[schema(value_type = String)]
    id: EventId,
    #[serde(rename = "type")]
    event_type: String,
    #[schema(value_type = Object)]
    data: Option<Box<RawValue>>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl EmailEvent {
    pub(crate) fn new(event: &row::Event) -> Self {
        #[derive(serde::Deserialize)]
        struct Body {
            timestamp: Timestamp,
            data: Box<RawValue>,
        }
        let body: Option<Body> = serde_json::from_slice(&event.body).ok();
        let (created_at, data) = match body {
            Some(Body { timestamp, data }) => (timestamp, Some(data)),
            None => (event.created_at, None),
        };
        Self { object: "event", id: event.id, event_type: event.event_type.to_string(), data, created_at }
    }
}
