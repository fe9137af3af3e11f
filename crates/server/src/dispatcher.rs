//! The dispatcher: takes leased deliveries, makes their attempts, reports what became of them.
//!
//! Lanes are spread over the runtime threads; each thread has its own [`Lanes`], its own connections and its own
//! settler. A worker is a task that makes attempts one after the other as long as there is something to begin.

pub mod lanes;

mod attempt;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use restante_core::id::DestinationId;
use restante_core::retry::Jitter;
use restante_core::{Attempt, Outcome, Timestamp};
use restante_store::{Dispatch, Finished, Lease, Parcel, Settled, Store, Withdraw};
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::channel::ChannelConfig;
use crate::channel::http::{HttpChannel, SetupFault};
use crate::clock::Clock;
use crate::telemetry::Metrics;
use lanes::Lanes;

/// Attempts in flight over all lanes of all threads.
const IN_FLIGHT_MAX: u32 = 8192;
/// Most attempts in one settle.
const SETTLE_MAX: usize = 512;
/// Deliveries claimed at once.
const CLAIM_MAX: usize = 512;
/// Pause after the store failed, growing to the second value.
const STORE_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// See the module.
pub struct Dispatcher {
    shards: Vec<Arc<Shard>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    stopping: AtomicBool,
    unsettled: Arc<AtomicUsize>,
    seats: Mutex<Seats>,
}

/// Which thread each lane is on: dealt out in turn as lanes turn up, so that a few busy ones are spread evenly.
#[derive(Default)]
struct Seats {
    taken: FxHashMap<DestinationId, usize>,
    next: usize,
}

impl Seats {
    fn of(&mut self, endpoint: DestinationId, shards: usize) -> usize {
        let next = &mut self.next;
        *self.taken.entry(endpoint).or_insert_with(|| {
            *next = (*next + 1) % shards;
            *next
        })
    }
}

/// The dispatcher's part on one runtime thread.
struct Shard {
    lanes: Mutex<Lanes>,
    handle: Handle,
    channel: HttpChannel,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    done: mpsc::UnboundedSender<Done>,
    /// Results on their way to the store.
    unsettled: Arc<AtomicUsize>,
    workers: Mutex<JoinSet<()>>,
    /// A lane began to wait for its rate.
    paced: Notify,
}

/// What a lease came to.
enum Done {
    Attempted(Box<Report>),
    /// It never dialled.
    Released(Vec<Lease>),
}

/// A finished attempt with what its log line says.
struct Report {
    finished: Finished,
    parcel: Parcel,
}

impl Dispatcher {
    /// Sets the dispatcher up on the given runtime threads. Nothing is sent before the store has it attached.
    ///
    /// # Errors
    /// `SetupFault` when the channel's certificates cannot be used.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        channel: &ChannelConfig,
        handles: &[Handle],
    ) -> Result<Arc<Self>, SetupFault> {
        let share = IN_FLIGHT_MAX / u32::try_from(handles.len().max(1)).unwrap_or(1);
        let mut shards = Vec::new();
        let unsettled = Arc::new(AtomicUsize::new(0));
        for handle in handles {
            let (done, reports) = mpsc::unbounded_channel();
            let shard = Arc::new(Shard {
                lanes: Mutex::new(Lanes::new(share)),
                handle: handle.clone(),
                // Connections belong to the thread that makes them.
                channel: HttpChannel::new(channel)?,
                clock: Arc::clone(&clock),
                metrics: Arc::clone(&metrics),
                done,
                unsettled: Arc::clone(&unsettled),
                workers: Mutex::default(),
                paced: Notify::new(),
            });
            let settler = Settler {
                store: Arc::clone(&store),
                clock: Arc::clone(&clock),
                metrics: Arc::clone(&metrics),
                unsettled: Arc::clone(&unsettled),
            };
            handle.spawn(settler.run(reports));
            handle.spawn(Arc::clone(&shard).pace());
            shards.push(shard);
        }
        Ok(Arc::new(Self {
            shards,
            store,
            clock,
            stopping: AtomicBool::new(false),
            unsettled,
            seats: Mutex::default(),
        }))
    }

    /// Claims what is due, when it is due, until the dispatcher stops.
    pub async fn claim(self: Arc<Self>) {
        let mut pause = STORE_PAUSE.0;
        while !self.stopping.load(Ordering::Acquire) {
            let now = self.clock.now();
            match self.store.claim(now, CLAIM_MAX).await {
                Ok(claimed) if claimed.count > 0 => pause = STORE_PAUSE.0,
                Ok(claimed) => {
                    pause = STORE_PAUSE.0;
                    let idle = now + Duration::from_secs(3600);
                    // At least a step on: what is due but cannot be claimed must not spin.
                    let until = claimed.next_due.unwrap_or(idle).max(now + Duration::from_millis(1));
                    tokio::select! {
                        () = self.clock.sleep_until(until) => {}
                        () = self.store.due().notified() => {}
                    }
                }
                Err(error) => {
                    tracing::warn!(error.message = %error, "due deliveries cannot be claimed");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(STORE_PAUSE.1);
                }
            }
        }
    }

    /// Gives back all that has not dialled. What is on the wire goes on.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for shard in &self.shards {
            let leases = shard.lanes().withdraw_all();
            shard.give_back(leases);
        }
    }

    /// Gives up what is on the wire; it is reported as lost.
    pub fn abort(&self) {
        for shard in &self.shards {
            shard.workers().abort_all();
        }
    }

    /// Results that the store does not have yet.
    pub fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Acquire)
    }

    /// Attempts on the wire now.
    pub fn in_flight(&self) -> u32 {
        self.shards.iter().map(|shard| shard.lanes().in_flight()).sum()
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dispatch for Dispatcher {
    fn dispatch(&self, parcels: Vec<Parcel>) {
        if self.stopping.load(Ordering::Acquire) {
            let leases = parcels.iter().map(|parcel| parcel.lease).collect();
            self.shards[0].give_back(leases);
            return;
        }
        let mut shares: Vec<Vec<Parcel>> = vec![Vec::new(); self.shards.len()];
        let mut seats = self.seats();
        for parcel in parcels {
            shares[seats.of(parcel.endpoint.id, self.shards.len())].push(parcel);
        }
        drop(seats);
        for (shard, share) in self.shards.iter().zip(shares) {
            if !share.is_empty() {
                shard.take_in(share);
            }
        }
    }

    fn withdraw(&self, what: Withdraw) {
        let endpoint = match what {
            Withdraw::Endpoint(endpoint) | Withdraw::Delivery { endpoint, .. } => endpoint,
        };
        let seat = self.seats().of(endpoint, self.shards.len());
        let shard = &self.shards[seat];
        let leases = shard.lanes().withdraw(what);
        shard.give_back(leases);
    }
}

impl Shard {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn workers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_in(self: &Arc<Self>, parcels: Vec<Parcel>) {
        let (now, monotonic) = (self.clock.now(), self.clock.monotonic());
        let mut lanes = self.lanes();
        for parcel in parcels {
            lanes.push(parcel, monotonic);
        }
        self.begin_all(lanes, now, monotonic);
    }

    /// Starts a worker for each attempt that may begin now.
    fn begin_all(self: &Arc<Self>, mut lanes: MutexGuard<'_, Lanes>, now: Timestamp, monotonic: Duration) {
        let mut begun = Vec::new();
        while let Some(parcel) = lanes.next(now, monotonic) {
            begun.push(parcel);
        }
        let paced = lanes.next_paced().is_some();
        let expired = lanes.take_expired();
        drop(lanes);
        self.give_back(expired);
        if paced {
            self.paced.notify_one();
        }
        if begun.is_empty() {
            return;
        }
        let mut workers = self.workers();
        while workers.try_join_next().is_some() {}
        for parcel in begun {
            workers.spawn_on(Arc::clone(self).work(parcel), &self.handle);
        }
    }

    /// Begins what waited for its rate, when its time has come.
    async fn pace(self: Arc<Self>) {
        loop {
            let next = self.lanes().next_paced();
            match next {
                None => self.paced.notified().await,
                Some(at) => tokio::select! {
                    () = self.clock.sleep_until(at) => {}
                    () = self.paced.notified() => continue,
                },
            }
            let (now, monotonic) = (self.clock.now(), self.clock.monotonic());
            self.begin_all(self.lanes(), now, monotonic);
        }
    }

    /// Makes attempts until nothing may begin.
    async fn work(self: Arc<Self>, first: Parcel) {
        let mut parcel = first;
        loop {
            let endpoint = parcel.endpoint.id;
            let began = self.clock.monotonic();
            let turn = Turn { shard: &self, parcel: Some(parcel), started: None };
            let outcome = turn.attempt().await;
            let (now, monotonic) = (self.clock.now(), self.clock.monotonic());
            let mut lanes = self.lanes();
            match outcome {
                Some(outcome) => {
                    if matches!(outcome, Outcome::Delivered { .. }) {
                        lanes.note(endpoint, monotonic.saturating_sub(began));
                    }
                    lanes.finish(endpoint, &outcome);
                }
                None => lanes.abandon(endpoint),
            }
            let next = lanes.next(now, monotonic);
            let paced = next.is_none() && lanes.next_paced().is_some();
            let expired = lanes.take_expired();
            drop(lanes);
            self.give_back(expired);
            if paced {
                self.paced.notify_one();
            }
            let Some(next) = next else { return };
            parcel = next;
        }
    }

    fn give_back(&self, leases: Vec<Lease>) {
        if !leases.is_empty() {
            self.hand_in(Done::Released(leases));
        }
    }

    fn hand_in(&self, done: Done) {
        self.unsettled.fetch_add(1, Ordering::AcqRel);
        // The settler lives as long as the runtime.
        let _ = self.done.send(done);
    }
}

/// One attempt's life. If its task ends without a result, by a panic or with the runtime, it is reported as lost.
struct Turn<'a> {
    shard: &'a Shard,
    parcel: Option<Parcel>,
    started: Option<Started>,
}

#[derive(Clone, Copy)]
struct Started {
    at: Timestamp,
    monotonic: Duration,
    version: u32,
}

impl Turn<'_> {
    /// Makes the attempt and hands its result to the settler. `None`: it may not begin any more, and was given back.
    async fn attempt(mut self) -> Option<Outcome> {
        let parcel = self.parcel.as_ref()?;
        let clock = &self.shard.clock;
        if !self.shard.lanes().dial(parcel.lease) {
            // Withdrawn since its turn came; whoever did that gave the lease back.
            self.parcel = None;
            return None;
        }
        let settings = parcel.endpoint.settings();
        let held_back = settings.gone || settings.destination.holds_back().is_some();
        if held_back || parcel.expires_at <= clock.now() {
            let lease = parcel.lease;
            self.parcel = None;
            self.shard.give_back(vec![lease]);
            return None;
        }
        self.started = Some(Started {
            // An attempt never starts before the end of the one before, even if the clock went back.
            at: clock.now().max(parcel.claimed_at),
            monotonic: clock.monotonic(),
            version: settings.version,
        });
        let outgoing = attempt::outgoing(parcel, &settings);
        drop(settings);
        let outcome = self.shard.channel.send(outgoing, || clock.now()).await;
        self.report(outcome.clone());
        Some(outcome)
    }

    fn report(&mut self, outcome: Outcome) {
        let (Some(parcel), Some(started)) = (self.parcel.take(), self.started) else { return };
        let clock = &self.shard.clock;
        let took = clock.monotonic().saturating_sub(started.monotonic);
        self.shard.metrics.attempted(&outcome, took);
        let finished = Finished {
            lease: parcel.lease,
            attempt: Attempt {
                number: parcel.lease.attempt,
                outcome,
                started_at: started.at,
                ended_at: started.at + took,
            },
            endpoint_version: started.version,
            jitter: Jitter::from_bits(clock.draw()),
        };
        self.shard.hand_in(Done::Attempted(Box::new(Report { finished, parcel })));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(endpoint) = self.parcel.as_ref().map(|parcel| parcel.endpoint.id) else { return };
        self.report(Outcome::Lost);
        self.shard.lanes().finish(endpoint, &Outcome::Lost);
    }
}

/// Brings results to the store until it has them.
struct Settler {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    unsettled: Arc<AtomicUsize>,
}

impl Settler {
    async fn run(self, mut done: mpsc::UnboundedReceiver<Done>) {
        let mut batch = Vec::new();
        while done.recv_many(&mut batch, SETTLE_MAX).await > 0 {
            let taken = batch.len();
            let (mut reports, mut leases) = (Vec::new(), Vec::new());
            for one in batch.drain(..) {
                match one {
                    Done::Attempted(report) => reports.push(*report),
                    Done::Released(released) => leases.extend(released),
                }
            }
            if !reports.is_empty() {
                self.settle(reports).await;
            }
            if !leases.is_empty() {
                self.release(leases).await;
            }
            self.unsettled.fetch_sub(taken, Ordering::AcqRel);
        }
    }

    async fn settle(&self, reports: Vec<Report>) {
        let finished: Vec<Finished> = reports.iter().map(|report| report.finished.clone()).collect();
        let mut pause = STORE_PAUSE.0;
        let settled = loop {
            match self.store.settle(finished.clone()).await {
                Ok(settled) => break settled,
                Err(error) => {
                    tracing::warn!(error.message = %error, "results cannot be recorded yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(STORE_PAUSE.1);
                }
            }
        };
        for (report, settled) in reports.iter().zip(&settled) {
            self.metrics.settled(settled);
            log_attempt(report, settled);
        }
    }

    async fn release(&self, leases: Vec<Lease>) {
        let mut pause = STORE_PAUSE.0;
        while let Err(error) = self.store.release(leases.clone(), self.clock.now()).await {
            tracing::warn!(error.message = %error, "leases cannot be given back yet");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(STORE_PAUSE.1);
        }
    }
}

/// The wide line of each attempt.
fn log_attempt(report: &Report, settled: &Settled) {
    let Report { finished, parcel } = report;
    let attempt = &finished.attempt;
    let (result, status, error_kind, error_message) = match &attempt.outcome {
        Outcome::Delivered { status } => ("delivered", *status, None, None),
        Outcome::Failed(failure) => {
            ("failed", failure.status, Some(failure.kind.name()), Some(&failure.message))
        }
        Outcome::Lost => ("failed", None, Some("lost"), None),
    };
    let (state, next_attempt_at) = match settled {
        Settled::Done(life) if life.state.is_final() => (life.state.name(), None),
        Settled::Done(life) => (life.state.name(), Some(life.due_at)),
        Settled::LeaseLost => ("lease_lost", None),
    };
    tracing::info!(
        event = "delivery.attempted",
        workspace.id = %parcel.endpoint.workspace,
        source.id = %parcel.endpoint.source,
        destination.id = %parcel.endpoint.id,
        request.id = %parcel.request,
        delivery.id = %parcel.lease.delivery,
        attempt.number = attempt.number,
        attempt.started_at = %attempt.started_at,
        attempt.duration_ms = attempt.ended_at.since(attempt.started_at).as_millis() as u64,
        attempt.result = result,
        http.status = status,
        error.kind = error_kind,
        error.message = error_message.map(String::as_str),
        delivery.state = state,
        delivery.next_attempt_at = next_attempt_at.map(tracing::field::display),
        "delivery attempted"
    );
}
