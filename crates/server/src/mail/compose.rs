//! An email as the bytes that every attempt sends: frozen MIME (RFC 5322, 2045 to 2047, 2231, 2387).
//!
//! ```text
//! mixed ─┬─ alternative ─┬─ text
//!        │               └─ related ─┬─ html
//!        │                           └─ files with a content id …
//!        └─ other files …
//! ```
//! A level with one part only is left out.

use std::borrow::Cow;

use bytes::Bytes;
use data_encoding::{BASE64, BASE64_MIME, HEXLOWER};
use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address as Mailbox;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::{BodyPart, MimePart};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use restante_core::Timestamp;
use restante_core::email::form::{self, Content};
use restante_core::email::{Address, Attachment, Email};
use restante_core::limits::EMAIL_HEADER_LINE_BYTES_MAX;
use sha2::{Digest, Sha256};

#[cfg(test)]
pub(super) mod tests;

/// Longest left side of a Message-ID, in bytes.
const MESSAGE_ID_BYTES_MAX: usize = 255;
/// Longest file name between quotes, with its escapes: the longest that is never folded.
const QUOTED_FILENAME_BYTES_MAX: usize = 60;

/// What a composed email is told apart by. The same email and identity give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The left side of the Message-ID, without brackets; the right side is the sender's domain.
    pub message_id: &'a str,
    /// The `Date` header, to the second.
    pub date: Timestamp,
}

/// Why an email cannot be composed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// What a check of the email finds; never empty.
    #[error("the email is not fit to be sent: {}", .0.first().map_or("", |fault| &fault.message))]
    Form(Vec<form::Fault>),
    #[error("a message id is made of ASCII letters and digits, dots, - and _")]
    MessageId,
}

/// The email as MIME: CRLF line ends, no line longer than 998 bytes, 7-bit but for address headers with a UTF-8 local
/// part (those need SMTPUTF8).
///
/// Recipients in bcc are in no header. Line breaks of text and HTML become CRLF and a last line without one gets one.
/// Attachments are base64, byte for byte. Those with a content id go beside the HTML; those whose type is `message/…`
/// become `application/octet-stream`, as that type must not be base64 (RFC 2046, 5.2.1).
///
/// CPU-bound: up to some 100 ms for an email of 25 MiB.
///
/// # Errors
/// `Fault` when the email does not pass [`form::check`], which is asked once more: nothing else stands between a value
/// and a header.
pub fn compose(email: &Email, identity: Identity<'_>) -> Result<Bytes, Fault> {
    form::check(email, Content::Own).map_err(Fault::Form)?;
    if !is_message_id(identity.message_id) {
        return Err(Fault::MessageId);
    }
    let mut message = MessageBuilder::new().from(mailbox(&email.from));
    for (name, list) in [("To", &email.to), ("Cc", &email.cc), ("Reply-To", &email.reply_to)] {
        if !list.is_empty() {
            message = message.header(name, Mailbox::new_list(list.iter().map(mailbox).collect()));
        }
    }
    if let Some(subject) = email.subject.as_deref().filter(|subject| !subject.is_empty()) {
        message = if subject.contains("=?") {
            // It would be taken for an encoded word, and shown as another text.
            message.header("Subject", Raw::new(encoded_words(subject)))
        } else {
            message.subject(subject)
        };
    }
    message = message
        .date(Date::new(identity.date.millis().div_euclid(1000)))
        .message_id(MessageId::new(format!("{}@{}", identity.message_id, email.from.domain())))
        .header("MIME-Version", Raw::new("1.0"));
    for (name, value) in &email.headers {
        message = message.header(name.as_str(), further(name, value));
    }
    let mut bytes = Vec::new();
    message.body(body(email, identity)).serialize(&mut bytes);
    if !bytes.ends_with(b"\r\n") {
        bytes.extend_from_slice(b"\r\n");
    }
    Ok(bytes.into())
}

/// A text as encoded words (RFC 2047), one on a line: lines of at most 76 characters, also the first with the header's
/// name, and no character cut in two.
fn encoded_words(text: &str) -> String {
    const BYTES_MAX: usize = 39;
    let (mut words, mut word) = (Vec::new(), String::new());
    for char in text.chars() {
        if word.len() + char.len_utf8() > BYTES_MAX {
            words.push(std::mem::take(&mut word));
        }
        word.push(char);
    }
    words.push(word);
    let encoded = words.iter().map(|word| format!("=?utf-8?B?{}?=", BASE64.encode(word.as_bytes())));
    encoded.collect::<Vec<_>>().join("\r\n ")
}

fn mailbox(address: &Address) -> Mailbox<'_> {
    let name = address.name.as_deref().filter(|name| !name.is_empty());
    Mailbox::new_address(name, address.email.as_str())
}

fn is_message_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=MESSAGE_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(allowed)
}

/// A caller's header value. ASCII is only folded at its spaces: encoded words would break the structure that, say,
/// List-Unsubscribe has.
fn further<'a>(name: &str, value: &'a str) -> HeaderType<'a> {
    let value = value.trim_matches(' ');
    let is_printable = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if is_printable && name.len() + 2 + value.len() <= EMAIL_HEADER_LINE_BYTES_MAX {
        Raw::new(value).into()
    } else {
        Text::new(value).into()
    }
}

fn body<'a>(email: &'a Email, identity: Identity<'_>) -> MimePart<'a> {
    let texts = [email.text.as_deref().map(lines), email.html.as_deref().map(lines)];
    let boundary = Boundary::new(identity, &texts);
    let [text, html] = texts;
    let is_inline = |file: &&Attachment| file.content_id.is_some() && email.html.is_some();
    let text = text.map(|text| words("text/plain", text));
    let html = html.map(|html| {
        let mut parts = vec![words("text/html", html)];
        parts.extend(email.attachments.iter().filter(is_inline).map(|it| file(it, "inline")));
        boundary.join("related", parts)
    });
    let mut bodies: Vec<MimePart<'_>> = text.into_iter().chain(html).collect();
    if bodies.is_empty() {
        bodies.push(words("text/plain", "\r\n".to_owned()));
    }
    let mut parts = vec![boundary.join("alternative", bodies)];
    let others = email.attachments.iter().filter(|it| !is_inline(it));
    parts.extend(others.map(|it| file(it, "attachment")));
    boundary.join("mixed", parts)
}

/// Text with CRLF after every line, whatever ended them before.
fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let mut lines = text.replace('\n', "\r\n");
    lines.push_str("\r\n");
    lines
}

fn words<'a>(kind: &'static str, text: String) -> MimePart<'a> {
    let kind = ContentType::new(kind).attribute("charset", "utf-8");
    if text.bytes().any(|byte| byte.is_ascii_control() && !b"\t\r\n".contains(&byte)) {
        // The builder would take a NUL or an escape for 7-bit text.
        return base64(kind, text.as_bytes());
    }
    MimePart::new(kind, BodyPart::Text(text.into()))
}

fn file<'a>(file: &'a Attachment, disposition: &'static str) -> MimePart<'a> {
    let kind = file.content_type.to_ascii_lowercase();
    let kind = if kind.starts_with("message/") { "application/octet-stream".to_owned() } else { kind };
    let part = base64(ContentType::new(kind), &file.content)
        .header("Content-Disposition", placed(disposition, &file.filename));
    match &file.content_id {
        Some(id) => part.cid(id.as_str()),
        None => part,
    }
}

/// Where a file belongs, and its name, which is read as it was written.
///
/// Two kinds are written as other character sets are (RFC 2231), as many readers make something else of them: one that
/// looks like an encoded word (RFC 2047), and one too long for a line, which would be folded between its quotes.
fn placed<'a>(disposition: &'static str, filename: &'a str) -> HeaderType<'a> {
    let escapes = filename.bytes().filter(|byte| b"\"\\".contains(byte)).count();
    let is_plain = !filename.contains("=?") && filename.len() + escapes <= QUOTED_FILENAME_BYTES_MAX;
    if filename.is_ascii() && !is_plain {
        let encoded = utf8_percent_encode(filename, NON_ALPHANUMERIC);
        return Raw::new(format!("{disposition}; filename*=utf-8''{encoded}")).into();
    }
    ContentType::new(disposition).attribute("filename", filename).into()
}

fn base64<'a>(kind: ContentType<'a>, content: &[u8]) -> MimePart<'a> {
    let encoded = BASE64_MIME.encode(content).into_bytes();
    MimePart::new(kind, BodyPart::Binary(encoded.into())).transfer_encoding("base64")
}

/// What the boundaries of one email have in common.
struct Boundary(String);

impl Boundary {
    /// Derived from the identity, and in none of the texts: all else is encoded and cannot hold one.
    fn new(identity: Identity<'_>, texts: &[Option<String>]) -> Self {
        let candidates = (0_u64..).map(|index| {
            let hash = Sha256::new().chain_update(index.to_be_bytes()).chain_update(identity.message_id);
            HEXLOWER.encode(&hash.finalize()[..12])
        });
        let is_free = |it: &String| texts.iter().flatten().all(|text| !text.contains(it.as_str()));
        Self(candidates.into_iter().find(is_free).expect("no text holds 2^64 candidates"))
    }

    /// The parts as one: a multipart, or the only part itself.
    fn join<'a>(&self, level: &'static str, mut parts: Vec<MimePart<'a>>) -> MimePart<'a> {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let mut kind = ContentType::new(format!("multipart/{level}"));
        if level == "related" {
            kind = kind.attribute("type", "text/html");
        }
        // One word per level, so that no boundary begins another.
        let boundary: Cow<'_, str> = format!("{}_{level}", self.0).into();
        MimePart::new(kind.attribute("boundary", boundary), BodyPart::Multipart(parts))
    }
}
