//! As much of PostgreSQL's protocol, version 3, as it takes to see where its messages begin and what they are.
//!
//! What the protocol calls a message (PostgreSQL's manual, "Message Formats") is a frame here.

use std::collections::HashMap;

use bytes::{Buf, Bytes, BytesMut};

/// The type byte, where there is one, and the length, which counts itself.
const HEADER_BYTES: usize = 1 + LENGTH_BYTES;
const LENGTH_BYTES: usize = 4;
/// What the server takes at most (`PQ_LARGE_MESSAGE_LIMIT` in its source).
const FRAME_BYTES_MAX: u32 = 0x3fff_ffff;

/// Version numbers with which the first frame of a client asks for something else than a session.
const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// A frame, as far as tests look into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A client begins a session.
    Startup,
    /// A client asks for an encrypted link. One byte answers: `N` is no.
    Encrypt,
    /// A client asks to cancel what another session does. Nothing answers.
    Cancel,
    /// SQL to be executed, one statement or more.
    Query(String),
    Parse {
        statement: String,
        text: String,
    },
    Bind {
        portal: String,
        statement: String,
    },
    /// The SQL that the portal was bound to, empty if that was not seen.
    Execute(String),
    Sync,
    Terminate,
    /// The command, with the number of its rows: `COMMIT`, `INSERT 0 1`.
    CommandComplete(String),
    /// Where the session is: `I` outside of a transaction, `T` within one, `E` within one that failed.
    ReadyForQuery(u8),
    Error {
        /// SQLSTATE.
        code: String,
        text: String,
    },
    /// Any other, by its type.
    Other(u8),
}

impl Frame {
    /// The SQL that this frame makes the server execute.
    pub fn executed(&self) -> Option<&str> {
        match self {
            Self::Query(text) | Self::Execute(text) => Some(text),
            Self::Startup
            | Self::Encrypt
            | Self::Cancel
            | Self::Parse { .. }
            | Self::Bind { .. }
            | Self::Sync
            | Self::Terminate
            | Self::CommandComplete(_)
            | Self::ReadyForQuery(_)
            | Self::Error { .. }
            | Self::Other(_) => None,
        }
    }

    /// Whether this makes the server execute `sql`, and nothing else.
    pub fn executes(&self, sql: &str) -> bool {
        let bare = |it: &str| it.trim_end_matches([';', ' ', '\n']).eq_ignore_ascii_case(sql);
        self.executed().is_some_and(bare)
    }

    /// Whether this tells that a command was done. The name is without numbers: `COMMIT`, `INSERT`.
    pub fn completes(&self, command: &str) -> bool {
        let is_it = |tag: &str| tag.split(' ').next() == Some(command);
        matches!(self, Self::CommandComplete(tag) if is_it(tag))
    }
}

/// What cannot be a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes: this is not PostgreSQL's protocol")]
pub struct Error(pub u32);

/// Cuts what one side of one connection says into frames.
#[derive(Debug)]
pub struct Splitter {
    /// Frames have a type byte: always those of a server, those of a client from its second on.
    typed: bool,
    from: Side,
    buffer: BytesMut,
    /// SQL by the names of prepared statements and of portals.
    statements: HashMap<String, String>,
    portals: HashMap<String, String>,
}

impl Splitter {
    pub fn new(from: Side) -> Self {
        Self {
            typed: from == Side::Server,
            from,
            buffer: BytesMut::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame with all its bytes; `None` when more must be pushed first.
    ///
    /// # Errors
    /// The bytes are of another protocol. Nothing will come any more.
    pub fn take(&mut self) -> Result<Option<(Bytes, Frame)>, Error> {
        let before = usize::from(self.typed);
        let Some(mut length) = self.buffer.get(before..before + LENGTH_BYTES) else { return Ok(None) };
        let length = length.get_u32();
        let least = if self.typed { LENGTH_BYTES } else { 2 * LENGTH_BYTES };
        if length > FRAME_BYTES_MAX || (length as usize) < least {
            return Err(Error(length));
        }
        let whole = before + length as usize;
        if self.buffer.len() < whole {
            self.buffer.reserve(whole - self.buffer.len());
            return Ok(None);
        }
        let bytes = self.buffer.split_to(whole).freeze();
        let frame = match (self.typed, self.from) {
            (false, _) => self.first(&bytes),
            (true, Side::Client) => self.client(bytes[0], &bytes[HEADER_BYTES..]),
            (true, Side::Server) => server(bytes[0], &bytes[HEADER_BYTES..]),
        };
        Ok(Some((bytes, frame)))
    }

    fn first(&mut self, mut bytes: &[u8]) -> Frame {
        bytes.advance(LENGTH_BYTES);
        match bytes.get_u32() {
            SSL | GSS => Frame::Encrypt,
            CANCEL => Frame::Cancel,
            _version => {
                self.typed = true;
                Frame::Startup
            }
        }
    }

    fn client(&mut self, kind: u8, mut body: &[u8]) -> Frame {
        match kind {
            b'Q' => Frame::Query(string(&mut body)),
            b'P' => {
                let (statement, text) = (string(&mut body), string(&mut body));
                self.statements.insert(statement.clone(), text.clone());
                Frame::Parse { statement, text }
            }
            b'B' => {
                let (portal, statement) = (string(&mut body), string(&mut body));
                let text = self.statements.get(&statement).cloned().unwrap_or_default();
                self.portals.insert(portal.clone(), text);
                Frame::Bind { portal, statement }
            }
            b'E' => Frame::Execute(self.portals.get(&string(&mut body)).cloned().unwrap_or_default()),
            b'S' => Frame::Sync,
            b'X' => Frame::Terminate,
            other => Frame::Other(other),
        }
    }
}

fn server(kind: u8, mut body: &[u8]) -> Frame {
    match kind {
        b'C' => Frame::CommandComplete(string(&mut body)),
        b'Z' => Frame::ReadyForQuery(body.first().copied().unwrap_or_default()),
        b'E' => error(body),
        other => Frame::Other(other),
    }
}

/// Takes a string up to its zero byte.
fn string(body: &mut &[u8]) -> String {
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    let text = String::from_utf8_lossy(&body[..end]).into_owned();
    *body = body.get(end + 1..).unwrap_or_default();
    text
}

/// Fields, each a letter and a string, up to a zero byte.
fn error(mut body: &[u8]) -> Frame {
    let (mut code, mut text) = (String::new(), String::new());
    while let [field, rest @ ..] = body
        && *field != 0
    {
        body = rest;
        let value = string(&mut body);
        match field {
            b'C' => code = value,
            b'M' => text = value,
            _ => {}
        }
    }
    Frame::Error { code, text }
}

#[cfg(test)]
mod tests;
