//! Looking over a process' shoulder, and tripping it: `strace`, which `./test` installs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A strace on a running process.
pub(crate) struct Strace {
    child: Child,
}

impl Strace {
    /// Follows all threads of a process. When this returns, it has them.
    pub(crate) fn attach(pid: u32, arguments: &[&str]) -> Self {
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &pid.to_string()]).args(arguments);
        if !arguments.contains(&"-o") {
            command.args(["-o", "/dev/null"]);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().expect("strace must be installed");
        let mut line = String::new();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        errors.read_line(&mut line).unwrap();
        assert!(line.contains("attached"), "strace cannot look at the server: {line}");
        // It talks on, and must not be stopped by a full pipe.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Self { child }
    }

    /// Lets go of the process.
    pub(crate) fn detach(mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(mut self) {
        self.child.wait().unwrap();
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // It may have ended with its process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
