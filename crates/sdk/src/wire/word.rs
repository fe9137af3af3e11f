//! Sets of words that may grow.

/// Makes enums of words out of names and what stands for them on the wire.
///
/// A word that is not among them is kept as it is, so that a newer server breaks no older client.
macro_rules! words {
    ($(
        $(#[$about:meta])*
        $name:ident { $( $(#[$about_word:meta])* $word:ident = $text:literal, )+ }
    )+) => { $(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$about_word])* $word, )+
            /// A word of a newer server. `From` makes it only of what is none of the others.
            Other(String),
        }

        impl $name {
            /// The words that this version knows.
            pub const KNOWN: &'static [Self] = &[$(Self::$word),+];

            /// As it is on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$word => $text, )+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => Self::$word, )+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::from(text.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::convert::Infallible;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ok(Self::from(text))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(Self::from(text.as_ref()))
            }
        }
    )+ };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use crate::wire::{DeliveryState, Scope};

    #[test]
    fn known_words_are_told_from_others() {
        for word in DeliveryState::KNOWN {
            assert_eq!(&DeliveryState::from(word.as_str()), word);
        }
        assert_eq!(DeliveryState::from("parked"), DeliveryState::Other("parked".into()));
        assert_eq!("parked".parse(), Ok(DeliveryState::Other("parked".into())));
        assert_eq!(Scope::EmailsSend.to_string(), "emails:send");
    }

    #[test]
    fn a_word_of_a_newer_server_comes_back_as_it_came() {
        for json in [r#""pending""#, r#""parked""#, r#""with \"quotes\"""#] {
            let word: DeliveryState = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&word).unwrap(), json);
        }
        assert!(serde_json::from_str::<DeliveryState>("3").is_err());
    }
}
