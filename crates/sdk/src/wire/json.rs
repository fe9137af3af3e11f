//! JSON that is the caller's own.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A JSON value, kept as the text it was written in: numbers keep all their digits, and keys their order.
///
/// Two are equal when their texts are. It can be read only from JSON, not from other formats of serde.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The JSON of a value.
    ///
    /// # Errors
    /// When the value cannot be written as JSON, such as a map whose keys are no texts.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        to_raw_value(value).map(Self)
    }

    /// Takes a text that is JSON already.
    ///
    /// # Errors
    /// When it is not.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// Reads it as a value of yours.
    ///
    /// # Errors
    /// When it is not of that shape.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl Default for Json {
    /// `null`.
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        // A `Value` has no keys but texts and no numbers that JSON lacks.
        Self(to_raw_value(&value).expect("a `Value` is JSON"))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_the_order_of_keys_stay_as_they_were_written() {
        for text in [r#"{"b":1.10,"a":123456789012345678901234567890}"#, "null", "[1e400]", r#""\u00e9""#] {
            let json: Json = serde_json::from_str(text).unwrap();
            assert_eq!(json.as_str(), text);
            assert_eq!(serde_json::to_string(&json).unwrap(), text);
        }
    }

    #[test]
    fn values_go_in_and_come_out() {
        let json = Json::of(&vec![1, 2]).unwrap();
        assert_eq!(json.as_str(), "[1,2]");
        assert_eq!(json.read::<Vec<u8>>().unwrap(), [1, 2]);
        assert!(json.read::<String>().is_err());
        assert_eq!(Json::from(json!({"a": null})), Json::parse(r#"{"a":null}"#).unwrap());
        assert!(Json::parse("{").is_err());
        assert_eq!(Json::default().as_str(), "null");
    }
}
