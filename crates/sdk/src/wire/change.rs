//! What a change says of a field.

use serde::{Serialize, Serializer};

/// What becomes of a field that can be taken back to its default: it is kept, reset or set.
///
/// Fields that have no default to go back to are an `Option` in changes: `None` keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Change<T> {
    /// It stays as it is: absent on the wire.
    #[default]
    Keep,
    /// It goes back to its default, or is taken away: null on the wire.
    Reset,
    /// It becomes this.
    Set(T),
}

impl<T> Change<T> {
    /// Whether the field stays as it is.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<T> From<T> for Change<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}

impl From<&str> for Change<String> {
    fn from(text: &str) -> Self {
        Self::Set(text.to_owned())
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // `Keep` is never written: fields of this type are left out then.
            Self::Keep | Self::Reset => serializer.serialize_none(),
            Self::Set(value) => value.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Default)]
    struct Body {
        #[serde(skip_serializing_if = "Change::is_keep")]
        text: Change<String>,
        #[serde(skip_serializing_if = "Change::is_keep")]
        count: Change<u32>,
    }

    #[test]
    fn absent_null_and_value_are_three_things() {
        let written = |body: Body| serde_json::to_string(&body).unwrap();
        assert_eq!(written(Body::default()), "{}");
        assert_eq!(written(Body { text: Change::Reset, ..Body::default() }), r#"{"text":null}"#);
        let both = Body { text: "a".into(), count: 3.into() };
        assert_eq!(written(both), r#"{"text":"a","count":3}"#);
    }
}
