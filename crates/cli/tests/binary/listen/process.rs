//! The binary as a process whose output is read line by line.

use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::testbed::{Server, soon};

pub(crate) const KEY: &str = "rst_live_0123456789abcdefghijklmnopqrstuv";

/// `restante listen` with these arguments, told of the server.
pub(crate) fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.arg("listen").args(arguments).kill_on_drop(true);
    command.env("RESTANTE_URL", &server.url).env("RESTANTE_API_KEY", KEY).env("TZ", "UTC");
    command
        .env_remove("RESTANTE_PROFILE")
        .env_remove("RESTANTE_WORKSPACE")
        .env_remove("RESTANTE_EXTRA_CA_FILE");
    command
}

/// A running client.
pub(crate) struct Listen {
    pub(crate) child: Child,
    pub(crate) data: Lines<BufReader<ChildStdout>>,
    pub(crate) talk: Lines<BufReader<ChildStderr>>,
}

impl Listen {
    pub(crate) fn start(server: &Server, arguments: &[&str]) -> Self {
        let mut command = command(server, arguments);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let data = BufReader::new(child.stdout.take().unwrap()).lines();
        let talk = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, data, talk }
    }

    pub(crate) async fn next_data(&mut self) -> String {
        soon(self.data.next_line()).await.unwrap().expect("there is more data")
    }

    /// The next line of talk that contains this.
    pub(crate) async fn talk_of(&mut self, wanted: &str) -> String {
        loop {
            let line = soon(self.talk.next_line()).await.unwrap();
            let line = line.unwrap_or_else(|| panic!("nothing was said of {wanted:?}"));
            if line.contains(wanted) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.try_into().unwrap())).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) async fn end(&mut self) -> ExitStatus {
        soon(self.child.wait()).await.unwrap()
    }
}
