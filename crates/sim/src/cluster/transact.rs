//! Transactions of a node that write messages or the configuration, and COMMITs whose answer was lost.

use std::rc::Rc;

use super::database::Refusal;
use super::node::Node;
use super::plant::Plant;
use super::wire::{Fault, Session};

/// The node's lanes of transactions: of each, one runs at a time.
pub(super) const ACCEPTS: u32 = 0;
pub(super) const SETTLES: u32 = 1;
pub(super) const CLAIMS: u32 = 2;
pub(super) const LIMITS: u32 = 3;
pub(super) const TAKE_OVERS: u32 = 4;
/// From here on each of the people has one.
pub(super) const PEOPLE: u32 = 16;

impl Node {
    /// Makes a transaction that writes messages.
    ///
    /// # Errors
    /// It did not take effect.
    pub(super) async fn transact<T>(
        self: &Rc<Self>,
        lane: u32,
        body: impl AsyncFnOnce(&Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mark = (lane, self.next_mark(lane));
        let session = Session::new(self);
        let (life, known) = (self.life, self.state.borrow().epoch);
        let epoch = (!self.world.has(Plant::NoEpochCheck)).then_some(known);
        session.run(move |db, tx| db.enter(tx, life, mark, epoch)).await?;
        let value = body(&session).await?;
        self.commit(session, mark).await?;
        Ok(value)
    }

    /// Makes a transaction that changes the configuration. Gives the new epoch.
    ///
    /// # Errors
    /// It did not take effect.
    pub(super) async fn transact_alone(
        self: &Rc<Self>,
        lane: u32,
        body: impl AsyncFnOnce(&Session) -> Result<(), Fault>,
    ) -> Result<u64, Fault> {
        let mark = (lane, self.next_mark(lane));
        let session = Session::new(self);
        let (life, epoch) = (self.life, self.state.borrow().epoch);
        let epoch = session.run(move |db, tx| db.change(tx, life, mark, epoch)).await?;
        body(&session).await?;
        self.commit(session, mark).await?;
        Ok(epoch)
    }

    /// Makes a transaction while no other of a node runs.
    pub(super) async fn transact_over<T>(
        self: &Rc<Self>,
        lane: u32,
        body: impl AsyncFnOnce(&Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mark = (lane, self.next_mark(lane));
        let session = Session::new(self);
        let (life, epoch) = (self.life, self.state.borrow().epoch);
        session.run(move |db, tx| db.enter_alone(tx, life, mark, epoch)).await?;
        let value = body(&session).await?;
        self.commit(session, mark).await?;
        Ok(value)
    }

    fn next_mark(&self, lane: u32) -> u64 {
        let mut state = self.state.borrow_mut();
        let mark = state.marks.entry(lane).or_default();
        *mark += 1;
        *mark
    }

    async fn commit(self: &Rc<Self>, session: Session, mark: (u32, u64)) -> Result<(), Fault> {
        match session.commit().await {
            Ok(()) => Ok(()),
            Err(fault @ Fault::Refused(_)) => Err(fault),
            Err(Fault::Broken) if self.world.has(Plant::UnknownIsNo) => Err(Fault::Broken),
            Err(Fault::Broken) => self.resolve(mark).await,
        }
    }

    /// Takes the transaction's place, if it has not taken effect: from then on it cannot.
    async fn resolve(self: &Rc<Self>, (lane, sequence): (u32, u64)) -> Result<(), Fault> {
        self.world.count("commit of unknown result");
        let life = self.life;
        loop {
            let looked = self.once(move |db, own| {
                if db.nodes.get(own, life).is_none() {
                    return Ok(Err(Fault::Refused(Refusal::Gone)));
                }
                let place = (life, lane, sequence);
                db.marks.lock(own, place)?;
                let done = db.marks.get(own, place) == Some(&false);
                if !done {
                    db.marks.put(own, place, Some(true))?;
                }
                Ok(if done { Ok(()) } else { Err(Fault::Broken) })
            });
            match looked.await {
                Ok(result) => {
                    if result.is_ok() {
                        self.world.count("unknown commit had taken effect");
                    }
                    return result;
                }
                Err(_) => self.world.clockwork.sleep(150).await,
            }
        }
    }
}
