//! What messages cost, put together from events that each know a part of it.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::latest::Dated;
use crate::Timestamp;

mod wire;

pub use wire::SmsCost;

/// What each SMS cost, component by component.
///
/// An event prices some components of a message and leaves the others null, "not priced here": no charge of zero, and no
/// reason to forget what another event said. So each component is kept by itself, from the newest event that priced it
/// (of events of the same millisecond, the one with the greater `webhook-id`). The order of arrival and repeats change
/// nothing. Replacing the whole cost with each event's would lose components and bring old charges back.
///
/// A payload's `amount` sums that payload's components only and is left out here.
///
/// It keeps every message until [`CostLedger::remove`]. Serialised, it is its own record to be stored.
///
/// ```
/// use restante_sdk::Timestamp;
/// use restante_sdk::receiver::{CostLedger, SmsCost};
///
/// let first: SmsCost = serde_json::from_str(
///     r#"{"amount": "0.0075", "currency_code": "USD", "transaction_amount": "0.0075", "passthrough_amount": null}"#,
/// )?;
/// let second: SmsCost = serde_json::from_str(
///     r#"{"amount": "0.0030", "currency_code": "USD", "transaction_amount": null, "passthrough_amount": "0.0030"}"#,
/// )?;
///
/// let mut ledger = CostLedger::new();
/// ledger.merge("sms_1", Timestamp::from_millis(2_000), "whe_2", Some(&second))?;
/// ledger.merge("sms_1", Timestamp::from_millis(1_000), "whe_1", Some(&first))?;
/// ledger.merge("sms_1", Timestamp::from_millis(3_000), "whe_3", None)?;
/// let total = ledger.total("sms_1")?.expect("two components are priced");
/// assert_eq!((total.amount.to_string(), total.currency_code.as_str()), ("0.0105".to_owned(), "USD"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostLedger {
    /// By `sms_id`; only messages with a priced component.
    messages: BTreeMap<String, Message>,
}

/// The known costs of one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Message {
    currency_code: String,
    /// By the wire's name; never empty.
    components: BTreeMap<String, Dated<Amount>>,
}

/// Written as a text: a number would not be exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Amount(#[serde(with = "rust_decimal::serde::str")] Decimal);

/// What an event changed in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// At least one component is of this event now.
    Changed,
    /// Nothing: it priced no component, or newer events had priced them all.
    Unchanged,
}

/// An exact amount of money.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Total {
    /// In units of the currency, not hundredths.
    pub amount: Decimal,
    /// As the wire has it, `USD`.
    pub currency_code: String,
}

/// What cannot be reckoned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// An event gives a message's costs in another currency than the events before. The ledger is as it was.
    #[error("costs of {sms_id} are in {known}, and one came in {offered}: two currencies cannot be added up")]
    OtherCurrency {
        /// The message.
        sms_id: String,
        /// The currency of what is in the ledger.
        known: String,
        /// The event's currency.
        offered: String,
    },
    /// A sum has more digits, 28, than a decimal holds. It is not rounded.
    #[error("the total of {sms_id} has too many digits to be exact")]
    Inexact {
        /// The message.
        sms_id: String,
    },
}

impl CostLedger {
    /// Without any costs.
    pub const fn new() -> Self {
        Self { messages: BTreeMap::new() }
    }

    /// Takes in what one event says a message costs.
    ///
    /// `timestamp` is the body's, `id` the `webhook-id`, and `cost` the data's: `None` where it is null, which changes
    /// nothing.
    ///
    /// # Errors
    /// `OtherCurrency`; the ledger is unchanged. A person must look at it: no later attempt will go better.
    pub fn merge(
        &mut self,
        sms_id: &str,
        timestamp: Timestamp,
        id: &str,
        cost: Option<&SmsCost>,
    ) -> Result<Merged, CostError> {
        let Some(cost) = cost else { return Ok(Merged::Unchanged) };
        if let Some(known) =
            self.messages.get(sms_id).filter(|known| known.currency_code != cost.currency_code)
        {
            return Err(CostError::OtherCurrency {
                sms_id: sms_id.to_owned(),
                known: known.currency_code.clone(),
                offered: cost.currency_code.clone(),
            });
        }
        let mut merged = Merged::Unchanged;
        for (name, amount) in cost.priced() {
            // Only here, so that a cost without any priced component does not decide on the currency.
            let message = self.messages.entry(sms_id.to_owned()).or_insert_with(|| Message {
                currency_code: cost.currency_code.clone(),
                components: BTreeMap::new(),
            });
            if message.components.get(name).is_none_or(|known| known.is_older_than(timestamp, id)) {
                let newest = Dated { timestamp, id: id.to_owned(), value: Amount(amount) };
                message.components.insert(name.to_owned(), newest);
                merged = Merged::Changed;
            }
        }
        Ok(merged)
    }

    /// The sum of a message's known components; `None` until one is priced.
    ///
    /// More may become known: it is what the message costs so far.
    ///
    /// # Errors
    /// `Inexact` instead of a rounded sum.
    pub fn total(&self, sms_id: &str) -> Result<Option<Total>, CostError> {
        let Some(message) = self.messages.get(sms_id) else { return Ok(None) };
        let amounts = message.components.values().map(|component| component.value.0);
        let amount = exact_sum(amounts).ok_or_else(|| CostError::Inexact { sms_id: sms_id.to_owned() })?;
        Ok(Some(Total { amount, currency_code: message.currency_code.clone() }))
    }

    /// What one component of a message costs, such as `transaction_amount`; `None` until it is priced.
    pub fn component(&self, sms_id: &str, name: &str) -> Option<Decimal> {
        Some(self.messages.get(sms_id)?.components.get(name)?.value.0)
    }

    /// The priced components of a message, by the wire's names and in their order.
    pub fn components(&self, sms_id: &str) -> impl Iterator<Item = (&str, Decimal)> {
        let message = self.messages.get(sms_id).into_iter();
        message.flat_map(|message| &message.components).map(|(name, known)| (name.as_str(), known.value.0))
    }

    /// Forgets a message. What a later event says of it begins anew.
    pub fn remove(&mut self, sms_id: &str) {
        self.messages.remove(sms_id);
    }
}

/// The sum, with as many places as its most precise part; `None` when it does not fit.
///
/// `Decimal` itself rounds a sum that has too many digits. Whole numbers of the smallest unit do not.
fn exact_sum(amounts: impl Iterator<Item = Decimal> + Clone) -> Option<Decimal> {
    let scale = amounts.clone().map(|amount| amount.scale()).max()?;
    let sum = amounts.into_iter().try_fold(0i128, |sum, amount| {
        let unit = 10i128.checked_pow(scale - amount.scale())?;
        sum.checked_add(amount.mantissa().checked_mul(unit)?)
    })?;
    Decimal::try_from_i128_with_scale(sum, scale).ok()
}

#[cfg(test)]
mod tests;
