//! The embedded database.
//!
//! One thread writes (`writer.rs`), driving the [`engine::Engine`]; reads have connections of their own. A data
//! directory belongs to one process at a time.

mod accept;
mod claim;
mod codec;
mod config;
pub mod engine;
mod history;
mod migrate;
mod prune;
mod read;
mod replay;
mod scan;
mod settle;
mod writer;

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use restante_core::Timestamp;
use restante_core::id::{DeliveryId, DestinationId, ReplayId, RequestId, Tail, WorkspaceId};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use tokio::sync::{Notify, broadcast, mpsc, oneshot};

use crate::record::{Draft, Kind, Raw};
use crate::{
    Accepted, BulkRetry, Cancelled, Change, Claimed, Created, Dispatch, Error, Finished, Grant, Incoming,
    Lease, Page, Paged, Replayed, Retried, Settled, Store, Updated, Vitals, row,
};
use engine::Engine;
use read::Reader;
use writer::{Answer, Shared, Task};

/// The database's file in the data directory.
const DATABASE_FILE: &str = "restante.db";
/// Whoever holds a lock on this file owns the data directory.
const LOCK_FILE: &str = "restante.lock";
/// Leases settled as lost in one transaction when taking over.
const TAKE_OVER_CHUNK: usize = 1000;

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
    wal: PathBuf,
    /// Released when the store is dropped, after the writer ended.
    _lock: File,
}

/// Idle reading connections.
struct Readers {
    database: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

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
    pub fn open(directory: &Path) -> Result<Self, Fault> {
        let io = |error: std::io::Error| Fault::Io(format!("{}: {error}", directory.display()));
        make_private_directory(directory).map_err(io)?;
        let lock = File::create(directory.join(LOCK_FILE)).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Fault::InUse(directory.display().to_string())),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let database = directory.join(DATABASE_FILE);
        let engine = Engine::open(&database)?;
        engine.conn.wal_hook(Some(|_, pages| {
            WAL_PAGES.set(usize::try_from(pages).unwrap_or(0));
            Ok(())
        }));
        let checkpointer = Connection::open(&database)?;
        checkpointer.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;")?;
        let shared = Arc::new(Shared::new());
        let (tasks, writer) = writer::start(engine, checkpointer, Arc::clone(&shared))?;
        Ok(Self {
            tasks: Mutex::new(Some(tasks)),
            writer: Mutex::new(Some(writer)),
            shared,
            wal: directory.join(format!("{DATABASE_FILE}-wal")),
            readers: Arc::new(Readers { database, idle: Mutex::new(Vec::new()) }),
            _lock: lock,
        })
    }

    /// Finishes what is queued and closes the database. Later calls are `Unavailable`.
    pub fn close(&self) {
        drop(lock(&self.tasks).take());
        if let Some(writer) = lock(&self.writer).take()
            && writer.join().is_err()
        {
            tracing::error!("the writer thread had panicked");
        }
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

    /// Runs `work` on a reading connection, on a thread where it may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let readers = Arc::clone(&self.readers);
        tokio::task::spawn_blocking(move || {
            let conn = readers.take()?;
            let value = work(&conn)?;
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
    fn take(&self) -> Result<Connection, Fault> {
        if let Some(conn) = lock(&self.idle).pop() {
            return Ok(conn);
        }
        let conn = Connection::open_with_flags(&self.database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        conn.busy_timeout(std::time::Duration::from_secs(2))?;
        conn.set_prepared_statement_cache_capacity(64);
        Ok(conn)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_private_directory(directory: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
    }
    #[cfg(not(unix))]
    std::fs::create_dir_all(directory)
}

fn meta(conn: &Connection, name: &str) -> Result<Option<i64>, Fault> {
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

#[async_trait]
impl Store for Sqlite {
    async fn accept(&self, incoming: Incoming) -> Result<Accepted, Error> {
        self.write(Task::Grouped, move |engine| engine.accept(incoming)).await
    }

    async fn claim(&self, now: Timestamp, most: usize) -> Result<Claimed, Error> {
        self.write(Task::Grouped, move |engine| engine.claim(now, most)).await
    }

    async fn settle(&self, finished: Vec<Finished>) -> Result<Vec<Settled>, Error> {
        self.write(Task::Grouped, move |engine| finished.iter().map(|one| engine.settle(one)).collect()).await
    }

    async fn release(&self, leases: Vec<Lease>, now: Timestamp) -> Result<(), Error> {
        self.write(Task::Grouped, move |engine| engine.release(&leases, now)).await
    }

    async fn take_over(&self, now: Timestamp) -> Result<usize, Error> {
        let mut total = 0;
        loop {
            let settled =
                self.write(Task::Alone, move |engine| engine.take_over(now, TAKE_OVER_CHUNK)).await?;
            total += settled;
            if settled < TAKE_OVER_CHUNK {
                return Ok(total);
            }
        }
    }

    async fn cancel(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Cancelled, Error> {
        self.write(Task::Alone, move |engine| engine.cancel(workspace, delivery, now)).await
    }

    async fn retry(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Retried, Error> {
        self.write(Task::Alone, move |engine| engine.retry(workspace, delivery, now)).await
    }

    async fn count_bulk_retry(
        &self,
        workspace: WorkspaceId,
        destination: DestinationId,
        bulk: BulkRetry,
    ) -> Result<u64, Error> {
        self.read(move |conn| read::count_bulk_retry(conn, workspace, destination, &bulk)).await
    }

    async fn advance_bulk_retry(&self, id: ReplayId, now: Timestamp, most: usize) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.advance_bulk_retry(id, now, most)).await
    }

    async fn replay(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
        tail: Tail,
    ) -> Result<Replayed, Error> {
        self.write(Task::Alone, move |engine| engine.replay(workspace, request, now, tail)).await
    }

    async fn erase(&self, workspace: WorkspaceId, request: RequestId, now: Timestamp) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.erase(workspace, request, now)).await
    }

    async fn prune(&self, now: Timestamp, most: usize) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.prune(now, most)).await
    }

    async fn create(&self, draft: Draft, now: Timestamp) -> Result<Created, Error> {
        self.write(Task::Alone, move |engine| engine.create(&draft, now)).await
    }

    async fn update(&self, kind: Kind, new: Raw, now: Timestamp) -> Result<Updated, Error> {
        self.write(Task::Alone, move |engine| engine.update(kind, &new, now)).await
    }

    async fn delete(
        &self,
        kind: Kind,
        workspace: WorkspaceId,
        uuid: u128,
        now: Timestamp,
    ) -> Result<bool, Error> {
        self.write(Task::Alone, move |engine| engine.delete(kind, workspace, uuid, now)).await
    }

    async fn record(&self, kind: Kind, workspace: WorkspaceId, uuid: u128) -> Result<Option<Raw>, Error> {
        self.read(move |conn| read::record(conn, kind, workspace, uuid)).await
    }

    async fn record_by_lookup(&self, kind: Kind, lookup: &str) -> Result<Option<Raw>, Error> {
        let lookup = lookup.to_owned();
        self.read(move |conn| read::record_by_lookup(conn, kind, &lookup)).await
    }

    async fn records(
        &self,
        kind: Kind,
        workspace: Option<WorkspaceId>,
        parent: Option<u128>,
        page: Page,
    ) -> Result<Paged<Raw>, Error> {
        self.read(move |conn| read::records(conn, kind, workspace, parent, page)).await
    }

    async fn balance(&self, workspace: WorkspaceId) -> Result<Option<i64>, Error> {
        self.read(move |conn| read::balance(conn, workspace)).await
    }

    async fn ledger(&self, workspace: WorkspaceId, page: Page) -> Result<Paged<row::Charge>, Error> {
        self.read(move |conn| read::ledger(conn, workspace, page)).await
    }

    async fn grant(
        &self,
        workspace: WorkspaceId,
        grant: Grant,
        note: String,
        now: Timestamp,
    ) -> Result<Option<i64>, Error> {
        self.write(Task::Alone, move |engine| engine.grant(workspace, grant, note, now)).await
    }

    async fn request(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    ) -> Result<Option<row::Request>, Error> {
        self.read(move |conn| Reader::new(conn, now).request(workspace, request)).await
    }

    async fn requests(
        &self,
        workspace: WorkspaceId,
        filter: row::RequestFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Request>, Error> {
        self.read(move |conn| Reader::new(conn, now).requests(workspace, &filter, page)).await
    }

    async fn request_body(
        &self,
        workspace: WorkspaceId,
        request: RequestId,
        now: Timestamp,
    ) -> Result<Option<bytes::Bytes>, Error> {
        let body = self.read(move |conn| Reader::new(conn, now).request_body(workspace, request)).await?;
        Ok(body.map(bytes::Bytes::from))
    }

    async fn delivery(
        &self,
        workspace: WorkspaceId,
        delivery: DeliveryId,
        now: Timestamp,
    ) -> Result<Option<row::Delivery>, Error> {
        self.read(move |conn| Reader::new(conn, now).delivery(workspace, delivery)).await
    }

    async fn deliveries(
        &self,
        workspace: WorkspaceId,
        filter: row::DeliveryFilter,
        page: Page,
        now: Timestamp,
    ) -> Result<Paged<row::Delivery>, Error> {
        self.read(move |conn| Reader::new(conn, now).deliveries(workspace, &filter, page)).await
    }

    async fn attach(&self, dispatch: Option<Arc<dyn Dispatch>>) -> Result<(), Error> {
        self.write(Task::Grouped, move |engine| {
            engine.attach(dispatch);
            Ok(())
        })
        .await
    }

    fn due(&self) -> &Notify {
        &self.shared.due
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.shared.changes.subscribe()
    }

    async fn health(&self) -> Result<Vitals, Error> {
        if let Some(broken) = lock(&self.shared.broken).clone() {
            return Err(Error::Unavailable(broken));
        }
        self.read(|conn| Ok(conn.query_row("SELECT 1 FROM meta", [], |_| Ok(())).optional()?)).await?;
        let wal_bytes = std::fs::metadata(&self.wal).map_or(0, |file| file.len());
        Ok(Vitals { wal_bytes, ..*lock(&self.shared.vitals) })
    }
}
