//! A receiver's secrets, and the ways in which they are given wrongly.

use data_encoding::BASE64;
use ring::hmac;

use super::{KEY_BYTES, PREFIX};

/// What is wrong with a secret, found when a verifier is made of it. Says nothing of the secret itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Nothing was given: most often a variable that is not set.
    #[error("the signing secret is empty: give the one shown when the webhook was created")]
    Empty,
    /// A text with spaces or line breaks around it, as files and variables easily have.
    #[error("the signing secret has white space around it: trim it, most often a line break at its end")]
    WhiteSpace,
    /// The rest of a secret without its beginning.
    #[error(
        "the signing secret lacks its `{PREFIX}`: give it exactly as shown, with the prefix and not decoded"
    )]
    PrefixMissing,
    /// Bytes that are no text: most likely what a secret decodes to.
    #[error(
        "the signing secret looks base64-decoded already: give the text that begins with `{PREFIX}`, or the bytes \
         to `Verifier::from_key`"
    )]
    Decoded,
    /// The prefix is there, but what follows is not base64 (standard alphabet, with padding).
    #[error("what follows `{PREFIX}` in the signing secret is not base64: it was cut, or changed on its way")]
    NotBase64,
    /// The key has not 24 to 64 bytes.
    #[error(
        "the signing secret's key has {bytes} bytes, not {} to {}: it was cut, or is of something else",
        KEY_BYTES.start(),
        KEY_BYTES.end()
    )]
    KeyLength {
        /// How many it has.
        bytes: usize,
    },
    /// A key that begins with `whsec_`: the secret's text where the bytes are wanted that it decodes to.
    #[error("the key begins with `{PREFIX}`: it is a secret's raw text and belongs to `Verifier::new`")]
    TextAsKey,
    /// Something else altogether.
    #[error(
        "a signing secret is `{PREFIX}` and the base64 of {} to {} bytes, as shown when the webhook was created; a \
         key's own bytes belong to `Verifier::from_key`",
        KEY_BYTES.start(),
        KEY_BYTES.end()
    )]
    NotASecret,
}

/// A key that a signature was made with where another belonged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// The secret's text, prefix and all.
    WholeText,
    /// The secret's text behind the prefix.
    TextBehindPrefix,
    /// What the given key decodes to.
    KeyNotDecoded,
}

/// A receiver's secret: its key, and the keys that come of handling it wrongly.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    pub(super) key: hmac::Key,
    /// Only told apart, never accepted.
    pub(super) mistaken: Vec<(Mistake, hmac::Key)>,
}

impl Secret {
    /// From the text that begins with `whsec_`.
    pub(super) fn from_text(text: &[u8]) -> Result<Self, SecretError> {
        let Some(behind) = text.strip_prefix(PREFIX.as_bytes()) else {
            return Err(fault_without_prefix(text));
        };
        if text.trim_ascii() != text {
            return Err(SecretError::WhiteSpace);
        }
        let key = BASE64.decode(behind).map_err(|_| SecretError::NotBase64)?;
        check_length(&key)?;
        let mistaken = vec![
            (Mistake::WholeText, hmac_key(text)),
            // What other senders than this one do with a secret they never decode.
            (Mistake::TextBehindPrefix, hmac_key(behind)),
        ];
        Ok(Self { key: hmac_key(&key), mistaken })
    }

    /// From the bytes that the base64 behind `whsec_` stands for.
    pub(super) fn from_key(key: &[u8]) -> Result<Self, SecretError> {
        if key.trim_ascii_start().starts_with(PREFIX.as_bytes()) {
            return Err(SecretError::TextAsKey);
        }
        if key.is_empty() {
            return Err(SecretError::Empty);
        }
        check_length(key)?;
        // A key may well consist of such characters alone, so this is no error until a signature proves it one.
        let mistaken = decoded(key).map(|decoded| (Mistake::KeyNotDecoded, hmac_key(&decoded)));
        Ok(Self { key: hmac_key(key), mistaken: mistaken.into_iter().collect() })
    }
}

/// Which mistake a text is that does not begin with the prefix.
fn fault_without_prefix(text: &[u8]) -> SecretError {
    let trimmed = text.trim_ascii();
    if trimmed.is_empty() {
        SecretError::Empty
    } else if trimmed.starts_with(PREFIX.as_bytes()) {
        SecretError::WhiteSpace
    } else if decoded(trimmed).is_some() {
        SecretError::PrefixMissing
    } else if KEY_BYTES.contains(&text.len()) && !text.iter().all(u8::is_ascii_graphic) {
        SecretError::Decoded
    } else {
        SecretError::NotASecret
    }
}

/// What a text decodes to that could stand behind `whsec_`.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).ok().filter(|key| KEY_BYTES.contains(&key.len()))
}

fn check_length(key: &[u8]) -> Result<(), SecretError> {
    let bytes = key.len();
    if KEY_BYTES.contains(&bytes) { Ok(()) } else { Err(SecretError::KeyLength { bytes }) }
}

fn hmac_key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}
