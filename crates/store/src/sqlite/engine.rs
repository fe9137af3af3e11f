//! The one writer: a connection, the configuration in memory, and what the running transaction has staged.
//!
//! The engine is plain synchronous code. The writer thread drives it in a server, the simulator drives it directly.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use restante_core::id::{Key, KeyMaker};
use restante_core::{Delivery, State, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{DELIVERY_COLUMNS, DeliveryRow, SENDING, cause_code, state_code};
use super::config::Config;
use super::history::History;
use super::{Fault, migrate, set_meta};
use crate::endpoint::ContentBytes;
use crate::{Change, Changed, Dispatch, Parcel, Vitals, Withdraw};

/// Most deliveries leased at once, over all lanes.
const LEASES_MAX: u32 = 16_384;
/// Most bytes of content in memory for leased deliveries.
const CONTENT_BYTES_MAX: u64 = 48 * 1024 * 1024;
/// A lane may hold one of so many free leases: however many lanes are stuck, the others find room.
const LANE_SHARE: u32 = 8;
/// How many commits pass between two writes of the lease floor.
const FLOOR_EVERY: u32 = 64;

/// See the module.
pub struct Engine {
    pub(super) conn: Connection,
    pub(super) config: Config,
    pub(super) keys: KeyMaker,
    pub(super) history: History,
    pub(super) content_bytes: ContentBytes,
    /// Endpoints that have something due and room for it: (due time, row).
    pub(super) agenda: BTreeSet<(i64, i64)>,
    /// Endpoints that had no room when the agenda was last asked, although something was due.
    pub(super) crowded: BTreeSet<i64>,
    /// Deleted endpoints that may still have pending rows.
    pub(super) unswept: BTreeSet<i64>,
    pub(super) leased: u32,
    pub(super) staged: Staged,
    /// Whether somebody listens to changes.
    pub(super) watched: bool,
    /// The due time the dispatcher was last told.
    pub(super) announced: i64,
    born: BornLeases,
    dispatch: Option<Arc<dyn Dispatch>>,
    commits_since_floor: u32,
    /// The highest key handed out.
    pub(super) last_key: i64,
}

/// What takes effect when the transaction commits.
#[derive(Default)]
pub(super) struct Staged {
    pub(super) parcels: Vec<Parcel>,
    pub(super) withdrawals: Vec<Withdraw>,
    pub(super) changes: Vec<Change>,
}

/// How much was staged when a savepoint began.
#[derive(Clone, Copy)]
pub(super) struct StagedSoFar {
    parcels: usize,
    withdrawals: usize,
    changes: usize,
}

/// Deliveries leased at birth and not settled yet, by the transaction that bore them.
///
/// The lowest key among them is written now and then: after a crash the orphans lie from there on, and no index has
/// to know about leases that last a millisecond.
#[derive(Debug, Default)]
struct BornLeases(VecDeque<Batch>);

#[derive(Debug)]
struct Batch {
    first: i64,
    last: i64,
    open: u32,
}

impl BornLeases {
    fn add(&mut self, key: i64) {
        match self.0.back_mut() {
            Some(batch) if batch.open > 0 && key - batch.first < 4096 && key > batch.last => {
                batch.last = key;
                batch.open += 1;
            }
            _ => self.0.push_back(Batch { first: key, last: key, open: 1 }),
        }
    }

    fn remove(&mut self, key: i64) {
        let index = self.0.partition_point(|batch| batch.last < key);
        if let Some(batch) = self.0.get_mut(index).filter(|batch| batch.first <= key) {
            batch.open = batch.open.saturating_sub(1);
        }
        while self.0.front().is_some_and(|batch| batch.open == 0) {
            self.0.pop_front();
        }
    }

    fn floor(&self) -> Option<i64> {
        self.0.front().map(|batch| batch.first)
    }
}

impl Engine {
    /// Opens a database file, brings it up to date and reads what must be in memory.
    ///
    /// # Errors
    /// What SQLite or a migration says; the file is as it was, but for migrations that ran.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let conn = Connection::open(path)?;
        prepare_writer(&conn)?;
        migrate::migrate(&conn)?;
        let mut engine = Self {
            conn,
            config: Config::default(),
            keys: KeyMaker::after(None),
            history: History::default(),
            content_bytes: ContentBytes::default(),
            agenda: BTreeSet::new(),
            crowded: BTreeSet::new(),
            unswept: BTreeSet::new(),
            leased: 0,
            staged: Staged::default(),
            watched: false,
            announced: i64::MAX,
            born: BornLeases::default(),
            dispatch: None,
            commits_since_floor: 0,
            last_key: 0,
        };
        engine.reload()?;
        Ok(engine)
    }

    /// Reads from the tables what is kept in memory. After a rollback memory may be ahead of them.
    ///
    /// # Errors
    /// What SQLite says; the engine must not be used until a reload works.
    pub(super) fn reload(&mut self) -> Result<(), Fault> {
        self.staged = Staged::default();
        self.config = Config::load(&self.conn, &self.config)?;
        self.history = History::load(&self.conn)?;
        self.last_key = highest_key(&self.conn)?;
        self.keys = KeyMaker::after(Some(Key::from_value(self.last_key)));
        self.agenda.clear();
        self.crowded.clear();
        self.born = BornLeases::default();
        self.leased = 0;
        for row in self.leased_rows(usize::MAX)? {
            self.count_lease(row.endpoint, row.key, !row.claimed);
        }
        let endpoints: Vec<i64> = self.config.endpoints.keys().copied().collect();
        for endpoint in endpoints {
            self.look_up_due(endpoint)?;
            if self.config.endpoints[&endpoint].gone.is_some()
                && self.config.endpoints[&endpoint].next_due != i64::MAX
            {
                self.unswept.insert(endpoint);
            }
        }
        self.announced = i64::MAX;
        Ok(())
    }

    /// Runs `work` as one transaction. What it staged takes effect after the commit.
    ///
    /// # Errors
    /// Nothing was stored and memory is as before, unless the error comes from the commit itself, whose result is
    /// then unknown until the database is opened again.
    pub fn transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.begin()?;
        match work(self) {
            Ok(value) => {
                self.commit()?;
                Ok(value)
            }
            Err(fault) => {
                self.roll_back()?;
                Err(fault)
            }
        }
    }

    pub(super) fn begin(&mut self) -> Result<(), Fault> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), Fault> {
        let result = self.finish();
        if let Err(fault) = result {
            self.roll_back()?;
            return Err(fault);
        }
        let staged = std::mem::take(&mut self.staged);
        if let Some(dispatch) = &self.dispatch {
            if !staged.parcels.is_empty() {
                dispatch.dispatch(staged.parcels);
            }
            for what in staged.withdrawals {
                dispatch.withdraw(what);
            }
        }
        self.staged.changes = staged.changes;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Fault> {
        self.write_balances()?;
        self.history.step(&self.conn, self.last_key)?;
        self.commits_since_floor += 1;
        if self.commits_since_floor >= FLOOR_EVERY {
            self.commits_since_floor = 0;
            set_meta(&self.conn, "lease_floor", self.born.floor().unwrap_or(self.last_key + 1))?;
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    pub(super) fn roll_back(&mut self) -> Result<(), Fault> {
        if !self.conn.is_autocommit() {
            self.conn.execute_batch("ROLLBACK")?;
        }
        self.reload()
    }

    /// Undoes what a job did since the savepoint `alone`; what jobs before it staged stays.
    pub(super) fn roll_back_to_savepoint(&mut self, before: StagedSoFar) -> Result<(), Fault> {
        self.conn.execute_batch("ROLLBACK TO alone; RELEASE alone")?;
        let mut staged = std::mem::take(&mut self.staged);
        staged.parcels.truncate(before.parcels);
        staged.withdrawals.truncate(before.withdrawals);
        staged.changes.truncate(before.changes);
        self.reload()?;
        self.staged = staged;
        Ok(())
    }

    /// Starts a savepoint that [`Engine::roll_back_to_savepoint`] returns to.
    pub(super) fn savepoint(&mut self) -> Result<StagedSoFar, Fault> {
        // A reload reads balances from the table: those changed so far must be there.
        self.write_balances()?;
        self.conn.prepare_cached("SAVEPOINT alone")?.execute([])?;
        Ok(StagedSoFar {
            parcels: self.staged.parcels.len(),
            withdrawals: self.staged.withdrawals.len(),
            changes: self.staged.changes.len(),
        })
    }

    /// What happened in committed transactions since this was last asked.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.staged.changes)
    }

    /// Says where leased deliveries go; without anybody to take them nothing is leased.
    pub fn attach(&mut self, dispatch: Option<Arc<dyn Dispatch>>) {
        self.dispatch = dispatch;
        let endpoints: Vec<i64> = self.config.endpoints.keys().copied().collect();
        for endpoint in endpoints {
            self.relist(endpoint);
        }
    }

    /// Numbers for metrics and health.
    pub fn vitals(&self) -> Vitals {
        Vitals {
            leased: self.leased.into(),
            content_bytes: self.content_bytes.get(),
            oldest_due: self.agenda.first().map(|(due, _)| Timestamp::from_millis(*due)),
            wal_bytes: 0,
        }
    }

    /// The first of `count` consecutive new keys.
    pub(super) fn take_keys(&mut self, now: Timestamp, count: u32) -> Key {
        let first = self.keys.take(now, count);
        self.last_key = first.value() + i64::from(count) - 1;
        first
    }

    /// How many more deliveries of an endpoint may be leased now.
    pub(super) fn room(&self, endpoint: i64) -> u32 {
        let free = LEASES_MAX.saturating_sub(self.leased);
        let Some(entry) = self.config.endpoints.get(&endpoint) else { return 0 };
        let closed = self.dispatch.is_none()
            || free == 0
            || self.content_bytes.get() >= CONTENT_BYTES_MAX
            || entry.gone.is_some()
            || entry.settings.destination.holds_back().is_some();
        if closed {
            return 0;
        }
        entry.endpoint.leases_max().min(1 + free / LANE_SHARE).saturating_sub(entry.leased)
    }

    /// Counts a new lease.
    pub(super) fn count_lease(&mut self, endpoint: i64, key: i64, born: bool) {
        self.leased += 1;
        if let Some(entry) = self.config.endpoints.get_mut(&endpoint) {
            entry.leased += 1;
        }
        if born {
            self.born.add(key);
        }
    }

    /// Counts a lease that ended, whatever the way.
    pub(super) fn end_lease(&mut self, row: &DeliveryRow) {
        self.leased = self.leased.saturating_sub(1);
        if !row.claimed {
            self.born.remove(row.key);
        }
        let Some(entry) = self.config.endpoints.get_mut(&row.endpoint) else { return };
        entry.leased = entry.leased.saturating_sub(1);
        if entry.next_due != i64::MAX && entry.listed_at.is_none() {
            self.relist(row.endpoint);
        }
    }

    /// Notes that something of an endpoint is due at `due`.
    pub(super) fn plan(&mut self, endpoint: i64, due: i64) {
        let Some(entry) = self.config.endpoints.get_mut(&endpoint) else { return };
        if due < entry.next_due {
            entry.next_due = due;
            self.relist(endpoint);
        }
    }

    /// Puts an endpoint where it belongs in the agenda.
    pub(super) fn relist(&mut self, endpoint: i64) {
        let room = self.room(endpoint);
        let Some(entry) = self.config.endpoints.get_mut(&endpoint) else { return };
        if let Some(at) = entry.listed_at.take() {
            self.agenda.remove(&(at, endpoint));
        }
        self.crowded.remove(&endpoint);
        if entry.next_due == i64::MAX {
            return;
        }
        if room > 0 {
            entry.listed_at = Some(entry.next_due);
            self.agenda.insert((entry.next_due, endpoint));
        } else if entry.gone.is_none() && entry.settings.destination.holds_back().is_none() {
            self.crowded.insert(endpoint);
        }
    }

    /// Reads an endpoint's earliest due time from the table.
    pub(super) fn look_up_due(&mut self, endpoint: i64) -> Result<(), Fault> {
        let due: Option<i64> = self
            .conn
            .prepare_cached("SELECT min(due_at) FROM delivery WHERE endpoint = ?1 AND state = 0")?
            .query_row([endpoint], |row| row.get(0))?;
        if let Some(entry) = self.config.endpoints.get_mut(&endpoint) {
            entry.next_due = due.unwrap_or(i64::MAX);
        }
        self.relist(endpoint);
        Ok(())
    }

    pub(super) fn delivery_row(&self, key: i64) -> Result<Option<DeliveryRow>, Fault> {
        let sql = delivery_by_key();
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([key])?;
        rows.next()?.map(DeliveryRow::read).transpose()
    }

    /// Writes what rules made of a delivery, with the running attempt's columns of `row`.
    pub(super) fn write_delivery(&self, row: &DeliveryRow, life: &Delivery) -> Result<(), Fault> {
        self.conn
            .prepare_cached(
                "UPDATE delivery SET state = ?2, claimed = ?3, cancel_requested = ?4, made = ?5, used = ?6, lost = ?7, \
                 due_at = ?8, started_at = ?9, endpoint_version = ?10, ended_at = ?11, status = ?12, wait_ms = ?13, \
                 wait_cause = ?14 WHERE key = ?1",
            )?
            .execute(params![
                row.key,
                state_code(life.state),
                row.claimed,
                life.cancel_requested,
                life.attempts_made,
                life.attempts_used,
                life.lost_in_row,
                life.due_at.millis(),
                row.started_at,
                row.endpoint_version,
                life.ended_at.map(Timestamp::millis),
                row.status,
                life.wait.map(|wait| i64::try_from(wait.length.as_millis()).unwrap_or(i64::MAX)),
                life.wait.map(|wait| cause_code(wait.cause)),
            ])?;
        Ok(())
    }

    /// Deliveries that are leased according to the tables, up to `most`.
    pub(super) fn leased_rows(&self, most: usize) -> Result<Vec<DeliveryRow>, Fault> {
        let floor = super::meta(&self.conn, "lease_floor")?.unwrap_or(0);
        let mut found = Vec::new();
        for (condition, from) in
            [("state = 1 AND claimed = 1", 0), ("key >= ?1 AND +state = 1 AND claimed = 0", floor)]
        {
            let sql =
                format!("SELECT {DELIVERY_COLUMNS} FROM delivery WHERE {condition} AND key >= ?1 LIMIT ?2");
            let mut statement = self.conn.prepare_cached(&sql)?;
            let limit = i64::try_from(most - found.len()).unwrap_or(i64::MAX);
            let mut rows = statement.query(params![from, limit])?;
            while let Some(row) = rows.next()? {
                found.push(DeliveryRow::read(row)?);
            }
        }
        debug_assert!(found.iter().all(|row| state_code(row.life.state) == SENDING));
        debug_assert!(found.iter().all(|row| row.life.state == State::Sending));
        Ok(found)
    }

    /// Tells listeners of the live stream, if there are any.
    pub(super) fn tell(&mut self, endpoint: i64, what: impl FnOnce() -> Changed) {
        if !self.watched {
            return;
        }
        if let Some(entry) = self.config.endpoints.get(&endpoint) {
            self.staged.changes.push(Change { workspace: entry.endpoint.workspace, what: what() });
        }
    }
}

const fn delivery_by_key() -> &'static str {
    "SELECT key, message, endpoint, state, claimed, cancel_requested, made, used, lost, due_at, \
     started_at, endpoint_version, ended_at, status, wait_ms, wait_cause, created_at, retry_of FROM delivery WHERE key = ?1"
}

/// Settings of the writing connection. Checkpoints are made elsewhere (`writer.rs`).
fn prepare_writer(conn: &Connection) -> Result<(), Fault> {
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; PRAGMA wal_autocheckpoint = 0; \
         PRAGMA secure_delete = ON; PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY;",
    )?;
    conn.busy_timeout(std::time::Duration::ZERO)?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(())
}

fn highest_key(conn: &Connection) -> Result<i64, Fault> {
    let mut highest = 0;
    for table in ["message", "delivery", "record", "ledger"] {
        let column: Option<i64> = conn
            .query_row(&format!("SELECT max(key) FROM {table}"), [], |row| row.get(0))
            .optional()?
            .flatten();
        highest = highest.max(column.unwrap_or(0));
    }
    Ok(highest)
}
