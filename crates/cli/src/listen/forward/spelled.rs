//! A connection on which the head of a request is spelled as it came.
//!
//! The HTTP library writes header names in lower case and groups the values of one name. It frames the body and reads the
//! answer; the head that it writes is exchanged for ours on the way out.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What ends a head.
const END: &[u8; 4] = b"\r\n\r\n";

/// Where the head of the next request is put before the library is told to send it.
#[derive(Clone, Default)]
pub(crate) struct NextHead {
    head: Arc<Mutex<Option<Bytes>>>,
    begun: Arc<AtomicBool>,
}

impl NextHead {
    pub(crate) fn put(&self, head: Bytes) {
        self.begun.store(false, Ordering::Relaxed);
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
    }

    /// Whether a byte of the head that was put last has been taken from us: then all of it may have arrived.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    fn take(&self) -> Option<Bytes> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(crate) struct Spelled<T> {
    io: T,
    next: NextHead,
    state: State,
}

enum State {
    /// What comes is written as it is.
    Body,
    /// The library's head is coming, and dropped; so many bytes of its end were seen.
    Swallow { head: Bytes, seen: usize },
    /// Our head is due before anything else.
    Head(Bytes),
}

impl<T> Spelled<T> {
    pub(crate) fn new(io: T) -> (Self, NextHead) {
        let next = NextHead::default();
        (Self { io, next: next.clone(), state: State::Body }, next)
    }
}

impl<T: AsyncWrite + Unpin> Spelled<T> {
    /// Writes our head if it is due.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let State::Head(head) = &mut self.state {
            if head.is_empty() {
                self.state = State::Body;
                break;
            }
            match ready!(Pin::new(&mut self.io).poll_write(context, head))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    head.advance(written);
                    self.next.begun.store(true, Ordering::Relaxed);
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Spelled<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if matches!(this.state, State::Body)
            && let Some(head) = this.next.take()
        {
            this.state = State::Swallow { head, seen: 0 };
        }
        if let State::Swallow { head, seen } = &mut this.state {
            for (index, byte) in bytes.iter().enumerate() {
                *seen = match (*byte == END[*seen], *byte == END[0]) {
                    (true, _) => *seen + 1,
                    (false, true) => 1,
                    (false, false) => 0,
                };
                if *seen == END.len() {
                    this.state = State::Head(std::mem::take(head));
                    return Poll::Ready(Ok(index + 1));
                }
            }
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(this.poll_head(context))?;
        Pin::new(&mut this.io).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_head(context))?;
        Pin::new(&mut this.io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_head(context))?;
        Pin::new(&mut this.io).poll_shutdown(context)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Spelled<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What arrives of what is written in pieces of so many bytes, through a pipe that holds as many.
    async fn arrives(piece_bytes: usize) -> String {
        let (near, mut far) = tokio::io::duplex(piece_bytes);
        let (mut spelled, next) = Spelled::new(near);
        let writing = async move {
            for (head, theirs) in
                [("A\r\n\r\n", "a\r\nb\r\r\n\r\nbody\r\n\r\nmore"), ("B\r\n\r\n", "b\r\n\r\n")]
            {
                next.put(Bytes::from_static(head.as_bytes()));
                for piece in theirs.as_bytes().chunks(piece_bytes) {
                    spelled.write_all(piece).await.unwrap();
                }
                spelled.flush().await.unwrap();
            }
            spelled.shutdown().await.unwrap();
        };
        let mut read = String::new();
        let (_, got) = tokio::join!(writing, far.read_to_string(&mut read));
        got.unwrap();
        read
    }

    #[tokio::test]
    async fn each_head_is_exchanged_and_the_rest_goes_through() {
        for piece_bytes in [1, 2, 3, 4, 5, 7, 64] {
            assert_eq!(arrives(piece_bytes).await, "A\r\n\r\nbody\r\n\r\nmoreB\r\n\r\n", "{piece_bytes}");
        }
    }
}
