//! Where log lines go: gathered in memory and written by a thread of their own, many at a time.
//!
//! A busy server logs one line for each attempt; a system call for each would cost more than the line. What is
//! gathered is written at the latest after [`WRITE_EVERY`], and before the process ends in an orderly way.

mod json;

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use restante_server::telemetry;
use tracing_subscriber::fmt::MakeWriter;

pub(crate) use json::JsonLines;

/// How long a line waits at most.
const WRITE_EVERY: Duration = Duration::from_millis(50);
/// So much is written at once without waiting for more.
const WRITE_BYTES: usize = 64 * 1024;
/// When standard error takes nothing and this much waits, further lines are dropped and counted.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long the last lines may take when the process ends.
const LAST_LINES_TIME: Duration = Duration::from_secs(1);

/// Takes log lines.
#[derive(Clone)]
pub(crate) struct LogWriter(Arc<Waiting>);

struct Waiting {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    dropped: u64,
    ended: bool,
    /// All lines up to the end are written.
    written: bool,
}

/// Writes what is gathered until dropped; then the rest.
pub(crate) struct LogThread {
    waiting: Arc<Waiting>,
}

/// Starts the thread.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn start() -> io::Result<(LogWriter, LogThread)> {
    let waiting = Arc::new(Waiting { lines: Mutex::default(), changed: Condvar::new() });
    let shared = Arc::clone(&waiting);
    std::thread::Builder::new().name("restante-log".into()).spawn(move || shared.write_all())?;
    let writer = LogWriter(Arc::clone(&waiting));
    Ok((writer, LogThread { waiting }))
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self) {
        let mut batch = Vec::with_capacity(WRITE_BYTES);
        loop {
            let lines = self.lock();
            let idle = |lines: &mut Lines| lines.bytes.is_empty() && !lines.ended;
            let lines = self.changed.wait_while(lines, idle).unwrap_or_else(PoisonError::into_inner);
            // More lines come while these wait a moment.
            let filling = |lines: &mut Lines| lines.bytes.len() < WRITE_BYTES && !lines.ended;
            let waited = self.changed.wait_timeout_while(lines, WRITE_EVERY, filling);
            let (mut lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut lines.bytes, &mut batch);
            let (dropped, ended) = (std::mem::take(&mut lines.dropped), lines.ended);
            drop(lines);
            // There is nowhere to report that reporting fails.
            let _ = io::stderr().write_all(&batch);
            batch.clear();
            if dropped > 0 {
                let _ = writeln!(
                    io::stderr(),
                    "{{\"level\":\"WARN\",\"message\":\"{dropped} log lines were dropped\"}}"
                );
            }
            if ended {
                self.lock().written = true;
                self.changed.notify_all();
                return;
            }
        }
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.waiting.lock().ended = true;
        self.waiting.changed.notify_one();
        // Whoever reads standard error may have stopped: then the rest is not waited for.
        let lines = self.waiting.lock();
        let writing = |lines: &mut Lines| !lines.written;
        let _ = self.waiting.changed.wait_timeout_while(lines, LAST_LINES_TIME, writing);
    }
}

impl Write for &LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lock();
        if lines.bytes.len() + line.len() > WAITING_BYTES_MAX {
            lines.dropped += 1;
            telemetry::log_line_dropped();
            return Ok(line.len());
        }
        let (was_empty, was_short) = (lines.bytes.is_empty(), lines.bytes.len() < WRITE_BYTES);
        lines.bytes.extend_from_slice(line);
        let is_long = lines.bytes.len() >= WRITE_BYTES;
        drop(lines);
        if was_empty || (was_short && is_long) {
            self.0.changed.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = &'a LogWriter;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}
