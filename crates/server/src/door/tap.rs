//! The bytes of a request head, beside what the HTTP library makes of them.
//!
//! The library gives header names in lower case and groups the values of one name. A webhook must be kept as it was
//! sent, and some ways of sending one must be refused (bare line feeds, two lengths). So the connection's reader
//! leaves a copy of each head here.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes of a head. The HTTP library refuses longer ones, unless they come in one read.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most header lines, as for the HTTP library.
pub(super) const HEADER_LINES_MAX: usize = 100;

/// A connection whose request heads are copied.
pub(super) struct Tapped<S> {
    stream: S,
    heads: Heads,
}

/// The copies of one connection.
#[derive(Clone, Default)]
pub(super) struct Heads(Arc<Mutex<Copying>>);

/// Where in the stream the reader is.
#[derive(Default)]
struct Copying {
    part: Part,
    copy: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Part {
    /// In or before a head: bytes are copied.
    #[default]
    Head,
    /// In a body of which so many bytes are to come.
    Body(u64),
    /// In a body whose end is not known from here.
    Chunks,
    /// Behind such a body: the next head comes after the response.
    Response,
}

/// What there is of a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    Copied(Vec<u8>),
    /// It came pipelined behind a chunked body, the one case in which the place of a head is not known.
    NotCopied,
    /// It is longer than [`HEAD_BYTES_MAX`].
    TooLong,
}

/// How the body behind a head is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Known(u64),
    Chunked,
}

impl<S> Tapped<S> {
    pub(super) fn new(stream: S) -> (Self, Heads) {
        let heads = Heads::default();
        (Self { stream, heads: heads.clone() }, heads)
    }
}

impl Heads {
    fn lock(&self) -> MutexGuard<'_, Copying> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head that was read last, its blank line included.
    pub(super) fn take(&self) -> Head {
        let mut copying = self.lock();
        if copying.part != Part::Head {
            return Head::NotCopied;
        }
        let end = end_of_head(&copying.copy).filter(|end| *end <= HEAD_BYTES_MAX);
        let Some(end) = end else { return Head::TooLong };
        let rest = copying.copy.split_off(end);
        Head::Copied(std::mem::replace(&mut copying.copy, rest))
    }

    /// Says what follows the head that was taken.
    pub(super) fn body_follows(&self, length: Length) {
        let mut copying = self.lock();
        match length {
            Length::Known(bytes) => {
                let rest = std::mem::take(&mut copying.copy);
                copying.part = Part::Body(bytes);
                copying.note(&rest);
            }
            Length::Chunked => {
                copying.copy.clear();
                copying.part = Part::Chunks;
            }
        }
    }

    /// Says that the request was read to its end.
    pub(super) fn body_ended(&self) {
        let mut copying = self.lock();
        if copying.part == Part::Chunks {
            copying.part = Part::Response;
        }
    }
}

impl Copying {
    fn note(&mut self, read: &[u8]) {
        match self.part {
            Part::Head => {
                // Whole reads: one may hold a head and more of its body than a head may have, and what is not copied is
                // not counted as body.
                if self.copy.len() <= HEAD_BYTES_MAX {
                    self.copy.extend_from_slice(read);
                }
            }
            Part::Body(left) => {
                let bytes = read.len() as u64;
                if bytes < left {
                    self.part = Part::Body(left - bytes);
                } else {
                    self.part = Part::Head;
                    // `left` is at most the length of what was read.
                    self.note(&read[usize::try_from(left).unwrap_or(read.len())..]);
                }
            }
            Part::Chunks | Part::Response => {}
        }
    }
}

/// Where the head ends: behind its first blank line, which with bare line feeds is not where it should be.
fn end_of_head(copy: &[u8]) -> Option<usize> {
    // Blank lines before a request are skipped by everybody (RFC 9112, 2.2).
    let start = copy.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let mut line_start = start;
    for (index, byte) in copy.iter().enumerate().skip(start) {
        if *byte == b'\n' {
            if copy[line_start..index].iter().all(|byte| *byte == b'\r') {
                return Some(index + 1);
            }
            line_start = index + 1;
        }
    }
    None
}

impl<S: AsyncRead + Unpin> AsyncRead for Tapped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = &buffer.filled()[before..];
        if !read.is_empty() {
            self.heads.lock().note(read);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tapped<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.heads.response_begins();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.heads.response_begins();
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Heads {
    fn response_begins(&self) {
        let mut copying = self.lock();
        if copying.part == Part::Response {
            copying.part = Part::Head;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(reads: &[&str]) -> Heads {
        let heads = Heads::default();
        for read in reads {
            heads.lock().note(read.as_bytes());
        }
        heads
    }

    fn text(head: Head) -> String {
        match head {
            Head::Copied(bytes) => String::from_utf8(bytes).unwrap(),
            other @ (Head::NotCopied | Head::TooLong) => format!("{other:?}"),
        }
    }

    #[test]
    fn a_head_that_comes_in_pieces_is_taken_whole() {
        let heads = heads(&["GET / HT", "TP/1.1\r\nX-A: 1\r", "\n\r\n"]);
        assert_eq!(text(heads.take()), "GET / HTTP/1.1\r\nX-A: 1\r\n\r\n");
    }

    #[test]
    fn the_next_head_is_found_behind_a_body_of_known_length() {
        let heads = heads(&["POST / HTTP/1.1\r\n\r\nab"]);
        assert_eq!(text(heads.take()), "POST / HTTP/1.1\r\n\r\n");
        heads.body_follows(Length::Known(5));
        for read in ["c\n", "eGET /next HTTP/1.1\r\n", "\r\n"] {
            heads.lock().note(read.as_bytes());
        }
        assert_eq!(text(heads.take()), "GET /next HTTP/1.1\r\n\r\n");
    }

    #[test]
    fn behind_chunks_the_next_head_comes_after_the_response() {
        let heads = heads(&["POST / HTTP/1.1\r\n\r\n1\r\n"]);
        assert_eq!(text(heads.take()), "POST / HTTP/1.1\r\n\r\n");
        heads.body_follows(Length::Chunked);
        // The library asks for the body with an interim response: that is not the response.
        heads.response_begins();
        heads.lock().note(b"a\r\n0\r\n\r\n");
        assert_eq!(heads.take(), Head::NotCopied);
        heads.body_ended();
        heads.response_begins();
        heads.lock().note(b"GET /next HTTP/1.1\r\n\r\n");
        assert_eq!(text(heads.take()), "GET /next HTTP/1.1\r\n\r\n");
    }

    #[test]
    fn a_head_that_is_too_long_is_told_from_one_that_was_not_copied() {
        let heads = heads(&["GET / HTTP/1.1\r\nX: ", &"y".repeat(HEAD_BYTES_MAX), "\r\n\r\n"]);
        assert_eq!(heads.take(), Head::TooLong);
        // The library takes one that comes in one read.
        let heads = self::heads(&[&format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(HEAD_BYTES_MAX))]);
        assert_eq!(heads.take(), Head::TooLong);
    }

    #[test]
    fn a_read_that_holds_more_than_a_head_may_be_long_is_counted_to_its_end() {
        let (head, next) = ("POST / HTTP/1.1\r\n\r\n", "GET /next HTTP/1.1\r\n\r\n");
        let body = "b".repeat(2 * HEAD_BYTES_MAX);
        for behind in ["", next] {
            let heads = heads(&[&format!("{head}{body}{behind}")]);
            assert_eq!(text(heads.take()), head);
            heads.body_follows(Length::Known(body.len() as u64));
            if behind.is_empty() {
                heads.lock().note(next.as_bytes());
            }
            assert_eq!(text(heads.take()), next);
        }
    }

    #[test]
    fn a_bare_line_feed_ends_the_copy_where_a_lenient_reader_would() {
        let heads = heads(&["GET / HTTP/1.1\nX: 1\n\nGET /smuggled HTTP/1.1\r\n\r\n"]);
        assert_eq!(text(heads.take()), "GET / HTTP/1.1\nX: 1\n\n");
    }
}
