//! Emails as callers write them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Attachment, Change, Json, Mailbox};
use crate::Timestamp;

/// An email to be sent. It has a template, or `html`, `text` or both.
///
/// At most 25 MiB with its files.
///
/// ```
/// use restante_sdk::wire::SendEmail;
///
/// let email = SendEmail {
///     text: Some("It is on its way.".into()),
///     ..SendEmail::new("shop@example.com", "Ada <ada@example.net>", "Your order")
/// };
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct SendEmail {
    /// The sender.
    pub from: Mailbox,
    /// At most 50; so are `cc` and `bcc`. A mailbox that is named again gets no second copy.
    pub to: Vec<Mailbox>,
    /// Those who get a copy that all see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<Mailbox>,
    /// They are in no header.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<Mailbox>,
    /// Where answers go; to the sender unless given. At most 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reply_to: Vec<Mailbox>,
    /// At most 998 characters. The template's, where there is one, unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// At most 512 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// At most 512 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Further header lines, at most 50.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// At most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// At most 50, names and values of at most 256 characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// A JSON object of yours, at most 16 KiB, shown again and told to webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// Not before this, at most 30 days ahead; at once if it is past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Timestamp>,
    /// What it is made from, instead of `html` and `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<UseTemplate>,
}

impl SendEmail {
    /// An email to one mailbox, still without a text.
    pub fn new(from: impl Into<Mailbox>, to: impl Into<Mailbox>, subject: impl Into<String>) -> Self {
        Self { from: from.into(), to: vec![to.into()], subject: Some(subject.into()), ..Self::default() }
    }
}

/// The template of an email.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct UseTemplate {
    /// `tpl_…` or its slug.
    pub id: String,
    /// The published one unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// A JSON object: values for what the template names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub props: Option<Json>,
}

/// An email that a template makes, whose id or slug is given beside it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct SendTemplate {
    /// The sender.
    pub from: Mailbox,
    /// At most 50; so are `cc` and `bcc`. A mailbox that is named again gets no second copy.
    pub to: Vec<Mailbox>,
    /// Those who get a copy that all see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<Mailbox>,
    /// They are in no header.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<Mailbox>,
    /// Where answers go; to the sender unless given. At most 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reply_to: Vec<Mailbox>,
    /// The template's unless given; at most 998 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// A JSON object: values for what the template names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub props: Option<Json>,
    /// The published one unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Not before this, at most 30 days ahead; at once if it is past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Timestamp>,
    /// Further header lines, at most 50.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// At most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// At most 50, names and values of at most 256 characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// A JSON object of yours, at most 16 KiB, shown again and told to webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl SendTemplate {
    /// An email to one mailbox, with nothing but the template's own values.
    pub fn new(from: impl Into<Mailbox>, to: impl Into<Mailbox>) -> Self {
        Self { from: from.into(), to: vec![to.into()], ..Self::default() }
    }
}

/// What is to change in a scheduled email. Those it goes to and what is attached stay.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct EmailChange {
    /// Not before this, at most 30 days ahead; at once if it is past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Timestamp>,
    /// The sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Mailbox>,
    /// Reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub reply_to: Change<Vec<Mailbox>>,
    /// Reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub subject: Change<String>,
    /// Reset: none. One of `html` and `text` must be left.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub html: Change<String>,
    /// Reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub text: Change<String>,
    /// Replaces all further header lines; reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub headers: Change<BTreeMap<String, String>>,
    /// Replaces all tags; reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub tags: Change<BTreeMap<String, String>>,
    /// Reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub metadata: Change<Json>,
}
