use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;
use crate::Policy;
use crate::sqlite::Fault as Broken;
use crate::sqlite::engine::Engine;

/// Rows of half a page each: more than two steps of the copy.
const ROWS: i64 = 5000;

/// A data directory with a database that a process has open, and a place for backups.
struct Rig {
    directory: TempDir,
    backups: TempDir,
    writer: Connection,
    _engine: Engine,
}

impl Rig {
    fn new(rows: i64) -> Self {
        let (directory, backups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let database = directory.path().join(DATABASE_FILE);
        let engine = Engine::open(&database, Policy::default()).unwrap();
        let mut writer = Connection::open(&database).unwrap();
        writer.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = OFF").unwrap();
        let all = writer.transaction().unwrap();
        for row in 0..rows {
            all.execute("INSERT INTO meta VALUES (?1, 0)", [format!("{row:02000}")]).unwrap();
        }
        all.commit().unwrap();
        Self { directory, backups, writer, _engine: engine }
    }

    fn to(&self) -> PathBuf {
        self.backups.path().join("daily.db")
    }

    fn take(&self, log_growth_bytes_max: u64, tell: &mut dyn FnMut(Progress)) -> Result<Contents, Fault> {
        let to = self.to();
        let now = Timestamp::from_millis(1_800_000_000_000);
        let directory = self.directory.path();
        let order = Order { directory, to: &to, replace: false, now, secret_key: None, log_growth_bytes_max };
        take(&order, tell)
    }

    /// Names of what lies beside the backup.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.backups.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

#[test]
fn a_backup_is_of_one_moment_whatever_is_written_meanwhile() {
    let rig = Rig::new(ROWS);
    let mut steps = 0;
    let taken = rig.take(u64::MAX, &mut |progress| {
        if matches!(progress, Progress::Copying { .. }) {
            steps += 1;
            // All over the tree, and never refused.
            rig.writer.execute_batch("UPDATE meta SET value = value + 1").unwrap();
        }
    });
    let contents = taken.unwrap();
    assert!(steps > 1, "it was copied in one step");
    assert_eq!(rig.names(), ["daily.db"]);
    let metadata = fs::metadata(rig.to()).unwrap();
    assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (contents.bytes, 0o600));
    let conn = Connection::open(rig.to()).unwrap();
    let values: (i64, i64) = conn
        .query_row("SELECT count(*), max(value) FROM meta WHERE length(name) = 2000", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(values, (ROWS, 0));
}

#[test]
fn the_log_grows_by_what_was_said_at_most_and_starts_afresh_afterwards() {
    let rig = Rig::new(ROWS);
    let log = rig.directory.path().join("restante.db-wal");
    let before = fs::metadata(&log).unwrap().len();
    let write = || rig.writer.execute_batch("UPDATE meta SET value = value + 1").unwrap();
    let taken = rig.take(1 << 20, &mut |_| write());
    assert!(matches!(taken, Err(Fault::LogGrew(growth)) if growth > 1 << 20), "{taken:?}");
    assert_eq!(rig.names(), [""; 0]);
    let grown = fs::metadata(&log).unwrap().len();
    assert!(grown > before);
    // Nobody holds the log any more.
    let busy: i64 = rig.writer.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0)).unwrap();
    write();
    assert_eq!((busy, fs::metadata(&log).unwrap().len()), (0, grown));
}

#[test]
fn no_changed_byte_goes_unnoticed() {
    let rig = Rig::new(200);
    rig.take(u64::MAX, &mut |_| {}).unwrap();
    let (path, whole) = (rig.to(), fs::read(rig.to()).unwrap());
    judge_of(&path).unwrap();
    let conn = Connection::open(&path).unwrap();
    let own: i64 = conn
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'backup'", [], |row| row.get(0))
        .unwrap();
    drop(conn);
    let pages = whole.len() / 4096;
    assert!(pages > 100);
    for page in (0..pages).filter(|page| *page + 1 != usize::try_from(own).unwrap()) {
        let mut changed = whole.clone();
        // Every page at another place, all of the schema's page past the counters.
        changed[page * 4096 + 100 + page * 37 % 3900] ^= 0x20;
        fs::write(&path, changed).unwrap();
        let judged = judge_of(&path);
        assert!(matches!(judged, Err(Fault::Damaged { .. } | Fault::NoBackup(_))), "{page}: {judged:?}");
    }
    for length in [0, 100, 4096, whole.len() - 4096, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let judged = judge_of(&path);
        assert!(matches!(judged, Err(Fault::Damaged { .. } | Fault::NoBackup(_))), "{length}: {judged:?}");
    }
    fs::write(&path, &whole).unwrap();
    judge_of(&path).unwrap();
}

fn judge_of(path: &Path) -> Result<Contents, Fault> {
    check::judge(path)
}

#[test]
fn one_backup_to_a_name_at_a_time_and_what_a_killed_one_left_is_begun_anew() {
    let rig = Rig::new(1);
    let other = Unfinished::begin(&rig.to()).unwrap();
    assert!(matches!(rig.take(u64::MAX, &mut |_| {}), Err(Fault::Busy(_))));
    drop(other);
    fs::write(rig.backups.path().join("daily.db.unfinished"), "what was there").unwrap();
    rig.take(u64::MAX, &mut |_| {}).unwrap();
    assert_eq!(rig.names(), ["daily.db"]);
    assert!(matches!(rig.take(u64::MAX, &mut |_| {}), Err(Fault::Exists(_))));
}

#[test]
fn a_damaged_database_makes_no_backup() {
    let rig = Rig::new(200);
    rig.writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let database = rig.directory.path().join(DATABASE_FILE);
    let mut bytes = fs::read(&database).unwrap();
    let half = bytes.len() / 2 / 4096 * 4096;
    bytes[half..half + 4096].fill(0xff);
    fs::write(&database, bytes).unwrap();
    let taken = rig.take(u64::MAX, &mut |_| {});
    assert!(matches!(taken, Err(Fault::Damaged { .. })), "{taken:?}");
    assert_eq!(rig.names(), [""; 0]);
}

#[test]
fn a_backup_of_a_newer_version_is_refused() {
    let rig = Rig::new(1);
    rig.writer.execute_batch("INSERT INTO migration VALUES (1000, 'later', '')").unwrap();
    let taken = rig.take(u64::MAX, &mut |_| {});
    assert!(
        matches!(&taken, Err(Fault::Database(Broken::Damaged(what))) if what.contains("newer")),
        "{taken:?}"
    );
}
