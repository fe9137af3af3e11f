//! Signing secrets of webhooks. What is made with them is the client's crate's, which receivers check it with.

use data_encoding::BASE64;
use restante_sdk::signature::PREFIX;

use crate::clock::Clock;
use crate::vault::random;

/// A new signing secret with a key of 32 random bytes.
pub fn new_secret(clock: &dyn Clock) -> String {
    format!("{PREFIX}{}", BASE64.encode(&random::<32>(clock)))
}

#[cfg(test)]
mod tests {
    use restante_core::Timestamp;
    use restante_sdk::signature::SigningKey;

    use super::*;
    use crate::clock::{ManualClock, SystemClock};

    #[test]
    fn new_secrets_are_signing_secrets_and_differ() {
        let clock = SystemClock::start();
        let secrets: std::collections::HashSet<String> = (0..1000).map(|_| new_secret(&clock)).collect();
        assert_eq!(secrets.len(), 1000);
        for secret in &secrets {
            assert_eq!(secret.len(), PREFIX.len() + 44);
            secret.parse::<SigningKey>().unwrap();
        }
        let pinned = || ManualClock::new(Timestamp::from_millis(0), 1);
        assert_eq!(new_secret(&pinned()), new_secret(&pinned()), "all of it is drawn from the clock");
    }
}
