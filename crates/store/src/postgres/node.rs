//! A node: its row, its lanes, its connections, what it knows of the configuration.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::Pool;
use futures_util::future::BoxFuture;
use restante_core::id::{Key, KeyMaker};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, broadcast, watch};

use super::Fault;
use super::lane::FreeLanes;
use super::pool::{self, Address};
use super::prune::EventPass;
use super::sql::Sql;
use super::state::State;

use crate::clients::Served;
use crate::endpoint::ContentBytes;
use crate::intake::RuleBook;
use crate::tally::SharedTally;
use crate::{Change, Commits, Connections, Error, Policy};

/// Held while a node chooses its slot: any number that nobody else takes.
pub(crate) const REGISTER_LOCK: i64 = 7_310_306_452;
/// A node dials as long as its latest heartbeat that was answered is younger than this. A lapse counts from a second
/// later by the database's clock.
const DIAL_TIME: Duration = Duration::from_secs(14);

/// See the module.
pub(super) struct Node {
    pub(super) address: Address,
    pool: Pool,
    pub(super) policy: Policy,
    state: Mutex<State>,
    pub(super) lanes: Arc<FreeLanes>,
    pub(super) content_bytes: ContentBytes,
    pub(super) served: Served,
    pub(super) book: RuleBook,
    /// Locked behind `state`, never before it.
    pub(super) tally: SharedTally,
    /// Held while slots are asked for.
    pub(super) asking: tokio::sync::Mutex<()>,
    /// When slots of an endpoint were last asked for, by the monotonic clock.
    pub(super) asked: Mutex<FxHashMap<i64, u64>>,
    pub(super) due: Notify,
    pub(super) changes: broadcast::Sender<Change>,
    /// Somebody on another node listens to changes.
    pub(super) watched_elsewhere: AtomicBool,
    /// Changes on their way to other nodes.
    pub(super) outbox: Mutex<Vec<Change>>,
    #[cfg(feature = "conformance")]
    judged: super::plans::Judged,
    /// Endpoints whose due work another node should look at.
    pub(super) hints: Mutex<BTreeSet<i64>>,
    /// When the latest heartbeat that was answered was sent, in milliseconds of the monotonic clock; 0: never.
    beat: AtomicU64,
    /// How often it was looked for due work that others left.
    pub(super) polls: AtomicU64,
    /// Days that have partitions.
    pub(super) days: Mutex<BTreeSet<i64>>,
    /// Turns true when the store closes.
    pub(super) closing: watch::Sender<bool>,
    /// How far the walks over what may have expired are.
    pub(super) event_pass: Mutex<EventPass>,
    /// Held by whoever changes the configuration.
    pub(super) changing: tokio::sync::Mutex<()>,
    /// Held while news of the configuration are read and taken over.
    pub(super) refreshing: tokio::sync::Mutex<()>,
    /// The last fault of the database, while it lasts.
    pub(super) broken: Mutex<Option<String>>,
    /// Of batches.
    pub(super) commits: Commits,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds of a clock that goes on while the machine sleeps.
pub(super) fn monotonic_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + nanos / 1_000_000
}

impl Node {
    /// Connects, brings the schema up to date, and takes a place among the nodes.
    pub(super) async fn start(address: Address, policy: Policy) -> Result<Arc<Self>, Fault> {
        let mut client = address.connect().await?;
        super::migrate::migrate(&mut client).await?;
        let mut state = State::new();
        state.config.mail_terms = policy.mail.clone();
        let node = Arc::new(Self {
            pool: address.pool()?,
            address,
            policy,
            content_bytes: state.agenda.content_bytes.clone(),
            served: state.config.served.clone(),
            book: state.config.book.clone(),
            tally: SharedTally::default(),
            asking: tokio::sync::Mutex::new(()),
            asked: Mutex::default(),
            state: Mutex::new(state),
            lanes: Arc::new(FreeLanes::new()),
            due: Notify::new(),
            changes: broadcast::channel(4096).0,
            watched_elsewhere: AtomicBool::new(false),
            outbox: Mutex::default(),
            #[cfg(feature = "conformance")]
            judged: super::plans::Judged::default(),
            hints: Mutex::default(),
            beat: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            days: Mutex::default(),
            closing: watch::channel(false).0,
            event_pass: Mutex::default(),
            changing: tokio::sync::Mutex::new(()),
            refreshing: tokio::sync::Mutex::new(()),
            broken: Mutex::new(None),
            commits: Commits::default(),
        });
        node.register().await?;
        node.refresh().await?;
        node.poll_all().await?;
        Ok(node)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes a number and a slot. What was leased under another number is lost.
    pub(super) async fn register(&self) -> Result<(), Fault> {
        let sent = monotonic_ms();
        let sql = self.connection().await?;
        sql.batch("BEGIN").await?;
        let registered = Self::insert_node(&sql).await;
        let (number, slot, last_key) = match registered {
            Ok(registered) => registered,
            Err(fault) => {
                sql.throw_away();
                return Err(fault);
            }
        };
        sql.batch("COMMIT").await?;
        {
            let mut state = self.state();
            state.lose_all();
            state.node = number;
            state.keys = KeyMaker::in_slot(slot);
            state.last_key = state.last_key.max(last_key);
            if state.last_key > 0 {
                let last = Key::from_value(state.last_key).at();
                state.keys.skip_to(last + Duration::from_millis(1));
            }
        }
        self.note_beat(sent);
        tracing::info!(node.number = number, node.slot = slot, "the node has its place");
        Ok(())
    }

    /// The number and slot of a new node, and the highest key that is known to have been made.
    async fn insert_node(sql: &Sql) -> Result<(i32, u16, i64), Fault> {
        sql.execute("SELECT pg_advisory_xact_lock($1)", &[&REGISTER_LOCK]).await?;
        // Slots take turns: one that was just given up is the last to be taken again.
        let row = sql
            .first(
                "INSERT INTO node (slot, floor, last_key, epoch) \
                 SELECT slot, 0, 0, -1 FROM generate_series(0, 63) AS slot \
                 WHERE NOT EXISTS (SELECT FROM node WHERE node.slot = slot.slot) \
                 ORDER BY (slot - (SELECT last_value FROM node_id_seq) % 64 + 64) % 64 LIMIT 1 RETURNING id, slot",
                &[],
            )
            .await?;
        let Some(row) = row else {
            return Err(Fault::Setting("64 nodes work on this database already".into()));
        };
        let number: i32 = row.try_get(0)?;
        // What the latest heartbeats said, and what came behind them.
        let last: i64 = sql
            .one(
                "SELECT greatest((SELECT max(last_key) FROM node), (SELECT value FROM meta WHERE name = 'last_key'))",
                &[],
            )
            .await?
            .try_get(0)?;
        let behind = "SELECT coalesce(max(key), $1) FROM delivery WHERE key >= $1";
        let last = sql.one(behind, &[&last]).await?.try_get(0)?;
        Ok((number, row.try_get::<_, i16>(1)?.unsigned_abs(), last))
    }

    /// Whether attempts may start now.
    pub(super) fn may_dial(&self) -> bool {
        self.since_beat() < DIAL_TIME
    }

    pub(super) fn since_beat(&self) -> Duration {
        Duration::from_millis(monotonic_ms().saturating_sub(self.beat.load(Ordering::Acquire)))
    }

    /// Takes note of an answered heartbeat. A node that had lapsed gives back what it has not dialled first.
    pub(super) fn note_beat(&self, sent: u64) {
        let lapsed = self.beat.load(Ordering::Acquire) != 0 && !self.may_dial();
        if lapsed {
            tracing::warn!("the database was out of reach for too long; what has not dialled is given back");
            self.state().lapse();
        }
        self.beat.store(sent.max(1), Ordering::Release);
    }

    /// Whether anybody, anywhere, listens to changes.
    pub(super) fn is_watched(&self) -> bool {
        self.changes.receiver_count() > 0 || self.watched_elsewhere.load(Ordering::Relaxed)
    }

    /// Writes down how far keys run ahead of the clock, before one that does is stored.
    pub(super) async fn write_key_lead(&self, lead: i64) -> Result<(), Fault> {
        let sql = self.connection().await?;
        sql.execute("UPDATE meta SET value = greatest(value, $1) WHERE name = 'key_lead_ms'", &[&lead])
            .await?;
        let mut state = self.state();
        state.key_lead_ms = state.key_lead_ms.max(lead);
        Ok(())
    }

    /// Reads what is committed, as of one moment.
    pub(super) async fn read<T: Send>(
        &self,
        work: impl for<'s> Fn(&'s Sql) -> BoxFuture<'s, Result<T, Fault>> + Send + Sync,
    ) -> Result<T, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_read(&work).await {
                Ok(value) => return Ok(value),
                // A connection that ended while nobody used it is found out by using it.
                Err(fault) if fault.is_broken_link() && tries < 3 => {
                    tokio::time::sleep(Duration::from_millis(20 * tries)).await;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    async fn try_read<T: Send>(
        &self,
        work: &(impl for<'s> Fn(&'s Sql) -> BoxFuture<'s, Result<T, Fault>> + Send + Sync),
    ) -> Result<T, Fault> {
        let sql = self.connection().await?;
        sql.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        match work(&sql).await {
            Ok(value) => {
                #[cfg(feature = "conformance")]
                self.judged.judge(&sql).await?;
                sql.batch("COMMIT").await?;
                Ok(value)
            }
            Err(fault) => {
                sql.throw_away();
                Err(fault)
            }
        }
    }

    /// A connection that nobody else uses.
    pub(super) async fn connection(&self) -> Result<Sql, Fault> {
        Ok(Sql::new(pool::take(&self.pool).await?))
    }

    pub(super) fn connections(&self) -> Connections {
        let pool = self.pool.status();
        Connections {
            in_use: pool.size.saturating_sub(pool.available) as u64,
            idle: pool.available as u64,
            waiting: pool.waiting as u64,
            max: Some(pool.max_size as u64),
        }
    }

    /// Tells listeners here, and those on other nodes a little later.
    pub(super) fn announce(&self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        if self.watched_elsewhere.load(Ordering::Relaxed) {
            lock(&self.outbox).extend(changes.iter().cloned());
        }
        for change in changes {
            // An error means that nobody listens any more.
            let _ = self.changes.send(change);
        }
    }

    /// Wakes the dispatcher if there is something to claim earlier than it knows.
    pub(super) fn wake(&self) {
        let mut state = self.state();
        if state.agenda.is_news() || state.replays.ready {
            drop(state);
            self.due.notify_one();
        }
    }
}
