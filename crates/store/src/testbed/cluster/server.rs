//! One server under its supervisor.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::installed::Installed;

const SUPERVISE: &str = include_str!("supervise.sh");
/// For a start, and for the end of what was killed.
const TIME_MAX: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How often another port is tried when a server does not start: somebody may have been faster.
const STARTS_MAX: usize = 3;
const LOG_LINES_SHOWN: usize = 60;
/// How long a shared server waits for the next test of a run.
const LINGER_SECONDS: u32 = 5;

/// What every server is told, beside what it does by itself: what is acknowledged is on disk.
const SETTINGS: [&str; 9] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "fsync=on",
    "synchronous_commit=on",
    // In the directory, not in /dev/shm, where it would stay after a kill.
    "dynamic_shared_memory_type=mmap",
    "timezone=UTC",
    "log_checkpoints=off",
    "log_line_prefix=%m [%p] %d ",
];

/// A server that runs for as long as this, or another like it, is kept.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    home: PathBuf,
    /// Holds a shared lock: the supervisor waits for its end.
    users: File,
    /// The supervisor of a server that nobody else uses.
    supervisor: Option<Child>,
}

impl Server {
    /// Starts a server on what is in `data` in its home. It ends with this value.
    pub(super) async fn start(installed: &Installed, home: &Path, settings: &[&str]) -> Self {
        let users = enter(installed, home);
        let (address, supervisor) = launch(installed, home, settings, ["0", home.to_str().unwrap()]).await;
        let home = home.to_owned();
        Self { address, home, users, supervisor: Some(supervisor) }
    }

    /// Joins the server in a home, or starts one. It ends when it has had no user for some seconds.
    ///
    /// Tests are processes of their own under nextest: this is how they share.
    pub(super) async fn share(installed: &Installed, home: &Path, prepare: impl AsyncFnOnce()) -> Self {
        // First the lock that keeps the server from ending, then the one that makes the first user the only starter.
        let users = on_a_thread({
            let (installed, home) = (installed.clone(), home.to_owned());
            move || enter(&installed, &home)
        })
        .await;
        let starting = File::create(home.join("starting")).unwrap();
        let starting = on_a_thread(move || starting.lock().map(|()| starting)).await.unwrap();
        let address = if Status::read(home).is_some_and(|status| status.is_alive(home)) {
            until_ready(home, None).await.unwrap_or_else(|| panic!("{}", log(home)))
        } else {
            // Left by a machine that went down.
            let _ = fs::remove_dir_all(home.join("data"));
            prepare().await;
            let (address, mut supervisor) =
                launch(installed, home, &[], [&LINGER_SECONDS.to_string(), "data"]).await;
            // It outlives this process, or is remembered as a zombie until it ends.
            std::thread::spawn(move || supervisor.wait());
            address
        };
        drop(starting);
        Self { address, home: home.to_owned(), users, supervisor: None }
    }

    /// Kills all its processes at once, as the loss of its machine would.
    pub(super) async fn kill(&self) {
        let main = Status::read(&self.home).unwrap().pid;
        // It must not see its children die: it would start over.
        kill_process(main, Signal::STOP).unwrap();
        let pids: Vec<Pid> = children(main).into_iter().chain([main]).collect();
        for pid in &pids {
            // A child may have ended by itself.
            let _ = kill_process(*pid, Signal::KILL);
        }
        let gone = async {
            while pids.iter().any(|pid| runs(*pid)) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(TIME_MAX, gone).await.expect("a killed process ends");
    }

    /// The end of its log.
    pub(super) fn log(&self) -> String {
        log(&self.home)
    }
}

impl Drop for Server {
    #[expect(clippy::print_stderr, reason = "a failed test shows what its server has to say")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        let _ = self.users.unlock();
        if let Some(supervisor) = &mut self.supervisor {
            let _ = supervisor.wait();
        }
    }
}

/// Enters a home among its users. Waits while its server ends.
fn enter(installed: &Installed, home: &Path) -> File {
    fs::create_dir_all(home).unwrap();
    installed.give(home);
    let path = home.join("users");
    let users = File::options().append(true).create(true).open(&path).unwrap();
    installed.give(&path);
    users.lock_shared().unwrap();
    users
}

/// Starts a supervised server on a free port. `lifetime`: what the supervisor is told of its end.
async fn launch(
    installed: &Installed,
    home: &Path,
    settings: &[&str],
    lifetime: [&str; 2],
) -> (SocketAddr, Child) {
    for _ in 0..STARTS_MAX {
        let port = free_port();
        let mut supervisor = spawn(installed, home, port, settings, lifetime);
        if let Some(address) = until_ready(home, Some(&mut supervisor)).await {
            assert_eq!(address.port(), port);
            return (address, supervisor);
        }
        // The server is gone; the supervisor waits for users to go, and there may be others.
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
    }
    panic!("PostgreSQL does not start\n{}", log(home));
}

fn spawn(installed: &Installed, home: &Path, port: u16, settings: &[&str], lifetime: [&str; 2]) -> Child {
    let log = File::create(home.join("log")).unwrap();
    // What a server before it has left.
    let _ = fs::remove_file(home.join("server"));
    fs::write(home.join("supervise.sh"), SUPERVISE).unwrap();
    let mut command = installed.plain(Path::new("/bin/sh"));
    command.arg("supervise.sh").args(lifetime);
    command.arg(installed.path("postgres")).args(["-D", "data", "-c"]).arg(format!("port={port}"));
    for setting in SETTINGS.iter().chain(settings) {
        command.args(["-c", setting]);
    }
    // Its own group: it is not interrupted with the test, but ends because of it.
    command.current_dir(home).process_group(0);
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

/// Waits until the server in a home answers, and tells where. `None`: it has ended.
async fn until_ready(home: &Path, mut supervisor: Option<&mut Child>) -> Option<SocketAddr> {
    let ready = async {
        loop {
            if let Some(Status { ready: true, port, .. }) = Status::read(home) {
                return Some(SocketAddr::from(([127, 0, 0, 1], port)));
            }
            let server = fs::read_to_string(home.join("server")).ok();
            let server = server.and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?));
            let supervised = supervisor.as_mut().is_none_or(|it| it.try_wait().unwrap().is_none());
            if server.is_some_and(|pid| !runs(pid)) || !supervised {
                return None;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    match tokio::time::timeout(TIME_MAX, ready).await {
        Ok(ended) => ended,
        Err(_) => panic!("PostgreSQL is not ready in time\n{}", log(home)),
    }
}

/// What a server says of itself in `postmaster.pid`, a line each (PostgreSQL's source, `miscadmin.h`).
struct Status {
    pid: Pid,
    port: u16,
    /// Connections are taken.
    ready: bool,
}

impl Status {
    /// `None`: there is no server, or it has not come that far.
    fn read(home: &Path) -> Option<Self> {
        let text = fs::read_to_string(home.join("data/postmaster.pid")).ok()?;
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        Some(Self {
            pid: Pid::from_raw(lines.first()?.parse().ok()?)?,
            port: lines.get(3)?.parse().ok()?,
            ready: lines.get(7) == Some(&"ready"),
        })
    }

    /// Whether the process is there, and is this server: its working directory is its data.
    fn is_alive(&self, home: &Path) -> bool {
        let pid = self.pid.as_raw_pid();
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|it| it == home.join("data"))
    }
}

/// The letter of a process's state, and the process that started it.
fn stat(pid: &str) -> Option<(char, i32)> {
    // The second field is a name in parentheses and may hold anything.
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether a process is there, and not only what its parent has not asked for yet.
fn runs(pid: Pid) -> bool {
    stat(&pid.as_raw_pid().to_string()).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn children(of: Pid) -> Vec<Pid> {
    let names = fs::read_dir("/proc").unwrap().map(|it| it.unwrap().file_name());
    let child = |name: std::ffi::OsString| {
        let (_, parent) = stat(name.to_str()?)?;
        (parent == of.as_raw_pid()).then(|| Pid::from_raw(name.to_str()?.parse().ok()?))?
    };
    names.filter_map(child).collect()
}

/// A port that stays free when its server is killed: the system takes ports for outgoing connections from 32768 on,
/// and a client that keeps calling a dead port from that range may end up connected to itself.
fn free_port() -> u16 {
    // Servers that start at the same time do not look for the same one.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % 12_000;
    let first = 20_000 + u16::try_from(first).unwrap();
    let mut ports = (first..32_000).chain(20_000..first);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// The end of the log in a home, with a word on what it is.
fn log(home: &Path) -> String {
    let text = fs::read(home.join("log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
    format!("the log of PostgreSQL in {}:\n{}", home.display(), shown.join("\n"))
}

/// Runs what blocks where it may. A panic goes on here.
pub(super) async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
