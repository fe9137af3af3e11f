use std::sync::atomic::{AtomicU32, Ordering};

use crate::retry::{BUDGET_TOKENS, SUCCESS_TOKENS};

/// How much retrying the clones of a client may do together: against a server that is down, each call is soon made
/// once. Successes fill it again.
#[derive(Debug)]
pub(super) struct Budget(AtomicU32);

impl Budget {
    pub(super) fn full() -> Self {
        Self(AtomicU32::new(BUDGET_TOKENS))
    }

    pub(super) fn level(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes tokens for a retry; `false` and nothing when there are not so many.
    pub(super) fn take(&self, tokens: u32) -> bool {
        let less = |level: u32| level.checked_sub(tokens);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// A call has succeeded.
    pub(super) fn give_back(&self) {
        let more = |level: u32| (level < BUDGET_TOKENS).then(|| BUDGET_TOKENS.min(level + SUCCESS_TOKENS));
        // Nothing changes while it is full.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_five_hundred_and_never_goes_below_nothing() {
        let budget = Budget::full();
        budget.give_back();
        assert_eq!(budget.level(), 500);
        assert!(budget.take(495));
        assert!(!budget.take(10));
        assert_eq!(budget.level(), 5);
        assert!(budget.take(5));
        assert!(!budget.take(5));
        budget.give_back();
        assert_eq!(budget.level(), 1);
    }
}
