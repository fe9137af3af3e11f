//! Who is there: heartbeats, lapses, and what a node believes of the configuration.

use std::rc::Rc;

use restante_core::id::Key;
use restante_store::Lease;
use restante_store::Withdraw;

use super::database::NodeRow;
use super::node::{Node, endpoint_id};
use super::plant::Plant;

const BEAT_MS: u64 = 2_000;
/// A node dials as long as its latest answered heartbeat was sent less than so long ago.
const DIAL_MS: u64 = 14_000;

impl Node {
    pub(super) async fn beat_loop(self: Rc<Self>) {
        loop {
            if self.world.hosts.borrow()[self.host].mute {
                self.world.clockwork.sleep(300).await;
                continue;
            }
            let sent = self.now();
            let (life, floor, epoch) = (self.life, self.floor(), self.state.borrow().epoch);
            let answer = self.once(move |db, tx| {
                let Some(row) = db.nodes.get(tx, life).copied() else { return Ok(None) };
                let row = NodeRow { seen_at: db.clock, floor: row.floor.max(floor), epoch, ..row };
                db.nodes.put(tx, life, Some(row))?;
                Ok(db.epoch.get(tx, ()).copied())
            });
            match answer.await {
                Ok(Some(current)) => {
                    self.heard(sent).await;
                    if current != epoch {
                        self.load_configuration().await;
                        continue;
                    }
                }
                Ok(None) => self.start_anew().await,
                Err(_) => {
                    self.world.clockwork.sleep(200).await;
                    continue;
                }
            }
            self.world.clockwork.wait(&self.beat, Some(sent.after(BEAT_MS))).await;
        }
    }

    /// No delivery with a smaller key is leased to this node since birth, or will be.
    fn floor(&self) -> i64 {
        let state = self.state.borrow();
        state.born.first().copied().unwrap_or_else(|| Key::first_at(self.wall()).value())
    }

    pub(super) fn may_dial(&self) -> bool {
        let heartbeat = self.state.borrow().heartbeat;
        self.world.has(Plant::NoHeartbeatRule)
            || heartbeat.is_some_and(|sent| self.now().since(sent) < DIAL_MS)
    }

    pub(super) fn may_lease(&self) -> bool {
        self.world.has(Plant::LeasesWhileLapsed) || self.may_dial()
    }

    /// A heartbeat that was sent then was answered.
    async fn heard(self: &Rc<Self>, sent: crate::timeline::Moment) {
        let before = self.state.borrow_mut().heartbeat.replace(sent);
        // Others may have taken for granted that nothing dials here any more.
        if before.is_none_or(|before| self.now().since(before) >= DIAL_MS) {
            self.world.note(format_args!("n{} had lapsed", self.life));
            self.world.count("node lapsed and came back");
            let mut state = self.state.borrow_mut();
            state.term += 1;
            if !self.world.has(Plant::SlotsKept) {
                state.slots.fill(0);
            }
            let leases = state.lanes.withdraw_all();
            drop(state);
            self.give_back(leases);
        }
        self.pump();
    }

    /// Reads the configuration, and takes back what it does not let begin.
    pub(super) async fn load_configuration(self: &Rc<Self>) {
        let (epoch, endpoints) = loop {
            match self.once(|db, tx| Ok(db.read_endpoints(tx))).await {
                Ok(read) => break read,
                Err(_) => self.world.clockwork.sleep(200).await,
            }
        };
        let mut leases: Vec<Lease> = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            if epoch < state.epoch {
                return;
            }
            state.epoch = epoch;
            state.endpoints = endpoints;
            for place in 0..state.endpoints.len() {
                if state.endpoints[place].paused || state.endpoints[place].gone {
                    leases.extend(state.lanes.withdraw(Withdraw::Endpoint(endpoint_id(place))));
                }
            }
        }
        self.give_back(leases);
        self.world.clockwork.ring(&self.beat);
        self.world.clockwork.ring(&self.planned);
    }
}
