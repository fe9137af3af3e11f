//! The embedded database.
//!
//! One thread writes (`writer.rs`), driving the [`engine::Engine`]; reads have connections of their own. A data
//! directory belongs to one process at a time.

mod accept;
mod agenda;
mod bulk;
mod claim;
mod codec;
mod config;
mod driven;
pub mod engine;
mod health;
mod history;
mod jobs;
mod listen;
mod mail;
pub(crate) mod migrate;
#[cfg(feature = "conformance")]
mod plans;
mod prune;
mod publish;
mod read;
mod records;
mod replay;
mod resend;
mod room;
mod scan;
mod seen;
mod settle;
mod store;
mod tally;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::clients::Served;
use crate::intake::RuleBook;
use crate::tally::SharedTally;
use crate::{Connections, Error, Policy};
use engine::Engine;
use writer::{Answer, Shared, Task};

/// The database's file in the data directory.
pub(crate) const DATABASE_FILE: &str = "restante.db";
/// Whoever holds a lock on this file owns the data directory.
pub(crate) const LOCK_FILE: &str = "restante.lock";

/// What goes wrong inside.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Io(String),
    #[error("the data directory {0} is in use by another process")]
    InUse(String),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Damaged(what) => Self::Damaged(what),
            Fault::Sqlite(_) | Fault::Io(_) | Fault::InUse(_) => Self::Unavailable(fault.to_string()),
        }
    }
}

/// A store in a data directory.
pub struct Sqlite {
    tasks: Mutex<Option<mpsc::Sender<Task>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    policy: Policy,
    served: Served,
    book: RuleBook,
    tally: SharedTally,
    wal: PathBuf,
    /// Given up once the writer has ended.
    lock: Mutex<Option<File>>,
}

/// Idle reading connections.
struct Readers {
    database: PathBuf,
    idle: Mutex<Vec<Connection>>,
    in_use: AtomicU64,
}

/// A read that goes on.
struct Reading<'a>(&'a AtomicU64);

thread_local! {
    /// Pages in the write-ahead log after the latest commit of this thread.
    static WAL_PAGES: Cell<usize> = const { Cell::new(0) };
}

fn wal_pages() -> usize {
    WAL_PAGES.get()
}

impl Sqlite {
    /// Opens or makes a store in `directory`.
    ///
    /// # Errors
    /// `InUse` while another process has it open; what the file system, SQLite or a migration says.
    pub fn open(directory: &Path, policy: Policy) -> Result<Self, Fault> {
        let io = |error: std::io::Error| Fault::Io(format!("{}: {error}", directory.display()));
        make_private_directory(directory).map_err(io)?;
        let lock = own(directory)?;
        let database = directory.join(DATABASE_FILE);
        let engine = Engine::open(&database, policy)?;
        engine.conn.wal_hook(Some(|_, pages| {
            WAL_PAGES.set(usize::try_from(pages).unwrap_or(0));
            Ok(())
        }));
        let checkpointer = Connection::open(&database)?;
        checkpointer.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;")?;
        let (served, tally) = (engine.config.served.clone(), engine.tally.clone());
        let book = engine.config.book.clone();
        let shared = Arc::new(Shared::new(room::Watch::start(directory, policy.disk)));
        let (tasks, writer) = writer::start(engine, checkpointer, Arc::clone(&shared))?;
        Ok(Self {
            tasks: Mutex::new(Some(tasks)),
            writer: Mutex::new(Some(writer)),
            shared,
            policy,
            served,
            book,
            tally,
            wal: directory.join(format!("{DATABASE_FILE}-wal")),
            readers: Arc::new(Readers { database, idle: Mutex::new(Vec::new()), in_use: AtomicU64::new(0) }),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Finishes what is queued and closes the database. Later calls are `Unavailable`.
    pub fn close(&self) {
        if let Some(tasks) = lock(&self.tasks).take() {
            // Dropping this sender would not do: a caller that nobody polls any more may hold another.
            let mut close = Task::Close;
            while let Err(TrySendError::Full(again)) = tasks.try_send(close) {
                close = again;
                std::thread::yield_now();
            }
        }
        if let Some(writer) = lock(&self.writer).take()
            && writer.join().is_err()
        {
            tracing::error!("the writer thread had panicked");
        }
        lock(&self.lock).take();
    }

    /// Runs `work` in the writer's next transaction and gives its value once that is durable.
    async fn write<T: Send + 'static>(
        &self,
        kind: fn(writer::Job) -> Task,
        work: impl FnOnce(&mut Engine) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, receiver) = oneshot::channel();
        let job = Box::new(move |engine: &mut Engine| {
            let value = work(engine)?;
            // Whoever hung up does not want the answer.
            let answer: Answer = Box::new(move || drop(sender.send(value)));
            Ok(answer)
        });
        let tasks = lock(&self.tasks).clone().ok_or_else(|| Error::Unavailable("closed".into()))?;
        tasks.send(kind(job)).await.map_err(|_| Error::Unavailable("the writer has ended".into()))?;
        receiver.await.map_err(|_| {
            let broken = lock(&self.shared.broken).clone();
            Error::Unavailable(broken.unwrap_or_else(|| "the change was refused by the database".into()))
        })
    }

    /// As [`Self::write`], for what makes messages: while there is no room for them nothing is done. What was queued before
    /// is told so, too, or a full queue would eat up what is kept for others.
    async fn write_new<T: Send + 'static>(
        &self,
        kind: fn(writer::Job) -> Task,
        work: impl FnOnce(&mut Engine) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        self.shared.room.admit()?;
        let shared = Arc::clone(&self.shared);
        let admitted = move |engine: &mut Engine| match shared.room.admit() {
            Ok(()) => work(engine).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        };
        self.write(kind, admitted).await?
    }

    /// Whether nobody writes any more.
    fn has_ended(&self) -> bool {
        lock(&self.tasks).as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Runs `work` on a reading connection, on a thread where it may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let readers = Arc::clone(&self.readers);
        tokio::task::spawn_blocking(move || {
            let _reading = readers.begin();
            let conn = readers.take()?;
            let value = work(&conn)?;
            #[cfg(feature = "conformance")]
            plans::judge(&conn);
            lock(&readers.idle).push(conn);
            Ok::<T, Fault>(value)
        })
        .await
        .map_err(|error| Error::Unavailable(error.to_string()))?
        .map_err(Error::from)
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.close();
    }
}

impl Readers {
    fn begin(&self) -> Reading<'_> {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Reading(&self.in_use)
    }

    fn connections(&self) -> Connections {
        let idle = lock(&self.idle).len() as u64;
        Connections { in_use: self.in_use.load(Ordering::Relaxed), idle, waiting: 0, max: None }
    }

    fn take(&self) -> Result<Connection, Fault> {
        if let Some(conn) = lock(&self.idle).pop() {
            return Ok(conn);
        }
        let conn = Connection::open_with_flags(&self.database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        conn.busy_timeout(std::time::Duration::from_secs(2))?;
        conn.set_prepared_statement_cache_capacity(64);
        #[cfg(feature = "conformance")]
        plans::watch(&conn);
        Ok(conn)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes hold of a data directory for as long as the file is open.
pub(crate) fn own(directory: &Path) -> Result<File, Fault> {
    let io = |error: std::io::Error| Fault::Io(format!("{}: {error}", directory.display()));
    let lock = File::create(directory.join(LOCK_FILE)).map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Fault::InUse(directory.display().to_string())),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

pub(crate) fn make_private_directory(directory: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
    }
    #[cfg(not(unix))]
    std::fs::create_dir_all(directory)
}

pub(crate) fn meta(conn: &Connection, name: &str) -> Result<Option<i64>, Fault> {
    let value = conn
        .prepare_cached("SELECT value FROM meta WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(value)
}

fn set_meta(conn: &Connection, name: &str, value: i64) -> Result<(), Fault> {
    conn.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?
        .execute(params![name, value])?;
    Ok(())
}
