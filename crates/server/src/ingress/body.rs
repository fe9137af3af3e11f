//! Reading bodies within bounds: each one's size, and the memory of all that are being read.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A body up to this size is not counted against [`LARGE_BYTES`]: it arrives with its head or soon after.
const SMALL_BYTES: usize = 16 * 1024;
/// Bytes of larger bodies that may be in the course of being read. Who comes later waits for those before.
const LARGE_BYTES: usize = 16 * 1024 * 1024;
/// A declared body up to this size does not queue behind the largest ones.
const MEDIUM_BYTES: usize = 512 * 1024;
/// Larger bodies are counted in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;

/// Of a body that is too large so much is read before it is refused.
const DRAIN_BYTES: usize = 16 * 1024 * 1024;
/// And for so long.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Why a body was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyFault {
    TooLarge,
    /// The sender stopped or its framing is wrong.
    Broken,
}

/// A body in memory, counted until dropped.
pub(super) struct Counted<'a> {
    pub(super) bytes: Bytes,
    _pieces: Vec<SemaphorePermit<'a>>,
}

/// Reads bodies.
pub(super) struct Bodies {
    bytes_max: usize,
    medium: Semaphore,
    large: Semaphore,
}

impl Bodies {
    pub(super) fn new(bytes_max: usize) -> Self {
        // One of the largest must fit, or it could never be read.
        let large = Semaphore::new((LARGE_BYTES.max(bytes_max) / PIECE_BYTES) + 1);
        Self { bytes_max, medium: Semaphore::new(LARGE_BYTES / PIECE_BYTES), large }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Reads a body to its end. The caller bounds the time.
    pub(super) async fn read(&self, body: &mut Incoming) -> Result<Counted<'_>, BodyFault> {
        let mut permits = Vec::new();
        // A declared length is judged, and its memory set aside, before anything is read.
        let declared = body.size_hint().upper();
        if let Some(declared) = declared {
            if declared > self.bytes_max as u64 {
                return Err(BodyFault::TooLarge);
            }
            permits.extend(self.set_aside(usize::try_from(declared).unwrap_or(usize::MAX)).await);
        }
        let mut first = Bytes::new();
        let mut all: Option<BytesMut> = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyFault::Broken)?.into_data() else { continue };
            let so_far = all.as_ref().map_or(first.len(), BytesMut::len);
            if so_far + data.len() > self.bytes_max {
                return Err(BodyFault::TooLarge);
            }
            // All that may come, at once: who holds a part and waits for the rest may wait for others that do the same.
            if declared.is_none() && so_far <= SMALL_BYTES && so_far + data.len() > SMALL_BYTES {
                permits.extend(self.set_aside(self.bytes_max).await);
            }
            // The usual body is one piece and is not copied.
            match &mut all {
                None if first.is_empty() => first = data,
                None => all = Some(BytesMut::from_iter([&first[..], &data[..]].concat())),
                Some(all) => all.extend_from_slice(&data),
            }
        }
        let bytes = all.map_or(first, BytesMut::freeze);
        Ok(Counted { bytes, _pieces: permits })
    }

    /// Sets memory for a body aside. Waits while too much is being read.
    async fn set_aside(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        if bytes <= SMALL_BYTES {
            return None;
        }
        let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        let pool = if bytes <= MEDIUM_BYTES { &self.medium } else { &self.large };
        pool.acquire_many(pieces).await.ok()
    }
}

/// Reads on and drops, within bounds: a sender that is still sending would not see an answer.
pub(super) async fn drain(mut body: Incoming) {
    let reading = async {
        let mut left = DRAIN_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Whoever sends for longer does not get an answer.
    let _ = tokio::time::timeout(DRAIN_TIME, reading).await;
}
