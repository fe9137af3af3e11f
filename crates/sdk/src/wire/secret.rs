//! Secrets that are shown once.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret: the token of a key, what a webhook signs with, the value of a header. It is not shown by `Debug`, so that no log gets it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_by_accident() {
        let secret = Secret::from("whsec_abc");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(secret.expose(), "whsec_abc");
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""whsec_abc""#);
    }
}
