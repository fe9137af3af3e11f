//! Backups of the embedded database: made while a server works on it, and put into an empty data directory.
//!
//! A backup is one SQLite file, whole and without a log, that `sqlite3` opens. It is the database as of one moment, and
//! has one more table, `backup`, with that moment, a digest of the file, and the secret key if that was wished for.

mod check;
mod copy;
mod file;
mod restore;

use std::path::{Path, PathBuf};

use restante_core::Timestamp;
use restante_core::endpoint::Sealed;
use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite;
use crate::sqlite::DATABASE_FILE;
use check::Note;
use file::Unfinished;

pub use restore::Restore;

/// Why there is no backup, or none was put back.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The data directory, or the backup, cannot be read or written.
    #[error(transparent)]
    Database(#[from] sqlite::Fault),
    #[error("{} is not a data directory: it has no {DATABASE_FILE}", .0.display())]
    NoData(PathBuf),
    #[error("{} exists", .0.display())]
    Exists(PathBuf),
    #[error("another backup to {} is under way", .0.display())]
    Busy(PathBuf),
    /// Whoever puts a backup there replaces the database itself one day.
    #[error("{} is in the data directory", .0.display())]
    WithinData(PathBuf),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    /// The copy held a snapshot for too long.
    #[error("the write-ahead log grew by {0} bytes while the database was copied")]
    LogGrew(u64),
    #[error("the key does not open the secrets in the database")]
    WrongKey,
    #[error("{} was not made by `restante backup`", .0.display())]
    NoBackup(PathBuf),
    /// Not all of it is as it was written.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{} is not empty: it has {found}", path.display())]
    NotEmpty { path: PathBuf, found: String },
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

/// What is done, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Copying {
        bytes: u64,
        total_bytes: u64,
    },
    /// The copy is read again and judged.
    Checking,
}

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    pub bytes: u64,
    /// All that was acknowledged before this is in it.
    pub taken_at: Timestamp,
    /// The number of the newest migration in it.
    pub schema: u32,
    /// Requests, events and emails.
    pub messages: u64,
    /// Deliveries that wait for an attempt.
    pub pending: u64,
    /// Deliveries with an attempt under way at that moment: the server that starts on it records these as lost.
    pub in_flight: u64,
    pub has_secret_key: bool,
    /// A word sealed with the secret key, if anything ever was.
    pub sealed: Option<Sealed>,
}

/// The key of the secrets, and how to tell whether it is that of a database.
pub struct SecretKey<'a> {
    pub text: String,
    pub opens: &'a dyn Fn(&Sealed) -> bool,
}

/// A backup to be made.
pub struct Order<'a> {
    /// The data directory. A server may be at work on it; it is only read.
    pub directory: &'a Path,
    /// The file to make.
    pub to: &'a Path,
    /// Whether a file that is there is replaced.
    pub replace: bool,
    /// The time of day, just before.
    pub now: Timestamp,
    /// To be kept in the backup.
    pub secret_key: Option<SecretKey<'a>>,
    /// By so much the write-ahead log may grow meanwhile.
    pub log_growth_bytes_max: u64,
}

/// Makes a backup. When this returns, the file is complete, was read again and judged, and is on the disk under its
/// name; before, there is none of that name, or still the one before.
///
/// # Errors
/// Nothing was made; repeat it when the reason is gone. A process that is killed leaves a file with `.unfinished` behind
/// its name, which the next backup to the same name replaces.
pub fn take(order: &Order<'_>, tell: &mut dyn FnMut(Progress)) -> Result<Contents, Fault> {
    let database = order.directory.join(DATABASE_FILE);
    if !database.is_file() {
        return Err(Fault::NoData(order.directory.to_owned()));
    }
    if !order.replace && order.to.exists() {
        return Err(Fault::Exists(order.to.to_owned()));
    }
    file::refuse_within(order.to, order.directory)?;
    let unfinished = Unfinished::begin(order.to)?;
    copy::copy(&database, &unfinished, order.log_growth_bytes_max, tell)?;
    tell(Progress::Checking);
    note(order, &unfinished)?;
    let contents = check::judge(&unfinished.path)?;
    unfinished.keep(order.to, order.replace)?;
    Ok(contents)
}

/// Writes into the copy what a backup says of itself.
fn note(order: &Order<'_>, unfinished: &Unfinished) -> Result<(), Fault> {
    let conn = file::open_alone(&unfinished.path)?;
    let sealed = sealed(&conn)?;
    if let (Some(key), Some(sealed)) = (&order.secret_key, &sealed)
        && !(key.opens)(sealed)
    {
        return Err(Fault::WrongKey);
    }
    let key = order.secret_key.as_ref().map(|key| key.text.clone());
    let mut note = Note { taken_at: order.now, secret_key: key, digest: [0; 32] };
    conn.execute_batch(
        "CREATE TABLE backup (taken_at INTEGER NOT NULL, secret_key TEXT, digest BLOB NOT NULL)",
    )?;
    conn.execute(
        "INSERT INTO backup VALUES (?1, ?2, ?3)",
        params![note.taken_at.millis(), note.secret_key, note.digest],
    )?;
    // The digest is as long as what stands in its place: it moves no page.
    note.digest = check::digest(&conn, &unfinished.path, &note)?;
    conn.execute("UPDATE backup SET digest = ?1", [note.digest])?;
    Ok(())
}

fn sealed(conn: &Connection) -> Result<Option<Sealed>, Fault> {
    let sealed = conn.query_row("SELECT sealed FROM secret_check", [], |row| row.get(0)).optional()?;
    Ok(sealed.map(Sealed))
}

#[cfg(test)]
mod tests;
