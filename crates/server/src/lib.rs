//! The running server: doors, dispatcher, channels, upkeep.
//!
//! ```text
//! door ─▶ ingress ─▶ Store::accept ─▶ dispatcher ─▶ channel ─▶ outcome ─▶ Store::settle
//!      └▶ api     ─▶ Store::…
//! ```

pub mod api;
pub mod channel;
pub mod clock;
pub mod config;
pub mod dispatcher;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod mail;
pub mod probe;
pub mod signature;
pub mod telemetry;
pub mod threads;
pub mod trace;
pub mod vault;

mod dashboard;
mod door;
mod ingress;
mod notify;
mod rate_limit;
mod tunnel;
mod upkeep;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use restante_core::email::Address;
use restante_store::{Store, Vitals};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use api::ApiState;
use channel::ChannelConfig;
use channel::guard::Rules;
use clock::Clock;
use config::{Config, Uncertain};
use dashboard::Dashboard;
use dispatcher::{Dispatcher, MailWay, Ways};
use ingress::Ingress;
use probe::Prober;
use telemetry::{Disk, Metrics, Moment};
use trace::Tracer;
use vault::Vault;

/// How long attempts on the wire may go on when the server stops.
const DRAIN_TIME: Duration = Duration::from_secs(8);
/// How long the store may take to hear that nothing more is to be leased.
const DETACH_TIME: Duration = Duration::from_millis(500);
/// How long results may take to be recorded after that.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// How long the last spans may take to be exported, beside the last counts, when no attempt kept the server from
/// stopping. The time in all is not theirs to lengthen.
const LAST_SPANS_TIME: Duration = Duration::from_secs(2);
/// How long the last counts may take to be written down.
const ROLL_UP_TIME: Duration = Duration::from_millis(300);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Channel(#[from] channel::http::SetupFault),
    #[error(transparent)]
    Store(#[from] restante_store::Error),
    #[error(transparent)]
    FirstKey(#[from] api::FirstKeyFault),
    #[error(transparent)]
    SecretKey(#[from] vault::KeyFault),
}

/// A server that runs until [`Server::stop`].
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// The start of every source's URL.
    pub public_url: String,
    /// The first admin key, if this start made it.
    pub fresh_key: Option<String>,
    /// A page's address that signs in with that key, once.
    pub sign_in_link: Option<String>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    dispatcher: Arc<Dispatcher>,
    stopping: watch::Sender<bool>,
    connections: Arc<Semaphore>,
    tracer: Option<Arc<Tracer>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts serving `store` on the given runtime threads.
    ///
    /// # Errors
    /// `StartFault`; nothing runs then.
    pub async fn start(
        config: &Config,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        handles: &[Handle],
    ) -> Result<Self, StartFault> {
        let listen = |source| StartFault::Listen { address: config.listen, source };
        let listener = door::listen(config.listen).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let public_url = config.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
        let metrics = Arc::new(Metrics::default());
        let rules = Rules {
            private_targets: config.allow_private_targets.clone(),
            http_targets: config.allow_http_targets,
        };
        let channel = ChannelConfig { rules: rules.clone(), extra_ca_file: config.extra_ca_file.clone() };
        let (stopping, stop) = watch::channel(false);

        // First of all: an admin key that is made is shown only once, by a server that starts.
        let vault = open_vault(config, store.as_ref(), clock.as_ref()).await?;
        let owner = config.owner_email.as_deref();
        let fresh_key =
            api::first_key(store.as_ref(), clock.as_ref(), config.admin_key.as_deref(), owner).await?;
        let orphans = store.take_over(clock.now()).await?;
        if orphans > 0 {
            tracing::warn!(count = orphans, "attempts that the last stop cut off are recorded as lost");
        }
        let extra_ca_file = config.extra_ca_file.as_deref();
        let traces = config.traces.as_ref();
        let start = |settings| Tracer::start(settings, extra_ca_file, &clock, &metrics, &handles[0]);
        let tracer = traces.map(start).transpose()?;
        let tunnel = tunnel::Hub::new(Arc::clone(&store), Arc::clone(&clock));
        let dispatcher = Dispatcher::start(
            Arc::clone(&store),
            Arc::clone(&clock),
            Arc::clone(&metrics),
            &Ways {
                channel: &channel,
                mail: MailWay {
                    route: config.mail_route(),
                    resend_uncertain: config.smtp_uncertain == Uncertain::Resend,
                },
                tunnel: &tunnel,
                tracer: tracer.as_ref(),
            },
            &vault,
            handles,
        )?;
        store.attach(Some(Arc::clone(&dispatcher) as _)).await?;

        let limits = Arc::new(config.rate_limits());
        let ingress = Ingress::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            (Arc::clone(&metrics), Arc::clone(&vault)),
            config.intake_body_bytes,
            config.trusted_proxies.clone(),
            Arc::clone(&limits),
            stop.clone(),
        );
        let ingress = Arc::new(ingress.traced(tracer.clone()));
        let connections = door::connection_slots();
        let disk = disk_of(config, &store);
        let sources = Sources {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            dispatcher: Arc::clone(&dispatcher),
            tunnel: Arc::clone(&tunnel),
            connections: Arc::clone(&connections),
            disk,
        };
        let dashboard = Arc::new(Dashboard::new(&public_url, &config.dashboard_hosts));
        let sign_in_link = fresh_key
            .as_deref()
            .map(|key| dashboard.sign_in_link(&public_url, api::token::hash(key), clock.as_ref()));
        let state = ApiState {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            rules: Arc::new(rules),
            public_url: public_url.clone(),
            metrics: render_metrics(&metrics, sources),
            disk: disk_check(Arc::clone(&store)),
            stopping: stop.clone(),
            last_used: Arc::default(),
            keys: Arc::default(),
            prober: Arc::new(Prober::new(&channel, Arc::clone(&vault), Arc::clone(&clock))?),
            vault,
            health_limits: config.health_limits(),
            counters: Arc::clone(&metrics),
            tracer: tracer.clone(),
            transport: config.transport(),
            require_verified_domains: config.require_verified_domains,
            lookup: Arc::new(api::MachineLookup),
            tunnel,
            dashboard: Arc::clone(&dashboard),
            connections: Arc::clone(&connections),
            limits,
        };
        let door = door::Door {
            ingress,
            api: api::router(state.clone()),
            stopping: stop,
            connections: Arc::clone(&connections),
        };
        let first = &handles[0];
        let notice_from = config.notice_from.as_deref().and_then(|from| Address::parse(from).ok());
        let notifier = notice_from.map(|from| notify::Notifier {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            from,
            public_url: public_url.clone(),
        });
        let mut tasks = vec![
            first.spawn(Arc::clone(&dispatcher).claim()),
            first.spawn(upkeep::prune(Arc::clone(&store), Arc::clone(&clock))),
            first.spawn(upkeep::take_over(Arc::clone(&store), Arc::clone(&clock))),
            first.spawn(upkeep::bulk_retries(Arc::clone(&store), Arc::clone(&clock))),
            first.spawn(upkeep::roll_up(Arc::clone(&store), Arc::clone(&clock))),
            first.spawn(upkeep::note_use_of_keys(state)),
            first.spawn(serve(door, listener, handles.to_vec())),
        ];
        tasks.extend(notifier.map(|notifier| first.spawn(notifier.run())));
        Ok(Self {
            address,
            public_url,
            fresh_key,
            sign_in_link,
            store,
            clock,
            dispatcher,
            stopping,
            connections,
            tracer,
            tasks,
        })
    }

    /// Stops: no new requests, what has not dialled is given back, what is on the wire may end, within 10 s in all.
    pub async fn stop(self) {
        let began = self.clock.monotonic();
        self.stopping.send_replace(true);
        let detached = tokio::time::timeout(DETACH_TIME, self.store.attach(None)).await;
        if !matches!(detached, Ok(Ok(()))) {
            tracing::warn!("the store does not answer while stopping");
        }
        self.dispatcher.stop();
        let dispatcher = &self.dispatcher;
        // Whoever is owed an answer gets it: what is stored and not acknowledged would be sent again.
        let drained =
            until(DRAIN_TIME, || dispatcher.in_flight() == 0 && door::is_empty(&self.connections)).await;
        if !drained {
            tracing::warn!(
                attempts = dispatcher.in_flight(),
                connections = door::taken(&self.connections),
                "what is still on the wire is cut off: its attempts are recorded as lost, and made again"
            );
        }
        dispatcher.abort();
        let settled = until(SETTLE_TIME, || dispatcher.in_flight() == 0 && dispatcher.unsettled() == 0).await;
        if !settled {
            let (attempts, results) = (dispatcher.in_flight(), dispatcher.unsettled());
            tracing::warn!(attempts, results, "these are not recorded: they will be taken for lost");
        }
        for task in &self.tasks {
            task.abort();
        }
        let (rolled_up, ()) = tokio::join!(
            tokio::time::timeout(ROLL_UP_TIME, self.store.roll_up(self.clock.now())),
            self.export_last_spans(began),
        );
        if !matches!(rolled_up, Ok(Ok(()))) {
            tracing::warn!("the counts of the last seconds are not written down");
        }
    }

    /// `began`: when the stop did, by the steady clock.
    async fn export_last_spans(&self, began: Duration) {
        let Some(tracer) = &self.tracer else { return };
        let took = self.clock.monotonic().saturating_sub(began);
        let left = (DETACH_TIME + DRAIN_TIME + SETTLE_TIME + ROLL_UP_TIME).saturating_sub(took);
        tracer.stop(left.clamp(ROLL_UP_TIME, LAST_SPANS_TIME)).await;
    }
}

/// The vault of this store. The store keeps a word sealed with its key, so that another key is noticed at the start.
async fn open_vault(config: &Config, store: &dyn Store, clock: &dyn Clock) -> Result<Arc<Vault>, StartFault> {
    let secret_key = config.secret_key.as_ref().map(vault::Secret::expose);
    if config.database_url.is_some() && secret_key.is_none() {
        // Each node would make a file of its own, and none could open what another has sealed.
        return Err(vault::KeyFault::Unset.into());
    }
    let load = |kept: Option<&_>| Vault::load(secret_key, &config.data, kept, clock);
    let kept = store.secret_check(None).await?;
    let mut vault = load(kept.as_ref())?;
    if kept.is_none() {
        // Another node may have been first, with another key.
        let kept = store.secret_check(Some(vault.check(clock))).await?;
        vault = load(kept.as_ref())?;
    }
    Ok(Arc::new(vault))
}

async fn serve(door: door::Door, listener: TcpListener, handles: Vec<Handle>) {
    if let Err(error) = door::serve(door, listener, handles).await {
        tracing::error!(error.message = %error, "the listener failed; no connection is accepted any more");
    }
}

/// Waits for a condition, at most for so long; whether it came.
async fn until(time: Duration, condition: impl Fn() -> bool) -> bool {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(time, waiting).await.is_ok()
}

type Render = Arc<dyn Fn(Option<Vitals>) -> String + Send + Sync>;

fn render_metrics(metrics: &Arc<Metrics>, sources: Sources) -> Render {
    let metrics = Arc::clone(metrics);
    let started = sources.clock.monotonic();
    Arc::new(move |vitals| {
        let Sources { store, clock, dispatcher, tunnel, connections, disk } = &sources;
        let moment = Moment {
            vitals,
            connections: store.connections(),
            disk: disk(),
            in_flight: dispatcher.in_flight(),
            unsettled: dispatcher.unsettled(),
            clients: tunnel.all_clients(),
            callers: door::taken(connections),
            now: clock.now(),
            uptime: clock.monotonic().saturating_sub(started),
        };
        metrics.render(store.commits(), &moment)
    })
}

/// What the page of metrics is read from, besides the counters.
struct Sources {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    dispatcher: Arc<Dispatcher>,
    tunnel: Arc<tunnel::Hub>,
    connections: Arc<Semaphore>,
    disk: MeasureDisk,
}

type MeasureDisk = Arc<dyn Fn() -> Option<Disk> + Send + Sync>;

/// Measures the data directory's disk; `None` when nothing is kept there, or it cannot be measured.
fn disk_of(config: &Config, store: &Arc<dyn Store>) -> MeasureDisk {
    let (directory, free_bytes_min) = (config.data.clone(), config.disk_free_bytes);
    let (elsewhere, store) = (config.database_url.is_some(), Arc::clone(store));
    Arc::new(move || {
        if elsewhere {
            return None;
        }
        let stat = rustix::fs::statvfs(&directory).ok()?;
        let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        Some(Disk { free_bytes, free_bytes_min, reserve_bytes: store.room().reserve_bytes })
    })
}

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Whether the store has room for what is new.
fn disk_check(store: Arc<dyn Store>) -> Check {
    Arc::new(move || store.room().short.map_or(Ok(()), Err))
}
