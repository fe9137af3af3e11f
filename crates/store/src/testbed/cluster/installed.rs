//! PostgreSQL as it is installed, and whom it runs as.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a test needs of it.
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "pg_basebackup"];
/// Whom servers run as when the tests run as root, which PostgreSQL refuses to do.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// The programs, and whom they run as.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    programs: PathBuf,
    /// `15`.
    pub(super) version: String,
    /// `None`: as whoever runs the tests.
    account: Option<Account>,
}

#[derive(Debug, Clone, Copy)]
struct Account {
    user: u32,
    group: u32,
}

impl Installed {
    /// Looks in `PATH`, where Debian puts it, the newest version first, and where `pg_config` says.
    ///
    /// # Panics
    /// There is none.
    pub(super) fn find() -> Self {
        let complete = |directory: &PathBuf| PROGRAMS.iter().all(|it| directory.join(it).is_file());
        let Some(programs) = places().find(complete) else {
            panic!("missing: PostgreSQL ({})\nhint: apt-get install postgresql", PROGRAMS.join(", "));
        };
        let is_root = rustix::process::geteuid().is_root();
        let account = is_root.then(|| account(&fs::read_to_string("/etc/passwd").unwrap()));
        let mut found = Self { programs, version: String::new(), account };
        // postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
        let version = run(found.command("postgres").arg("--version"));
        let is_digit = |it: char| it.is_ascii_digit();
        let digits = version.trim_start_matches(|it| !is_digit(it)).split(|it| !is_digit(it)).next();
        found.version = digits.unwrap().to_owned();
        found
    }

    pub(super) fn path(&self, program: &str) -> PathBuf {
        self.programs.join(program)
    }

    /// One of the programs, started as whom it may run as, with nothing of our environment.
    pub(super) fn command(&self, program: &str) -> Command {
        self.plain(&self.path(program))
    }

    /// Any program in the same way.
    pub(super) fn plain(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").env("PATH", std::env::var_os("PATH").unwrap());
        command.stdin(Stdio::null());
        if let Some(Account { user, group }) = self.account {
            command.uid(user).gid(group);
        }
        command
    }

    /// Gives a file or directory of ours to whom the programs run as.
    pub(super) fn give(&self, path: &Path) {
        if let Some(Account { user, group }) = self.account {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }

    /// A directory of the caller, or one in its stead where the way there is closed to whom the programs run as:
    /// root's home is.
    pub(super) fn reachable(&self, directory: &Path) -> PathBuf {
        let directory = fs::canonicalize(directory).unwrap();
        let open = |it: &Path| {
            let it = fs::metadata(it).unwrap();
            it.mode() & 0o001 != 0 || self.account.is_some_and(|account| account.user == it.uid())
        };
        if self.account.is_none() || directory.ancestors().all(open) {
            return directory;
        }
        let name = directory.to_string_lossy().replace('/', "-");
        PathBuf::from(format!("/var/tmp/restante{name}"))
    }
}

/// Runs a command to its end and gives what it printed.
pub(super) fn run(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let [said, errors] = [&done.stdout, &done.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(done.status.success(), "{command:?} ended with {}:\n{said}{errors}", done.status);
    said.into_owned()
}

/// Directories that may hold the programs, the best first.
fn places() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let told = || Command::new("pg_config").arg("--bindir").output().ok();
    let told = std::iter::once_with(told).flatten();
    let told = told.map(|it| PathBuf::from(String::from_utf8_lossy(&it.stdout).trim()));
    path.into_iter().chain(newest_first("/usr/lib/postgresql")).chain(told)
}

/// The programs of each version in a directory that has one for each, as on Debian.
fn newest_first(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut versions: Vec<u32> =
        entries.filter_map(|it| it.unwrap().file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    versions.into_iter().map(|version| PathBuf::from(format!("{directory}/{version}/bin"))).collect()
}

/// The first of [`ACCOUNTS`] that there is.
fn account(passwd: &str) -> Account {
    let entry = |name: &&str| {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [user, group] = [2, 3].map(|it| fields.get(it).and_then(|id| id.parse().ok()));
            (fields[0] == *name).then_some(Account { user: user?, group: group? })
        })
    };
    let Some(account) = ACCOUNTS.iter().find_map(entry) else {
        panic!(
            "missing: a user that PostgreSQL can run as; it refuses root\nhint: adduser --system postgres"
        );
    };
    account
}
