//! A PostgreSQL of our own, from the installed binaries.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tempfile::TempDir;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

use super::{progress, tail};
use crate::clock;

/// What the server is told beside what `initdb` writes: nothing that trades what is acknowledged for speed. The last
/// three are what whoever runs it sets: a quarter of a small machine's memory, and a log that is not cut every few
/// seconds under load and keeps its files.
const SETTINGS: [&str; 9] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "shared_buffers=1GB",
    "max_wal_size=8GB",
    "min_wal_size=4GB",
];
const PROGRAMS: [&str; 2] = ["initdb", "postgres"];
/// Whom it runs as when the benchmark runs as root, which PostgreSQL refuses to do.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];
/// Files of the log that a server which has run for a while uses again instead of making them; below `min_wal_size`.
const LOG_FILES: usize = 240;
const READY_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A running server; it ends, and what it kept goes, when this is dropped.
pub(super) struct Cluster {
    address: SocketAddr,
    /// `None` once it was ended.
    server: Option<Child>,
    facts: Facts,
    next: AtomicU32,
    home: TempDir,
}

/// What the figures were measured with.
#[derive(Clone, Serialize)]
pub(crate) struct Facts {
    version: String,
    settings: Vec<String>,
}

/// An empty database at first; dropped by [`Database::discard`].
pub(super) struct Database {
    name: String,
    address: SocketAddr,
}

struct Account {
    user: u32,
    group: u32,
}

impl Cluster {
    /// Starts a server below `root`. `more`: further settings, as `name=value`.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub(super) async fn start(root: &Path, more: &[String]) -> Result<Self> {
        let programs = programs()?;
        let account = account()?;
        let home = tempfile::Builder::new().prefix("postgres-").tempdir_in(root)?;
        if let Some(account) = &account {
            chown(home.path(), Some(account.user), Some(account.group))?;
            ensure!(
                root.ancestors().all(|it| fs::metadata(it).is_ok_and(|it| it.mode() & 0o001 != 0)),
                "PostgreSQL, which does not run as root, cannot enter {}\nhint: choose another --data-root",
                root.display()
            );
        }
        let version = run(command(&account, &programs.join("postgres")).arg("--version"))?;
        let mut initdb = command(&account, &programs.join("initdb"));
        initdb.args(["-D", "data", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        run(initdb.args(["--no-sync", "--no-instructions"]).current_dir(home.path()))?;

        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let settings: Vec<String> =
            SETTINGS.iter().map(ToString::to_string).chain(more.iter().cloned()).collect();
        let log = File::create(home.path().join("log"))?;
        // It ends with this process, however that ends.
        let mut server = command(&account, Path::new("setpriv"));
        server.args(["--pdeathsig", "QUIT"]).arg(programs.join("postgres")).args(["-D", "data"]);
        server.arg("-c").arg(format!("port={}", address.port()));
        server.args(settings.iter().flat_map(|setting| ["-c", setting]));
        server.current_dir(home.path()).process_group(0).stdout(log.try_clone()?).stderr(log);
        let server = server.spawn().context("cannot start PostgreSQL")?;
        let facts = Facts { version: version.trim().to_owned(), settings };
        progress(&format!("{} in {}", facts.version, home.path().display()))?;
        let mut cluster = Self { address, server: Some(server), facts, next: AtomicU32::new(1), home };
        cluster.until_ready().await?;
        Ok(cluster)
    }

    async fn until_ready(&mut self) -> Result<()> {
        let start = clock::now();
        loop {
            if connect(self.address, "postgres").await.is_ok() {
                return Ok(());
            }
            let ended = self.server.as_mut().is_none_or(|it| !matches!(it.try_wait(), Ok(None)));
            if ended || clock::now().duration_since(start) >= READY_MAX {
                bail!(
                    "PostgreSQL does not start; its log ends with:\n{}",
                    tail(&self.home.path().join("log"))
                );
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub(super) fn facts(&self) -> Facts {
        self.facts.clone()
    }

    /// Makes the files of the log that a server has which has run for a while. Until then each one costs a commit that
    /// waits until 16 MiB are written.
    pub(super) async fn make_log_files(&self) -> Result<()> {
        progress("making the files of the database's log")?;
        let client = connect(self.address, "postgres").await?;
        for _ in 0..LOG_FILES {
            client
                .batch_execute("VALUES (pg_logical_emit_message(false, 'bench', ''), pg_switch_wal())")
                .await?;
        }
        // The files are renamed for what comes.
        Ok(client.batch_execute("CHECKPOINT").await?)
    }

    /// A new database.
    pub(super) async fn database(&self) -> Result<Arc<Database>> {
        let name = format!("bench_{}", self.next.fetch_add(1, Ordering::Relaxed));
        let client = connect(self.address, "postgres").await?;
        client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await?;
        Ok(Arc::new(Database { name, address: self.address }))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // What it keeps is removed: it need not write it out.
        if let Some(pid) = i32::try_from(server.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::QUIT);
        }
        let _ = server.wait();
    }
}

impl Database {
    pub(super) fn url(&self) -> String {
        format!("postgres://postgres@{}/{}", self.address, self.name)
    }

    /// A connection of its own.
    pub(super) async fn connect(&self) -> Result<Client> {
        connect(self.address, &self.name).await
    }

    /// Drops it, whoever still uses it.
    pub(super) async fn discard(&self) -> Result<()> {
        let client = connect(self.address, "postgres").await?;
        client.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await?;
        // What is left to be written out must not disturb what is measured next.
        Ok(client.batch_execute("CHECKPOINT").await?)
    }
}

async fn connect(address: SocketAddr, database: &str) -> Result<Client> {
    let url = format!("postgres://postgres@{address}/{database}");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    // How it ended shows in the statement that needed it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// Where the programs are: in `PATH`, or where Debian puts them, the newest version first.
fn programs() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|it| it.ok().map(|it| it.path()))
        .filter_map(|it| Some((it.file_name()?.to_str()?.parse().ok()?, it.join("bin"))))
        .collect();
    versions.sort_by(|one, other| other.cmp(one));
    let places: Vec<PathBuf> =
        std::env::split_paths(&path).chain(versions.into_iter().map(|(_, path)| path)).collect();
    let complete = |place: &PathBuf| PROGRAMS.iter().all(|it| place.join(it).is_file());
    places.into_iter().find(complete).context("PostgreSQL is not installed\nhint: apt-get install postgresql")
}

/// Whom the programs run as; `None`: as whoever runs the benchmark.
fn account() -> Result<Option<Account>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd")?;
    let entry = |name: &&str| {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let number = |index: usize| fields.get(index)?.parse().ok();
            (fields[0] == *name).then_some(Account { user: number(2)?, group: number(3)? })
        })
    };
    let found = ACCOUNTS.iter().find_map(entry);
    found.map(Some).context("there is no user that PostgreSQL can run as\nhint: adduser --system postgres")
}

/// A program with nothing of our environment.
fn command(account: &Option<Account>, program: &Path) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("LC_ALL", "C").env("PATH", path).stdin(Stdio::null());
    if let Some(Account { user, group }) = account {
        command.uid(*user).gid(*group);
    }
    command
}

/// Runs a command to its end and gives what it printed.
fn run(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(done.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
