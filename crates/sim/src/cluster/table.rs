//! A table as PostgreSQL shows it at read committed: each statement sees what is committed and its own
//! transaction's writes; whoever wants to write a row locks it, and waits for whoever has.

use std::collections::BTreeMap;

/// Names a transaction, and the backend that runs it.
pub(super) type Tx = u64;

/// A row is locked by this transaction: the statement waits for its end and looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockedBy(pub(super) Tx);

#[derive(Debug)]
struct Row<V> {
    committed: Option<V>,
    /// What the transaction that has the lock makes of it.
    written: Option<Option<V>>,
    locked: Option<Tx>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    rows: BTreeMap<K, Row<V>>,
    /// The rows each transaction has locked.
    locks: BTreeMap<Tx, Vec<K>>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), locks: BTreeMap::new() }
    }
}

impl<V> Row<V> {
    fn seen_by(&self, tx: Tx) -> Option<&V> {
        match &self.written {
            Some(written) if self.locked == Some(tx) => written.as_ref(),
            Some(_) | None => self.committed.as_ref(),
        }
    }
}

impl<K: Ord + Copy, V> Table<K, V> {
    pub(super) fn get(&self, tx: Tx, key: K) -> Option<&V> {
        self.rows.get(&key)?.seen_by(tx)
    }

    pub(super) fn rows(&self, tx: Tx) -> impl Iterator<Item = (K, &V)> {
        self.rows.iter().filter_map(move |(key, row)| Some((*key, row.seen_by(tx)?)))
    }

    /// What everybody can see.
    pub(super) fn committed(&self) -> impl Iterator<Item = (K, &V)> {
        self.rows.iter().filter_map(|(key, row)| Some((*key, row.committed.as_ref()?)))
    }

    /// `FOR UPDATE`.
    pub(super) fn lock(&mut self, tx: Tx, key: K) -> Result<(), LockedBy> {
        let fresh = || Row { committed: None, written: None, locked: None };
        let row = self.rows.entry(key).or_insert_with(fresh);
        match row.locked {
            Some(holder) if holder == tx => Ok(()),
            Some(holder) => Err(LockedBy(holder)),
            None => {
                row.locked = Some(tx);
                self.locks.entry(tx).or_default().push(key);
                Ok(())
            }
        }
    }

    /// `FOR UPDATE SKIP LOCKED`: whether the row is this transaction's now.
    pub(super) fn try_lock(&mut self, tx: Tx, key: K) -> bool {
        self.lock(tx, key).is_ok()
    }

    /// Writes a row, or deletes it. Waits as [`Table::lock`] does.
    pub(super) fn put(&mut self, tx: Tx, key: K, value: Option<V>) -> Result<(), LockedBy> {
        self.lock(tx, key)?;
        if let Some(row) = self.rows.get_mut(&key) {
            row.written = Some(value);
        }
        Ok(())
    }

    /// The transaction is over.
    pub(super) fn end(&mut self, tx: Tx, commit: bool) {
        for key in self.locks.remove(&tx).unwrap_or_default() {
            let Some(row) = self.rows.get_mut(&key) else { continue };
            row.locked = None;
            if let (Some(written), true) = (row.written.take(), commit) {
                row.committed = written;
            }
            if row.committed.is_none() {
                self.rows.remove(&key);
            }
        }
    }
}
