//! People: cancel deliveries, pause, resume, retime and delete endpoints, at whichever node they talk to.

use std::rc::Rc;

use restante_core::State;
use restante_core::delivery::cancel;
use restante_core::id::DeliveryId;

use super::database::{DeliveryRow, EndpointRow};
use super::node::Node;
use super::plant::Plant;
use super::story::Setting;
use super::transact::PEOPLE;
use super::wire::Fault;
use crate::timeline::Moment;

/// How often a node looks whether what somebody waits for is over.
const LOOK_MS: u64 = 200;
const TRIES: u32 = 3;

/// What somebody wants of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Pause,
    Resume,
    Delete,
    Timeout(u64),
}

impl Wish {
    pub(super) fn makes(self, setting: Setting) -> Setting {
        match self {
            Self::Pause => Setting { paused: true, ..setting },
            Self::Resume => Setting { paused: false, ..setting },
            Self::Delete => Setting { gone: true, ..setting },
            Self::Timeout(_) => setting,
        }
    }

    fn apply(self, row: &mut EndpointRow, now: restante_core::Timestamp) {
        match self {
            Self::Pause => row.paused = true,
            Self::Resume => row.paused = false,
            Self::Delete => row.gone = true,
            Self::Timeout(ms) => {
                row.timeouts.push((now, row.timeout_ms));
                row.timeout_ms = ms;
            }
        }
    }
}

/// What became of somebody's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wished {
    Done,
    Refused,
}

impl Node {
    /// Cancels a delivery, and answers when nothing of it will be dialled any more.
    pub(super) async fn cancel(self: Rc<Self>, order: usize, delivery: DeliveryId) {
        let lane = PEOPLE + u32::try_from(order).unwrap_or(0) * 2;
        let mut tries = 0;
        let cancelled = loop {
            match self.request_cancel(lane, delivery).await {
                Ok(cancelled) => break cancelled,
                Err(fault) => {
                    tries += 1;
                    if tries > TRIES {
                        return;
                    }
                    self.mend(fault).await;
                }
            }
        };
        let Some(holder) = cancelled else { return };
        let key = delivery.key().value();
        match holder {
            Some((node, endpoint)) if node == self.life => self.withdraw(key, endpoint),
            Some((node, _)) if !self.world.has(Plant::CancelDoesNotWait) => {
                self.world.count("cancel waited for another node");
                self.wait_for_withdrawal(node, key).await;
            }
            Some(_) | None => {}
        }
        self.world.note(format_args!("n{} answers the cancel of {delivery:?}", self.life));
        self.world.story.borrow_mut().cancels[order].told = Some(self.now());
    }

    /// `None`: it cannot be cancelled. Else who holds it, if anybody does.
    async fn request_cancel(
        self: &Rc<Self>,
        lane: u32,
        delivery: DeliveryId,
    ) -> Result<Option<Option<(u32, usize)>>, Fault> {
        let (key, me) = (delivery.key().value(), self.life);
        self.transact(lane, async |tx| {
            let row = tx.run(move |db, tx| {
                db.deliveries.lock(tx, key)?;
                Ok(db.deliveries.get(tx, key).cloned())
            });
            let Some(row): Option<DeliveryRow> = row.await? else { return Ok(None) };
            let Ok(next) = cancel(&row.life, self.wall()) else { return Ok(None) };
            let holder = row.node.filter(|_| row.life.state == State::Sending);
            let endpoint = row.endpoint;
            tx.run(move |db, tx| {
                db.write_delivery(tx, key, next.clone(), holder)?;
                match holder {
                    Some(node) if node != me => Ok(db.withdrawals.put(tx, (node, key), Some(endpoint))?),
                    Some(_) | None => Ok(()),
                }
            })
            .await?;
            Ok(Some(holder.map(|node| (node, endpoint))))
        })
        .await
    }

    async fn wait_for_withdrawal(self: &Rc<Self>, node: u32, key: i64) {
        loop {
            let over = self.once(move |db, tx| {
                Ok(db.withdrawals.get(tx, (node, key)).is_none() || db.has_lapsed(tx, node))
            });
            if over.await == Ok(true) {
                return;
            }
            self.world.clockwork.sleep(LOOK_MS).await;
        }
    }

    /// Changes an endpoint, and answers when every node knows.
    pub(super) async fn change(self: &Rc<Self>, lane: u32, endpoint: usize, wish: Wish) -> Wished {
        let mut tries = 0;
        let epoch = loop {
            let change = self.transact_alone(lane, async |tx| {
                tx.run(move |db, tx| {
                    db.endpoints.lock(tx, endpoint)?;
                    if let Some(mut row) = db.endpoints.get(tx, endpoint).cloned() {
                        wish.apply(&mut row, db.clock);
                        db.endpoints.put(tx, endpoint, Some(row))?;
                    }
                    Ok(())
                })
                .await
            });
            match change.await {
                Ok(epoch) => break epoch,
                Err(fault) => {
                    tries += 1;
                    if tries > TRIES {
                        return Wished::Refused;
                    }
                    self.mend(fault).await;
                }
            }
        };
        self.load_configuration().await;
        loop {
            let known = self.once(move |db, tx| {
                let mut present = db.nodes.rows(tx).filter(|(id, _)| !db.has_lapsed(tx, *id));
                Ok(present.all(|(_, row)| row.epoch >= epoch))
            });
            if known.await == Ok(true) {
                return Wished::Done;
            }
            self.world.clockwork.sleep(LOOK_MS).await;
        }
    }

    /// As [`Node::change`], told to who asked at that moment.
    pub(super) async fn change_and_tell(
        self: Rc<Self>,
        lane: u32,
        endpoint: usize,
        wish: Wish,
        entry: usize,
    ) {
        let wished = self.change(lane, endpoint, wish).await;
        let at: Moment = self.now();
        self.world.note(format_args!("n{} answers {wish:?} of e{endpoint}: {wished:?}", self.life));
        let mut story = self.world.story.borrow_mut();
        match wished {
            Wished::Done => story.settings[endpoint].done(entry, at),
            Wished::Refused => story.settings[endpoint].refused(entry),
        }
        drop(story);
        self.world.open.borrow_mut().remove(&endpoint);
    }
}
