//! Attempts: from the moment a lane lets them begin to their end.

use std::rc::Rc;
use std::time::Duration;

use restante_core::retry::Jitter;
use restante_core::{Attempt, FailureKind};
use restante_store::{Parcel, Withdraw};

use super::node::{Node, endpoint_id, name_of};
use super::plant::Plant;
use super::settles::Job;
use super::story::Dial;
use crate::receiver::{Fate, Reply};

/// A worker takes up to so long between its lane's word and the connection.
const HOP_MS: u64 = 3;
/// How soon a node looks for withdrawals.
const WITHDRAWALS_MS: u64 = 700;

impl Node {
    /// Lets begin what may begin.
    pub(super) fn pump(self: &Rc<Self>) {
        let (wall, monotonic) = (self.wall(), self.now().monotonic());
        while self.may_dial() {
            let next = self.state.borrow_mut().lanes.next(wall, monotonic);
            let Some(parcel) = next else { break };
            self.spawn(Rc::clone(self).attempt(parcel));
        }
        let expired = self.state.borrow_mut().lanes.take_expired();
        if !expired.is_empty() {
            self.give_back(expired);
        }
    }

    /// Minds lanes that wait for their rate, and leases that wait for too long.
    pub(super) async fn pace_loop(self: Rc<Self>) {
        loop {
            self.world.clockwork.sleep(250).await;
            let waiting = self.state.borrow().lanes.waiting() > 0;
            if waiting {
                self.pump();
            }
        }
    }

    async fn attempt(self: Rc<Self>, parcel: Parcel) {
        let hop_ms = self.world.below(HOP_MS + 1);
        self.world.clockwork.sleep(hop_ms).await;
        let lease = parcel.lease;
        let withdrawn = !self.state.borrow_mut().lanes.dial(lease);
        let number = self.state.borrow().latest.get(&name_of(lease)).copied();
        let Some(held) = number.and_then(|number| self.state.borrow().held.get(&number).cloned()) else {
            return self.abandon(&parcel);
        };
        let endpoint = held.row.endpoint;
        let closed = {
            let row = &self.state.borrow().endpoints[endpoint];
            row.paused || row.gone
        };
        if withdrawn {
            return self.abandon(&parcel);
        }
        if closed || !self.may_dial() {
            self.world.count("begun and not dialled");
            self.give_back(vec![lease]);
            return self.abandon(&parcel);
        }
        let started_at = self.wall().max(parcel.claimed_at);
        let started = self.now();
        let (reply, takes_ms, bits) = self.dial(&held, started);
        self.world.clockwork.sleep(takes_ms).await;
        let outcome = reply.outcome(self.wall());
        let took = Duration::from_millis(self.now().since(started));
        let made = Attempt {
            number: lease.attempt,
            outcome: outcome.clone(),
            started_at,
            ended_at: started_at + took,
        };
        {
            let mut state = self.state.borrow_mut();
            let number = number.unwrap_or_default();
            state.jobs.push(Job::settle(number, made, Jitter::from_bits(bits)));
            state.lanes.finish(parcel.endpoint.id, &outcome);
            state.used[endpoint] = self.now();
        }
        self.world.clockwork.ring(&self.finished);
        self.pump();
    }

    fn abandon(self: &Rc<Self>, parcel: &Parcel) {
        self.state.borrow_mut().lanes.abandon(parcel.endpoint.id);
        self.pump();
    }

    /// The bytes leave. From here on what happens is the receiver's business.
    fn dial(&self, held: &super::node::Held, started: crate::timeline::Moment) -> (Reply, u64, u64) {
        let row = &held.row;
        let timeout = Duration::from_millis(self.state.borrow().endpoints[row.endpoint].timeout_ms);
        let mut random = self.world.random.borrow_mut();
        let fate = Fate::of(self.world.plan.endpoints[row.endpoint].mood(started), timeout, &mut random);
        let bits = random.draw();
        drop(random);
        self.state.borrow_mut().dialled[row.endpoint] = Some(started);
        let lease = held.lease();
        self.world.note(format_args!(
            "n{} dials {lease:?} of publish {} at e{}: {:?} in {} ms",
            self.life, row.marker, row.endpoint, fate.reply, fate.takes_ms
        ));
        self.world.story.borrow_mut().dials.push(Dial {
            life: self.life,
            delivery: row.id,
            number: lease.attempt,
            marker: row.marker,
            message: row.message,
            endpoint: row.endpoint,
            started,
            ends: started.after(fate.takes_ms),
            reply: fate.reply.clone(),
        });
        if fate.reply == Reply::Broken(FailureKind::Timeout) {
            self.world.count("attempt timed out");
        }
        (fate.reply, fate.takes_ms, bits)
    }

    /// Gives back, or promises not to dial, what somebody wants withdrawn.
    pub(super) fn withdraw(self: &Rc<Self>, key: i64, endpoint: usize) {
        let mut state = self.state.borrow_mut();
        let lease = state.held.values().find(|held| held.row.id.key().value() == key).map(|it| it.row.id);
        // What is not known here may be in a transaction whose result has not come yet.
        if lease.is_some() || !self.world.has(Plant::WithdrawalForgotten) {
            state.withdrawn.insert(key);
        }
        let Some(delivery) = lease else { return };
        let leases = state.lanes.withdraw(Withdraw::Delivery { endpoint: endpoint_id(endpoint), delivery });
        drop(state);
        self.give_back(leases);
    }

    pub(super) async fn withdrawals_loop(self: Rc<Self>) {
        let life = self.life;
        loop {
            self.world.clockwork.sleep(WITHDRAWALS_MS).await;
            let found = self.once(move |db, tx| {
                let mine = db.withdrawals.rows(tx).filter(|((node, _), _)| *node == life);
                Ok(mine.map(|((_, key), endpoint)| (key, *endpoint)).collect::<Vec<_>>())
            });
            let Ok(found) = found.await else { continue };
            if found.is_empty() {
                continue;
            }
            found.iter().for_each(|(key, endpoint)| self.withdraw(*key, *endpoint));
            self.world.count("withdrawal answered");
            // Should this fail they are found again.
            let deleted = self.once(move |db, tx| {
                for (key, _) in &found {
                    db.withdrawals.put(tx, (life, *key), None)?;
                }
                Ok(())
            });
            let _ = deleted.await;
        }
    }
}
