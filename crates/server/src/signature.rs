//! Signatures that a webhook's receiver checks (Standard Webhooks, symmetric, `v1`).

use std::str::FromStr;

use data_encoding::BASE64;
use ring::hmac;

use crate::clock::Clock;
use crate::vault::random;

/// What a signing secret begins with; behind it, in base64, is the key.
const PREFIX: &str = "whsec_";
/// How long the key of a secret may be.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// `v1,`, the 32 bytes of HMAC-SHA256 in base64, and a space.
const SIGNATURE_CHARS: usize = 3 + 44 + 1;

/// The key of a signing secret, ready for use. `Debug` shows nothing of it.
#[derive(Clone, Debug)]
pub struct SigningKey(hmac::Key);

/// A text that is no signing secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a signing secret is `{PREFIX}` and the base64 of {} to {} bytes",
    KEY_BYTES.start(),
    KEY_BYTES.end()
)]
pub struct NotASigningSecret;

impl FromStr for SigningKey {
    type Err = NotASigningSecret;

    fn from_str(secret: &str) -> Result<Self, NotASigningSecret> {
        let text = secret.strip_prefix(PREFIX).ok_or(NotASigningSecret)?;
        let key = BASE64.decode(text.as_bytes()).map_err(|_| NotASigningSecret)?;
        if !KEY_BYTES.contains(&key.len()) {
            return Err(NotASigningSecret);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }
}

/// The value of `webhook-signature`: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`, for each key, with
/// spaces between.
///
/// `id` and `timestamp_seconds` must be what `webhook-id` and `webhook-timestamp` say, and `body` the bytes sent.
pub fn sign(id: &str, timestamp_seconds: i64, body: &[u8], keys: &[SigningKey]) -> String {
    let head = format!("{id}.{timestamp_seconds}.");
    let mut signatures = String::with_capacity(keys.len() * SIGNATURE_CHARS);
    for SigningKey(key) in keys {
        let mut context = hmac::Context::with_key(key);
        context.update(head.as_bytes());
        context.update(body);
        if !signatures.is_empty() {
            signatures.push(' ');
        }
        signatures.push_str("v1,");
        BASE64.encode_append(context.sign().as_ref(), &mut signatures);
    }
    signatures
}

/// A new signing secret with a key of 32 random bytes.
pub fn new_secret(clock: &dyn Clock) -> String {
    format!("{PREFIX}{}", BASE64.encode(&random::<32>(clock)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use restante_core::Timestamp;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::clock::{ManualClock, SystemClock};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIMESTAMP_SECONDS: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn key(secret: &str) -> SigningKey {
        secret.parse().unwrap()
    }

    fn secret_of(bytes: &[u8]) -> String {
        format!("{PREFIX}{}", BASE64.encode(bytes))
    }

    /// HMAC-SHA256 as RFC 2104 writes it down, for keys of at most one block.
    fn hmac_by_the_book(key: &[u8], message: &[u8]) -> Vec<u8> {
        let padded = |with: u8| {
            let mut block = [with; 64];
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
            block
        };
        let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
        Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
    }

    #[test]
    fn the_published_example_comes_out() {
        assert_eq!(sign(ID, TIMESTAMP_SECONDS, BODY, &[key(SECRET)]), SIGNATURE);
    }

    #[test]
    fn each_key_signs_in_its_turn() {
        let others = [secret_of(&[1; 24]), secret_of(&[2; 64])];
        let alone: Vec<String> =
            others.iter().map(|secret| sign(ID, TIMESTAMP_SECONDS, BODY, &[key(secret)])).collect();
        let keys = [key(&others[0]), key(SECRET), key(&others[1])];
        let together = sign(ID, TIMESTAMP_SECONDS, BODY, &keys);
        assert_eq!(together, format!("{} {SIGNATURE} {}", alone[0], alone[1]));
        assert_eq!(together.len() + 1, keys.len() * SIGNATURE_CHARS);
        assert_eq!(sign(ID, TIMESTAMP_SECONDS, BODY, &[]), "");
    }

    #[test]
    fn only_signing_secrets_are_taken() {
        for (secret, fine) in [
            (SECRET.to_owned(), true),
            (secret_of(&[0xfb; 24]), true),
            (secret_of(&[0xfb; 25]), true),
            (secret_of(&[0xfb; 64]), true),
            (secret_of(&[0xfb; 23]), false),
            (secret_of(&[0xfb; 65]), false),
            (secret_of(&[0xfb; 25]).trim_end_matches('=').to_owned(), false),
            (secret_of(&[0xfb; 24]).replace('+', "-"), false),
            (SECRET.replace("whsec_", ""), false),
            (SECRET.replace("whsec_", "whsec-"), false),
            (SECRET.replace("whsec_", "WHSEC_"), false),
            (format!("{SECRET} "), false),
            (format!(" {SECRET}"), false),
            (format!("{SECRET}\n"), false),
            ("whsec_".to_owned(), false),
            (String::new(), false),
        ] {
            let parsed = secret.parse::<SigningKey>();
            assert_eq!(parsed.is_ok(), fine, "{secret:?}");
            if let Err(fault) = parsed {
                assert_eq!(
                    fault.to_string(),
                    "a signing secret is `whsec_` and the base64 of 24 to 64 bytes"
                );
            }
        }
    }

    #[test]
    fn new_secrets_are_signing_secrets_and_differ() {
        let clock = SystemClock::start();
        let secrets: std::collections::HashSet<String> = (0..1000).map(|_| new_secret(&clock)).collect();
        assert_eq!(secrets.len(), 1000);
        for secret in &secrets {
            assert_eq!(secret.len(), PREFIX.len() + 44);
            key(secret);
        }
        let pinned = || ManualClock::new(Timestamp::from_millis(0), 1);
        assert_eq!(new_secret(&pinned()), new_secret(&pinned()), "all of it is drawn from the clock");
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let shown = format!("{:?}", key(&secret_of(b"canary-canary-canary-canary")));
        assert_eq!(shown, "SigningKey(Key { algorithm: SHA256 })");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_receiver_with_the_secret_finds_the_signature_right(
            bytes in prop::collection::vec(any::<u8>(), 24..=64),
            id in "[a-z0-9_]{1,40}",
            timestamp_seconds in any::<i64>(),
            body in prop::collection::vec(any::<u8>(), 0..2000),
        ) {
            let signature = sign(&id, timestamp_seconds, &body, &[key(&secret_of(&bytes))]);
            let mac = BASE64.decode(signature.strip_prefix("v1,").unwrap().as_bytes()).unwrap();
            let message = [format!("{id}.{timestamp_seconds}.").as_bytes(), &body].concat();
            prop_assert_eq!(&mac, &hmac_by_the_book(&bytes, &message));
            let verifier = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
            prop_assert!(hmac::verify(&verifier, &message, &mac).is_ok());
        }
    }
}
