//! Which events were processed, and which are being processed.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Store;

/// How many processed ids the default [`Deduplicator`] remembers: about 10 MB.
pub const CAPACITY_DEFAULT: usize = 100_000;

/// Remembers in memory which events were processed, by `webhook-id`.
///
/// Work is begun with a [`Ticket`], and only [`Ticket::commit`], called once the work is stored, makes later
/// deliveries duplicates. A ticket that is dropped, because the work failed or panicked or was cancelled, leaves no
/// trace: the sender's next attempt is processed like the first.
///
/// Clones share what they remember. Another process, or this one after a restart, does not know of it: a receiver
/// whose work must not be done twice commits ids where it commits its work, see [`Store`].
///
/// ```
/// use restante_sdk::receiver::{Begun, Deduplicator};
///
/// let deduplicator = Deduplicator::new(10_000);
/// match deduplicator.begin("whe_01k2m3n4p5q6r7s8t9v0w1x2y3") {
///     Begun::Fresh(ticket) => {
///         // Store the event here.
///         ticket.commit();
///         // Now answer 2xx.
///     }
///     Begun::Duplicate => {} // It is stored: answer 2xx.
///     Begun::InProgress => {} // Nobody knows yet: answer an error status.
/// }
/// assert!(matches!(deduplicator.begin("whe_01k2m3n4p5q6r7s8t9v0w1x2y3"), Begun::Duplicate));
/// ```
#[derive(Clone)]
pub struct Deduplicator {
    ids: Arc<Mutex<Ids>>,
}

/// What is known of an event that arrives.
#[derive(Debug)]
#[must_use = "dropping a ticket gives the work up"]
pub enum Begun<T> {
    /// Nothing: process it and commit the ticket.
    Fresh(T),
    /// Another delivery of it is being processed. Answer an error status: whether that one succeeds is not known yet.
    InProgress,
    /// It is processed. Answer 2xx, do nothing.
    Duplicate,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processed<T> {
    /// It was processed and committed now.
    Done(T),
    /// Another delivery of it is being processed. Answer an error status.
    InProgress,
    /// It was processed before. Answer 2xx.
    Duplicate,
}

impl<T> Processed<T> {
    /// Whether the event is stored, so that a 2xx answer is the truth.
    pub fn may_acknowledge(&self) -> bool {
        match self {
            Self::Done(_) | Self::Duplicate => true,
            Self::InProgress => false,
        }
    }
}

/// The right to process one event. Dropping it gives the right back.
#[must_use = "dropping a ticket gives the work up"]
pub struct Ticket {
    ids: Arc<Mutex<Ids>>,
    id: Arc<str>,
    stored: bool,
}

/// An id is in `states` while a ticket for it is out (`InProgress`) and while it is in `committed` (`Committed`).
struct Ids {
    states: HashMap<Arc<str>, State>,
    /// Oldest first, at most `capacity`.
    committed: VecDeque<Arc<str>>,
    capacity: usize,
}

#[derive(Clone, Copy)]
enum State {
    InProgress,
    Committed,
}

impl Deduplicator {
    /// Remembers the last `capacity` ids that were committed; 0 only tells simultaneous deliveries apart.
    ///
    /// Whoever commits more in the time over which the sender repeats itself (retries take up to 33 hours, a replay
    /// reaches back three days) processes some of the late ones again. Ids in progress come on top and are never
    /// forgotten.
    pub fn new(capacity: usize) -> Self {
        let ids = Ids { states: HashMap::new(), committed: VecDeque::new(), capacity };
        Self { ids: Arc::new(Mutex::new(ids)) }
    }

    /// Begins the work on an event unless it is done or being done.
    ///
    /// Never waits for another's work; callable from asynchronous code. To begin with ids that are stored somewhere
    /// already, begin and commit each of them.
    pub fn begin(&self, id: &str) -> Begun<Ticket> {
        let mut ids = lock(&self.ids);
        match ids.states.get(id) {
            Some(State::Committed) => Begun::Duplicate,
            Some(State::InProgress) => Begun::InProgress,
            None => {
                let id: Arc<str> = id.into();
                ids.states.insert(Arc::clone(&id), State::InProgress);
                Begun::Fresh(Ticket { ids: Arc::clone(&self.ids), id, stored: false })
            }
        }
    }

    /// Does the work on an event unless it is done or being done, and commits it when the work returns `Ok`.
    ///
    /// `Ok` of `work` must mean that the event is stored. Put a time limit around what may hang: until it ends,
    /// every delivery of the event is `InProgress`.
    ///
    /// # Errors
    /// What `work` failed with. The event counts as never seen.
    ///
    /// ```
    /// # use restante_sdk::receiver::{Deduplicator, Processed};
    /// # async fn receive(deduplicator: Deduplicator, id: &str) -> std::io::Result<()> {
    /// # async fn store(id: &str) -> std::io::Result<u64> { Ok(1) }
    /// let status = match deduplicator.process(id, async || store(id).await).await? {
    ///     Processed::Done(_) | Processed::Duplicate => 204,
    ///     Processed::InProgress => 409,
    /// };
    /// # Ok(()) }
    /// ```
    pub async fn process<T, E>(
        &self,
        id: &str,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<Processed<T>, E> {
        match self.begin(id) {
            Begun::Fresh(ticket) => {
                let done = work().await?;
                ticket.commit();
                Ok(Processed::Done(done))
            }
            Begun::InProgress => Ok(Processed::InProgress),
            Begun::Duplicate => Ok(Processed::Duplicate),
        }
    }
}

impl Ticket {
    /// The event's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Says that the event is stored: later deliveries of it are duplicates, and 2xx may be answered.
    pub fn commit(mut self) {
        self.stored = true;
    }
}

impl Drop for Ticket {
    /// A ticket ends here and only here, under one lock: once the id is given up or pushed out, it may be another
    /// ticket's at once.
    fn drop(&mut self) {
        let mut ids = lock(&self.ids);
        if self.stored {
            ids.commit(&self.id);
        } else {
            ids.states.remove(&self.id);
        }
    }
}

impl Ids {
    fn commit(&mut self, id: &Arc<str>) {
        self.states.insert(Arc::clone(id), State::Committed);
        self.committed.push_back(Arc::clone(id));
        while self.committed.len() > self.capacity {
            let Some(oldest) = self.committed.pop_front() else { break };
            self.states.remove(&oldest);
        }
    }
}

/// Nothing panics under this lock, and what it guards is whole after every statement that could.
fn lock(ids: &Mutex<Ids>) -> MutexGuard<'_, Ids> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Deduplicator {
    type Ticket = Ticket;
    type Error = Infallible;

    async fn begin(&self, id: &str) -> Result<Begun<Ticket>, Infallible> {
        Ok(Self::begin(self, id))
    }

    async fn commit(&self, ticket: Ticket) -> Result<(), Infallible> {
        ticket.commit();
        Ok(())
    }
}

impl Default for Deduplicator {
    /// With [`CAPACITY_DEFAULT`].
    fn default() -> Self {
        Self::new(CAPACITY_DEFAULT)
    }
}

impl fmt::Debug for Deduplicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = lock(&self.ids);
        f.debug_struct("Deduplicator")
            .field("capacity", &ids.capacity)
            .field("committed", &ids.committed.len())
            .field("in_progress", &(ids.states.len() - ids.committed.len()))
            .finish()
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
