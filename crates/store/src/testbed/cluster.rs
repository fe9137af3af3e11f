//! PostgreSQL servers of our own, from the installed binaries, with `fsync` on.
//!
//! A directory of the caller holds everything; it must be on a disk, not in memory, and may be shared by all tests.
//! Each server has a supervisor (`supervise.sh`) that ends it when its users are gone, however they went. This is for
//! Linux: it looks into `/proc`, and takes `flock` and `setpriv` from util-linux.

mod installed;
mod server;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::client::{Client, Error};
use installed::{Installed, run};
use server::{Server, on_a_thread};

/// For a standby to follow its primary.
const FOLLOW_TIME_MAX: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// SQLSTATE of a database that exists.
const DUPLICATE_DATABASE: &str = "42P04";
/// Names a standby to its primary.
const STANDBY: &str = "standby";

/// Numbers what is made here, within this process.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// One server.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
}

impl Cluster {
    /// The server that all tests of a run share, their processes too. It ends some seconds after its last user.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    pub async fn shared(directory: &Path) -> Self {
        let (installed, root) = prepare(directory).await;
        let home = root.join("shared");
        let server = Server::share(&installed, &home, async || initialise(&installed, &home).await).await;
        Self { server }
    }

    /// A server for one test. It ends with this value.
    ///
    /// # Panics
    /// As [`Cluster::shared`].
    pub async fn start(directory: &Path) -> Self {
        let (installed, root) = prepare(directory).await;
        let home = new_home(&installed, &root);
        initialise(&installed, &home).await;
        Self { server: Server::start(&installed, &home, &[]).await }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Makes an empty database and gives its URL. It goes when the server ends.
    pub async fn database(&self) -> String {
        let name = new_database(self.server.address).await;
        url(&[self.server.address], &name)
    }
}

/// A primary, and a standby that has every commit before it is acknowledged.
#[derive(Debug)]
pub struct Pair {
    primary: Server,
    standby: Server,
    promoted: AtomicBool,
}

impl Pair {
    /// A pair for one test. It ends with this value.
    ///
    /// # Panics
    /// As [`Cluster::shared`].
    pub async fn start(directory: &Path) -> Self {
        let (installed, root) = prepare(directory).await;
        let home = new_home(&installed, &root);
        initialise(&installed, &home).await;
        let synchronous = format!("synchronous_standby_names={STANDBY}");
        let primary = Server::start(&installed, &home, &[&synchronous]).await;
        let home = new_home(&installed, &root);
        copy(&installed, primary.address, &home).await;
        let name = format!("cluster_name={STANDBY}");
        // It looks for its lost primary that often; a promotion may have to wait for it.
        let settings = [name.as_str(), "wal_retrieve_retry_interval=100ms"];
        let standby = Server::start(&installed, &home, &settings).await;
        let pair = Self { primary, standby, promoted: AtomicBool::new(false) };
        pair.until_synchronous().await;
        pair
    }

    pub fn primary(&self) -> SocketAddr {
        self.primary.address
    }

    pub fn standby(&self) -> SocketAddr {
        self.standby.address
    }

    /// Makes an empty database and gives a URL of both servers, for whichever can be written to. A standby has what
    /// was acknowledged on disk; until it is promoted, it may be behind in what it shows.
    pub async fn database(&self) -> String {
        let promoted = self.promoted.load(Ordering::Relaxed);
        let leader = if promoted { self.standby.address } else { self.primary.address };
        let name = new_database(leader).await;
        let both = url(&[self.primary.address, self.standby.address], &name);
        format!("{both}?target_session_attrs=read-write")
    }

    /// The machine of the primary is lost: all its processes die at once. It does not come back.
    pub async fn kill_primary(&self) {
        self.primary.kill().await;
    }

    /// Makes the standby a primary, with no standby of its own. Returns when it can be written to.
    pub async fn promote(&self) {
        let mut client = Client::connect(&maintenance(self.standby.address)).await.unwrap();
        let answer = client.query("SELECT pg_promote(true)").await.unwrap();
        assert_eq!(answer, [[Some("t".to_owned())]], "{}", self.standby.log());
        self.promoted.store(true, Ordering::Relaxed);
    }

    async fn until_synchronous(&self) {
        let mut client = Client::connect(&maintenance(self.primary.address)).await.unwrap();
        let following = async {
            let sql = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'";
            while client.query(sql).await.unwrap().is_empty() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(FOLLOW_TIME_MAX, following).await.is_err() {
            panic!("the standby does not follow\n{}\n{}", self.primary.log(), self.standby.log());
        }
    }
}

/// What is installed, and where to put what belongs to its version.
async fn prepare(directory: &Path) -> (Installed, PathBuf) {
    let directory = directory.to_owned();
    on_a_thread(move || {
        let installed = Installed::find();
        let root = installed.reachable(&directory).join(format!("postgres-{}", installed.version));
        std::fs::create_dir_all(&root).unwrap();
        installed.give(&root);
        (installed, std::fs::canonicalize(root).unwrap())
    })
    .await
}

/// An empty directory for one server.
fn new_home(installed: &Installed, root: &Path) -> PathBuf {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = root.join(format!("{}-{number}", std::process::id()));
        // A process of the same number may have left it when the machine went down.
        if std::fs::create_dir(&home).is_ok() {
            installed.give(&home);
            return home;
        }
    }
}

/// Makes the files of a server. Texts are ordered as people do it, which is how most servers are set up: what needs
/// the order of bytes must say so.
async fn initialise(installed: &Installed, home: &Path) {
    let mut command = installed.command("initdb");
    command.args(["-D", "data", "--username=postgres", "--auth=trust", "--encoding=UTF8"]);
    command.args(["--locale=C", "--locale-provider=icu", "--icu-locale=en"]);
    // Only the server must honour fsync: what is here goes when the machine does.
    command.args(["--no-sync", "--no-instructions"]).current_dir(home);
    on_a_thread(move || run(&mut command)).await;
}

/// Makes the files of a standby of `primary`.
async fn copy(installed: &Installed, primary: SocketAddr, home: &Path) {
    let mut command = installed.command("pg_basebackup");
    command.args(["-D", "data", "--username=postgres", "--host=127.0.0.1"]);
    command.arg(format!("--port={}", primary.port()));
    command.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]).current_dir(home);
    on_a_thread(move || run(&mut command)).await;
}

/// Makes a database with a name that is new on its server.
async fn new_database(server: SocketAddr) -> String {
    let mut client = Client::connect(&maintenance(server)).await.unwrap();
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t_{}_{number}", std::process::id());
        match client.query(&format!("CREATE DATABASE {name} TEMPLATE template0")).await {
            Ok(_) => return name,
            // By a process that had the same number.
            Err(Error::Refused { code, .. }) if code == DUPLICATE_DATABASE => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn maintenance(server: SocketAddr) -> String {
    url(&[server], "postgres")
}

fn url(servers: &[SocketAddr], database: &str) -> String {
    let hosts: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
    format!("postgres://postgres@{}/{database}", hosts.join(","))
}
