//! Files that are complete under their name or not there.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Fault;

/// For its owner alone: it may hold the key, and always what was received.
const MODE: u32 = 0o600;

/// A file that is being written beside where it will be. Dropped, it is removed.
pub(super) struct Unfinished {
    pub(super) path: PathBuf,
    /// Locked.
    file: File,
    kept: bool,
}

impl Unfinished {
    /// Begins the file that will be `to`. What a killed process left of it is begun anew.
    ///
    /// # Errors
    /// `Busy` while another process writes it.
    pub(super) fn begin(to: &Path) -> Result<Self, Fault> {
        let mut name = to.file_name().map(OsStr::to_owned).unwrap_or_default();
        name.push(".unfinished");
        let path = to.with_file_name(name);
        let io = |error| Fault::Io { path: path.clone(), error };
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(MODE).open(&path);
        let file = file.map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Fault::Busy(to.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        // Whoever had the lock may have given the file its name meanwhile: then it must not be written any more.
        let (locked, named) = (file.metadata().map_err(io)?, fs::metadata(&path));
        if !named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
            return Err(Fault::Busy(to.to_owned()));
        }
        let unfinished = Self { path, file, kept: false };
        unfinished.forget_journals();
        unfinished.file.set_len(0).map_err(|error| unfinished.fault(error))?;
        Ok(unfinished)
    }

    /// Makes it durable and gives it its name, instead of another file only if `replace` says so.
    ///
    /// # Errors
    /// `Exists`, and what the file system says: then it is gone.
    pub(super) fn keep(mut self, to: &Path, replace: bool) -> Result<(), Fault> {
        self.file.sync_all().map_err(|error| self.fault(error))?;
        let io = |error| Fault::Io { path: to.to_owned(), error };
        if replace {
            fs::rename(&self.path, to).map_err(io)?;
        } else {
            // A link, unlike a rename, replaces nothing. Not every file system has them.
            match fs::hard_link(&self.path, to) {
                Ok(()) => fs::remove_file(&self.path).map_err(io)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(Fault::Exists(to.to_owned()));
                }
                Err(_) if !to.exists() => fs::rename(&self.path, to).map_err(io)?,
                Err(error) => return Err(io(error)),
            }
        }
        self.kept = true;
        sync(parent(to)).map_err(io)
    }

    fn fault(&self, error: io::Error) -> Fault {
        Fault::Io { path: self.path.clone(), error }
    }

    fn forget_journals(&self) {
        for suffix in ["-journal", "-wal", "-shm"] {
            let mut name = self.path.as_os_str().to_owned();
            name.push(suffix);
            // Mostly there is none.
            let _ = fs::remove_file(name);
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.kept {
            self.forget_journals();
            // The next one begins it anew if it cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens a database file that is nobody else's, without a log of its own.
pub(super) fn open_alone(path: &Path) -> Result<Connection, Fault> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL; \
         PRAGMA secure_delete = ON; PRAGMA cache_size = -16384;",
    )?;
    Ok(conn)
}

/// The directory that a file is in.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in a directory durable.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// # Errors
/// `WithinData` for a file right in the data directory.
pub(super) fn refuse_within(file: &Path, directory: &Path) -> Result<(), Fault> {
    let within = fs::canonicalize(parent(file)).ok();
    match within.is_some() && within == fs::canonicalize(directory).ok() {
        true => Err(Fault::WithinData(file.to_owned())),
        false => Ok(()),
    }
}
