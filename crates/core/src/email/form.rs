//! Whether an email is one that can be sent, as far as it tells by itself: no clock and nothing stored is asked.

use super::{Address, Attachment, Email, is_control};
use crate::idempotency;
use crate::limits::{
    ATTACHMENTS_MAX, CONTENT_ID_CHARS_MAX, EMAIL_BYTES_MAX, EMAIL_HEADER_LINE_BYTES_MAX, EMAIL_HEADERS_MAX,
    EMAIL_TEXT_BYTES_MAX, FILENAME_CHARS_MAX, METADATA_BYTES_MAX, RECIPIENTS_MAX, SUBJECT_CHARS_MAX,
    TAG_CHARS_MAX, TAGS_MAX,
};

/// What is wrong with one field, for the caller to read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{param}: {message}")]
pub struct Fault {
    /// The field as it is called in the request, such as `subject`, `to[3]`, `tags.kind` or
    /// `attachments[0].content_type`.
    pub param: String,
    pub message: String,
}

impl Fault {
    fn new(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: param.into(), message: message.into() }
    }
}

/// Where the content of an email comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// From the email: it needs `html` or `text`.
    Own,
    /// From a template that is rendered later.
    Template,
}

/// Checks an email by itself.
///
/// # Errors
/// Every fault, in the order of the email's fields; never an empty list. A list that is too long is one fault, and
/// its entries are not looked at.
pub fn check(email: &Email, content: Content) -> Result<(), Vec<Fault>> {
    let mut faults = Vec::new();
    check_addresses(email, &mut faults);
    check_content(email, content, &mut faults);
    check_headers(&email.headers, &mut faults);
    check_attachments(email, &mut faults);
    check_tags(email, &mut faults);
    if let Some(metadata) = &email.metadata {
        faults.extend(self::metadata(metadata).err());
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Reads metadata, a JSON object, into its canonical form.
///
/// # Errors
/// A fault of `metadata` when it is no JSON object, nested too deep or longer than [`METADATA_BYTES_MAX`].
pub fn metadata(text: &str) -> Result<String, Fault> {
    let mut form = String::with_capacity(text.len());
    idempotency::canonical(text, &mut form).map_err(|fault| Fault::new("metadata", fault.to_string()))?;
    if !form.starts_with('{') {
        return Err(Fault::new("metadata", "metadata is a JSON object"));
    }
    if form.len() > METADATA_BYTES_MAX {
        return Err(Fault::new("metadata", format!("metadata has at most {METADATA_BYTES_MAX} bytes")));
    }
    Ok(form)
}

fn check_addresses(email: &Email, faults: &mut Vec<Fault>) {
    let Email { from, to, cc, bcc, reply_to, .. } = email;
    check_address("from", from, faults);
    if to.is_empty() && cc.is_empty() && bcc.is_empty() {
        faults.push(Fault::new("to", "an email has at least one recipient in to, cc or bcc"));
    }
    for (param, addresses) in [("to", to), ("cc", cc), ("bcc", bcc), ("reply_to", reply_to)] {
        if addresses.len() > RECIPIENTS_MAX {
            faults.push(Fault::new(param, format!("at most {RECIPIENTS_MAX} addresses")));
            continue;
        }
        for (index, address) in addresses.iter().enumerate() {
            check_address(&format!("{param}[{index}]"), address, faults);
        }
    }
}

/// Addresses were checked when they were read; nothing keeps others from being put together by hand.
fn check_address(param: &str, address: &Address, faults: &mut Vec<Fault>) {
    if let Err(fault) = Address::from_parts(&address.email, address.name.as_deref()) {
        faults.push(Fault::new(param, fault.to_string()));
    }
}

fn check_content(email: &Email, content: Content, faults: &mut Vec<Fault>) {
    if let Some(subject) = &email.subject {
        if subject.chars().count() > SUBJECT_CHARS_MAX {
            faults
                .push(Fault::new("subject", format!("a subject has at most {SUBJECT_CHARS_MAX} characters")));
        }
        if subject.contains(is_control) {
            faults.push(Fault::new("subject", "a subject has no line breaks or control characters"));
        }
    }
    if content == Content::Own && email.html.is_none() && email.text.is_none() {
        faults.push(Fault::new("html", "an email has html, text or both"));
    }
    for (param, text) in [("html", &email.html), ("text", &email.text)] {
        let Some(text) = text else { continue };
        if text.len() > EMAIL_TEXT_BYTES_MAX {
            faults.push(Fault::new(param, format!("at most {EMAIL_TEXT_BYTES_MAX} bytes")));
        } else if text.contains('\0') {
            faults.push(Fault::new(param, "the text has no NUL characters"));
        }
    }
}

/// Headers that are ours to write, or that say what other servers did; in lower case.
const RESERVED: [&str; 15] = [
    "authentication-results",
    "bcc",
    "cc",
    "date",
    "delivered-to",
    "dkim-signature",
    "from",
    "message-id",
    "mime-version",
    "received",
    "reply-to",
    "return-path",
    "sender",
    "subject",
    "to",
];

/// How the names of further reserved headers begin: MIME's own, resending and the seals of forwarders.
const RESERVED_STARTS: [&str; 3] = ["arc-", "content-", "resent-"];

fn check_headers(headers: &[(String, String)], faults: &mut Vec<Fault>) {
    if headers.len() > EMAIL_HEADERS_MAX {
        return faults.push(Fault::new("headers", format!("at most {EMAIL_HEADERS_MAX} headers")));
    }
    for (name, value) in headers {
        if !is_token(name) {
            faults.push(Fault::new("headers", "a name is ASCII letters, digits and !#$%&'*+-.^_`|~"));
            continue;
        }
        let param = || format!("headers.{name}");
        let lower = name.to_ascii_lowercase();
        if RESERVED.contains(&lower.as_str()) || RESERVED_STARTS.iter().any(|start| lower.starts_with(start))
        {
            faults.push(Fault::new(param(), "this header cannot be set"));
        }
        if value.contains(is_control) {
            faults.push(Fault::new(param(), "a value has no line breaks or control characters"));
        }
        // With the colon and the space between them.
        if name.len() + 2 + value.len() > EMAIL_HEADER_LINE_BYTES_MAX {
            let message = format!("name and value together have at most {EMAIL_HEADER_LINE_BYTES_MAX} bytes");
            faults.push(Fault::new(param(), message));
        }
    }
}

/// `token` of RFC 9110, 5.6.2: narrower than what RFC 5322 takes for the name of a header, and never misread.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

fn check_attachments(email: &Email, faults: &mut Vec<Fault>) {
    let Email { html, text, attachments, .. } = email;
    if attachments.len() > ATTACHMENTS_MAX {
        return faults.push(Fault::new("attachments", format!("at most {ATTACHMENTS_MAX} attachments")));
    }
    for (index, attachment) in attachments.iter().enumerate() {
        let mut wrong = |field: &str, message: String| {
            faults.push(Fault::new(format!("attachments[{index}].{field}"), message));
        };
        let Attachment { filename, content: _, content_type, content_id } = attachment;
        if !is_filename(filename) {
            wrong(
                "filename",
                format!(
                    "a file name has 1 to {FILENAME_CHARS_MAX} characters, no slashes and no control characters"
                ),
            );
        }
        if !is_content_type(content_type) {
            wrong("content_type", "a content type is written type/subtype, and not multipart".to_owned());
        }
        let Some(content_id) = content_id else { continue };
        if !is_content_id(content_id) {
            wrong(
                "content_id",
                format!("a content id has 1 to {CONTENT_ID_CHARS_MAX} ASCII letters, digits and -_.+=@"),
            );
        }
        if attachments[..index].iter().any(|other| other.content_id.as_ref() == Some(content_id)) {
            wrong("content_id", "another attachment has the same content id".to_owned());
        }
    }
    let texts = [html, text].into_iter().flatten().map(String::len).sum::<usize>();
    let files = attachments.iter().map(|attachment| attachment.content.len()).sum::<usize>();
    if texts.saturating_add(files) > EMAIL_BYTES_MAX {
        let message = format!("html, text and attachments together have at most {EMAIL_BYTES_MAX} bytes");
        faults.push(Fault::new("attachments", message));
    }
}

/// Whether a file may be saved under the name in any folder, and nowhere else.
fn is_filename(name: &str) -> bool {
    let length = name.chars().count();
    (1..=FILENAME_CHARS_MAX).contains(&length)
        && !matches!(name, "." | "..")
        && !name.contains(|c| is_control(c) || matches!(c, '/' | '\\'))
}

/// `type/subtype` (RFC 6838, 4.2). Not `multipart`: its bytes must not be encoded, and files are (RFC 2045, 6.4).
fn is_content_type(text: &str) -> bool {
    let Some((kind, subtype)) = text.split_once('/') else { return false };
    is_restricted_name(kind) && is_restricted_name(subtype) && !kind.eq_ignore_ascii_case("multipart")
}

/// `restricted-name` of RFC 6838, 4.2: 1 to 127 characters, the first a letter or digit.
fn is_restricted_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
    text.len() <= 127 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(allowed)
}

/// Whether `text` can stand in `Content-ID: <…>` and, as it is, behind `cid:` (RFC 2392).
fn is_content_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+=@".contains(&byte);
    (1..=CONTENT_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

fn check_tags(email: &Email, faults: &mut Vec<Fault>) {
    if email.tags.len() > TAGS_MAX {
        return faults.push(Fault::new("tags", format!("at most {TAGS_MAX} tags")));
    }
    let message = |what| format!("{what} of a tag is 1 to {TAG_CHARS_MAX} ASCII letters, digits, _ and -");
    for (name, value) in &email.tags {
        if !is_tag(name) {
            faults.push(Fault::new("tags", message("the name")));
        } else if !is_tag(value) {
            faults.push(Fault::new(format!("tags.{name}"), message("the value")));
        }
    }
}

/// Whether `text` can be the name or the value of a tag: other characters break clients that read events.
fn is_tag(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=TAG_CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests;
