//! Room on the disk: what is kept free, and what is refused when it is not there.
//!
//! When the disk runs low nothing new is accepted, but what is there must be able to end: settling, cancelling and erasing
//! write too. `free_bytes_min` is kept free for them. Others may fill the disk all the same, so there is also a file of
//! `reserve_bytes` that is given up when SQLite finds the disk full, and made again once there is room for it and for what
//! must be free.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::ErrorCode;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::Fault;
use crate::policy::Disk;
use crate::{Error, Room};

/// In the data directory.
pub(crate) const RESERVE_FILE: &str = "reserve";
/// A disk with less free than this is taken for full whatever SQLite calls it.
const FULL_BYTES: u64 = 1 << 20;
/// Written at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The disk of a data directory.
pub(super) struct Watch {
    directory: PathBuf,
    terms: Disk,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Why nothing new is accepted.
    short: Option<String>,
    /// The reserve is there.
    reserved: bool,
    /// It was there, and the disk was full: nothing is accepted before it is there again.
    given_up: bool,
    /// It was said that it cannot be made.
    told: bool,
}

impl Watch {
    /// Makes the reserve if there is room for it.
    pub(super) fn start(directory: &Path, terms: Disk) -> Self {
        let watch = Self { directory: directory.to_owned(), terms, state: Mutex::default() };
        watch.look();
        watch
    }

    /// Looks how much is free, and refuses what is new if that is too little. To be called after each commit.
    pub(super) fn measure(&self) {
        self.free(&mut self.lock());
    }

    /// As [`Watch::measure`], and accepts again when there is room. To be called every second or so: it may make the reserve.
    pub(super) fn look(&self) {
        let mut state = self.lock();
        let Some(free_bytes) = self.free(&mut state) else { return };
        if !state.reserved && !self.reserve_again(&mut state, free_bytes) && state.given_up {
            return;
        }
        if state.short.take().is_some() {
            tracing::warn!(free_bytes, "there is room on the disk again: new messages are accepted");
        }
    }

    /// How much is free; `None`: too little, or nobody knows.
    fn free(&self, state: &mut State) -> Option<u64> {
        let (free_bytes, least) = (self.free_bytes()?, self.terms.free_bytes_min);
        if free_bytes < least {
            state.refuse(format!("{free_bytes} bytes are free on the disk, disk_free_bytes wants {least}"));
            return None;
        }
        Some(free_bytes)
    }

    fn free_bytes(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.directory).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Hears of a commit that failed. When the disk is full, the reserve is given up; from then on nothing new is
    /// accepted, until [`Watch::look`] finds room.
    pub(super) fn note(&self, fault: &Fault) {
        let Fault::Sqlite(rusqlite::Error::SqliteFailure(error, _)) = fault else { return };
        // The index of the log is a file as well, and SQLite calls it an I/O error when that cannot grow.
        let is_full = error.code == ErrorCode::DiskFull
            || (error.code == ErrorCode::SystemIoFailure
                && self.free_bytes().is_some_and(|free_bytes| free_bytes < FULL_BYTES));
        if !is_full {
            return;
        }
        let mut state = self.lock();
        state.refuse("the disk is full".to_owned());
        if std::mem::take(&mut state.reserved) {
            state.given_up = true;
            match fs::remove_file(self.reserve()) {
                Ok(()) => tracing::error!(
                    reserve_bytes = self.terms.reserve_bytes,
                    "the disk is full: the reserve is given up, so that what was accepted can end; make room"
                ),
                Err(error) => tracing::error!(error.message = %error, "the reserve cannot be given up"),
            }
        }
    }

    /// # Errors
    /// `Unavailable` while nothing new is accepted.
    pub(super) fn admit(&self) -> Result<(), Error> {
        match &self.lock().short {
            Some(reason) => Err(Error::Unavailable(reason.clone())),
            None => Ok(()),
        }
    }

    pub(super) fn room(&self) -> Room {
        let state = self.lock();
        let reserve_bytes = if state.reserved { self.terms.reserve_bytes } else { 0 };
        Room { short: state.short.clone(), reserve_bytes }
    }

    /// Makes the reserve if there is room for it and for what must be free; whether it is there. A disk that was too small
    /// for it from the start is used without.
    fn reserve_again(&self, state: &mut State, free_bytes: u64) -> bool {
        // What an earlier process reserved counts as it is.
        let held = fs::metadata(self.reserve()).map_or(0, |file| file.len());
        let wanted = self.terms.free_bytes_min.saturating_add(self.terms.reserve_bytes);
        let made = match free_bytes.saturating_add(held) < wanted {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.make_reserve(),
        };
        match made {
            Ok(()) => (state.reserved, state.given_up, state.told) = (true, false, false),
            Err(error) if !std::mem::replace(&mut state.told, true) => {
                let reserve_bytes = self.terms.reserve_bytes;
                tracing::warn!(error.message = %error, free_bytes, reserve_bytes, "the reserve on the disk cannot be made");
            }
            Err(_) => {}
        }
        state.reserved
    }

    /// Its blocks are allocated, not only its size set: a file with holes holds no room.
    fn make_reserve(&self) -> io::Result<()> {
        let bytes = self.terms.reserve_bytes;
        if bytes == 0 {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(self.reserve())?;
        let held = file.metadata()?.len().min(bytes);
        let made =
            file.set_len(held).and_then(|()| match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Err(Errno::OPNOTSUPP) => fill(&file, held, bytes),
                done => done.map_err(io::Error::from),
            });
        if made.is_err() {
            // A part of it is in the way of what it is for.
            let _ = fs::remove_file(self.reserve());
        }
        made
    }

    fn reserve(&self) -> PathBuf {
        self.directory.join(RESERVE_FILE)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuse(&mut self, reason: String) {
        if self.short.is_none() {
            tracing::error!(reason, "the disk runs low: nothing new is accepted until there is room");
        }
        self.short = Some(reason);
    }
}

/// For file systems that cannot allocate.
fn fill(file: &File, from: u64, to: u64) -> io::Result<()> {
    let chunk = vec![0; CHUNK_BYTES];
    let mut at = from;
    while at < to {
        let length = usize::try_from(to - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        file.write_all_at(&chunk[..length], at)?;
        at += length as u64;
    }
    Ok(())
}
