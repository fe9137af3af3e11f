//! From a data directory into a PostgreSQL: everything, in one transaction.
//!
//! The data directory is locked, as by a process that serves it, and only read. The database must hold no records. Rows
//! go over one by one, so memory is that of the largest; tables are counted on both sides before the commit. A transfer
//! that was interrupted leaves empty tables, and is repeated from the start.

mod source;
mod table;
mod target;

use std::path::{Path, PathBuf};

use crate::{postgres, sqlite};
use source::Source;
use table::TABLES;
use target::Target;

/// Rows between two reports of progress.
const REPORT_EVERY: u64 = 10_000;

/// Why nothing was moved.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The data directory cannot be read, or a process has it open.
    #[error(transparent)]
    Source(#[from] sqlite::Fault),
    /// The database cannot be reached, or refuses something. After `CommitUnknown` all of it may be there.
    #[error(transparent)]
    Target(#[from] postgres::Fault),
    #[error("{} is not a data directory: it has no {}", .0.display(), sqlite::DATABASE_FILE)]
    NoData(PathBuf),
    /// A start of this version brings it up to date.
    #[error("the data directory {} was written by another version", .0.display())]
    Outdated(PathBuf),
    #[error("the database holds records already")]
    NotEmpty,
    #[error("a node works on the database, or another migration into it is under way")]
    Busy,
    #[error("table {table}: {read} rows in the data directory, {written} in the database")]
    Differs { table: &'static str, read: u64, written: u64 },
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Source(error.into())
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Target(error.into())
    }
}

/// How far a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub table: &'static str,
    pub done: u64,
    /// Rows in the data directory.
    pub total: u64,
}

/// Rows of a table on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub table: &'static str,
    pub read: u64,
    pub written: u64,
}

/// What was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Of each table, equal on both sides.
    pub counts: Vec<Count>,
    /// Attempts that were in flight when the process of the data directory died: the first node to start records them
    /// as lost.
    pub in_flight: u64,
}

/// Moves all that the data directory `from` holds into the database `to`, `postgres://user:password@host/database`.
///
/// # Errors
/// Nothing was moved; repeat it when the reason is gone. See [`Fault`].
pub async fn transfer(
    from: &Path,
    to: &str,
    tls: rustls::ClientConfig,
    mut tell: impl FnMut(Progress),
) -> Result<Report, Fault> {
    let source = Source::open(from)?;
    let mut target = Target::connect(to, tls).await?;
    target.make_partitions(&source.days()?).await?;
    let marks = source.marks()?;
    target.begin(&marks).await?;
    let mut counts = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        let (name, total) = (table.name, source.count(table)?);
        let mut done = 0;
        let count_row = || {
            done += 1;
            if done % REPORT_EVERY == 0 {
                tell(Progress { table: name, done, total });
            }
        };
        target.copy(table, &source, count_row).await?;
        let written = target.count(table).await?;
        if written != total {
            return Err(Fault::Differs { table: name, read: total, written });
        }
        tell(Progress { table: name, done: written, total });
        counts.push(Count { table: name, read: total, written });
    }
    target.commit(&marks).await?;
    Ok(Report { counts, in_flight: marks.in_flight })
}
