//! An HTTP/1 connection, driven by whoever uses it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::RESPONSE_HEAD_BYTES_MAX;

/// A connection without a task: it reads and writes while somebody waits for something to come over it, and rests
/// otherwise. So an attempt is one task's doing from its first byte to its last.
pub(super) struct Line {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>,
    has_ended: bool,
}

impl Line {
    pub(super) async fn open(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> hyper::Result<Self> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(RESPONSE_HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self { sender, connection: Box::pin(connection), has_ended: false })
    }

    /// Sends a request with its target in origin form and waits for the response's head.
    ///
    /// # Errors
    /// With the request in it when nothing of it was written.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        let mut response = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| {
            self.drive(cx);
            response.as_mut().poll(cx)
        })
        .await
    }

    /// Writes and reads what can be now.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.has_ended {
            self.has_ended = self.connection.as_mut().poll(cx).is_ready();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether a request may be sent now. Notices what the peer has done since.
    pub(super) fn is_free(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.has_ended && self.sender.is_ready()
    }

    /// Waits until another request may be sent; `false`: never.
    pub(super) async fn free(&mut self) -> bool {
        poll_fn(|cx| {
            self.drive(cx);
            if self.has_ended {
                Poll::Ready(false)
            } else {
                self.sender.poll_ready(cx).map(|ready| ready.is_ok())
            }
        })
        .await
    }
}
