//! One runtime thread's part: its lanes, its workers, and the life of an attempt.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use restante_core::endpoint::EndpointId;
use restante_core::message::Content;
use restante_core::retry::Jitter;
use restante_core::{Attempt, Outcome, Timestamp};
use restante_store::endpoint::Settings;
use restante_store::{Finished, Lease, Parcel, Store};
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::attempt::{self, Opened};
use super::lanes::Lanes;
use super::postman::Postman;
use super::settler::{Done, Report};
use crate::channel::http::HttpChannel;
use crate::clock::Clock;
use crate::telemetry::{Channel, Metrics};
use crate::tunnel::Hub;
use crate::tunnel::Seat;
use crate::vault::Vault;

/// The dispatcher's part on one runtime thread.
pub(super) struct Shard {
    pub(super) lanes: Mutex<Lanes>,
    pub(super) handle: Handle,
    pub(super) channel: HttpChannel,
    pub(super) tunnel: Arc<Hub>,
    pub(super) postman: Postman,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) done: mpsc::UnboundedSender<Done>,
    /// Results on their way to the store.
    pub(super) unsettled: Arc<AtomicUsize>,
    pub(super) workers: Mutex<JoinSet<()>>,
    /// A lane began to wait for its rate.
    pub(super) paced: Notify,
    pub(super) vault: Arc<Vault>,
    /// What attempts carry that is kept sealed, with the version of the settings it is of.
    pub(super) opened: Mutex<FxHashMap<EndpointId, (u32, Arc<Opened>)>>,
}

/// How long what goes through a client waits for one: the lease must still cover the attempt.
const SEAT_TIME: Duration = Duration::from_secs(5);

/// No client takes it.
struct Nobody;

/// Endpoints whose secrets are kept open at once on one thread.
const OPENED_MAX: usize = 10_000;

impl Shard {
    pub(super) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn workers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take_in(self: &Arc<Self>, parcels: Vec<Parcel>) {
        let (now, monotonic) = (self.clock.now(), self.clock.monotonic());
        let mut lanes = self.lanes();
        for parcel in parcels {
            lanes.push(parcel, monotonic);
        }
        self.begin_all(lanes, now, monotonic);
    }

    /// A lane may have more in flight than before.
    pub(super) fn widen(self: &Arc<Self>, endpoint: EndpointId) {
        let (now, monotonic) = (self.clock.now(), self.clock.monotonic());
        let mut lanes = self.lanes();
        lanes.widen(endpoint);
        self.begin_all(lanes, now, monotonic);
    }

    /// Starts a worker for each attempt that may begin now.
    fn begin_all(self: &Arc<Self>, mut lanes: MutexGuard<'_, Lanes>, now: Timestamp, monotonic: Duration) {
        let mut begun = Vec::new();
        while let Some(parcel) = lanes.next(now, monotonic) {
            begun.push(parcel);
        }
        let paced = lanes.next_paced().is_some();
        let (expired, widened) = (lanes.take_expired(), lanes.take_widened());
        drop(lanes);
        if widened {
            self.store.due().notify_one();
        }
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
            // A task moves what it runs several times over.
            workers.spawn_on(Box::pin(Arc::clone(self).work(parcel)), &self.handle);
        }
    }

    /// Begins what waited for its rate, when its time has come.
    pub(super) async fn pace(self: Arc<Self>) {
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
            // More may begin than this worker can take on: a limit grew, or another lane's turn came.
            self.begin_all(lanes, now, monotonic);
            let Some(next) = next else { return };
            parcel = next;
        }
    }

    /// The secrets of an endpoint's settings, opened once for each version.
    fn opened(&self, endpoint: EndpointId, settings: &Settings) -> Option<Arc<Opened>> {
        let mut known = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, opened)) = known.get(&endpoint)
            && *version == settings.version
        {
            return Some(Arc::clone(opened));
        }
        match Opened::new(&settings.receiver, &self.vault) {
            Ok(opened) => {
                let opened = Arc::new(opened);
                if known.len() >= OPENED_MAX {
                    known.clear();
                }
                known.insert(endpoint, (settings.version, Arc::clone(&opened)));
                Some(opened)
            }
            Err(fault) => {
                tracing::error!(error.message = %fault, endpoint.id = %endpoint, "an endpoint's secrets cannot be opened");
                None
            }
        }
    }

    pub(super) fn give_back(&self, leases: Vec<Lease>) {
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
    channel: Channel,
}

impl Turn<'_> {
    /// Makes the attempt and hands its result to the settler. `None`: it may not begin any more, and was given back.
    async fn attempt(mut self) -> Option<Outcome> {
        let parcel = self.parcel.as_ref()?;
        let clock = &self.shard.clock;
        let seat = match self.seat().await {
            Ok(seat) => seat,
            Err(Nobody) => return self.stand_back(),
        };
        if !self.shard.lanes().dial(parcel.lease) {
            // Withdrawn since its turn came; whoever did that gave the lease back.
            self.parcel = None;
            return None;
        }
        let settings = parcel.endpoint.settings();
        let held_back = settings.gone || parcel.endpoint.holds_back().is_some();
        if held_back || !self.shard.store.may_dial() || parcel.expires_at.is_some_and(|at| at <= clock.now())
        {
            let lease = parcel.lease;
            self.parcel = None;
            self.shard.give_back(vec![lease]);
            return None;
        }
        // An attempt never starts before the end of the one before, even if the clock went back.
        let at = clock.now().max(parcel.claimed_at);
        let channel = Channel::to(&settings.receiver);
        self.started = Some(Started { at, monotonic: clock.monotonic(), version: settings.version, channel });
        self.shard.metrics.begun(channel, at.since(parcel.due_at));
        let Some(opened) = self.shard.opened(parcel.endpoint.id, &settings) else {
            self.report(Outcome::Lost);
            return Some(Outcome::Lost);
        };
        let content = &parcel.content.message;
        if let Some(seat) = seat
            && let Some(handover) = attempt::handover(parcel, &settings.receiver, &opened)
        {
            // What few attempts need is kept out of the task that all have.
            let outcome = Box::pin(seat.attempt(handover)).await;
            self.report(outcome.clone());
            return Some(outcome);
        }
        if let Content::Email(mail) = content {
            let send = self.shard.postman.send(parcel, mail, settings.receiver.timeout(), at);
            let outcome = Box::pin(send).await;
            self.report(outcome.clone());
            return Some(outcome);
        }
        let outgoing = attempt::outgoing(parcel.message, content, &settings.receiver, &opened, at);
        drop((settings, opened));
        let outcome = self.shard.channel.send(outgoing, || clock.now()).await;
        self.report(outcome.clone());
        Some(outcome)
    }

    /// A client's seat for what goes through one. Waiting for it begins no attempt.
    ///
    /// # Errors
    /// `Nobody` has one to give in time.
    async fn seat(&self) -> Result<Option<Seat>, Nobody> {
        let Some(parcel) = &self.parcel else { return Err(Nobody) };
        let settings = parcel.endpoint.settings();
        if !settings.receiver.is_reached_by_clients() {
            return Ok(None);
        }
        Box::pin(self.shard.tunnel.seat(parcel, SEAT_TIME)).await.map(Some).ok_or(Nobody)
    }

    /// Gives back what does not go on the wire, unless somebody has withdrawn it.
    fn stand_back(mut self) -> Option<Outcome> {
        let lease = self.parcel.take()?.lease;
        if self.shard.lanes().dial(lease) {
            self.shard.give_back(vec![lease]);
        }
        None
    }

    fn report(&mut self, outcome: Outcome) {
        let (Some(parcel), Some(started)) = (self.parcel.take(), self.started) else { return };
        let clock = &self.shard.clock;
        let took = clock.monotonic().saturating_sub(started.monotonic);
        self.shard.metrics.attempted(started.channel, &outcome, took);
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
        self.shard.hand_in(Done::Attempted(Box::new(Report {
            finished,
            parcel,
            channel: started.channel,
            took,
        })));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(endpoint) = self.parcel.as_ref().map(|parcel| parcel.endpoint.id) else { return };
        self.report(Outcome::Lost);
        self.shard.lanes().finish(endpoint, &Outcome::Lost);
    }
}
