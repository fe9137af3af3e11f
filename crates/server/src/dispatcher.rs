//! The dispatcher: takes leased deliveries, makes their attempts, reports what became of them.
//!
//! Lanes are spread over the runtime threads; each thread has its own [`Lanes`], its own connections and its own
//! settler. A worker is a task that makes attempts one after the other as long as there is something to begin.

pub mod lanes;

pub(crate) mod attempt;
mod postman;
mod settler;
mod shard;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use restante_core::Timestamp;
use restante_core::endpoint::EndpointId;
use restante_store::{Dispatch, Parcel, Store, Withdraw};
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

use crate::channel::ChannelConfig;
use crate::channel::guard::PrivateTargets;
use crate::channel::http::{HttpChannel, SetupFault};
use crate::channel::smtp::{Route, Smtp, SmtpConfig};
use crate::clock::Clock;
use crate::telemetry::{ClockJump, Metrics};
use crate::trace::Tracer;
use crate::tunnel::Hub;
use crate::vault::Vault;
use lanes::Lanes;
use postman::Postman;
use settler::Settler;
use shard::Shard;

/// Attempts in flight over all lanes of all threads.
const IN_FLIGHT_MAX: u32 = 8192;
/// Deliveries claimed at once.
const CLAIM_MAX: usize = 512;
/// A clock that leaves the steady one by less is being kept in time, not set.
const CLOCK_JUMP_MIN: Duration = Duration::from_secs(1);
/// Pause after the store failed, growing to the second value.
const STORE_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

/// See the module.
pub struct Dispatcher {
    shards: Vec<Arc<Shard>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    stopping: AtomicBool,
    unsettled: Arc<AtomicUsize>,
    seats: Mutex<Seats>,
    metrics: Arc<Metrics>,
}

/// The ways that messages leave by, and who is told.
pub(crate) struct Ways<'a> {
    pub(crate) channel: &'a ChannelConfig,
    pub(crate) mail: MailWay,
    pub(crate) tunnel: &'a Arc<Hub>,
    /// `None`: attempts make no spans.
    pub(crate) tracer: Option<&'a Arc<Tracer>>,
}

/// What the operator decides about mail.
#[derive(Debug, Clone, Default)]
pub struct MailWay {
    /// `None`: mail is kept and shown, and goes nowhere.
    pub route: Option<SmtpConfig>,
    /// Mail that may have arrived is sent again.
    pub resend_uncertain: bool,
}

impl MailWay {
    fn smtp(&self, channel: &ChannelConfig, clock: &Arc<dyn Clock>) -> Result<Option<Smtp>, SetupFault> {
        let Some(config) = &self.route else { return Ok(None) };
        let mut channel = channel.clone();
        if matches!(config.route, Route::Relay(_)) {
            // The operator named it, wherever it is; what anybody may have us dial is another matter.
            channel.rules.private_targets = PrivateTargets::All;
        }
        Smtp::new(config.clone(), &channel, Arc::clone(clock)).map(Some)
    }
}

/// Which thread each lane is on: dealt out in turn as lanes turn up, so that a few busy ones are spread evenly.
#[derive(Default)]
struct Seats {
    taken: FxHashMap<EndpointId, usize>,
    next: usize,
}

impl Seats {
    fn of(&mut self, endpoint: EndpointId, shards: usize) -> usize {
        let next = &mut self.next;
        *self.taken.entry(endpoint).or_insert_with(|| {
            *next = (*next + 1) % shards;
            *next
        })
    }
}

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct Look {
    now: Timestamp,
    monotonic: Duration,
}

impl Look {
    fn at(clock: &dyn Clock) -> Self {
        Self { now: clock.now(), monotonic: clock.monotonic() }
    }

    fn jump_since(self, before: Self) -> Option<ClockJump> {
        let expected = before.now + self.monotonic.saturating_sub(before.monotonic);
        let (back, forward) = (expected.since(self.now), self.now.since(expected));
        if back >= CLOCK_JUMP_MIN {
            Some(ClockJump::Back(back))
        } else {
            (forward >= CLOCK_JUMP_MIN).then_some(ClockJump::Forward(forward))
        }
    }
}

impl Dispatcher {
    /// Sets the dispatcher up on the given runtime threads. Nothing is sent before the store has it attached.
    ///
    /// # Errors
    /// `SetupFault` when the channel's certificates cannot be used.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        ways: &Ways<'_>,
        vault: &Arc<Vault>,
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
                channel: HttpChannel::new(ways.channel)?,
                tunnel: Arc::clone(ways.tunnel),
                postman: Postman {
                    smtp: ways.mail.smtp(ways.channel, &clock)?,
                    resend_uncertain: ways.mail.resend_uncertain,
                    store: Arc::clone(&store),
                    vault: Arc::clone(vault),
                    clock: Arc::clone(&clock),
                    domains: Mutex::default(),
                },
                store: Arc::clone(&store),
                clock: Arc::clone(&clock),
                metrics: Arc::clone(&metrics),
                done,
                unsettled: Arc::clone(&unsettled),
                workers: Mutex::default(),
                paced: Notify::new(),
                vault: Arc::clone(vault),
                opened: Mutex::default(),
            });
            let settler = Settler {
                store: Arc::clone(&store),
                clock: Arc::clone(&clock),
                metrics: Arc::clone(&metrics),
                tracer: ways.tracer.cloned(),
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
            metrics,
        }))
    }

    /// Claims what is due, when it is due, until the dispatcher stops.
    pub async fn claim(self: Arc<Self>) {
        let mut pause = STORE_PAUSE.0;
        let mut latest = Look::at(self.clock.as_ref());
        while !self.stopping.load(Ordering::Acquire) {
            let now = self.mind_clock(&mut latest);
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

    /// The time of day; tells when it has jumped since it was last looked at.
    fn mind_clock(&self, latest: &mut Look) -> Timestamp {
        let look = Look::at(self.clock.as_ref());
        let jump = look.jump_since(*latest);
        *latest = look;
        if let Some(jump) = jump {
            self.metrics.clock_jumped(jump);
        }
        match jump {
            None => {}
            Some(ClockJump::Back(by)) => tracing::warn!(
                clock.back_ms = by.as_millis() as u64,
                "the clock went back; what is due waits until it has caught up"
            ),
            Some(ClockJump::Forward(by)) => tracing::warn!(
                clock.forward_ms = by.as_millis() as u64,
                "the clock went forward; what was planned may begin early, unless the machine slept"
            ),
        }
        look.now
    }

    /// Gives back all that has not dialled. What is on the wire goes on.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.give_all_back();
    }

    fn give_all_back(&self) {
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

    /// Attempts begun and not ended.
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

    fn widen(&self, endpoint: EndpointId) {
        let Some(seat) = self.seats().taken.get(&endpoint).copied() else { return };
        self.shards[seat].widen(endpoint);
    }

    fn withdraw(&self, what: Withdraw) {
        let endpoint = match what {
            Withdraw::Endpoint(endpoint) | Withdraw::Delivery { endpoint, .. } => endpoint,
            Withdraw::All => return self.give_all_back(),
        };
        // Without a seat it never had a parcel.
        let Some(seat) = self.seats().taken.get(&endpoint).copied() else { return };
        let shard = &self.shards[seat];
        let leases = shard.lanes().withdraw(what);
        shard.give_back(leases);
    }
}
