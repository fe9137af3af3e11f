//! The writer thread: takes all that is queued, makes one commit of it, answers after the fsync.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{Notify, broadcast, mpsc};

use super::Fault;
use super::engine::Engine;
use super::room::Watch;
use crate::meter::Stopwatch;
use crate::{Change, Commits, Vitals};

/// Jobs that may wait for the writer before callers have to.
const QUEUE_JOBS: usize = 8192;
/// Most jobs in one commit: bounds how long the first of them waits.
const COMMIT_JOBS: usize = 512;
/// WAL pages that make a checkpoint worth while (16 MiB).
const CHECKPOINT_PAGES: usize = 4096;
/// Pause before a broken database is tried again.
const BROKEN_PAUSE: Duration = Duration::from_millis(200);
/// How often it is looked for room on the disk while nobody writes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Answers its caller once the commit is durable. Dropped unused, it tells the caller that nothing was stored.
pub(super) type Answer = Box<dyn FnOnce() + Send>;
/// One caller's share of a transaction.
pub(super) type Job = Box<dyn FnOnce(&mut Engine) -> Result<Answer, Fault> + Send>;

/// A job, and whether it may fail alone.
pub(super) enum Task {
    /// Fails only when the database does: then all of the commit fails.
    Grouped(Job),
    /// Runs within a savepoint, so that its failure harms no other.
    Alone(Job),
    /// Nothing more is taken; what is queued is done.
    Close,
}

/// What the writer shares with those who ask.
pub(super) struct Shared {
    pub(super) due: Notify,
    pub(super) changes: broadcast::Sender<Change>,
    pub(super) vitals: Mutex<Vitals>,
    pub(super) commits: Commits,
    /// The last error of the database, while it lasts.
    pub(super) broken: Mutex<Option<String>>,
    pub(super) room: Watch,
    checkpoint: Checkpoint,
}

/// How the writer and the checkpointer take turns. Copying pages back is left to the checkpointer; only the last
/// few, which it cannot reach while the writer adds more, are the writer's, for the log starts afresh only when
/// all of it was copied.
#[derive(Default)]
struct Checkpoint {
    running: AtomicBool,
    nearly_done: AtomicBool,
}

impl Shared {
    pub(super) fn new(room: Watch) -> Self {
        Self {
            due: Notify::new(),
            changes: broadcast::channel(4096).0,
            vitals: Mutex::new(Vitals::default()),
            commits: Commits::default(),
            broken: Mutex::new(None),
            room,
            checkpoint: Checkpoint::default(),
        }
    }
}

/// Starts the writer. It ends when all senders are gone and their jobs done.
pub(super) fn start(
    engine: Engine,
    checkpointer: Connection,
    shared: Arc<Shared>,
) -> Result<(mpsc::Sender<Task>, thread::JoinHandle<()>), Fault> {
    let (sender, receiver) = mpsc::channel(QUEUE_JOBS);
    let (wake, woken) = std::sync::mpsc::sync_channel(1);
    let checkpoint_shared = Arc::clone(&shared);
    let checkpoint_thread = thread::Builder::new()
        .name("restante-checkpoint".into())
        .spawn(move || copy_back(&checkpointer, &woken, &checkpoint_shared))
        .map_err(|error| Fault::Io(error.to_string()))?;
    *shared.vitals.lock().unwrap_or_else(PoisonError::into_inner) = engine.vitals();
    let writer =
        Writer { engine, receiver, shared, wake, checkpoint_pages: CHECKPOINT_PAGES, unburied: false };
    let handle = thread::Builder::new()
        .name("restante-writer".into())
        .spawn(move || {
            writer.run();
            // Whoever waits for this thread may count on the files being closed.
            if checkpoint_thread.join().is_err() {
                tracing::error!("the checkpoint thread had panicked");
            }
        })
        .map_err(|error| Fault::Io(error.to_string()))?;
    Ok((sender, handle))
}

struct Writer {
    engine: Engine,
    receiver: mpsc::Receiver<Task>,
    shared: Arc<Shared>,
    wake: std::sync::mpsc::SyncSender<()>,
    /// Pages in the log at which it is copied back.
    checkpoint_pages: usize,
    /// A commit failed, and what it wrote may still be in the log.
    unburied: bool,
}

impl Writer {
    fn run(mut self) {
        let mut tasks = Vec::new();
        while let Some(first) = self.receiver.blocking_recv() {
            tasks.push(first);
            while tasks.len() < COMMIT_JOBS {
                let Ok(task) = self.receiver.try_recv() else { break };
                tasks.push(task);
            }
            if tasks.iter().any(|task| matches!(task, Task::Close)) {
                // Callers that still wait for room in the queue are told that it is closed.
                self.receiver.close();
            }
            self.engine.watched = self.shared.changes.receiver_count() > 0;
            let (items, watch) = (tasks.len(), Stopwatch::start());
            match self.commit(tasks.drain(..)) {
                Ok(answers) => {
                    self.shared.commits.note(items, watch.elapsed());
                    self.note_fault(None);
                    self.shared.room.measure();
                    self.tell_about_commit();
                    for answer in answers {
                        answer();
                    }
                }
                Err(fault) => {
                    self.shared.room.note(&fault);
                    self.note_fault(Some(fault));
                    self.unburied = true;
                    // It fails as long as the reason lasts, and is then the first thing that the next commit does.
                    let _ = self.bury();
                }
            }
            self.checkpoint();
        }
    }

    /// One transaction for all tasks. On an error none of them has an effect, and their callers learn so.
    fn commit(&mut self, tasks: impl Iterator<Item = Task>) -> Result<Vec<Answer>, Fault> {
        self.bury()?;
        self.engine.begin()?;
        let mut answers = Vec::with_capacity(tasks.size_hint().0);
        for task in tasks {
            let done = match task {
                Task::Grouped(job) => job(&mut self.engine).map(Some),
                Task::Alone(job) => self.alone(job),
                Task::Close => Ok(None),
            };
            match done {
                Ok(answer) => answers.extend(answer),
                Err(fault) => {
                    self.engine.roll_back()?;
                    return Err(fault);
                }
            }
        }
        self.engine.commit()?;
        Ok(answers)
    }

    /// Makes sure that what was refused stays refused.
    ///
    /// A commit that failed at its sync has all of its pages in the log, and a crash would find them there whole. They are
    /// not trusted either: SQLite counts them only after the sync, so the next commit writes to the same place, and is
    /// synced itself. (Linux reports a failed sync once and forgets the pages; to sync again without having written
    /// again would prove nothing. The same holds for pages that a checkpoint copies back: until its sync worked they
    /// count as not copied, and the log is kept.) So the connection may stay open, and one small commit, made
    /// at once, overwrites the beginning of what was refused; the rest is then no continuation of anything.
    fn bury(&mut self) -> Result<(), Fault> {
        if self.unburied {
            self.engine.transaction(Engine::write_lease_floor)?;
            self.unburied = false;
        }
        Ok(())
    }

    fn alone(&mut self, job: Job) -> Result<Option<Answer>, Fault> {
        let before = self.engine.savepoint()?;
        match job(&mut self.engine) {
            Ok(answer) => {
                self.engine.release_savepoint()?;
                Ok(Some(answer))
            }
            Err(fault) => {
                self.shared.room.note(&fault);
                tracing::error!(error.message = %fault, "a change was refused by the database");
                self.engine.roll_back_to_savepoint(before)?;
                Ok(None)
            }
        }
    }

    fn tell_about_commit(&mut self) {
        for change in self.engine.take_changes() {
            // An error means that nobody listens any more.
            let _ = self.shared.changes.send(change);
        }
        if self.engine.should_wake() {
            self.shared.due.notify_one();
        }
        *self.shared.vitals.lock().unwrap_or_else(PoisonError::into_inner) = self.engine.vitals();
    }

    fn note_fault(&mut self, fault: Option<Fault>) {
        let mut broken = self.shared.broken.lock().unwrap_or_else(PoisonError::into_inner);
        match fault {
            None if broken.is_none() => {}
            None => {
                tracing::warn!("the database takes writes again");
                *broken = None;
            }
            Some(fault) => {
                tracing::error!(error.message = %fault, "the database refused a commit; nothing of it was acknowledged");
                *broken = Some(fault.to_string());
                drop(broken);
                self.shared.commits.note_refused();
                thread::sleep(BROKEN_PAUSE);
            }
        }
    }

    fn checkpoint(&mut self) {
        let (checkpoint, pages) = (&self.shared.checkpoint, super::wal_pages());
        if pages < CHECKPOINT_PAGES {
            self.checkpoint_pages = CHECKPOINT_PAGES;
        }
        if !checkpoint.running.load(Ordering::Acquire) {
            self.engine.wipe_log();
        }
        if checkpoint.nearly_done.swap(false, Ordering::AcqRel) {
            self.engine.finish_checkpoint();
            checkpoint.running.store(false, Ordering::Release);
            // If the log does not start afresh now, somebody reads it, for as long as a backup takes perhaps. To try at
            // every commit would cost the writer more the longer the log is.
            self.checkpoint_pages = CHECKPOINT_PAGES.max(pages + pages / 8);
        } else if pages >= self.checkpoint_pages && !checkpoint.running.swap(true, Ordering::AcqRel) {
            // A full channel means that it was told already.
            let _ = self.wake.try_send(());
        }
    }
}

fn copy_back(conn: &Connection, woken: &std::sync::mpsc::Receiver<()>, shared: &Shared) {
    loop {
        match woken.recv_timeout(LOOK_EVERY) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => {
                shared.room.look();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Err(error) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(error.message = %error, "a checkpoint did not run");
        }
        shared.checkpoint.nearly_done.store(true, Ordering::Release);
    }
}

impl Engine {
    /// Copies the rest of the log back. Not being able to is no fault: a reader may still need it.
    fn finish_checkpoint(&mut self) {
        if let Err(error) = self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(error.message = %error, "a checkpoint did not finish");
        }
    }

    fn release_savepoint(&self) -> Result<(), Fault> {
        self.conn.prepare_cached("RELEASE alone")?.execute([])?;
        Ok(())
    }
}
