//! Putting a backup into an empty data directory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::check::{self, judge};
use super::file::{self, Unfinished};
use super::{Contents, Fault, Progress};
use crate::sqlite::{self, DATABASE_FILE, LOCK_FILE};

/// What may be in a directory that counts as empty: what a file system has of its own, what an earlier try left, and
/// the key, which somebody may have put there already.
const NO_MATTER: [&str; 5] =
    ["lost+found", LOCK_FILE, "secret.key", "restante.db.unfinished", "restante.db.unfinished-journal"];

/// A backup that was copied into a data directory and judged, and is not its database yet.
pub struct Restore {
    pub contents: Contents,
    /// The key that the backup holds. It must be durable in its place before [`Restore::finish`].
    pub secret_key: Option<String>,
    unfinished: Unfinished,
    database: PathBuf,
    /// No server starts on the directory meanwhile.
    _lock: File,
}

impl Restore {
    /// Copies the backup `from` into `directory`, which is made if it is missing, and judges the copy.
    ///
    /// # Errors
    /// The directory is as empty as it was. See [`Fault`].
    pub fn begin(from: &Path, directory: &Path, tell: &mut dyn FnMut(Progress)) -> Result<Self, Fault> {
        // What is no backup at all must not make a directory.
        let secret_key = check::note(&check::open(from)?, from)?.secret_key;
        refuse_filled(directory)?;
        let io = |error| Fault::Io { path: directory.to_owned(), error };
        sqlite::make_private_directory(directory).map_err(io)?;
        let lock = sqlite::own(directory)?;
        // A server may have been there since.
        refuse_filled(directory)?;
        let database = directory.join(DATABASE_FILE);
        let unfinished = Unfinished::begin(&database)?;
        copy(from, &unfinished.path, tell)?;
        tell(Progress::Checking);
        // The copy is judged, so what went wrong in copying is found too. What is wrong is said of the file that is known.
        let contents = judge(&unfinished.path).map_err(|fault| {
            if let Fault::Damaged { reason, .. } = fault {
                return Fault::Damaged { path: from.to_owned(), reason };
            }
            fault
        })?;
        // Whoever restores has the key in its own file, and nowhere else: erased content is overwritten.
        file::open_alone(&unfinished.path)?.execute_batch("DROP TABLE backup")?;
        Ok(Self { contents, secret_key, unfinished, database, _lock: lock })
    }

    /// Makes it the directory's database, durably.
    ///
    /// # Errors
    /// The directory has no database.
    pub fn finish(self) -> Result<Contents, Fault> {
        self.unfinished.keep(&self.database, false)?;
        Ok(self.contents)
    }
}

/// # Errors
/// `NotEmpty`, and what the file system says. A directory that is not there is empty.
fn refuse_filled(directory: &Path) -> Result<(), Fault> {
    let io = |error| Fault::Io { path: directory.to_owned(), error };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(io)?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<io::Result<Vec<_>>>().map_err(io)?;
    let found = names.into_iter().filter(|name| !NO_MATTER.contains(&name.as_str()));
    // The database tells most.
    let found = found.min_by_key(|name| (name != DATABASE_FILE, name.clone()));
    match found {
        Some(found) => Err(Fault::NotEmpty { path: directory.to_owned(), found }),
        None => Ok(()),
    }
}

fn copy(from: &Path, to: &Path, tell: &mut dyn FnMut(Progress)) -> Result<(), Fault> {
    const STEP_BYTES: u64 = 4 << 20;
    let reading = |error| Fault::Io { path: from.to_owned(), error };
    let writing = |error| Fault::Io { path: to.to_owned(), error };
    let mut source = File::open(from).map_err(reading)?;
    let mut target = File::options().write(true).open(to).map_err(writing)?;
    let total_bytes = source.metadata().map_err(reading)?.len();
    let mut bytes = 0;
    loop {
        let step = io::copy(&mut io::Read::take(&mut source, STEP_BYTES), &mut target).map_err(writing)?;
        bytes += step;
        tell(Progress::Copying { bytes, total_bytes });
        if step < STEP_BYTES {
            return Ok(());
        }
    }
}
