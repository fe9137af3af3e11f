//! Copying the pages of a database that others write to.

use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::file::Unfinished;
use super::{Fault, Progress};
use crate::sqlite::migrate;

/// Pages between two looks at the log (4 MiB).
const STEP_PAGES: i32 = 1024;

/// Copies all pages of `database` as of one moment.
///
/// All steps are made within one read transaction. Without it a copy begins anew whenever another process has written,
/// which on a busy server is always. With it the log cannot start afresh as long as the copy lasts: it grows by what
/// is written meanwhile, and no more. The writer itself never waits for a reader. `VACUUM INTO` would hold the
/// same snapshot for longer, for it builds every index anew; a copy in the server's own process could follow the
/// writer without a snapshot, but would take the writer's time. So that a copy to a disk that hangs does not fill
/// the server's, it ends when the log has grown by `log_growth_bytes_max`.
///
/// # Errors
/// `LogGrew`, and what SQLite says. The database is as it was.
pub(super) fn copy(
    database: &Path,
    unfinished: &Unfinished,
    log_growth_bytes_max: u64,
    tell: &mut dyn FnMut(Progress),
) -> Result<(), Fault> {
    let source = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // What a crash left in the log stays there.
    source.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    source.busy_timeout(std::time::Duration::from_secs(5))?;
    // It begins with the first read.
    source.execute_batch("BEGIN")?;
    migrate::version(&source)?;
    let log = log_of(database);
    let log_bytes = bytes_of(&log);

    let mut target = Connection::open(&unfinished.path)?;
    // Nobody reads it before it is synced as a whole.
    target.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
         PRAGMA cache_size = -16384;",
    )?;
    let page_bytes: u64 =
        source.query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0))?.unsigned_abs();
    let backup = Backup::new(&source, &mut target)?;
    loop {
        let step = backup.step(STEP_PAGES)?;
        let progress = backup.progress();
        let pages = |count: i32| u64::from(count.unsigned_abs()) * page_bytes;
        let total_bytes = pages(progress.pagecount);
        tell(Progress::Copying { bytes: total_bytes - pages(progress.remaining), total_bytes });
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            // The source is being read and the target is ours: somebody else has opened that.
            StepResult::Busy | StepResult::Locked | _ => return Err(Fault::Busy(unfinished.path.clone())),
        }
        let growth = bytes_of(&log).saturating_sub(log_bytes);
        if growth > log_growth_bytes_max {
            return Err(Fault::LogGrew(growth));
        }
    }
}

fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Size of a file, 0 if there is none.
fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
