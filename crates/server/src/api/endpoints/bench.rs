//! What it takes to judge an endpoint's settings in a test.

use restante_core::Timestamp;
use restante_core::endpoint::Sealed;
use serde_json::Value;

use super::Judge;
use crate::api::error::ApiError;
use crate::channel::guard::Rules;
use crate::clock::ManualClock;
use crate::vault::{Purpose, Vault};

pub(crate) struct Bench {
    rules: Rules,
    pub(crate) vault: Vault,
    pub(crate) clock: ManualClock,
}

impl Bench {
    pub(crate) fn new(rules: Rules) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(0), 1);
        Self { rules, vault: Vault::new([7; 32]), clock }
    }

    pub(crate) fn judge(&self) -> Judge<'_> {
        Judge { rules: &self.rules, vault: &self.vault, clock: &self.clock }
    }

    /// Names and opened values of static headers.
    pub(crate) fn opened(&self, headers: &[(String, Sealed)]) -> Vec<(String, String)> {
        let open = |sealed| self.vault.open(Purpose::HeaderValue, sealed).unwrap().expose().to_owned();
        headers.iter().map(|(name, value)| (name.clone(), open(value))).collect()
    }
}

/// What a caller is told.
pub(crate) fn told(error: &ApiError) -> Value {
    serde_json::to_value(error.body("r")).unwrap()["error"].clone()
}
