//! Who is connected, and who makes which attempt.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use restante_core::endpoint::Source;
use restante_core::id::{Key, SourceId};
use restante_store::endpoint::Feed;
use restante_store::{Listening, Parcel, Store};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::sync::mpsc;

use super::client::{Client, Command};
use super::{CLIENTS_MAX, PROBE_TIME, Protocol, SEATS};
use crate::clock::Clock;

/// The connected clients of this node.
pub(crate) struct Hub {
    store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    sources: Mutex<FxHashMap<SourceId, Vec<Place>>>,
    /// A seat has become free, or somebody has come or gone.
    freed: Notify,
    /// The store is told of one change of a source after the other.
    telling: Mutex<FxHashMap<SourceId, Arc<tokio::sync::Mutex<()>>>>,
    next: AtomicU64,
}

/// A client and how many more attempts it can make.
struct Place {
    client: Arc<Client>,
    free: u32,
}

/// The right to make one attempt through a client. Free again when dropped.
pub(crate) struct Seat {
    hub: Arc<Hub>,
    pub(super) client: Arc<Client>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut sources = self.hub.sources();
        let places = sources.get_mut(&self.client.source).into_iter().flatten();
        if let Some(place) = places.into_iter().find(|it| it.client.number == self.client.number) {
            place.free += 1;
        }
        drop(sources);
        self.hub.freed.notify_waiters();
    }
}

/// Pause after the store has not heard, growing to the second value.
const TELL_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How long attempts on a dead link wait for the store to hear of it.
const HEAR_TIME: Duration = Duration::from_millis(500);

/// A source has as many clients as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Protocol {
    const fn seats(self) -> u32 {
        match self {
            Self::First => 1,
            Self::V1 => SEATS,
        }
    }
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            sources: Mutex::default(),
            freed: Notify::new(),
            telling: Mutex::default(),
            next: AtomicU64::new(1),
        })
    }

    fn sources(&self) -> MutexGuard<'_, FxHashMap<SourceId, Vec<Place>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clients of a source that are connected to this node.
    pub(crate) fn clients(&self, source: SourceId) -> u32 {
        let clients = self.sources().get(&source).map_or(0, Vec::len);
        u32::try_from(clients).unwrap_or(u32::MAX)
    }

    /// Clients of all sources.
    pub(crate) fn all_clients(&self) -> usize {
        self.sources().values().map(Vec::len).sum()
    }

    /// Takes a client in. It is to be announced with [`Hub::tell`], and to [`Hub::leave`].
    ///
    /// # Errors
    /// `Full`: the source has [`CLIENTS_MAX`] clients.
    pub(super) fn enter(
        &self,
        source: SourceId,
        token: String,
        protocol: Protocol,
    ) -> Result<(Arc<Client>, mpsc::UnboundedReceiver<Command>), Full> {
        let (commands, queue) = mpsc::unbounded_channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let client = Arc::new(Client::new(number, (source, token), self.clock.now(), protocol, commands));
        client.heard(self.clock.monotonic());
        let mut sources = self.sources();
        let places = sources.entry(source).or_default();
        if places.len() >= CLIENTS_MAX {
            return Err(Full);
        }
        places.push(Place { client: Arc::clone(&client), free: protocol.seats() });
        drop(sources);
        self.freed.notify_waiters();
        Ok((client, queue))
    }

    /// Lets a client go: the store hears of it before its attempts do, so that nothing more is leased for it, unless the
    /// store takes its time. `ours`: because this node stops.
    pub(super) async fn leave(&self, client: &Client, ours: bool) {
        self.remove(client);
        let heard = self.tell(client.source);
        tokio::pin!(heard);
        let in_time = tokio::time::timeout(HEAR_TIME, heard.as_mut()).await;
        client.end(ours);
        self.freed.notify_waiters();
        if in_time.is_err() {
            heard.await;
        }
    }

    /// Whether the source still has the token that a client has come in with. Without an answer of the store it has.
    pub(super) async fn is_welcome(&self, client: &Client) -> bool {
        let found = self.store.find::<Source>(&client.token).await;
        found.map_or(true, |source| source.is_some_and(|source| source.id == client.source))
    }

    /// A source was changed: clients that came in with another token have to go.
    pub(crate) fn look_again(&self, source: SourceId) {
        self.all(source).iter().for_each(|client| client.look.notify_one());
    }

    fn remove(&self, client: &Client) {
        let mut sources = self.sources();
        if let Some(places) = sources.get_mut(&client.source) {
            places.retain(|place| place.client.number != client.number);
            if places.is_empty() {
                sources.remove(&client.source);
            }
        }
    }

    fn is_full(&self, source: SourceId) -> bool {
        self.sources().get(&source).is_some_and(|places| places.len() >= CLIENTS_MAX)
    }

    fn all(&self, source: SourceId) -> Vec<Arc<Client>> {
        let sources = self.sources();
        sources.get(&source).into_iter().flatten().map(|place| Arc::clone(&place.client)).collect()
    }

    /// Makes room at a source that is full: pings all its clients and cuts those that do not answer, since a refusal
    /// stops some clients for good. Who makes an attempt may have no ear for it.
    pub(super) async fn make_room(&self, source: SourceId) {
        if !self.is_full(source) {
            return;
        }
        let clients = self.all(source);
        let clients: Vec<_> = clients.into_iter().map(|client| (client.words(), client)).collect();
        clients.iter().for_each(|(_, client)| client.ping());
        let lives = |client: &Client, words: u64| client.words() > words || client.is_waited_for();
        let all_spoke = async {
            for (words, client) in &clients {
                client.until(|client| lives(client, *words)).await;
            }
        };
        // Whoever has not spoken by then is dead.
        let _ = tokio::time::timeout(PROBE_TIME, all_spoke).await;
        for (_, client) in clients.iter().filter(|(words, client)| !lives(client, *words)) {
            self.remove(client);
            // Its session does the rest.
            client.cut.notify_one();
        }
    }

    /// Tells the store who listens to a source now, until it has heard.
    pub(super) async fn tell(&self, source: SourceId) {
        let turns = Arc::clone(self.telling().entry(source).or_default());
        let turn = turns.lock().await;
        let mut pause = TELL_PAUSE.0;
        while let Err(error) = self.store.listen(source, self.listening(source)).await {
            tracing::warn!(error.message = %error, source.id = %source, "the store does not hear who listens");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(TELL_PAUSE.1);
        }
        drop(turn);
        drop(turns);
        // Nobody else has it who does not hold the map.
        self.telling().retain(|_, turns| Arc::strong_count(turns) > 1);
    }

    fn telling(&self) -> MutexGuard<'_, FxHashMap<SourceId, Arc<tokio::sync::Mutex<()>>>> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listening(&self, source: SourceId) -> Option<Listening> {
        let sources = self.sources();
        let places = sources.get(&source).map(Vec::as_slice).unwrap_or_default();
        let since = places.iter().map(|place| place.client.since).min()?;
        let seats = places.iter().map(|place| place.client.protocol.seats()).sum();
        Some(Listening { since, seats })
    }

    /// Finds a client for a parcel's attempt; waits for one at most so long. `None`: nobody takes it now.
    pub(crate) async fn seat(self: &Arc<Self>, parcel: &Parcel, patience: Duration) -> Option<Seat> {
        let Feed::Source(source) = parcel.endpoint.feed else { return None };
        let made_at = parcel.lease.delivery.key();
        let takes_pending = parcel.endpoint.takes_pending();
        let waiting = async {
            loop {
                let freed = self.freed.notified();
                tokio::pin!(freed);
                freed.as_mut().enable();
                match self.find(source, made_at, takes_pending) {
                    Found::Seat(seat) => return Some(seat),
                    Found::Busy => freed.await,
                    Found::Nobody => return None,
                }
            }
        };
        tokio::time::timeout(patience, waiting).await.ok().flatten()
    }

    /// The client that takes such a delivery and has most room.
    fn find(self: &Arc<Self>, source: SourceId, made: Key, takes_pending: bool) -> Found {
        let mut sources = self.sources();
        let places = sources.get_mut(&source).into_iter().flatten();
        let mut takers = places
            .filter(|place| takes_pending || made >= Key::first_at(place.client.since))
            .collect::<Vec<_>>();
        let Some(place) = takers.iter_mut().max_by_key(|place| place.free) else { return Found::Nobody };
        if place.free == 0 {
            return Found::Busy;
        }
        place.free -= 1;
        Found::Seat(Seat { hub: Arc::clone(self), client: Arc::clone(&place.client) })
    }
}

enum Found {
    Seat(Seat),
    /// All who take it have as much as they can.
    Busy,
    /// Nobody takes it.
    Nobody,
}
