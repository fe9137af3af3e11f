//! Whether a backup is what was written.
//!
//! SQLite's own check finds broken trees and indexes; a changed byte within somebody's body it cannot find. So a digest
//! is kept: the SHA-256 of all pages but that which holds it, without the counters in the header that change with every
//! write, and of the rest of its row.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use restante_core::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use sha2::{Digest, Sha256};

use super::{Contents, Fault, sealed};
use crate::sqlite::migrate;

/// In the header: the change counter; for which of its values the size is valid, and the version of SQLite.
const COUNTERS: [std::ops::Range<usize>; 2] = [24..28, 92..100];

/// The one row of the table `backup`.
pub(super) struct Note {
    pub(super) taken_at: Timestamp,
    pub(super) secret_key: Option<String>,
    pub(super) digest: [u8; 32],
}

/// Reads a backup from end to end and says what it holds.
///
/// # Errors
/// `NoBackup`, `Damaged`, or written by a newer version.
pub(super) fn judge(path: &Path) -> Result<Contents, Fault> {
    let damaged = |reason: String| Fault::Damaged { path: path.to_owned(), reason };
    let conn = open(path)?;
    let note = note(&conn, path)?;
    if digest(&conn, path, &note)? != note.digest {
        return Err(damaged("it is not what was written".to_owned()));
    }
    let found: String = conn
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| damaged(error.to_string()))?;
    if found != "ok" {
        return Err(damaged(found));
    }
    contents(&conn, path, &note)
}

/// Opens a backup for reading.
///
/// # Errors
/// It cannot be read, or is no database.
pub(super) fn open(path: &Path) -> Result<Connection, Fault> {
    // SQLite says no more than that it cannot open it.
    File::open(path).map_err(|error| Fault::Io { path: path.to_owned(), error })?;
    Ok(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

/// What a backup says of itself.
///
/// # Errors
/// `NoBackup`, or `Damaged` if it is a database that cannot be read.
pub(super) fn note(conn: &Connection, path: &Path) -> Result<Note, Fault> {
    let damaged =
        |error: rusqlite::Error| Fault::Damaged { path: path.to_owned(), reason: error.to_string() };
    let is_one = "SELECT 1 FROM sqlite_schema WHERE name = 'backup' AND type = 'table'";
    let is_one = match conn.query_row(is_one, [], |_| Ok(())).optional() {
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == rusqlite::ErrorCode::NotADatabase => {
            None
        }
        read => read.map_err(damaged)?,
    };
    if is_one.is_none() {
        return Err(Fault::NoBackup(path.to_owned()));
    }
    conn.query_row("SELECT taken_at, secret_key, digest FROM backup", [], |row| {
        Ok(Note {
            taken_at: Timestamp::from_millis(row.get(0)?),
            secret_key: row.get(1)?,
            digest: row.get(2)?,
        })
    })
    .map_err(damaged)
}

/// The digest that a backup with this note should have.
///
/// # Errors
/// It cannot be read, or breaks off within a page.
pub(super) fn digest(conn: &Connection, path: &Path, note: &Note) -> Result<[u8; 32], Fault> {
    let of_note = "SELECT rootpage FROM sqlite_schema WHERE name = 'backup'";
    let own: u64 = conn.query_row(of_note, [], |row| row.get::<_, i64>(0))?.unsigned_abs();
    let size: i64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let io = |error| Fault::Io { path: path.to_owned(), error };
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut page = vec![0; usize::try_from(size).unwrap_or(4096)];
    let mut digest = Sha256::new();
    for number in 1..=bytes.div_ceil(size.unsigned_abs()) {
        file.read_exact(&mut page).map_err(|error| {
            if error.kind() == ErrorKind::UnexpectedEof {
                return Fault::Damaged { path: path.to_owned(), reason: "it breaks off".to_owned() };
            }
            io(error)
        })?;
        if number == 1 {
            COUNTERS.into_iter().for_each(|range| page[range].fill(0));
        }
        if number != own {
            digest.update(&page);
        }
    }
    digest.update(note.taken_at.millis().to_be_bytes());
    digest.update(note.secret_key.as_deref().unwrap_or_default());
    Ok(digest.finalize().into())
}

fn contents(conn: &Connection, path: &Path, note: &Note) -> Result<Contents, Fault> {
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
    let metadata = std::fs::metadata(path);
    Ok(Contents {
        bytes: metadata.map_err(|error| Fault::Io { path: path.to_owned(), error })?.len(),
        taken_at: note.taken_at,
        schema: migrate::version(conn)?,
        messages: count("SELECT count(*) FROM message")?,
        pending: count("SELECT count(*) FROM delivery WHERE state = 0")?,
        in_flight: count("SELECT count(*) FROM delivery WHERE state = 1")?,
        has_secret_key: note.secret_key.is_some(),
        sealed: sealed(conn)?,
    })
}
