//! Signatures that a webhook's receiver checks (Standard Webhooks, symmetric, `v1`).
//!
//! A sender makes them with [`sign`], a receiver checks them with a [`Verifier`].

use std::str::FromStr;

use data_encoding::BASE64;
use ring::hmac;

mod secret;
mod verifier;

pub use secret::SecretError;
pub use verifier::{
    ID_HEADER, SIGNATURE_HEADER, SignatureHeaders, TIMESTAMP_HEADER, TOLERANCE_DEFAULT, Verified, Verifier,
    VerifyError,
};

/// What a signing secret begins with; behind it, in base64, is the key.
pub const PREFIX: &str = "whsec_";
/// How long the key of a secret may be.
pub const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// What a signature of this scheme begins with.
const VERSION: &str = "v1,";
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
///
/// ```
/// use restante_sdk::signature::{SigningKey, sign};
///
/// let key: SigningKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
/// let signature = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, br#"{"test": 2432232314}"#, &[key]);
/// assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
/// # Ok::<(), restante_sdk::signature::NotASigningSecret>(())
/// ```
pub fn sign(id: &str, timestamp_seconds: i64, body: &[u8], keys: &[SigningKey]) -> String {
    let head = format!("{id}.{timestamp_seconds}.");
    let mut signatures = String::with_capacity(keys.len() * SIGNATURE_CHARS);
    for SigningKey(key) in keys {
        if !signatures.is_empty() {
            signatures.push(' ');
        }
        signatures.push_str(VERSION);
        BASE64.encode_append(mac(key, &head, body).as_ref(), &mut signatures);
    }
    signatures
}

/// HMAC-SHA256 over `head` (`id.timestamp.`) and `body`.
fn mac(key: &hmac::Key, head: &str, body: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(head.as_bytes());
    context.update(body);
    context.sign()
}

#[cfg(test)]
mod tests;
