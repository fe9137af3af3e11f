//! A dispatcher that keeps what it is given.

use std::sync::{Mutex, PoisonError};

use crate::{Dispatch, Parcel, Withdraw};

type Witness = Box<dyn Fn(&[Parcel]) + Send>;

/// Holds parcels until they are taken, and remembers what was to be given back.
#[derive(Default)]
pub struct Tray {
    parcels: Mutex<Vec<Parcel>>,
    withdrawals: Mutex<Vec<Withdraw>>,
    witness: Mutex<Option<Witness>>,
}

impl Tray {
    /// What was dispatched since this was last asked.
    pub fn take(&self) -> Vec<Parcel> {
        std::mem::take(&mut self.parcels.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was to be withdrawn since this was last asked.
    pub fn take_withdrawals(&self) -> Vec<Withdraw> {
        std::mem::take(&mut self.withdrawals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls `witness` at each dispatch, before it returns.
    pub fn watch(&self, witness: impl Fn(&[Parcel]) + Send + 'static) {
        *self.witness.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(witness));
    }
}

impl Dispatch for Tray {
    fn dispatch(&self, parcels: Vec<Parcel>) {
        if let Some(witness) = &*self.witness.lock().unwrap_or_else(PoisonError::into_inner) {
            witness(&parcels);
        }
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner).extend(parcels);
    }

    fn withdraw(&self, what: Withdraw) {
        self.withdrawals.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}
