//! What people were told.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;

use crate::dice::Dice;

/// A request that was acknowledged.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) id: String,
    /// Index of its source.
    pub(super) source: usize,
    /// Of the sender; a replay has that of its original.
    pub(super) number: u64,
    pub(super) is_replay: bool,
    pub(super) body: Bytes,
    pub(super) at: Duration,
}

/// An event that was acknowledged.
#[derive(Clone)]
pub(super) struct Published {
    pub(super) id: String,
    pub(super) number: u64,
    pub(super) at: Duration,
}

#[derive(Default)]
pub(super) struct Ledger {
    pub(super) requests: Mutex<Vec<Sent>>,
    pub(super) events: Mutex<Vec<Published>>,
    /// By request; `false`: the answer did not come.
    pub(super) erased: Mutex<HashMap<String, bool>>,
    /// By delivery: how many attempts it had when it was said to be cancelled; `None`: that was not said, and it may be.
    pub(super) cancelled: Mutex<HashMap<String, Option<usize>>>,
    /// By request: deliveries that manual retries made.
    pub(super) retried: Mutex<HashMap<String, Vec<String>>>,
}

impl Ledger {
    /// One of the newest requests, so many at most.
    pub(super) fn recent_request(&self, dice: &mut Dice, newest: usize) -> Option<Sent> {
        let requests = self.requests.lock().unwrap();
        let newest = newest.min(requests.len());
        let back = 1 + usize::try_from(dice.below(u64::try_from(newest.max(1)).unwrap())).unwrap();
        requests.get(requests.len().checked_sub(back)?).cloned()
    }

    pub(super) fn any_event(&self, dice: &mut Dice) -> Option<Published> {
        let events = self.events.lock().unwrap();
        let index = dice.below(u64::try_from(events.len().max(1)).unwrap());
        events.get(usize::try_from(index).unwrap()).cloned()
    }

    /// Whether it was asked to be erased.
    pub(super) fn is_erased(&self, request: &str) -> bool {
        self.erased.lock().unwrap().contains_key(request)
    }
}
