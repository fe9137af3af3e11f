//! Limits over all nodes: shares of `max_in_flight`, and endpoints with a rate, which belong to one node at a time.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::database::{Database, EndpointRow, SlotsRow};
use super::node::Node;
use super::plant::Plant;
use super::table::Tx;
use super::transact::LIMITS;
use super::wire::Fault;

const LOOK_MS: u64 = 1_500;
/// What a node has not used for so long it gives back.
const IDLE_MS: u64 = 4_000;

/// The rows of an endpoint: this node's slots, those of all others, how many others there are, whether one asks.
#[derive(Clone, Copy, Default)]
struct Shares {
    mine: u32,
    others: u32,
    count: u32,
    asked: bool,
}

impl Node {
    pub(super) async fn limits_loop(self: Rc<Self>) {
        loop {
            if self.world.has(Plant::SlotsIgnored) {
                let mut state = self.state.borrow_mut();
                state.slots = state.endpoints.iter().map(|row| row.max_in_flight).collect();
            } else if let Err(fault) = self.share().await {
                self.mend(fault).await;
                continue;
            }
            self.world.clockwork.wait(&self.wanted, Some(self.now().after(LOOK_MS))).await;
        }
    }

    /// Asks for slots, gives slots back.
    async fn share(self: &Rc<Self>) -> Result<(), Fault> {
        let wants = std::mem::take(&mut self.state.borrow_mut().wants);
        let (life, asked) = (self.life, wants.clone());
        let known: BTreeSet<usize> = self
            .once(move |db, tx| {
                let mine = db.slots.rows(tx).filter(|((_, node), _)| *node == life);
                Ok(mine.map(|((endpoint, _), _)| endpoint).chain(asked.iter().copied()).collect())
            })
            .await?;
        let mut more = false;
        for endpoint in known {
            more |= self.share_one(endpoint, wants.contains(&endpoint)).await?;
        }
        if more {
            self.world.clockwork.ring(&self.planned);
        }
        Ok(())
    }

    /// Settles this node's share of one endpoint; whether it is more than before.
    async fn share_one(self: &Rc<Self>, endpoint: usize, wants: bool) -> Result<bool, Fault> {
        let (life, locks) = (self.life, !self.world.has(Plant::SlotsUnlocked));
        let term = self.state.borrow().term;
        let target = self
            .transact(LIMITS, async |tx| {
                // Who shares out reads the sum: two at once would each miss what the other takes.
                if locks {
                    tx.run(move |db, tx| Ok(db.endpoints.lock(tx, endpoint)?)).await?;
                }
                let shares = tx.run(move |db, tx| Ok(read_shares(db, tx, endpoint, life))).await?;
                let (target, asks) = self.target(endpoint, shares, wants);
                {
                    // What is given back is not used from now on, whatever becomes of the transaction.
                    let mut state = self.state.borrow_mut();
                    state.slots[endpoint] = state.slots[endpoint].min(target);
                }
                let row = (target > 0 || asks).then_some(SlotsRow { slots: target, asks });
                tx.run(move |db, tx| Ok(db.slots.put(tx, (endpoint, life), row)?)).await?;
                Ok(target)
            })
            .await?;
        let mut state = self.state.borrow_mut();
        // Slots from before a lapse may be somebody else's by now: they are read again.
        if state.term != term && !self.world.has(Plant::SlotsKept) {
            return Ok(false);
        }
        let more = target > state.slots[endpoint];
        state.slots[endpoint] = target;
        state.used[endpoint] = if more { self.now() } else { state.used[endpoint] };
        Ok(more)
    }

    /// How many slots the node is to have, and whether it asks for more.
    fn target(&self, endpoint: usize, shares: Shares, wants: bool) -> (u32, bool) {
        let state = self.state.borrow();
        let row = &state.endpoints[endpoint];
        let leased = state.leased[endpoint];
        let now = self.now();
        let idle = leased == 0 && !wants && now.since(state.used[endpoint]) >= IDLE_MS;
        let rested = self.world.has(Plant::RateHandedOver)
            || state.dialled[endpoint].is_none_or(|at| now.since(at) > row.step_ms());
        if let Some(target) = exclusive(row, shares, wants) {
            let given_up = leased == 0 && rested && (idle || shares.asked && !wants);
            return if given_up { (0, false) } else { (target, wants && target == 0) };
        }
        if idle {
            return (0, false);
        }
        let free = row.max_in_flight.saturating_sub(shares.others);
        let fair = (row.max_in_flight / (shares.count + 1)).max(1);
        let target = match (wants, shares.asked) {
            (true, false) => free,
            (true, true) => free.min(fair.max(leased)),
            (false, true) => shares.mine.min(fair.max(leased)),
            (false, false) => shares.mine,
        };
        (target, wants && target < fair)
    }
}

/// An endpoint with a rate has all its slots at one node.
fn exclusive(row: &EndpointRow, shares: Shares, wants: bool) -> Option<u32> {
    row.rate_per_second?;
    Some(match shares.others {
        0 if wants => row.max_in_flight,
        0 => shares.mine,
        _ => 0,
    })
}

fn read_shares(db: &Database, tx: Tx, endpoint: usize, life: u32) -> Shares {
    let mut shares = Shares::default();
    for ((_, node), row) in db.slots.rows(tx).filter(|((of, _), _)| *of == endpoint) {
        if node == life {
            shares.mine = row.slots;
        } else {
            shares.others += row.slots;
            shares.count += 1;
            shares.asked |= row.asks;
        }
    }
    shares
}
