//! PostgreSQL, for when one machine is not enough: any number of nodes work on one database.
//!
//! What comes in masses (accepts, publishes, settles) is gathered and written a batch at a time, each batch one
//! transaction in one round trip (`batch.rs`). Everything else is a transaction of its own. No node knows what others
//! do: rows are locked, leases name their node and end by the database's clock, and the configuration that a node keeps
//! in memory is checked by its epoch in the transaction that relies on it.

mod accept;
mod attend;
mod batch;
mod bulk;
mod claim;
mod codec;
mod columns;
mod config;
mod credit;
mod effect;
mod follow;
mod health;
mod job;
mod jobs;
mod lane;
mod listen;
mod mail;
pub(crate) mod migrate;
pub(crate) mod node;
pub(crate) mod partition;
mod plan;
#[cfg(feature = "conformance")]
mod plans;
pub(crate) mod pool;
mod prune;
mod publish;
mod read;
mod records;
mod replay;
mod resend;
mod scan;
mod seen;
mod settle;
mod slots;
mod slow;
pub(crate) mod sql;
mod state;
mod store;
mod sweep;
mod take_over;
mod tally;
mod tx;
mod upkeep;
mod write;

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;

use crate::{Error, Policy};
use job::Job;
use node::{Node, lock};
use pool::Address;

pub use pool::trust_nobody;

/// A node's store in a database that it shares with others.
pub struct Postgres {
    node: Arc<Node>,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Postgres {
    /// Connects to `postgres://user:password@host1,host2/database`, brings the schema up to date, and takes a place
    /// among the nodes. What goes on in the background runs on the runtime of this call.
    ///
    /// # Errors
    /// What is wrong with the URL, what the database says, or a migration.
    pub async fn open(url: &str, tls: rustls::ClientConfig, policy: Policy) -> Result<Self, Fault> {
        let node = Node::start(Address::parse(url, tls)?, policy).await?;
        let (jobs, writer) = batch::start(&node);
        node.attend();
        Ok(Self { node, jobs: Mutex::new(Some(jobs)), writer: Mutex::new(Some(writer)) })
    }

    /// Finishes what is queued and gives up the node's place. Later calls are `Unavailable`.
    pub async fn close(&self) {
        lock(&self.jobs).take();
        let writer = lock(&self.writer).take();
        if let Some(writer) = writer
            && writer.await.is_err()
        {
            tracing::error!("the writer had panicked");
        }
        if let Err(fault) = self.node.leave().await {
            tracing::warn!(error.message = %fault, "the node's place stays until it is taken over");
        }
    }

    /// Ends at once, as the death of its process would.
    pub fn abandon(&self) {
        lock(&self.jobs).take();
        if let Some(writer) = lock(&self.writer).take() {
            writer.abort();
        }
        self.node.closing.send_replace(true);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// What goes wrong inside.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("{}", database_message(.0))]
    Database(tokio_postgres::Error),
    #[error("no connection: {0}")]
    NoConnection(String),
    /// The answer to a COMMIT did not come, and whether it took effect cannot be found out.
    #[error("what became of a commit is not known: {0}")]
    CommitUnknown(String),
    /// The configuration has changed since the node read it.
    #[error("the configuration has changed")]
    Stale,
    /// The node has no row any more.
    #[error("the node counts as dead")]
    Gone,
    /// What follows changes the configuration: it is to be done by a transaction that may.
    #[error("the transaction may not change the configuration")]
    NeedsConfiguration,
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Setting(String),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code().map(SqlState::code) {
            Some("RS001") => Self::Stale,
            Some("RS002") => Self::Gone,
            Some(_) | None => Self::Database(error),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Damaged(what) => Self::Damaged(what),
            Fault::Database(_)
            | Fault::NoConnection(_)
            | Fault::CommitUnknown(_)
            | Fault::Stale
            | Fault::Gone
            | Fault::NeedsConfiguration
            | Fault::Setting(_) => Self::Unavailable(fault.to_string()),
        }
    }
}

impl Fault {
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => error.code(),
            Self::NoConnection(_)
            | Self::CommitUnknown(_)
            | Self::Stale
            | Self::Gone
            | Self::NeedsConfiguration
            | Self::Damaged(_)
            | Self::Setting(_) => None,
        }
    }

    /// Whether the same transaction may work when it is tried again: others were in the way, nothing is wrong with it.
    fn is_transient(&self) -> bool {
        let waits = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
        ];
        self.code().is_some_and(|code| waits.contains(code))
    }

    /// Whether the connection is no more, or its server takes no writes any more.
    fn is_broken_link(&self) -> bool {
        let ended = [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ];
        match self {
            Self::Database(error) => match error.code() {
                Some(code) => ended.contains(code) || code.code().starts_with("08"),
                None => true,
            },
            Self::NoConnection(_) => true,
            Self::CommitUnknown(_)
            | Self::Stale
            | Self::Gone
            | Self::NeedsConfiguration
            | Self::Damaged(_)
            | Self::Setting(_) => false,
        }
    }

    /// Whether a key that this node made is another's: its slot was somebody's whose clock ran ahead.
    fn is_taken_key(&self) -> bool {
        let Self::Database(error) = self else { return false };
        let Some(error) = error.as_db_error() else { return false };
        let ours = ["message", "delivery", "ledger"];
        *error.code() == SqlState::UNIQUE_VIOLATION
            && error.table().is_some_and(|table| ours.iter().any(|known| table.starts_with(known)))
    }
}

/// What the server says, or the library if nothing came from there.
fn database_message(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => error.to_string(),
    }
}
