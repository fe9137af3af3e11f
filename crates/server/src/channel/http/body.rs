//! Response bodies: read so that the connection can be used again, never kept.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming};
use restante_core::limits::RESPONSE_BODY_BYTES_MAX;
use tokio::time::{Instant, timeout, timeout_at};

use super::pool::Lent;

/// How long a body may take before its connection is given up.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(10);

/// What is still to come of a response, and what it comes over.
pub(super) struct Tail {
    body: Incoming,
    /// `None`: the connection is shared and has a task of its own.
    lent: Option<Lent>,
}

impl Tail {
    pub(super) fn new(body: Incoming, lent: Option<Lent>) -> Self {
        Self { body, lent }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // What came with the head is there without a look at the connection.
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let Some(lent) = self.lent.as_mut().filter(|_| polled.is_pending()) else { return polled };
        lent.line.drive(cx);
        Pin::new(&mut self.body).poll_frame(cx)
    }

    /// Lets the connection be used again. The end of the body has been read.
    fn end(self) {
        if let Some(lent) = self.lent.and_then(Lent::give_back_now) {
            tokio::spawn(timeout(DISCARD_TIME_MAX, lent.give_back()));
        }
    }
}

/// Reads a body to its end and drops it, without making the caller wait.
///
/// Past `RESPONSE_BODY_BYTES_MAX` or `DISCARD_TIME_MAX` the connection is dropped instead. A task is only spawned
/// when the end of the body has not arrived together with the head.
pub(super) fn discard(mut tail: Tail) {
    if tail.body.size_hint().lower() > RESPONSE_BODY_BYTES_MAX as u64 {
        return;
    }
    let mut left = RESPONSE_BODY_BYTES_MAX;
    let mut nobody = Context::from_waker(Waker::noop());
    while !tail.body.is_end_stream() {
        match tail.poll_frame(&mut nobody) {
            Poll::Ready(Some(Ok(frame))) => match left.checked_sub(data_bytes(frame.data_ref())) {
                Some(rest) => left = rest,
                None => return,
            },
            Poll::Ready(Some(Err(_))) => return,
            Poll::Ready(None) => break,
            Poll::Pending => {
                tokio::spawn(timeout(DISCARD_TIME_MAX, drain(tail, left)));
                return;
            }
        }
    }
    tail.end();
}

async fn drain(mut tail: Tail, mut left: usize) {
    while let Some(frame) = poll_fn(|cx| tail.poll_frame(cx)).await {
        let Ok(frame) = frame else { return };
        match left.checked_sub(data_bytes(frame.data_ref())) {
            Some(rest) => left = rest,
            None => return,
        }
    }
    tail.end();
}

/// The first `bytes_max` bytes that come before `until`; what follows is discarded.
pub(super) async fn read_then_discard(mut tail: Tail, bytes_max: usize, until: Instant) -> Bytes {
    let mut kept = BytesMut::new();
    while kept.len() < bytes_max && !tail.body.is_end_stream() {
        let frame = timeout_at(until, poll_fn(|cx| tail.poll_frame(cx)));
        let Ok(Some(Ok(frame))) = frame.await else { break };
        if let Ok(data) = frame.into_data() {
            let room = bytes_max - kept.len();
            kept.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    discard(tail);
    kept.freeze()
}

fn data_bytes(data: Option<&Bytes>) -> usize {
    data.map_or(0, Buf::remaining)
}
