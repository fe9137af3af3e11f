//! Whoever takes what is claimed: settles it at once as delivered, or never.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use restante_core::endpoint::EndpointId;
use restante_core::retry::Jitter;
use restante_core::{Attempt, Outcome};
use restante_store::postgres::Postgres;
use restante_store::{Dispatch, Endpoint, Finished, Parcel, Store, Withdraw};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::now;
use crate::clock;
use crate::latency::{Latencies, Percentiles};

/// Who settles at the same time: one for each thread of a server.
const SETTLERS: usize = 2;
/// Most attempts of one settle.
const SETTLE_MAX: usize = 256;
/// Claimed and not settled, at most, when the next claim begins.
const UNSETTLED_MAX: u64 = 1_024;
const LOOK_EVERY: Duration = Duration::from_micros(100);

pub(super) struct Hands {
    settlers: Vec<UnboundedSender<Parcel>>,
    /// Parcels taken over so far, and how many of them are done with.
    taken: AtomicU64,
    done: AtomicU64,
    settles: Mutex<Latencies>,
    /// Lanes, in the order in which they turned up.
    lanes: Mutex<Lanes>,
    /// Some lanes keep what they get.
    some_keep: AtomicBool,
}

#[derive(Default)]
struct Lanes {
    known: HashSet<EndpointId>,
    endpoints: Vec<Arc<Endpoint>>,
    /// Those whose deliveries are never settled.
    keeping: HashSet<EndpointId>,
}

impl Hands {
    pub(super) fn start(store: &Arc<Postgres>) -> Arc<Self> {
        let (settlers, queues): (Vec<_>, Vec<_>) = (0..SETTLERS).map(|_| unbounded_channel()).unzip();
        let hands = Arc::new(Self {
            settlers,
            taken: AtomicU64::new(0),
            done: AtomicU64::new(0),
            settles: Mutex::new(Latencies::new()),
            lanes: Mutex::default(),
            some_keep: AtomicBool::new(false),
        });
        for queue in queues {
            tokio::spawn(Arc::clone(&hands).settle(Arc::clone(store), queue));
        }
        hands
    }

    /// Parcels taken over so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Waits until few are left to settle.
    pub(super) async fn until_room(&self) {
        while self.taken() - self.done.load(Ordering::Acquire) > UNSETTLED_MAX {
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until all is settled.
    pub(super) async fn until_empty(&self) {
        while self.taken() > self.done.load(Ordering::Acquire) {
            sleep(LOOK_EVERY).await;
        }
    }

    /// From now on all lanes but `healthy` hold at most one lease, and that for ever.
    pub(super) fn keep_one_of_all_but(&self, healthy: u64) {
        let mut lanes = lock(&self.lanes);
        let keeping = lanes.endpoints.split_off(usize::try_from(healthy).unwrap_or(usize::MAX));
        for endpoint in &keeping {
            endpoint.set_leases_max(1);
        }
        lanes.keeping = keeping.iter().map(|endpoint| endpoint.id).collect();
        self.some_keep.store(true, Ordering::Release);
    }

    pub(super) fn forget_latencies(&self) {
        *lock(&self.settles) = Latencies::new();
    }

    pub(super) fn settle_latencies(&self) -> Percentiles {
        lock(&self.settles).percentiles()
    }

    async fn settle(self: Arc<Self>, store: Arc<Postgres>, mut queue: UnboundedReceiver<Parcel>) {
        let mut parcels = Vec::new();
        while queue.recv_many(&mut parcels, SETTLE_MAX).await > 0 {
            let count = parcels.len() as u64;
            let finished: Vec<Finished> = parcels.drain(..).map(finished).collect();
            let begun = clock::now();
            // An error shows in how long it takes, and in that nothing is left to claim in the end.
            while store.settle(finished.clone()).await.is_err() {
                sleep(Duration::from_millis(50)).await;
            }
            lock(&self.settles).record(clock::micros_since(begun));
            self.done.fetch_add(count, Ordering::AcqRel);
        }
    }
}

impl Dispatch for Hands {
    fn dispatch(&self, parcels: Vec<Parcel>) {
        self.taken.fetch_add(parcels.len() as u64, Ordering::AcqRel);
        let some_keep = self.some_keep.load(Ordering::Acquire);
        let mut lanes = lock(&self.lanes);
        for (index, parcel) in parcels.into_iter().enumerate() {
            if lanes.known.insert(parcel.endpoint.id) {
                lanes.endpoints.push(Arc::clone(&parcel.endpoint));
            }
            if some_keep && lanes.keeping.contains(&parcel.endpoint.id) {
                self.done.fetch_add(1, Ordering::AcqRel);
            } else {
                // The settlers live as long as the runtime.
                let _ = self.settlers[index % SETTLERS].send(parcel);
            }
        }
    }

    fn withdraw(&self, _what: Withdraw) {}
}

/// An attempt that began just now and delivered.
fn finished(parcel: Parcel) -> Finished {
    let at = now().max(parcel.claimed_at);
    Finished {
        lease: parcel.lease,
        attempt: Attempt {
            number: parcel.lease.attempt,
            outcome: Outcome::of_status(200, None),
            started_at: at,
            ended_at: at,
        },
        endpoint_version: parcel.endpoint.settings().version,
        jitter: Jitter::NONE,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
