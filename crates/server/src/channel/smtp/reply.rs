//! What a server answers: lines in, replies out (RFC 5321, 4.2).
//!
//! Everything here is bounded, for the bytes are a stranger's: a line, the lines of a reply, and with both the memory.

use restante_core::smtp::Reply;

/// Longest line of a reply, in bytes, its end included. RFC 5321, 4.5.3.1.5 has 512; some servers write more.
pub(super) const LINE_BYTES_MAX: usize = 2048;
/// Most lines of one reply.
pub(super) const LINES_MAX: usize = 100;
/// Longest [`Reply::text`] that is kept, in characters. The servers' limit for a line is 512 bytes.
const TEXT_CHARS_MAX: usize = 500;

/// Why bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("a line has more than {LINE_BYTES_MAX} bytes")]
    LongLine,
    #[error("a reply has more than {LINES_MAX} lines")]
    ManyLines,
    #[error("a line does not begin with a code from 200 to 599")]
    NoCode,
    #[error("the lines of one reply have different codes")]
    Codes,
    #[error("there was an answer before there was a question")]
    Unasked,
}

/// A whole reply, line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: u16,
    /// At least one, without codes and line ends.
    pub(super) lines: Vec<String>,
}

impl Answer {
    /// Whether the code is 2xx.
    pub(super) fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// What is told and stored, without control characters.
    pub(super) fn reply(&self) -> Reply {
        let mut enhanced = None;
        let mut texts = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let (code, text) = split_enhanced(self.code, line);
            enhanced = enhanced.or(code);
            texts.push(text.trim());
        }
        texts.retain(|text| !text.is_empty());
        Reply { code: self.code, enhanced, text: texts.join(" ").chars().take(TEXT_CHARS_MAX).collect() }
    }
}

/// Takes `5.1.1` off the front of a line; its class has to be that of the code (RFC 2034, 4).
fn split_enhanced(code: u16, line: &str) -> (Option<(u8, u16, u16)>, &str) {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let number = |part: &str, digits: usize| {
        let is_number = (1..=digits).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse::<u16>().ok() } else { None }
    };
    let mut parts = first.split('.');
    let (Some(class), Some(subject), Some(detail), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return (None, line);
    };
    match (number(class, 1), number(subject, 3), number(detail, 3)) {
        (Some(class), Some(subject), Some(detail)) if class == code / 100 => {
            (Some((class as u8, subject, detail)), rest)
        }
        _ => (None, line),
    }
}

/// Bytes that came and were not asked for yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// Up to here there is no line end.
    searched: usize,
    /// The reply that has begun, when its last line is still to come.
    begun: Option<Answer>,
}

impl Inbox {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.begun.is_none()
    }

    /// The next whole reply; `None` when more bytes are needed.
    ///
    /// Ask until `None` before feeding more: that is what keeps the inbox small.
    ///
    /// # Errors
    /// `Malformed`; nothing that comes on this connection afterwards can be trusted to answer anything.
    pub(super) fn next(&mut self) -> Result<Option<Answer>, Malformed> {
        while let Some(line) = self.line()? {
            if let Some(answer) = self.add(&line)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(at) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return if self.searched < LINE_BYTES_MAX { Ok(None) } else { Err(Malformed::LongLine) };
        };
        let end = self.searched + at + 1;
        if end > LINE_BYTES_MAX {
            return Err(Malformed::LongLine);
        }
        self.searched = 0;
        let mut line: Vec<u8> = self.bytes.drain(..end).collect();
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    fn add(&mut self, line: &[u8]) -> Result<Option<Answer>, Malformed> {
        let (code, is_last, text) = parse(line).ok_or(Malformed::NoCode)?;
        let answer = self.begun.get_or_insert_with(|| Answer { code, lines: Vec::new() });
        if answer.code != code {
            return Err(Malformed::Codes);
        }
        if answer.lines.len() == LINES_MAX {
            return Err(Malformed::ManyLines);
        }
        answer.lines.push(text);
        Ok(if is_last { self.begun.take() } else { None })
    }
}

/// Code, whether the line is the last of its reply, and text.
fn parse(line: &[u8]) -> Option<(u16, bool, String)> {
    let (code, rest) = line.split_at_checked(3)?;
    let &[b'2'..=b'5', b'0'..=b'9', b'0'..=b'9'] = code else { return None };
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    let (is_last, text) = match rest {
        [] => (true, rest),
        [b' ', text @ ..] => (true, text),
        [b'-', text @ ..] => (false, text),
        [..] => return None,
    };
    let text = String::from_utf8_lossy(text);
    Some((code, is_last, text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()))
}
