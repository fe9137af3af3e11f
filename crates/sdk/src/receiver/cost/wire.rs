//! A cost as events carry it.

use std::collections::BTreeMap;
use std::fmt;

use rust_decimal::Decimal;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What the names of components end with.
const COMPONENT_SUFFIX: &str = "_amount";

/// What one event says a message costs. The data's `cost` is this or null: `Option<SmsCost>`.
///
/// On the wire `{amount, currency_code, transaction_amount, passthrough_amount}`, amounts as decimal strings. Numbers are
/// refused, for they may be rounded already, and so are strings that a [`Decimal`] of 28 digits does not hold exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SmsCost {
    /// The sum of the components in this payload. Not what the message costs: see [`CostLedger`](super::CostLedger).
    pub amount: Decimal,
    /// The currency of all of it, `USD`.
    pub currency_code: String,
    /// Every other field whose name ends in `_amount`, known to this crate or not: `transaction_amount`,
    /// `passthrough_amount`. `None` is "not priced here", never zero.
    pub components: BTreeMap<String, Option<Decimal>>,
}

impl SmsCost {
    /// The components that this event prices.
    pub fn priced(&self) -> impl Iterator<Item = (&str, Decimal)> {
        self.components.iter().filter_map(|(name, amount)| Some((name.as_str(), (*amount)?)))
    }
}

impl<'de> Deserialize<'de> for SmsCost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By hand: with a flattened map, a cost would be read through a buffer that knows no names of fields.
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = SmsCost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cost: an object with `amount`, `currency_code` and components")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SmsCost, A::Error> {
        let mut amount = None;
        let mut currency_code = None;
        let mut components = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let again = match name.as_str() {
                "amount" => amount.replace(decimal(&name, map.next_value()?)?).is_some(),
                "currency_code" => currency_code.replace(map.next_value::<String>()?).is_some(),
                component if component.ends_with(COMPONENT_SUFFIX) => {
                    let priced = map.next_value::<Option<Value>>()?;
                    let amount = priced.map(|value| decimal(component, value)).transpose()?;
                    components.insert(name, amount).is_some()
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if again {
                return Err(A::Error::custom("a field of a cost is there twice"));
            }
        }
        let missing = A::Error::missing_field;
        Ok(SmsCost {
            amount: amount.ok_or_else(|| missing("amount"))?,
            currency_code: currency_code.ok_or_else(|| missing("currency_code"))?,
            components,
        })
    }
}

/// Reads an amount; the error names its field.
fn decimal<E: Error>(name: &str, value: Value) -> Result<Decimal, E> {
    let Value::String(text) = value else {
        return Err(E::custom(format_args!(
            "`{name}` of a cost is no string: amounts are decimals in quotes"
        )));
    };
    if !is_plain(&text) {
        return Err(E::custom(format_args!("`{name}` of a cost is no decimal such as \"0.0075\": {text:?}")));
    }
    Decimal::from_str_exact(&text)
        .map_err(|_| E::custom(format_args!("`{name}` of a cost has more digits than are exact: {text:?}")))
}

/// Whether a text is digits, perhaps with a minus before and a point among them. The parser itself takes more.
fn is_plain(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    match unsigned.split_once('.') {
        None => digits(unsigned),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
    }
}
