//! How a node runs a transaction: again where others were in the way, and with all that must be over before somebody is
//! answered.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use restante_core::id::Key;

use super::Fault;
use super::node::{Node, lock};
use super::tx::{Access, Staged, Tx};
use crate::Error;
use crate::agenda::UNKNOWN_DUE;

/// How often work is tried that others were in the way of.
const TRIES_MAX: u32 = 8;
/// How often work is tried while others change the configuration.
const STALE_MAX: u32 = 100;
/// How often and with which pause it is tried to tell others what was stored.
const PERSIST_TRIES: u32 = 240;
const PERSIST_PAUSE: Duration = Duration::from_millis(250);

/// What is to be over before the caller of a transaction is answered.
struct After {
    /// The configuration that it made.
    epoch: Option<i64>,
    /// What other nodes were asked to withdraw.
    asked: Vec<i64>,
}

impl Node {
    /// Runs `work` as one transaction, again where others were in the way, and answers when all that must be over
    /// before is over.
    pub(super) async fn write<T: Send>(
        self: &Arc<Self>,
        access: Access,
        work: impl for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T, Fault>> + Send + Sync,
    ) -> Result<T, Error> {
        let (mut tries, mut access) = (0, access);
        let (value, after) = loop {
            tries += 1;
            // Changes of the configuration come one after the other: each has to know the one before.
            let turn = match access {
                Access::Configuration => Some(self.changing.lock().await),
                Access::Messages => None,
            };
            let fault = match self.try_write(access, &work).await {
                Ok((value, after)) => {
                    if let Some(epoch) = after.epoch {
                        self.persist(|| self.know(epoch)).await?;
                    }
                    break (value, after);
                }
                Err(fault) => fault,
            };
            drop(turn);
            if matches!(fault, Fault::NeedsConfiguration) && access == Access::Messages {
                access = Access::Configuration;
            } else if matches!(fault, Fault::Stale) && tries < STALE_MAX {
                // Others go on changing it; somebody gets ahead each time.
                self.refresh().await?;
            } else if tries < TRIES_MAX {
                self.mend(fault, tries).await?;
            } else {
                return Err(fault.into());
            }
        };
        if let Some(epoch) = after.epoch {
            self.persist(|| self.until_epoch(epoch)).await?;
        }
        if !after.asked.is_empty() {
            self.persist(|| self.until_withdrawn(&after.asked)).await?;
        }
        Ok(value)
    }

    /// Does what has to be done since something was stored: tried again until it works, for it cannot be undone.
    async fn persist<F: Future<Output = Result<(), Fault>>>(
        &self,
        what: impl Fn() -> F,
    ) -> Result<(), Fault> {
        let mut tries = 0;
        loop {
            match what().await {
                Err(fault) if tries < PERSIST_TRIES => {
                    tracing::warn!(error.message = %fault, "what was stored cannot be told to all nodes yet");
                    tries += 1;
                    tokio::time::sleep(PERSIST_PAUSE).await;
                }
                other => return other,
            }
        }
    }

    /// Takes over a configuration that this node has just made.
    async fn know(self: &Arc<Self>, epoch: i64) -> Result<(), Fault> {
        let known = self.state().config.endpoints.len();
        while self.state().epoch < epoch {
            self.refresh().await?;
        }
        if self.state().config.endpoints.len() > known {
            // Whoever made an endpoint is likely to use it.
            let slotless = self.state().slotless();
            self.ask_once_for_slots(slotless).await?;
        }
        Ok(())
    }

    /// Does what a fault asks for before the same is tried again; gives it back when that is no use.
    pub(super) async fn mend(&self, fault: Fault, tries: u32) -> Result<(), Fault> {
        if matches!(fault, Fault::Stale) {
            self.refresh().await
        } else if matches!(fault, Fault::Gone) {
            self.register().await
        } else if fault.is_transient() || fault.is_broken_link() {
            tracing::debug!(error.message = %fault, "a transaction is tried again");
            tokio::time::sleep(Duration::from_millis(5 << tries.min(7))).await;
            Ok(())
        } else if fault.is_taken_key() {
            let mut state = self.state();
            let last = Key::from_value(state.last_key).at();
            state.keys.skip_to(last + Duration::from_secs(1));
            Ok(())
        } else {
            Err(fault)
        }
    }

    async fn try_write<T: Send>(
        self: &Arc<Self>,
        access: Access,
        work: &(impl for<'t> Fn(&'t mut Tx) -> BoxFuture<'t, Result<T, Fault>> + Send + Sync),
    ) -> Result<(T, After), Fault> {
        let tenure = self.state().tenure;
        let mut tx = Tx::begin(self, access).await?;
        let epoch = Some(tx.epoch).filter(|_| access == Access::Configuration);
        let value = work(&mut tx).await?;
        let staged = tx.commit().await?;
        Ok((value, After { epoch, asked: self.take_effect(staged, tenure) }))
    }

    /// Makes what a transaction staged real in memory. Returns what other nodes were asked to withdraw.
    fn take_effect(self: &Arc<Self>, staged: Staged, tenure: u64) -> Vec<i64> {
        let mut state = self.state();
        for key in staged.ended {
            state.let_go(key);
        }
        let mut parcels = Vec::with_capacity(staged.begun.len());
        for (stored, parcel) in staged.begun {
            state.hold(stored);
            parcels.push(parcel);
        }
        for (endpoint, due) in staged.emptied {
            if let Some(entry) = state.config.endpoints.get_mut(&endpoint) {
                entry.low = due;
            }
        }
        for (endpoint, floor, due) in staged.looked_up {
            let state = &mut *state;
            if state.config.endpoints.get(&endpoint).is_some_and(|entry| entry.floor() < floor) {
                // Since that was looked at clients may have more.
                state.agenda.plan(&mut state.config, endpoint, UNKNOWN_DUE);
            } else {
                state.agenda.set_due(&mut state.config, endpoint, due);
            }
        }
        let mut hints = BTreeSet::new();
        for (endpoint, due) in staged.planned {
            let state = &mut *state;
            state.agenda.plan(&mut state.config, endpoint, due);
            // Another node may have slots, or clients.
            if state.config.endpoints.get(&endpoint).is_some_and(|entry| entry.endpoint.slots() == 0) {
                hints.insert(endpoint);
            }
        }
        for (endpoint, open) in staged.replays {
            if open {
                state.replays.open.insert(endpoint)
            } else {
                state.replays.open.remove(&endpoint)
            };
            state.replays.ready = true;
        }
        state.replays.ready |= staged.replays_ready;
        for (endpoint, unswept) in staged.unswept {
            if unswept {
                state.unswept.insert(endpoint)
            } else {
                state.unswept.remove(&endpoint)
            };
        }
        for key in staged.building {
            state.building.remove(&key);
        }
        if !staged.counted.is_empty() {
            self.tally.lock().count(&state.config, &staged.counted);
        }
        let back = state.dispatch(parcels, tenure);
        for what in staged.withdrawals {
            state.withdraw(what);
        }
        drop(state);
        if !hints.is_empty() {
            lock(&self.hints).append(&mut hints);
        }
        self.give_back(back);
        self.announce(staged.changes);
        self.wake();
        staged.asked
    }
}
