//! Postfix's test programs as processes of their own: `smtp-sink` takes mail, `smtp-source` makes it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::scale::STILL_MAX;
use super::server::free_address;
use super::tail;
use crate::clock;
use crate::load::per_second;

/// Conversations that the sink has at the same time; more wait for their greeting.
const CONVERSATIONS_MAX: &str = "1000";
/// Whom the sink runs as when it is started by root.
const ACCOUNT: &str = "nobody";
/// How long the sink may take until it answers.
const READY_MAX: Duration = Duration::from_secs(10);
/// Pause between two looks at the sink's counters: they are the end of a file.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The end of that file that holds one line of counters at least, and some of the one before.
const COUNTERS_BYTES: u64 = 200;
/// Mails by which the rate of a first run is guessed.
const TRIAL_MAILS: u64 = 2_000;

/// The programs, found.
pub(super) struct Programs {
    sink: PathBuf,
    source: PathBuf,
}

/// A running `smtp-sink`; killed when dropped.
pub(super) struct MailSink {
    pub(super) address: SocketAddr,
    /// Where it writes its counters.
    counters: PathBuf,
    _child: Child,
}

/// What the sink counts from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counters {
    /// Conversations that have ended.
    pub(super) conversations: u64,
    /// Mails taken.
    pub(super) mails: u64,
}

/// What has arrived at the sink.
pub(super) struct Arrived {
    pub(super) counters: Counters,
    /// When the last of them was seen, in microseconds of the steady clock: up to a hundredth of a second late.
    pub(super) last_us: u64,
}

impl Programs {
    /// Looks in `PATH`, and where Debian puts them.
    ///
    /// # Errors
    /// One is missing.
    pub(super) fn find() -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
        let find = |name: &str| {
            let found = places.iter().map(|place| place.join(name)).find(|it| it.is_file());
            found.with_context(|| {
                format!("{name} is missing\nhint: apt-get install postfix, or name other parts with --only")
            })
        };
        Ok(Self { sink: find("smtp-sink")?, source: find("smtp-source")? })
    }

    /// Starts a sink on a free port; it keeps what it has to say in `directory`.
    ///
    /// # Errors
    /// It does not start.
    pub(super) async fn sink(&self, directory: &Path) -> Result<MailSink> {
        let address = free_address()?;
        let (counters, log) = (directory.join("smtp-sink.counters"), directory.join("smtp-sink.log"));
        let mut command = Command::new(&self.sink);
        command.args(["-c", "-m", CONVERSATIONS_MAX]);
        if rustix::process::geteuid().is_root() {
            command.args(["-u", ACCOUNT]);
        }
        command.args([&address.to_string(), CONVERSATIONS_MAX]).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(File::create(&counters)?).stderr(File::create(&log)?);
        let mut child = command.spawn().context("cannot start smtp-sink")?;
        let start = clock::now();
        while TcpStream::connect(address).await.is_err() {
            let ended = child.try_wait()?.is_some();
            if ended || clock::now().duration_since(start) >= READY_MAX {
                bail!("smtp-sink does not start; it says:\n{}", tail(&log));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(MailSink { address, counters, _child: child })
    }

    /// Mails per second from `smtp-source` straight to the sink, over `sessions` conversations that each go on to the
    /// end. `guess` is what an earlier run gave.
    pub(super) async fn ceiling(
        &self,
        sink: &MailSink,
        sessions: usize,
        bytes: usize,
        seconds: f64,
        guess: Option<f64>,
    ) -> Result<f64> {
        let guess = match guess {
            Some(guess) => guess,
            None => self.send(sink, sessions, bytes, TRIAL_MAILS).await?,
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate times seconds")]
        let mails = ((guess * seconds) as u64).max(TRIAL_MAILS);
        self.send(sink, sessions, bytes, mails).await
    }

    async fn send(&self, sink: &MailSink, sessions: usize, bytes: usize, mails: u64) -> Result<f64> {
        let mut command = Command::new(&self.source);
        command.args(["-d", "-s", &sessions.to_string(), "-m", &mails.to_string(), "-l", &bytes.to_string()]);
        command.args(["-f", "a@x.example", "-t", "b@y.example", &sink.address.to_string()]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let start_us = clock::steady_us();
        let done = command.output().await.context("cannot start smtp-source")?;
        let end_us = clock::steady_us();
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "smtp-source failed: {}", said.trim());
        Ok(per_second(mails, start_us, end_us))
    }
}

impl MailSink {
    pub(super) fn counters(&self) -> Result<Counters> {
        let mut file = File::open(&self.counters)?;
        let begin = file.metadata()?.len().saturating_sub(COUNTERS_BYTES);
        file.seek(SeekFrom::Start(begin))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        read(&String::from_utf8_lossy(&end)).context("the counters of smtp-sink cannot be read")
    }

    /// What has arrived once that are `mails` since its start, or once nothing new arrived for [`STILL_MAX`].
    pub(super) async fn wait_for(&self, mails: u64) -> Result<Arrived> {
        let mut arrived = Arrived { counters: self.counters()?, last_us: clock::steady_us() };
        let mut since = clock::now();
        while arrived.counters.mails < mails && clock::now().duration_since(since) < STILL_MAX {
            sleep(LOOK_EVERY).await;
            let counters = self.counters()?;
            if counters.mails != arrived.counters.mails {
                arrived = Arrived { counters, last_us: clock::steady_us() };
                since = clock::now();
            }
        }
        Ok(arrived)
    }
}

/// The last whole line of counters, `sess=… quit=… mesg=…` and a carriage return; all 0 before the first.
fn read(end: &str) -> Option<Counters> {
    let Some((whole, _)) = end.rsplit_once('\r') else {
        return end.is_empty().then_some(Counters::default());
    };
    let line = whole.rsplit_once('\r').map_or(whole, |(_, line)| line);
    let count = |name| line.split(' ').find_map(|field| field.strip_prefix(name))?.trim().parse().ok();
    Some(Counters { conversations: count("sess=")?, mails: count("mesg=")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_of_counters_counts() {
        let counters = |conversations, mails| Some(Counters { conversations, mails });
        assert_eq!(read(""), counters(0, 0));
        assert_eq!(read("sess=1 quit=0 mesg=7\r"), counters(1, 7));
        assert_eq!(read("t=0 mesg=7\rsess=2 quit=1 mesg=8\rsess=3 quit=1 mesg="), counters(2, 8));
        assert_eq!(read("smtp-sink: fatal\r"), None);
    }
}
