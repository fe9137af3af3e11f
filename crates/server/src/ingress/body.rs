//! Reading bodies within bounds: each one's size, and the memory of all that are being read.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A body up to this size is not counted against [`LARGE_BYTES`]: it arrives with its head or soon after.
const SMALL_BYTES: usize = 16 * 1024;
/// Bytes of larger bodies that may be in the course of being read. Who comes later waits for those before.
const LARGE_BYTES: usize = 16 * 1024 * 1024;
/// Larger bodies are counted in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;

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
    pieces: Semaphore,
}

impl Bodies {
    pub(super) fn new(bytes_max: usize) -> Self {
        // One of the largest must fit, or it could never be read.
        let pieces = (LARGE_BYTES.max(bytes_max) / PIECE_BYTES) + 1;
        Self { bytes_max, pieces: Semaphore::new(pieces) }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Reads a body to its end. The caller bounds the time.
    pub(super) async fn read(&self, mut body: Incoming) -> Result<Counted<'_>, BodyFault> {
        let mut permits = Vec::new();
        // A declared length is judged, and its memory set aside, before anything is read.
        let declared = body.size_hint().upper();
        if let Some(declared) = declared {
            if declared > self.bytes_max as u64 {
                return Err(BodyFault::TooLarge);
            }
            permits.extend(self.set_aside(usize::try_from(declared).unwrap_or(usize::MAX), 0).await);
        }
        let mut first = Bytes::new();
        let mut all: Option<BytesMut> = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyFault::Broken)?.into_data() else { continue };
            let so_far = all.as_ref().map_or(first.len(), BytesMut::len);
            if so_far + data.len() > self.bytes_max {
                return Err(BodyFault::TooLarge);
            }
            if declared.is_none() {
                permits.extend(self.set_aside(so_far + data.len(), so_far).await);
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

    /// Counts the pieces that a body has grown by. Waits while too much is being read.
    async fn set_aside(&self, bytes: usize, before: usize) -> Option<SemaphorePermit<'_>> {
        let pieces = |bytes: usize| if bytes <= SMALL_BYTES { 0 } else { bytes.div_ceil(PIECE_BYTES) };
        let more = pieces(bytes).saturating_sub(pieces(before));
        if more == 0 {
            return None;
        }
        self.pieces.acquire_many(u32::try_from(more).unwrap_or(u32::MAX)).await.ok()
    }
}
