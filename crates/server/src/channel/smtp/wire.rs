//! One connection: bytes out, replies in.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::TlsConnector;

use super::fault::Fault;
use super::reply::{Answer, Inbox, Malformed};

/// Read at a time.
const CHUNK_BYTES: usize = 1024;

/// What a conversation is held over: TCP, or TLS over it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) struct Wire {
    stream: Box<dyn Stream>,
    inbox: Inbox,
}

/// How far writing the content got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    All,
    /// The server spoke before it was asked; read its answer.
    Interrupted,
}

impl Wire {
    pub(super) fn new(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), inbox: Inbox::default() }
    }

    /// Goes on under TLS.
    ///
    /// What the server, or somebody between, has sent in the clear is forgotten: taken for an answer under TLS it
    /// would let a stranger speak for the server (CVE-2011-0411 and its kin).
    ///
    /// # Errors
    /// `Handshake`; the connection is gone.
    pub(super) async fn encrypt(
        self,
        connector: &TlsConnector,
        name: ServerName<'static>,
    ) -> Result<Self, Fault> {
        let stream = connector.connect(name, self.stream).await.map_err(Fault::Handshake)?;
        Ok(Self::new(stream))
    }

    /// Sends one command line and gives its answer.
    ///
    /// # Errors
    /// `Malformed::Unasked` when an answer lies there already: what is read next would belong to something else.
    pub(super) async fn ask(&mut self, line: &str) -> Result<Answer, Fault> {
        if !self.inbox.is_empty() {
            return Err(Malformed::Unasked.into());
        }
        self.say(format!("{line}\r\n").as_bytes()).await?;
        self.answer().await
    }

    /// Writes all of it, through every buffer on our side.
    pub(super) async fn say(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Waits for the next answer.
    pub(super) async fn answer(&mut self) -> Result<Answer, Fault> {
        loop {
            if let Some(answer) = self.inbox.next()? {
                return Ok(answer);
            }
            let mut chunk = [0; CHUNK_BYTES];
            let read = self.stream.read(&mut chunk).await?;
            if read == 0 {
                return Err(Fault::HungUp);
            }
            self.inbox.feed(&chunk[..read]);
        }
    }

    /// Writes content; listens while it cannot.
    ///
    /// A server that has seen enough says so and reads no more. Not listening, we would wait for it until the end.
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> Result<Written, Fault> {
        while !bytes.is_empty() {
            let wrote = self.unless_interrupted(|stream, cx| stream.poll_write(cx, bytes)).await?;
            match wrote {
                None => return Ok(Written::Interrupted),
                Some(0) => return Err(Fault::Broken(io::ErrorKind::WriteZero.into())),
                Some(count) => bytes = &bytes[count..],
            }
        }
        Ok(Written::All)
    }

    /// Sees to it that all content has left; listens while it has not.
    pub(super) async fn flush(&mut self) -> Result<Written, Fault> {
        let flushed = self.unless_interrupted(|stream, cx| stream.poll_flush(cx)).await?;
        Ok(if flushed.is_some() { Written::All } else { Written::Interrupted })
    }

    /// `None` when the server spoke while `act` could not go on.
    async fn unless_interrupted<T>(
        &mut self,
        mut act: impl FnMut(Pin<&mut dyn Stream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Result<Option<T>, Fault> {
        let acted = poll_fn(|cx| match act(Pin::new(&mut *self.stream), cx) {
            Poll::Ready(acted) => Poll::Ready(acted.map(Some)),
            Poll::Pending => self.poll_heard(cx).map_ok(|()| None),
        });
        match acted.await {
            Ok(acted) => Ok(acted),
            // The server may have said why before it closed.
            Err(error) => match self.is_interrupted().await {
                Ok(true) => Ok(None),
                Ok(false) | Err(_) => Err(error.into()),
            },
        }
    }

    /// Whether the server said something unasked; does not wait for it.
    ///
    /// # Errors
    /// When the connection has ended.
    pub(super) async fn is_interrupted(&mut self) -> Result<bool, Fault> {
        if !self.inbox.is_empty() {
            return Ok(true);
        }
        // Lets the runtime look at its sockets first: what it has not seen yet would be missed here.
        tokio::task::yield_now().await;
        let heard = poll_fn(|cx| match self.poll_heard(cx) {
            Poll::Ready(heard) => Poll::Ready(Some(heard)),
            Poll::Pending => Poll::Ready(None),
        });
        match heard.await {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Fault::HungUp),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Reads once; the end of the stream is an error.
    fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK_BYTES];
        let mut read = ReadBuf::new(&mut chunk);
        match Pin::new(&mut *self.stream).poll_read(cx, &mut read) {
            Poll::Ready(Ok(())) if read.filled().is_empty() => {
                Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()))
            }
            Poll::Ready(Ok(())) => {
                self.inbox.feed(read.filled());
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}
