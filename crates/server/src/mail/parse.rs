//! What a composed email holds, read back from its bytes.

use data_encoding::BASE64_MIME;
use mail_parser::{MessageParser, MessagePart, MimeHeaders, PartType};
use restante_core::email::Attachment;

#[cfg(test)]
mod tests;

/// Bytes that `compose` did not make, or that were damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the bytes of a composed email")]
pub struct Damaged;

/// The attachments of a composed email as they were put in: first those shown inside the HTML, then the others.
///
/// The type of an attachment is in lower case, and the one that was written, see [`compose`](super::compose::compose).
///
/// # Errors
/// `Damaged` for anything that [`compose`](super::compose::compose) did not make.
pub fn attachments_of(mime: &[u8]) -> Result<Vec<Attachment>, Damaged> {
    let message = MessageParser::default().parse(mime).ok_or(Damaged)?;
    let files = message.parts.iter().filter(|part| part.content_disposition().is_some());
    files.map(|part| attachment(mime, part)).collect()
}

/// What people read in an email.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub html: Option<String>,
    pub text: Option<String>,
}

/// The texts of a composed email, with LF between lines and none after the last, unless that is empty: composed again
/// they give the same bytes, and they are no longer than what was put in.
///
/// An email that was composed without either has an empty text.
///
/// # Errors
/// `Damaged` for anything that [`compose`](super::compose::compose) did not make.
pub fn texts_of(mime: &[u8]) -> Result<Texts, Damaged> {
    let message = MessageParser::default().parse(mime).ok_or(Damaged)?;
    let mut texts = Texts::default();
    for part in message.parts.iter().filter(|part| part.content_disposition().is_none()) {
        let place = match &part.body {
            PartType::Html(_) => &mut texts.html,
            PartType::Text(_) => &mut texts.text,
            PartType::Multipart(_) => continue,
            PartType::Binary(_) | PartType::InlineBinary(_) | PartType::Message(_) => return Err(Damaged),
        };
        let text = part.text_contents().ok_or(Damaged)?.replace("\r\n", "\n");
        // An empty last line needs its end: without, composing would take the end of the line before for it.
        let text = text.strip_suffix('\n').filter(|rest| !rest.ends_with('\n')).unwrap_or(&text).to_owned();
        if place.replace(text).is_some() {
            return Err(Damaged);
        }
    }
    Ok(texts)
}

/// The header lines of a composed email, unfolded and with their encoded words read, in their order.
///
/// # Errors
/// `Damaged` for anything that [`compose`](super::compose::compose) did not make.
pub fn headers_of(mime: &[u8]) -> Result<Vec<[String; 2]>, Damaged> {
    let message = MessageParser::default().parse(mime).ok_or(Damaged)?;
    let lines = message.headers().iter().map(|header| {
        let raw = mime.get(header.offset_start as usize..header.offset_end as usize).ok_or(Damaged)?;
        let text = header.value.as_text().map(str::to_owned);
        Ok([header.name().to_owned(), text.unwrap_or_else(|| unfolded(&String::from_utf8_lossy(raw)))])
    });
    lines.collect()
}

/// A header's value on one line.
fn unfolded(raw: &str) -> String {
    raw.split("\r\n").map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn attachment(mime: &[u8], part: &MessagePart<'_>) -> Result<Attachment, Damaged> {
    // Not the parser's view of the content: it reads text in a character set and drops what is none.
    let encoded = mime.get(part.raw_body_offset() as usize..part.raw_end_offset() as usize).ok_or(Damaged)?;
    let content = BASE64_MIME.decode(encoded).map_err(|_| Damaged)?;
    let kind = part.content_type().ok_or(Damaged)?;
    Ok(Attachment {
        filename: part.attachment_name().ok_or(Damaged)?.to_owned(),
        content: content.into(),
        content_type: format!("{}/{}", kind.ctype(), kind.subtype().ok_or(Damaged)?),
        content_id: part.content_id().map(str::to_owned),
    })
}
