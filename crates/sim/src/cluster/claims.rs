//! Claims: what is due and has room here becomes a lease.

use std::rc::Rc;
use std::time::Duration;

use restante_core::delivery::{Claim, Delivery, claim};
use restante_core::{State, Timestamp};

use super::database::{AttemptRow, Database, DeliveryRow, Stop};
use super::node::{Held, Node, name_of};
use super::plant::Plant;
use super::settles::Job;
use super::table::Tx;
use super::transact::CLAIMS;
use super::wire::Fault;

/// How often it is looked for what others left behind.
const POLL_MS: u64 = 2_000;
/// Work of a deleted endpoint that is ended at once.
const ENDED_MAX: u32 = 16;

impl Node {
    pub(super) async fn claim_loop(self: Rc<Self>) {
        loop {
            match self.claim().await {
                Ok(0) => self.wait_for_work().await,
                Ok(_) => {}
                Err(fault) => self.mend(fault).await,
            }
        }
    }

    /// Sleeps until something that is known here is due, or until the next poll.
    async fn wait_for_work(self: &Rc<Self>) {
        let wall = self.wall();
        let next = {
            let mut state = self.state.borrow_mut();
            state.due.retain(|due| *due > wall);
            state.due.first().map(|due| u64::try_from(due.since(wall).as_millis()).unwrap_or(POLL_MS))
        };
        let ms = next.unwrap_or(POLL_MS).min(POLL_MS) + 1;
        self.world.clockwork.wait(&self.planned, Some(self.now().after(ms))).await;
        // What is planned together is claimed together.
        self.world.clockwork.sleep(20).await;
    }

    /// Looks what is due, and claims what has room. Gives how many deliveries that changed.
    async fn claim(self: &Rc<Self>) -> Result<usize, Fault> {
        let now = self.wall();
        let due = self.once(move |db, tx| Ok(due_endpoints(db, tx, now))).await?;
        let rooms = self.reserve(&due);
        if rooms.is_empty() {
            return Ok(0);
        }
        let term = self.state.borrow().term;
        let result = self.claim_in(&rooms, now).await;
        let mut state = self.state.borrow_mut();
        for (endpoint, room) in &rooms {
            state.leased[*endpoint] -= room;
        }
        let (begun, ended) = result?;
        begun.iter().for_each(|row| state.leased[row.endpoint] += 1);
        drop(state);
        let count = begun.len() + ended;
        self.take_in(begun, term);
        Ok(count)
    }

    /// The lanes that have something due and room for it, and how much. The places are kept.
    fn reserve(&self, due: &[usize]) -> Vec<(usize, u32)> {
        let may_lease = self.may_lease();
        let mut state = self.state.borrow_mut();
        let mut rooms = Vec::new();
        for endpoint in due.iter().copied() {
            let gone = state.endpoints[endpoint].gone;
            let room = if gone { ENDED_MAX } else { state.room(endpoint, may_lease) };
            if room > 0 {
                state.leased[endpoint] += room;
                rooms.push((endpoint, room));
            } else if !state.endpoints[endpoint].paused && state.wants.insert(endpoint) {
                self.world.clockwork.ring(&self.wanted);
            }
        }
        rooms
    }

    async fn claim_in(
        self: &Rc<Self>,
        rooms: &[(usize, u32)],
        now: Timestamp,
    ) -> Result<(Vec<DeliveryRow>, usize), Fault> {
        let (life, rooms) = (self.life, rooms.to_vec());
        let unlocked = self.world.has(Plant::ClaimUnlocked);
        self.transact(CLAIMS, async |tx| {
            let found = tx.run(move |db, tx| Ok(take_due(db, tx, &rooms, now, unlocked))).await?;
            let (mut begun, mut changed, mut ended) = (Vec::new(), Vec::new(), 0);
            for row in found {
                let endpoint = self.state.borrow().endpoints[row.endpoint].clone();
                match claim(&row.life, Self::terms(&endpoint), now) {
                    Claim::Begin(next) => {
                        changed.push((row.id.key().value(), next.clone()));
                        begun.push(DeliveryRow { life: next, node: Some(life), claimed: true, ..row });
                    }
                    Claim::End(next) => {
                        changed.push((row.id.key().value(), next));
                        ended += 1;
                    }
                }
            }
            tx.run(move |db, tx| {
                changed.iter().try_for_each(|(key, next): &(i64, Delivery)| {
                    db.write_delivery(tx, *key, next.clone(), Some(life))
                })
            })
            .await?;
            Ok((begun, ended))
        })
        .await
    }

    /// Takes over what a transaction leased that began in that term.
    pub(super) fn take_in(self: &Rc<Self>, rows: Vec<DeliveryRow>, term: u64) {
        let late = term != self.state.borrow().term;
        for row in rows {
            let since = row.life.ended_at.unwrap_or_default().max(self.wall());
            let held = Held { row, since };
            let parcel = self.parcel(&held);
            let mut state = self.state.borrow_mut();
            let (key, endpoint) = (held.row.id.key().value(), held.row.endpoint);
            self.world.note(format_args!("n{} holds {:?} of e{endpoint}", self.life, held.lease()));
            state.leases_made += 1;
            state.used[endpoint] = self.now();
            let number = state.leases_made;
            state.latest.insert(name_of(held.lease()), number);
            state.held.insert(number, held);
            let closed = state.endpoints[endpoint].paused || state.endpoints[endpoint].gone;
            if late || closed || state.withdrawn.contains(&key) {
                self.world.count(if late { "late lease given back" } else { "lease given back at once" });
                state.jobs.push(Job::release(number));
                self.world.clockwork.ring(&self.finished);
            } else {
                state.lanes.push(parcel, self.now().monotonic());
            }
        }
        self.pump();
    }
}

/// Endpoints with something due, in turn.
fn due_endpoints(db: &Database, tx: Tx, now: Timestamp) -> Vec<usize> {
    let due = db.work.rows(tx).filter(|(_, row)| row.node.is_none() && row.due_at <= now);
    let mut endpoints: Vec<usize> = due.map(|(_, row)| row.endpoint).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    endpoints
}

/// Locks the earliest due rows of each lane, and passes over those that others have locked.
fn take_due(
    db: &mut Database,
    tx: Tx,
    rooms: &[(usize, u32)],
    now: Timestamp,
    unlocked: bool,
) -> Vec<DeliveryRow> {
    let mut taken = Vec::new();
    for (endpoint, room) in rooms {
        let mut due: Vec<(Timestamp, i64)> = db
            .work
            .rows(tx)
            .filter(|(_, row)| row.endpoint == *endpoint && row.node.is_none() && row.due_at <= now)
            .map(|(key, row)| (row.due_at, key))
            .collect();
        due.sort_unstable();
        let before = taken.len();
        for (_, key) in due {
            if taken.len() - before == *room as usize {
                break;
            }
            let locked = unlocked || (db.deliveries.try_lock(tx, key) && db.work.try_lock(tx, key));
            let row = db.deliveries.get(tx, key).filter(|row| row.life.state == State::Pending);
            if let (true, Some(row)) = (locked, row) {
                taken.push(row.clone());
            }
        }
    }
    taken
}

impl Database {
    /// Records an attempt's result.
    pub(super) fn write_attempt(
        &mut self,
        tx: Tx,
        key: i64,
        number: u32,
        row: AttemptRow,
    ) -> Result<(), Stop> {
        Ok(self.attempts.put(tx, (key, number), Some(row))?)
    }
}

/// A wait that the claim loop knows of.
pub(super) fn known_due(delivery: &Delivery) -> Option<Timestamp> {
    (delivery.state == State::Pending).then(|| delivery.due_at + Duration::from_millis(1))
}
