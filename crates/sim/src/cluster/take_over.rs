//! Take-over: leases of nodes that are not heard of any more are settled as lost, their slots set free.

use std::rc::Rc;

use restante_core::delivery::settle;
use restante_core::retry::Jitter;
use restante_core::{Attempt, Outcome, State};

use super::database::{AttemptRow, Database, DeliveryRow, GONE_MS, LAPSE_MS, Stop};
use super::node::Node;
use super::plant::Plant;
use super::table::Tx;
use super::transact::TAKE_OVERS;
use super::wire::Fault;

const LOOK_MS: u64 = 2_000;
/// Leases settled in one transaction.
const BATCH_MAX: usize = 50;

impl Node {
    pub(super) async fn take_over_loop(self: Rc<Self>) {
        loop {
            self.world.clockwork.sleep(LOOK_MS).await;
            if let Err(fault) = self.take_over().await {
                self.mend(fault).await;
            }
        }
    }

    async fn take_over(self: &Rc<Self>) -> Result<(), Fault> {
        let me = self.life;
        let lapsed = self.once(move |db, tx| {
            let lapsed = db.nodes.rows(tx).map(|(id, _)| id);
            Ok(lapsed.filter(|id| *id != me && db.has_lapsed(tx, *id)).collect::<Vec<u32>>())
        });
        for node in lapsed.await? {
            let unseen_ms = self.take_over_from(node).await?;
            if unseen_ms.is_some_and(|ms| ms > GONE_MS) {
                self.bury(node).await?;
            }
        }
        Ok(())
    }

    /// Settles the ended leases of a node. Gives how long it has not been seen, if it has lapsed.
    async fn take_over_from(self: &Rc<Self>, node: u32) -> Result<Option<u64>, Fault> {
        let early = self.world.has(Plant::TakeOverEarly);
        self.transact(TAKE_OVERS, async |tx| {
            // While its row is locked its heartbeats wait: it cannot come back in the middle of this.
            let unseen = tx.run(move |db, tx| {
                let locked = db.nodes.try_lock(tx, node);
                Ok(db.unseen_ms(tx, node).filter(|ms| locked && *ms > LAPSE_MS))
            });
            let Some(unseen_ms) = unseen.await? else { return Ok(None) };
            let found = tx.run(move |db, tx| {
                let ended = |endpoint| has_ended(db, tx, endpoint, unseen_ms, early);
                let ended: Vec<i64> = leases_of(db, tx, node)
                    .filter(|(_, row)| ended(row.endpoint))
                    .map(|(key, _)| key)
                    .take(BATCH_MAX)
                    .collect();
                Ok(lock_leases(db, tx, node, &ended))
            });
            let found = found.await?;
            let changed: Vec<_> = found.into_iter().map(|row| self.lose(row)).collect();
            if !changed.is_empty() {
                self.world.count("take-over");
            }
            let (me, handed_over) = (self.life, self.world.has(Plant::RateHandedOver));
            tx.run(move |db, tx| {
                for (row, number, attempt) in &changed {
                    let key = row.id.key().value();
                    db.write_delivery(tx, key, row.life.clone(), None)?;
                    db.write_attempt(tx, key, *number, AttemptRow { node: me, ..attempt.clone() })?;
                }
                free_slots(db, tx, node, unseen_ms, handed_over)
            })
            .await?;
            Ok(Some(unseen_ms))
        })
        .await
    }

    /// What a lost attempt makes of its delivery.
    fn lose(&self, row: DeliveryRow) -> (DeliveryRow, u32, AttemptRow) {
        let number = row.life.attempts_made;
        let at = self.wall().max(row.life.ended_at.unwrap_or_default());
        let attempt = Attempt { number, outcome: Outcome::Lost, started_at: at, ended_at: at };
        let state = self.state.borrow();
        let terms = Self::terms(&state.endpoints[row.endpoint]);
        let life = settle(&row.life, terms, &attempt, Jitter::NONE).delivery;
        self.world.note(format_args!("n{} takes {:?} number {number} over", self.life, row.id));
        let recorded = AttemptRow { outcome: Outcome::Lost, ended_at: at, node: self.life };
        (DeliveryRow { life, ..row }, number, recorded)
    }

    /// Deletes the row of a node that has nothing left. Nobody else's transaction runs meanwhile: what the node itself
    /// may have begun before has ended, and shows.
    async fn bury(self: &Rc<Self>, node: u32) -> Result<(), Fault> {
        let buried = self
            .transact_over(TAKE_OVERS, async |tx| {
                tx.run(move |db, tx| {
                    db.nodes.lock(tx, node)?;
                    let is_gone = db.unseen_ms(tx, node).is_some_and(|ms| ms > GONE_MS);
                    if !is_gone || leases_of(db, tx, node).next().is_some() {
                        return Ok(false);
                    }
                    delete_node(db, tx, node)?;
                    Ok(true)
                })
                .await
            })
            .await?;
        if buried {
            self.world.note(format_args!("n{} buries n{node}", self.life));
            self.world.count("node gone");
        }
        Ok(())
    }
}

/// Leases of a node: those it claimed, and those since birth that lie behind its floor.
fn leases_of(db: &Database, tx: Tx, node: u32) -> impl Iterator<Item = (i64, &DeliveryRow)> {
    let floor = db.nodes.get(tx, node).map_or(i64::MIN, |row| row.floor);
    let is_lease = move |row: &DeliveryRow| row.life.state == State::Sending && row.node == Some(node);
    let found = move |key: i64, row: &DeliveryRow| is_lease(row) && (row.claimed || key >= floor);
    db.deliveries.rows(tx).filter(move |(key, row)| found(*key, row))
}

/// Whether what the node dialled of an endpoint has ended.
fn has_ended(db: &Database, tx: Tx, endpoint: usize, unseen_ms: u64, early: bool) -> bool {
    let Some(row) = db.endpoints.get(tx, endpoint) else { return false };
    let seen_at = db.clock - std::time::Duration::from_millis(unseen_ms);
    let timeout_ms = if early { 0 } else { row.longest_timeout_ms(seen_at) };
    unseen_ms > timeout_ms + LAPSE_MS
}

/// Locks what is not locked, and gives what still is a lease of the node.
fn lock_leases(db: &mut Database, tx: Tx, node: u32, keys: &[i64]) -> Vec<DeliveryRow> {
    let mut found = Vec::new();
    for key in keys {
        if !db.deliveries.try_lock(tx, *key) {
            continue;
        }
        let row = db.deliveries.get(tx, *key).cloned();
        found.extend(row.filter(|row| row.life.state == State::Sending && row.node == Some(node)));
    }
    found
}

fn free_slots(db: &mut Database, tx: Tx, node: u32, unseen_ms: u64, handed_over: bool) -> Result<(), Stop> {
    let seen_at = db.clock - std::time::Duration::from_millis(unseen_ms);
    let held: Vec<usize> =
        db.slots.rows(tx).filter(|((_, of), _)| *of == node).map(|((endpoint, _), _)| endpoint).collect();
    for endpoint in held {
        let Some(row) = db.endpoints.get(tx, endpoint) else { continue };
        // The last attempt may have begun just before the lapse: the rate holds for the next node too.
        let step_ms = if handed_over { 0 } else { row.step_ms() };
        if unseen_ms > row.longest_timeout_ms(seen_at).max(step_ms) + LAPSE_MS {
            db.slots.put(tx, (endpoint, node), None)?;
        }
    }
    Ok(())
}

fn delete_node(db: &mut Database, tx: Tx, node: u32) -> Result<(), Stop> {
    let slots: Vec<_> = db.slots.rows(tx).map(|(key, _)| key).filter(|(_, of)| *of == node).collect();
    for key in slots {
        db.slots.put(tx, key, None)?;
    }
    let marks: Vec<_> = db.marks.rows(tx).map(|(key, _)| key).filter(|(of, ..)| *of == node).collect();
    for key in marks {
        db.marks.put(tx, key, None)?;
    }
    let withdrawals: Vec<_> =
        db.withdrawals.rows(tx).map(|(key, _)| key).filter(|(of, _)| *of == node).collect();
    for key in withdrawals {
        db.withdrawals.put(tx, key, None)?;
    }
    Ok(db.nodes.put(tx, node, None)?)
}
