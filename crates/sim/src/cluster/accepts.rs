//! Accepts: messages and their deliveries, leased at birth where there is room.

use std::rc::Rc;

use restante_core::delivery::Delivery;
use restante_core::id::{DeliveryId, Key, Tail};

use super::database::{Database, DeliveryRow, Stop, WorkRow};
use super::node::Node;
use super::story::Told;
use super::table::Tx;
use super::transact::ACCEPTS;
use super::wire::Fault;

/// How often a batch is tried that the database did not take.
const TRIES: u32 = 3;

/// What one publisher asked for, with its keys.
struct Accept {
    publish: usize,
    message: i64,
    rows: Vec<DeliveryRow>,
}

impl Node {
    pub(super) async fn accept_loop(self: Rc<Self>) {
        loop {
            let publishes = std::mem::take(&mut self.state.borrow_mut().intake);
            if publishes.is_empty() {
                self.world.clockwork.wait(&self.arrived, None).await;
                continue;
            }
            let mut tries = 0;
            loop {
                match self.accept(&publishes).await {
                    Ok(()) => break,
                    Err(fault) => {
                        tries += u32::from(fault == Fault::Broken);
                        if tries >= TRIES {
                            publishes.iter().for_each(|publish| self.tell(*publish, Told::Refused));
                            break;
                        }
                        self.mend(fault).await;
                    }
                }
            }
        }
    }

    fn tell(&self, publish: usize, told: Told) {
        self.world.note(format_args!("n{} answers publish {publish}: {told:?}", self.life));
        self.world.story.borrow_mut().publishes[publish].told = told;
    }

    async fn accept(self: &Rc<Self>, publishes: &[usize]) -> Result<(), Fault> {
        let term = self.state.borrow().term;
        let accepts: Vec<Accept> = publishes.iter().map(|publish| self.prepare(*publish)).collect();
        let rows: Vec<DeliveryRow> = accepts.iter().flat_map(|accept| accept.rows.clone()).collect();
        let leased: Vec<DeliveryRow> = rows.iter().filter(|row| row.node.is_some()).cloned().collect();
        let result = self
            .transact(ACCEPTS, async |tx| {
                tx.run(move |db, tx| rows.iter().try_for_each(|row| insert(db, tx, row))).await
            })
            .await;
        if let Err(fault) = result {
            let mut state = self.state.borrow_mut();
            for row in &leased {
                state.born.remove(&row.id.key().value());
                state.leased[row.endpoint] -= 1;
            }
            return Err(fault);
        }
        for accept in accepts {
            let deliveries = accept.rows.iter().map(|row| row.id).collect();
            let told = Told::Accepted { at: self.now(), message: accept.message, deliveries };
            self.tell(accept.publish, told);
        }
        self.take_in(leased, term);
        self.world.clockwork.ring(&self.planned);
        Ok(())
    }

    /// Makes keys, and decides what is leased at birth.
    fn prepare(&self, publish: usize) -> Accept {
        let now = self.wall();
        let tail = Tail::from_bits(self.world.random.borrow_mut().draw());
        let may_lease = self.may_lease();
        let mut state = self.state.borrow_mut();
        let there: Vec<usize> =
            (0..state.endpoints.len()).filter(|place| !state.endpoints[*place].gone).collect();
        let count = u32::try_from(there.len()).unwrap_or(0);
        let first = state.keys.take(now, count + 1);
        let mut rows = Vec::new();
        for (offset, endpoint) in (1..).zip(there) {
            let key: Key = first.plus(offset);
            let born = state.room(endpoint, may_lease) > 0;
            if born {
                state.leased[endpoint] += 1;
                state.born.insert(key.value());
            } else if !state.endpoints[endpoint].paused {
                state.wants.insert(endpoint);
                state.due.insert(now);
            }
            rows.push(DeliveryRow {
                id: DeliveryId::new(key, tail),
                message: first.value(),
                marker: publish,
                endpoint,
                life: if born { Delivery::born_leased(now) } else { Delivery::new(now) },
                node: born.then_some(self.life),
                claimed: !born,
            });
        }
        Accept { publish, message: first.value(), rows }
    }
}

fn insert(db: &mut Database, tx: Tx, row: &DeliveryRow) -> Result<(), Stop> {
    let key = row.id.key().value();
    db.deliveries.put(tx, key, Some(row.clone()))?;
    if row.node.is_none() {
        let work = WorkRow { endpoint: row.endpoint, due_at: row.life.due_at, node: None };
        db.work.put(tx, key, Some(work))?;
    }
    Ok(())
}
