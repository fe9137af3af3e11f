//! The model database: tables, the lock of the configuration, transactions and their backends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use restante_core::delivery::Delivery;
use restante_core::id::DeliveryId;
use restante_core::retry::Schedule;
use restante_core::{Outcome, Timestamp};

use super::table::{LockedBy, Table, Tx};
use crate::timeline::Moment;

/// A node has lapsed when it was not seen for so long.
pub(super) const LAPSE_MS: u64 = 15_000;
/// No lease of a node can last longer after it was last seen.
pub(super) const GONE_MS: u64 = 75_000;
/// A transaction whose client says nothing for so long is ended (`idle_in_transaction_session_timeout`).
pub(super) const IDLE_MS: u64 = 5_000;

/// One delivery, its lease, and where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeliveryRow {
    pub(super) id: DeliveryId,
    /// The message's key.
    pub(super) message: i64,
    pub(super) marker: usize,
    pub(super) endpoint: usize,
    pub(super) life: Delivery,
    pub(super) node: Option<u32>,
    /// There is a row in `work`.
    pub(super) claimed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WorkRow {
    pub(super) endpoint: usize,
    pub(super) due_at: Timestamp,
    pub(super) node: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRow {
    pub(super) slot: u16,
    pub(super) seen_at: Timestamp,
    pub(super) floor: i64,
    pub(super) epoch: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SlotsRow {
    pub(super) slots: u32,
    /// The node wants more than it got.
    pub(super) asks: bool,
}

#[derive(Clone, Debug)]
pub(super) struct EndpointRow {
    pub(super) paused: bool,
    pub(super) gone: bool,
    pub(super) schedule: Schedule,
    pub(super) max_in_flight: u32,
    pub(super) rate_per_second: Option<f64>,
    pub(super) timeout_ms: u64,
    /// Timeouts it had before, and until when by the database's clock.
    pub(super) timeouts: Vec<(Timestamp, u64)>,
}

impl EndpointRow {
    /// The longest timeout of an attempt that a node seen at `seen_at` may have dialled and not ended.
    pub(super) fn longest_timeout_ms(&self, seen_at: Timestamp) -> u64 {
        let since = seen_at - Duration::from_millis(GONE_MS);
        let before = self.timeouts.iter().filter(|(until, _)| *until >= since).map(|(_, ms)| *ms);
        before.chain([self.timeout_ms]).max().unwrap_or(self.timeout_ms)
    }

    /// Between two attempts, if there is a rate.
    pub(super) fn step_ms(&self) -> u64 {
        self.rate_per_second.map_or(0, |rate| (1000.0 / rate).ceil() as u64)
    }
}

/// The result of an attempt as it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AttemptRow {
    pub(super) outcome: Outcome,
    pub(super) ended_at: Timestamp,
    /// Who wrote it.
    pub(super) node: u32,
}

/// Why a statement is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It goes on when this transaction has ended.
    Wait(Tx),
    /// It fails, and its transaction with it.
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The configuration is of another epoch.
    Epoch,
    /// The node has no row.
    Gone,
    /// The node has been told that it came to nothing.
    Void,
}

impl From<LockedBy> for Stop {
    fn from(LockedBy(tx): LockedBy) -> Self {
        Self::Wait(tx)
    }
}

/// A connection's other end while it has a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backend {
    /// The process at the other end.
    pub(super) life: u32,
    /// A statement runs.
    pub(super) busy: bool,
    pub(super) active: Moment,
    pub(super) waits_for: Option<Tx>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Database {
    pub(super) clock: Timestamp,
    pub(super) deliveries: Table<i64, DeliveryRow>,
    pub(super) work: Table<i64, WorkRow>,
    pub(super) attempts: Table<(i64, u32), AttemptRow>,
    pub(super) nodes: Table<u32, NodeRow>,
    /// The transactions of each lane of each node; whether they came to nothing.
    pub(super) marks: Table<(u32, u32, u64), bool>,
    pub(super) slots: Table<(usize, u32), SlotsRow>,
    /// By node and delivery.
    pub(super) withdrawals: Table<(u32, i64), usize>,
    pub(super) endpoints: Table<usize, EndpointRow>,
    pub(super) epoch: Table<(), u64>,
    pub(super) backends: BTreeMap<Tx, Backend>,
    pub(super) commits: u64,
    exclusive: Option<Tx>,
    shared: BTreeSet<Tx>,
    /// Who waits for the lock of the configuration, in turn; whether alone.
    queue: Vec<(Tx, bool)>,
}

impl Database {
    /// The advisory lock: shared by those who write messages, alone for those who change the configuration.
    fn lock_configuration(&mut self, tx: Tx, alone: bool) -> Result<(), Stop> {
        if self.exclusive == Some(tx) || (!alone && self.shared.contains(&tx)) {
            return Ok(());
        }
        if !self.queue.iter().any(|(waiting, _)| *waiting == tx) {
            self.queue.push((tx, alone));
        }
        let before = self.queue.first().map(|(waiting, _)| *waiting).filter(|first| *first != tx);
        let holder = if alone { self.shared.first().copied() } else { None };
        if let Some(other) = self.exclusive.or(holder).or(before) {
            return Err(Stop::Wait(other));
        }
        self.queue.retain(|(waiting, _)| *waiting != tx);
        if alone {
            self.exclusive = Some(tx);
        } else {
            self.shared.insert(tx);
        }
        Ok(())
    }

    /// `restante_enter`. `expected`: the epoch the node believes in; `None` when a bug is planted.
    pub(super) fn enter(
        &mut self,
        tx: Tx,
        node: u32,
        mark: (u32, u64),
        expected: Option<u64>,
    ) -> Result<(), Stop> {
        self.lock_configuration(tx, false)?;
        self.pass(tx, node, mark, expected)
    }

    /// As [`Database::enter`], and no other transaction of a node runs meanwhile.
    pub(super) fn enter_alone(
        &mut self,
        tx: Tx,
        node: u32,
        mark: (u32, u64),
        expected: u64,
    ) -> Result<(), Stop> {
        self.lock_configuration(tx, true)?;
        self.pass(tx, node, mark, Some(expected))
    }

    /// `restante_change`. Returns the new epoch.
    pub(super) fn change(&mut self, tx: Tx, node: u32, mark: (u32, u64), expected: u64) -> Result<u64, Stop> {
        self.enter_alone(tx, node, mark, expected)?;
        self.epoch.put(tx, (), Some(expected + 1))?;
        Ok(expected + 1)
    }

    fn pass(&mut self, tx: Tx, node: u32, mark: (u32, u64), expected: Option<u64>) -> Result<(), Stop> {
        if expected.is_some_and(|expected| self.epoch.get(tx, ()) != Some(&expected)) {
            return Err(Stop::Refused(Refusal::Epoch));
        }
        if self.nodes.get(tx, node).is_none() {
            return Err(Stop::Refused(Refusal::Gone));
        }
        let place = (node, mark.0, mark.1);
        self.marks.lock(tx, place)?;
        if self.marks.get(tx, place).is_some() {
            return Err(Stop::Refused(Refusal::Void));
        }
        Ok(self.marks.put(tx, place, Some(false))?)
    }

    /// What configuration a transaction sees.
    pub(super) fn read_endpoints(&self, tx: Tx) -> (u64, Vec<EndpointRow>) {
        let epoch = self.epoch.get(tx, ()).copied().unwrap_or(0);
        (epoch, self.endpoints.rows(tx).map(|(_, row)| row.clone()).collect())
    }

    /// How long ago a node was seen, in milliseconds; `None`: it has no row.
    pub(super) fn unseen_ms(&self, tx: Tx, node: u32) -> Option<u64> {
        let row = self.nodes.get(tx, node)?;
        Some(u64::try_from(self.clock.since(row.seen_at).as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn has_lapsed(&self, tx: Tx, node: u32) -> bool {
        self.unseen_ms(tx, node).is_none_or(|ms| ms > LAPSE_MS)
    }

    /// Whether who waits for `by` would wait for ever.
    pub(super) fn is_deadlock(&self, tx: Tx, by: Tx) -> bool {
        let mut next = Some(by);
        for _ in 0..self.backends.len() {
            match next {
                Some(waiting) if waiting == tx => return true,
                Some(waiting) => next = self.backends.get(&waiting).and_then(|it| it.waits_for),
                None => return false,
            }
        }
        false
    }

    /// The transaction and its backend are over.
    pub(super) fn end(&mut self, tx: Tx, commit: bool) {
        if self.backends.remove(&tx).is_none() {
            return;
        }
        self.commits += u64::from(commit);
        self.deliveries.end(tx, commit);
        self.work.end(tx, commit);
        self.attempts.end(tx, commit);
        self.nodes.end(tx, commit);
        self.marks.end(tx, commit);
        self.slots.end(tx, commit);
        self.withdrawals.end(tx, commit);
        self.endpoints.end(tx, commit);
        self.epoch.end(tx, commit);
        if self.exclusive == Some(tx) {
            self.exclusive = None;
        }
        self.shared.remove(&tx);
        self.queue.retain(|(waiting, _)| *waiting != tx);
    }

    /// Writes a delivery that an attempt, a release or a cancel changed, and its row in `work`.
    pub(super) fn write_delivery(
        &mut self,
        tx: Tx,
        key: i64,
        life: Delivery,
        node: Option<u32>,
    ) -> Result<(), Stop> {
        use restante_core::State;
        self.deliveries.lock(tx, key)?;
        let Some(row) = self.deliveries.get(tx, key).cloned() else { return Ok(()) };
        let waits = life.state == State::Pending;
        let work = match life.state {
            State::Pending => Some(WorkRow { endpoint: row.endpoint, due_at: life.due_at, node: None }),
            State::Sending if row.claimed => {
                Some(WorkRow { endpoint: row.endpoint, due_at: life.due_at, node })
            }
            State::Sending | State::Delivered | State::Failed(_) | State::Cancelled(_) | State::Skipped => {
                None
            }
        };
        if row.claimed || work.is_some() {
            self.work.put(tx, key, work)?;
        }
        let claimed = waits || (life.state == State::Sending && row.claimed);
        let node = if life.state == State::Sending { node } else { None };
        Ok(self.deliveries.put(tx, key, Some(DeliveryRow { life, node, claimed, ..row }))?)
    }
}
