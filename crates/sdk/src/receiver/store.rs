//! Ids that are kept with the work.

use std::error::Error;

use super::{Begun, Processed};

/// Where a caller keeps which events are processed: most often the database that the work goes into.
///
/// With the id in the transaction of the work, neither can be there without the other, whatever crashes, and whichever
/// of several receivers an attempt reaches. It takes a table with the id as its key:
///
/// ```sql
/// CREATE TABLE webhook_events (id text PRIMARY KEY, processed_at timestamptz NOT NULL DEFAULT now());
/// ```
///
/// and one transaction for each event:
///
/// ```sql
/// BEGIN;
/// INSERT INTO webhook_events (id) VALUES ($1) ON CONFLICT (id) DO NOTHING;
/// -- No row inserted: it is a duplicate. ROLLBACK, answer 2xx.
/// -- The work's own statements.
/// COMMIT;
/// -- Only now answer 2xx.
/// ```
///
/// [`begin`](Store::begin) does the first two and gives the transaction out as the ticket, [`commit`](Store::commit)
/// the last; a ticket that is dropped rolls back, as transactions do. A second delivery waits at the `INSERT` until the
/// first has committed or rolled back, so such a store need not answer `InProgress`; a `lock_timeout` turned into
/// `InProgress` bounds the wait. Rows may be deleted once the sender no longer has the event to send: after its retention,
/// 30 days unless set otherwise.
///
/// Tickets need not be transactions: where the work cannot share one with the ids, a ticket is a lease on the id that
/// runs out by itself. A crash between work and commit then repeats the work.
///
/// A store in a database, with `Pool` and `Transaction` standing for the driver's:
///
/// ```
/// # use restante_sdk::receiver::{Begun, Store};
/// # #[derive(Debug)] struct SqlError;
/// # impl std::fmt::Display for SqlError {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("sql") }
/// # }
/// # impl std::error::Error for SqlError {}
/// # struct Pool;
/// # impl Pool { async fn begin(&self) -> Result<Transaction, SqlError> { Ok(Transaction) } }
/// # struct Transaction;
/// # impl Transaction {
/// #     async fn execute(&mut self, _: &str, _: &[&str]) -> Result<u64, SqlError> { Ok(1) }
/// #     async fn commit(self) -> Result<(), SqlError> { Ok(()) }
/// # }
/// struct Database(Pool);
///
/// impl Store for Database {
///     type Ticket = Transaction;
///     type Error = SqlError;
///
///     async fn begin(&self, id: &str) -> Result<Begun<Transaction>, SqlError> {
///         let mut transaction = self.0.begin().await?;
///         let insert = "INSERT INTO webhook_events (id) VALUES ($1) ON CONFLICT (id) DO NOTHING";
///         match transaction.execute(insert, &[id]).await? {
///             0 => Ok(Begun::Duplicate),
///             _ => Ok(Begun::Fresh(transaction)),
///         }
///     }
///
///     async fn commit(&self, transaction: Transaction) -> Result<(), SqlError> {
///         transaction.commit().await
///     }
/// }
/// ```
pub trait Store: Send + Sync {
    /// The right to process one event. Dropping it gives the right back and undoes what was done under it.
    type Ticket: Send;
    /// What breaks when the store cannot be asked.
    type Error: Error + Send + Sync + 'static;

    /// Begins the work on the event with this id unless it is done or being done.
    ///
    /// # Errors
    /// When that cannot be found out. Answer an error status: the sender tries again.
    fn begin(&self, id: &str) -> impl Future<Output = Result<Begun<Self::Ticket>, Self::Error>> + Send;

    /// Makes the work and its id last. From then on [`Store::begin`] answers `Duplicate`.
    ///
    /// # Errors
    /// When the work is not known to be stored. Answer an error status: the next attempt's `begin` finds out.
    fn commit(&self, ticket: Self::Ticket) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// An event that is not known to be stored. Answer an error status: the sender tries again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotStored<E> {
    /// The work failed with this.
    #[error("the work on the event failed")]
    Work(#[source] E),
    /// The store could not begin or commit.
    #[error("the store of processed events failed")]
    Store(#[source] Box<dyn Error + Send + Sync>),
}

impl<E> NotStored<E> {
    pub(super) fn store(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Store(Box::new(error))
    }
}

/// Does the work on an event under the store's ticket, and commits it when the work returns `Ok`.
///
/// Where the ticket is a transaction, `work` does everything through it.
///
/// ```
/// # use restante_sdk::receiver::{NotStored, Store, process_in};
/// # async fn receive<S: Store>(store: S, id: &str) -> Result<u16, NotStored<std::io::Error>> {
/// let processed = process_in(&store, id, async |transaction| {
///     // INSERT what the event says through `transaction`.
///     # let _ = transaction;
///     Ok(())
/// });
/// Ok(if processed.await?.may_acknowledge() { 204 } else { 409 })
/// # }
/// ```
///
/// # Errors
/// `NotStored`: what the work or the store failed with. The event counts as never seen, unless it was the commit's
/// answer that got lost.
pub async fn process_in<S: Store, T, E>(
    store: &S,
    id: &str,
    work: impl AsyncFnOnce(&mut S::Ticket) -> Result<T, E>,
) -> Result<Processed<T>, NotStored<E>> {
    match store.begin(id).await.map_err(NotStored::store)? {
        Begun::Fresh(mut ticket) => {
            let done = work(&mut ticket).await.map_err(NotStored::Work)?;
            store.commit(ticket).await.map_err(NotStored::store)?;
            Ok(Processed::Done(done))
        }
        Begun::InProgress => Ok(Processed::InProgress),
        Begun::Duplicate => Ok(Processed::Duplicate),
    }
}
