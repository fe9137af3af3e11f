//! The one writer: a connection, the configuration in memory, and what the running transaction has staged.
//!
//! The engine is plain synchronous code. The writer thread drives it in a server, the simulator drives it directly.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use restante_core::endpoint::EndpointId;
use restante_core::id::{Key, KeyMaker};
use restante_core::{Delivery, State, Timestamp};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, params};
use rustc_hash::FxHashMap;

use super::codec::{
    DELIVERY_BY_KEY, DELIVERY_COLUMNS, DeliveryRow, cause_code, ending_code, read_delivery, state_code,
};
use super::config::{self, Config};
use super::history::{History, key_lead, watermark};
use super::jobs::Jobs;
use super::prune::{EventPass, Round, Wipe};
use super::{Fault, meta, migrate, set_meta};
use crate::agenda::Agenda;
use crate::endpoint::{Endpoint, Settings};
use crate::tally::{self, Counted, SharedTally};
use crate::{Change, Changed, Dispatch, Parcel, Policy, Vitals, Withdraw};

/// How many commits pass between two writes of the lease floor.
const FLOOR_EVERY: u32 = 64;

/// See the module.
pub struct Engine {
    pub(super) conn: Connection,
    pub(super) policy: Policy,
    pub(super) config: Config,
    pub(super) keys: KeyMaker,
    pub(super) history: History,
    pub(super) agenda: Agenda,
    /// Deleted or paused endpoints that may still have pending rows that are over.
    pub(super) unswept: BTreeSet<i64>,
    /// Replays and recoveries that are not over.
    pub(super) jobs: Jobs,
    /// How far the erasing of expired events has come.
    pub(super) event_pass: EventPass,
    /// The look for what is past its retention that is under way.
    pub(super) round: Option<Round>,
    /// The rows of deliveries leased now: what settles next need not be read.
    pub(super) leases: FxHashMap<i64, DeliveryRow>,
    pub(super) staged: Staged,
    pub(super) tally: SharedTally,
    pub(super) wipe: Wipe,
    /// Whether a delivery made since this was last reset found its lane full of work that flows.
    pub(super) overflowed: bool,
    /// Whether somebody listens to changes.
    pub(super) watched: bool,
    /// Keys of deliveries leased at birth and not settled yet.
    ///
    /// The lowest is written now and then: after a crash the orphans lie from there on, and no index has to know
    /// about leases that last a millisecond.
    pub(super) born: BTreeSet<i64>,
    /// Deliveries that were leased when the database was opened, each with its running attempt's number.
    pub(super) orphans: FxHashMap<i64, u32>,
    dispatch: Option<Arc<dyn Dispatch>>,
    commits_since_floor: u32,
    /// The highest key handed out.
    pub(super) last_key: i64,
    /// How far keys ever ran ahead of the clock, because that went back.
    pub(super) key_lead_ms: i64,
    /// The latest key ran ahead of the clock.
    pub(super) keys_lead: bool,
    /// Memory is not what the tables say: a rollback could not be finished.
    stale: bool,
}

/// What takes effect when the transaction commits.
#[derive(Default)]
pub(super) struct Staged {
    pub(super) parcels: Vec<Parcel>,
    pub(super) withdrawals: Vec<Withdraw>,
    pub(super) widened: Vec<EndpointId>,
    pub(super) changes: Vec<Change>,
    pub(super) settings: Vec<(Arc<Endpoint>, Arc<Settings>)>,
    pub(super) counted: Vec<Counted>,
    /// Rows of the tally that were written.
    pub(super) tallied: Vec<tally::Row>,
    /// All that was leased when the database was opened has been settled.
    pub(super) no_orphans: bool,
}

/// How much was staged when a savepoint began.
#[derive(Clone, Copy)]
pub(super) struct StagedSoFar {
    parcels: usize,
    withdrawals: usize,
    widened: usize,
    changes: usize,
    settings: usize,
    counted: usize,
    tallied: usize,
}

impl Engine {
    /// Opens a database file, brings it up to date and reads what must be in memory.
    ///
    /// # Errors
    /// What SQLite or a migration says; the file is as it was, but for migrations that ran.
    pub fn open(path: &Path, policy: Policy) -> Result<Self, Fault> {
        let conn = Connection::open(path)?;
        prepare_writer(&conn)?;
        migrate::migrate(&conn)?;
        let mut engine = Self {
            conn,
            policy,
            config: Config { mail_terms: policy.mail.clone(), ..Config::default() },
            keys: KeyMaker::after(None),
            history: History::default(),
            agenda: Agenda::new(),
            unswept: BTreeSet::new(),
            jobs: Jobs::default(),
            event_pass: EventPass::default(),
            round: None,
            leases: FxHashMap::default(),
            staged: Staged::default(),
            tally: SharedTally::default(),
            overflowed: false,
            wipe: Wipe::default(),
            watched: false,
            born: BTreeSet::new(),
            orphans: FxHashMap::default(),
            dispatch: None,
            commits_since_floor: 0,
            last_key: 0,
            key_lead_ms: 0,
            keys_lead: false,
            stale: false,
        };
        engine.reload()?;
        let orphans = engine.leased_rows(usize::MAX)?;
        engine.orphans = orphans.iter().map(|row| (row.key, row.life.attempts_made)).collect();
        Ok(engine)
    }

    /// Reads from the tables what is kept in memory. After a rollback memory may be ahead of them.
    ///
    /// # Errors
    /// What SQLite says; the next transaction tries again first.
    fn reload(&mut self) -> Result<(), Fault> {
        self.stale = true;
        self.staged = Staged::default();
        self.config = config::load(&self.conn, &self.config)?;
        self.history = History::load(&self.conn)?;
        // Keys that were handed out are never handed out again, also when what had them is gone.
        self.last_key = self.last_key.max(highest_key(&self.conn)?);
        self.keys = KeyMaker::after(Some(Key::from_value(self.last_key)));
        self.key_lead_ms = key_lead(&self.conn)?;
        self.agenda.clear();
        self.unswept.clear();
        self.born.clear();
        self.leases.clear();
        self.jobs = Jobs::load(&self.conn)?;
        for row in self.leased_rows(usize::MAX)? {
            self.count_lease(row);
        }
        let endpoints: Vec<i64> = self.config.endpoints.keys().copied().collect();
        for endpoint in endpoints {
            self.look_up_due(endpoint)?;
            let entry = &self.config.endpoints[&endpoint];
            if entry.standing.cut.is_some() || (entry.gone.is_some() && entry.next_due != i64::MAX) {
                self.unswept.insert(endpoint);
            }
        }
        self.stale = false;
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
        if self.stale || !self.conn.is_autocommit() {
            self.roll_back()?;
        }
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
        for (endpoint, settings) in staged.settings {
            endpoint.set(settings);
        }
        if let Some(dispatch) = &self.dispatch {
            if !staged.parcels.is_empty() {
                dispatch.dispatch(staged.parcels);
            }
            for what in staged.withdrawals {
                dispatch.withdraw(what);
            }
            for endpoint in staged.widened {
                dispatch.widen(endpoint);
            }
        }
        self.staged.changes = staged.changes;
        if staged.no_orphans {
            self.orphans.clear();
        }
        if !staged.counted.is_empty() || !staged.tallied.is_empty() {
            let mut tally = self.tally.lock();
            tally.note_written(&staged.tallied);
            tally.count(&self.config, &staged.counted);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Fault> {
        self.write_balances()?;
        self.history.step(&self.conn, self.last_key)?;
        self.commits_since_floor += 1;
        if self.commits_since_floor >= FLOOR_EVERY {
            self.write_lease_floor()?;
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Notes from which key on a crash leaves orphans among the leases that no index knows.
    pub(super) fn write_lease_floor(&mut self) -> Result<(), Fault> {
        self.commits_since_floor = 0;
        let floor = self.born.first().copied().unwrap_or(self.last_key + 1);
        set_meta(&self.conn, "lease_floor", floor)
    }

    pub(super) fn roll_back(&mut self) -> Result<(), Fault> {
        self.stale = true;
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
        staged.widened.truncate(before.widened);
        staged.changes.truncate(before.changes);
        staged.settings.truncate(before.settings);
        staged.counted.truncate(before.counted);
        staged.tallied.truncate(before.tallied);
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
            widened: self.staged.widened.len(),
            changes: self.staged.changes.len(),
            settings: self.staged.settings.len(),
            counted: self.staged.counted.len(),
            tallied: self.staged.tallied.len(),
        })
    }

    /// What happened in committed transactions since this was last asked.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.staged.changes)
    }

    /// Says where leased deliveries go; without anybody to take them nothing is leased.
    pub fn attach(&mut self, dispatch: Option<Arc<dyn Dispatch>>) {
        self.jobs.ready = true;
        self.agenda.attach(&mut self.config, dispatch.is_some());
        self.dispatch = dispatch;
    }

    /// Numbers for metrics and health.
    pub fn vitals(&self) -> Vitals {
        self.agenda.vitals()
    }

    /// The first of `count` consecutive new keys.
    pub(super) fn take_keys(&mut self, now: Timestamp, count: u32) -> Result<Key, Fault> {
        let first = self.keys.take(now, count);
        self.last_key = first.value() + i64::from(count) - 1;
        // The time in a key is that of its making unless the clock went back; searches by time allow for the worst.
        let lead_ms = Key::from_value(self.last_key).at().millis().saturating_sub(now.millis());
        self.keys_lead = lead_ms > 0;
        if lead_ms > self.key_lead_ms {
            self.key_lead_ms = lead_ms;
            set_meta(&self.conn, "key_lead_ms", lead_ms)?;
        }
        Ok(first)
    }

    pub(super) fn delivery_row(&self, key: i64) -> Result<Option<DeliveryRow>, Fault> {
        let mut statement = self.conn.prepare_cached(DELIVERY_BY_KEY)?;
        let mut rows = statement.query([key])?;
        rows.next()?.map(read_delivery).transpose()
    }

    /// Writes what rules made of a delivery, with the running attempt's columns of `row`.
    pub(super) fn write_delivery(&mut self, row: &DeliveryRow, life: &Delivery) -> Result<(), Fault> {
        self.note_life(row, life);
        self.conn
            .prepare_cached(
                "UPDATE delivery SET state = ?2, claimed = ?3, ending = ?4, made = ?5, used = ?6, lost = ?7, \
                 due_at = ?8, started_at = ?9, endpoint_version = ?10, ended_at = ?11, status = ?12, wait_ms = ?13, \
                 wait_cause = ?14, back_to = ?15, job = ?16 WHERE key = ?1",
            )?
            .execute(params![
                row.key,
                state_code(life.state),
                row.claimed,
                ending_code(life.ending),
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
                life.back_to.map(state_code),
                row.job,
            ])?;
        Ok(())
    }

    /// The same of a delivery whose first attempt delivered, born with it: what else its columns hold is as it was.
    pub(super) fn write_delivered(&mut self, row: &DeliveryRow, life: &Delivery) -> Result<(), Fault> {
        self.note_life(row, life);
        self.conn
            .prepare_cached(
                "UPDATE delivery SET state = ?2, used = ?3, started_at = ?4, endpoint_version = ?5, ended_at = ?6, \
                 status = ?7 WHERE key = ?1",
            )?
            .execute(params![
                row.key,
                state_code(life.state),
                life.attempts_used,
                row.started_at,
                row.endpoint_version,
                life.ended_at.map(Timestamp::millis),
                row.status,
            ])?;
        Ok(())
    }

    fn note_life(&mut self, row: &DeliveryRow, life: &Delivery) {
        self.staged.counted.extend(Counted::change(row.endpoint, row.key, &row.life, life));
        if let Some(leased) = self.leases.get_mut(&row.key) {
            leased.life = life.clone();
        }
    }

    /// Deliveries that are leased according to the tables, up to `most`.
    pub(super) fn leased_rows(&self, most: usize) -> Result<Vec<DeliveryRow>, Fault> {
        let floor = meta(&self.conn, "lease_floor")?.unwrap_or(0);
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
                found.push(read_delivery(row)?);
            }
        }
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

/// Settings of the writing connection. Checkpoints are made elsewhere (`writer.rs`).
fn prepare_writer(conn: &Connection) -> Result<(), Fault> {
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; PRAGMA wal_autocheckpoint = 0; \
         PRAGMA secure_delete = ON; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;",
    )?;
    // Plans must not depend on bound values, or statements are prepared again as these change.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.busy_timeout(std::time::Duration::ZERO)?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(())
}

/// The highest key that is known to have been handed out.
pub(crate) fn highest_key(conn: &Connection) -> Result<i64, Fault> {
    // The index is complete up to its watermark and no lease lies below the floor: no new key may.
    let floor = meta(conn, "lease_floor")?.unwrap_or(0);
    let mut highest = watermark(conn)?.max(floor - 1);
    for table in ["message", "delivery", "record", "ledger"] {
        let column: Option<i64> = conn
            .query_row(&format!("SELECT max(key) FROM {table}"), [], |row| row.get(0))
            .optional()?
            .flatten();
        highest = highest.max(column.unwrap_or(0));
    }
    Ok(highest)
}
