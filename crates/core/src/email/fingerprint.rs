//! What tells two calls that send emails apart.
//!
//! Made of what a call was read into, so ways of writing the same are gone already: order of fields, `null` or
//! absent, one address or a list of one, encodings of an attachment. Order matters in lists of addresses and of
//! attachments; it does not among headers and tags, which are fields of an object.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::{Address, Attachment, Email};
use crate::idempotency::{Builder, Fault, Fingerprint};

/// The template that an email is made from, as the call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template<'a> {
    /// Id or slug.
    pub id: &'a str,
    pub version: Option<u32>,
    /// JSON.
    pub props: Option<&'a str>,
}

/// One item of a batch: an email, or the JSON of an item that was no valid one.
pub type Item<'a> = Result<(&'a Email, Option<Template<'a>>), &'a str>;

/// The fingerprint of a call that sends one email.
///
/// # Errors
/// `Fault::TooDeep` or `Fault::NotJson` for props or metadata.
pub fn of_email(email: &Email, template: Option<Template<'_>>) -> Result<Fingerprint, Fault> {
    add(Fingerprint::builder("emails.send"), email, template).map(Builder::finish)
}

/// The fingerprint of a call that sends a template's email.
///
/// # Errors
/// `Fault::TooDeep` or `Fault::NotJson` for props or metadata.
pub fn of_template(email: &Email, template: Template<'_>) -> Result<Fingerprint, Fault> {
    add(Fingerprint::builder("templates.send"), email, Some(template)).map(Builder::finish)
}

/// The fingerprint of a call that sends a batch: one key covers all items, the refused ones too.
///
/// # Errors
/// `Fault::TooDeep` or `Fault::NotJson` for props, metadata or a refused item.
pub fn of_batch<'a>(items: impl IntoIterator<Item = Item<'a>>) -> Result<Fingerprint, Fault> {
    let mut builder = Fingerprint::builder("emails.send_batch");
    for item in items {
        builder = match item {
            Ok((email, template)) => add(builder.item("email"), email, template)?,
            Err(sent) => builder.item("refused").json("sent", Some(sent))?,
        };
    }
    Ok(builder.finish())
}

/// Adds an email: its own fields first, then its lists, whose entries are items.
fn add(builder: Builder, email: &Email, template: Option<Template<'_>>) -> Result<Builder, Fault> {
    // Taken apart in full: a field that is new does not compile until somebody decides what it means here.
    let Email {
        from,
        to,
        cc,
        bcc,
        reply_to,
        subject,
        html,
        text,
        headers,
        attachments,
        tags,
        metadata,
        scheduled_at,
    } = email;
    let mut builder = builder
        .field("subject", subject.as_deref())
        .field("html", html.as_deref())
        .field("text", text.as_deref())
        .field("scheduled_at", scheduled_at.as_ref().map(|scheduled| scheduled.text.as_str()))
        .json("metadata", metadata.as_deref())?;
    if let Some(Template { id, version, props }) = template {
        builder = builder
            .field("template", Some(id))
            .field("template_version", version.map(|version| version.to_string()).as_deref())
            .json("props", props)?;
    }
    builder = add_address(builder, "from", from);
    for (name, addresses) in [("to", to), ("cc", cc), ("bcc", bcc), ("reply_to", reply_to)] {
        builder = addresses.iter().fold(builder, |builder, address| add_address(builder, name, address));
    }
    builder = attachments.iter().fold(builder, add_attachment);
    for (name, value) in tags {
        builder = builder.item("tag").field("name", Some(name)).field("value", Some(value));
    }
    let mut lines: Vec<&(String, String)> = headers.iter().collect();
    // Stable: values of one name keep their order.
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (name, value) in lines {
        builder = builder.item("header").field("name", Some(name)).field("value", Some(value));
    }
    Ok(builder)
}

fn add_address(builder: Builder, item: &str, address: &Address) -> Builder {
    let Address { email, name } = address;
    builder.item(item).field("email", Some(email)).field("name", name.as_deref())
}

fn add_attachment(builder: Builder, attachment: &Attachment) -> Builder {
    let Attachment { filename, content, content_type, content_id } = attachment;
    builder
        .item("attachment")
        .field("filename", Some(filename))
        .field("content_type", Some(content_type))
        .field("content_id", content_id.as_deref())
        .field("content_sha256", Some(&sha256(content)))
}

/// The SHA-256 of bytes in hexadecimal: fields of a fingerprint are text, and a file need not be.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests;
