//! Response bodies: read so that the connection can be used again, never kept.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use restante_core::limits::RESPONSE_BODY_BYTES_MAX;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a body may take before its connection is given up.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(10);

/// Reads a body to its end and drops it, without making the caller wait.
///
/// Past `RESPONSE_BODY_BYTES_MAX` or `DISCARD_TIME_MAX` the connection is dropped instead. A task is only spawned
/// when the end of the body has not arrived together with the head.
pub(super) fn discard(mut body: Incoming) {
    if body.size_hint().lower() > RESPONSE_BODY_BYTES_MAX as u64 {
        return;
    }
    let mut left = RESPONSE_BODY_BYTES_MAX;
    let mut nobody = Context::from_waker(Waker::noop());
    while !body.is_end_stream() {
        match Pin::new(&mut body).poll_frame(&mut nobody) {
            Poll::Ready(Some(Ok(frame))) => match left.checked_sub(data_bytes(frame.data_ref())) {
                Some(rest) => left = rest,
                None => return,
            },
            Poll::Ready(Some(Err(_)) | None) => return,
            Poll::Pending => {
                tokio::spawn(timeout(DISCARD_TIME_MAX, drain(body, left)));
                return;
            }
        }
    }
}

async fn drain(mut body: Incoming, mut left: usize) {
    while let Some(Ok(frame)) = body.frame().await {
        match left.checked_sub(data_bytes(frame.data_ref())) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// The first `bytes_max` bytes that come before `until`; what follows is discarded.
pub(super) async fn read_then_discard(mut body: Incoming, bytes_max: usize, until: Instant) -> Bytes {
    let mut kept = BytesMut::new();
    while kept.len() < bytes_max && !body.is_end_stream() {
        let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await else { break };
        if let Ok(data) = frame.into_data() {
            let room = bytes_max - kept.len();
            kept.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    discard(body);
    kept.freeze()
}

fn data_bytes(data: Option<&Bytes>) -> usize {
    data.map_or(0, Buf::remaining)
}
