//! Messages: what a source received, exactly as it came, and what was published.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::event::EventType;
use crate::id::{EmailId, EventId, Key, RequestId, Tail};

/// Names a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageId {
    Request(RequestId),
    Event(EventId),
    Email(EmailId),
}

impl MessageId {
    pub fn key(self) -> Key {
        match self {
            Self::Request(id) => id.key(),
            Self::Event(id) => id.key(),
            Self::Email(id) => id.key(),
        }
    }

    /// All 128 bits of the id.
    pub const fn uuid(self) -> u128 {
        match self {
            Self::Request(id) => id.uuid(),
            Self::Event(id) => id.uuid(),
            Self::Email(id) => id.uuid(),
        }
    }

    pub fn tail(self) -> Tail {
        match self {
            Self::Request(id) => id.tail(),
            Self::Event(id) => id.tail(),
            Self::Email(id) => id.tail(),
        }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(id) => id.fmt(out),
            Self::Event(id) => id.fmt(out),
            Self::Email(id) => id.fmt(out),
        }
    }
}

/// What a message carries. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Request(Received),
    Event(Published),
    Email(Mail),
}

impl Content {
    pub fn body(&self) -> &Bytes {
        match self {
            Self::Request(received) => &received.body,
            Self::Event(published) => &published.body,
            Self::Email(mail) => &mail.mime,
        }
    }
}

/// A published event. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub event_type: EventType,
    /// What receivers get, byte for byte: type, timestamp and data as JSON.
    pub body: Bytes,
}

/// An email as it leaves. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// Where bounces go: the address that it is from.
    pub sender: String,
    /// It goes nowhere: it was sent with a key of the test mode.
    pub test: bool,
    /// All header lines and the body, frozen when the email was accepted or changed; lines end with CRLF. What signs it
    /// is put in front when an attempt begins.
    pub mime: Bytes,
}

/// The header lines of a request: order, duplicates and case as received, packed into one block of bytes.
///
/// A line is two bytes of name length, the name, four bytes of value length, the value (big endian). One block
/// is one allocation at the door, one column in the database and one pass at the channel.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Headers(Bytes);

/// A block that is not made of whole header lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stored header block is damaged")]
pub struct Damaged;

impl Headers {
    /// Takes back a block that [`Headers::packed`] gave.
    ///
    /// # Errors
    /// `Damaged` when the lengths do not add up or a name is not UTF-8.
    pub fn from_packed(block: Bytes) -> Result<Self, Damaged> {
        let mut rest: &[u8] = &block;
        while !rest.is_empty() {
            (_, rest) = split_line(rest).ok_or(Damaged)?;
        }
        Ok(Self(block))
    }

    pub fn packed(&self) -> &Bytes {
        &self.0
    }

    /// Name and value of each line, in order.
    pub fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        let mut rest: &[u8] = &self.0;
        std::iter::from_fn(move || {
            let (line, after) = split_line(rest)?;
            rest = after;
            Some(line)
        })
    }

    /// The first value under `name`, whatever its case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl<'a> FromIterator<(&'a str, &'a [u8])> for Headers {
    /// Packs lines. A name longer than 65,535 bytes or a value longer than 4 GiB cannot come out of a request
    /// head, whose size is limited far below; such a line is left out.
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a [u8])>>(lines: I) -> Self {
        let mut block = BytesMut::with_capacity(512);
        for (name, value) in lines {
            let (Ok(name_bytes), Ok(value_bytes)) = (u16::try_from(name.len()), u32::try_from(value.len()))
            else {
                continue;
            };
            block.put_u16(name_bytes);
            block.put_slice(name.as_bytes());
            block.put_u32(value_bytes);
            block.put_slice(value);
        }
        Self(block.freeze())
    }
}

/// Name and value of a header line.
type Line<'a> = (&'a str, &'a [u8]);

/// The first line of a block, and what follows it.
fn split_line(block: &[u8]) -> Option<(Line<'_>, &[u8])> {
    let (name_bytes, rest) = block.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*name_bytes)))?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*value_bytes) as usize)?;
    Some(((std::str::from_utf8(name).ok()?, value), rest))
}

/// A received request. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The method's token, as received.
    pub method: String,
    /// What followed the token in the path: empty, or `/` and more, percent-encoding untouched.
    pub path: String,
    /// What followed the question mark, untouched; `None` without one.
    pub query: Option<String>,
    pub headers: Headers,
    pub body: Bytes,
    /// Address of the sender, through trusted proxies.
    pub remote_address: String,
}

/// The address an attempt is sent to: `url`, the request's path suffix and its query.
///
/// One slash at the seam; the url's own query comes first; the suffix is not normalised.
pub fn target(url: &str, path: &str, query: Option<&str>) -> String {
    let (base, own_query) = match url.split_once('?') {
        Some((base, own_query)) => (base, Some(own_query)),
        None => (url, None),
    };
    let mut target = String::with_capacity(url.len() + path.len() + query.map_or(0, str::len) + 2);
    match path.strip_prefix('/') {
        None if path.is_empty() => target.push_str(base),
        None => target.extend([base.trim_end_matches('/'), "/", path]),
        Some(suffix) => target.extend([base.strip_suffix('/').unwrap_or(base), "/", suffix]),
    }
    let mut mark = '?';
    for query in [own_query, query].into_iter().flatten().filter(|query| !query.is_empty()) {
        target.push(mark);
        target.push_str(query);
        mark = '&';
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lines_keep_order_duplicates_case_and_bytes() {
        let lines: [(&str, &[u8]); 4] = [("X-B", b"1"), ("x-a", b""), ("X-B", &[0xff, 0x80]), ("Host", b"h")];
        let headers: Headers = lines.into_iter().collect();
        let read = Headers::from_packed(headers.packed().clone()).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), lines);
        assert_eq!(read.get("x-b"), Some(&b"1"[..]));
    }

    #[test]
    fn a_damaged_block_is_noticed() {
        for block in [&[0u8][..], &[0, 1, b'a', 0, 0, 0, 9, b'x'], &[0, 1, 0xff, 0, 0, 0, 0]] {
            assert_eq!(Headers::from_packed(Bytes::copy_from_slice(block)), Err(Damaged), "{block:?}");
        }
    }

    #[test]
    fn targets() {
        let table = [
            ("https://a.example", "", None, "https://a.example"),
            ("https://a.example/", "", None, "https://a.example/"),
            ("https://a.example/hook", "/x/y", None, "https://a.example/hook/x/y"),
            ("https://a.example/hook/", "/x", None, "https://a.example/hook/x"),
            ("https://a.example/hook", "/", None, "https://a.example/hook/"),
            ("https://a.example/hook", "//x/../y%2Fz", None, "https://a.example/hook//x/../y%2Fz"),
            ("https://a.example/hook?k=1", "/x", Some("q=2"), "https://a.example/hook/x?k=1&q=2"),
            ("https://a.example/hook?k=1", "", None, "https://a.example/hook?k=1"),
            ("https://a.example", "/x", Some("a=1&a=2"), "https://a.example/x?a=1&a=2"),
            ("https://a.example/hook", "", Some(""), "https://a.example/hook"),
        ];
        for (url, path, query, expected) in table {
            assert_eq!(target(url, path, query), expected);
        }
    }
}
