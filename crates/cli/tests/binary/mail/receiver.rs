//! The mail server that does what its recipients' names say.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::clients::{root, tool};

/// A running mail server. Its names are listed in `tests/mail/receiver.py`.
pub(crate) struct Receiver {
    pub(super) port: u16,
    child: Child,
    directory: tempfile::TempDir,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts one with further arguments.
    pub(super) fn with(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // It ends when its standard input does, so with this process at the latest.
        let mut child = Command::new(tool("clients/bin/python"))
            .arg(script("receiver.py"))
            .arg(record(directory.path()))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap_or_else(|_| panic!("the mail server did not start: {line:?}"));
        Self { port, child, directory }
    }

    pub(super) fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    /// The mails it took, in order, as Python's `email` package reads them: `tests/mail/read.py`.
    pub(super) fn mails(&self) -> Vec<Value> {
        let output = Command::new(tool("clients/bin/python"))
            .arg(script("read.py"))
            .arg(record(self.directory.path()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Those of an email as the API shows it, told by their Message-ID.
    pub(super) fn copies(&self, email: &Value) -> Vec<Value> {
        self.mails().into_iter().filter(|it| it["message_id"] == email["message_id"]).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn record(directory: &Path) -> PathBuf {
    directory.join("mails")
}

fn script(name: &str) -> PathBuf {
    root().join("tests/mail").join(name)
}
