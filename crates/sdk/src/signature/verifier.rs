//! The receiver's check of a signature.

use std::time::Duration;

use data_encoding::BASE64;
use http::HeaderMap;
use ring::hmac;

use super::secret::{Mistake, Secret};
use super::{SecretError, VERSION, mac};
use crate::Timestamp;

/// Header with the event's id, the same on every attempt.
pub const ID_HEADER: &str = "webhook-id";
/// Header with the time of the attempt, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
/// Header with the signatures, separated by spaces.
pub const SIGNATURE_HEADER: &str = "webhook-signature";
/// How far a signature's time may lie from the receiver's, to either side, unless a verifier is told otherwise.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// Checks signatures with one or several secrets. `Debug` shows nothing of them.
///
/// ```
/// use restante_sdk::Timestamp;
/// use restante_sdk::signature::{SignatureHeaders, Verifier};
///
/// let verifier = Verifier::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// let headers = SignatureHeaders {
///     id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
///     timestamp: "1614265330",
///     signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
/// };
/// let now = Timestamp::from_millis(1_614_265_331_000);
/// let verified = verifier.verify(headers, br#"{"test": 2432232314}"#, now)?;
/// assert_eq!(verified.id(), "msg_p5jXN8AQM9LWM0D4loKWxJek");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Verifier {
    /// Never empty.
    secrets: Vec<Secret>,
    tolerance: Duration,
}

/// The texts of the three headers that a signature takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureHeaders<'a> {
    /// `webhook-id`.
    pub id: &'a str,
    /// `webhook-timestamp`.
    pub timestamp: &'a str,
    /// `webhook-signature`; several values of that header belong together with a space between.
    pub signature: &'a str,
}

/// A body whose signature was found right. Only [`Verifier`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<'a> {
    id: &'a str,
    signed_at: Timestamp,
    body: &'a [u8],
}

/// Why a request is not taken for the sender's. Answer it with an error status: the sender then tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The header with this name is missing or empty.
    #[error(
        "the header `{0}` is missing: the request comes from somebody else, or a proxy drops `webhook-*` headers"
    )]
    MissingHeader(&'static str),
    /// The header with this name has other characters than visible ASCII and spaces.
    #[error(
        "the header `{0}` is not readable as text: a proxy garbles it, or the request comes from somebody else"
    )]
    UnreadableHeader(&'static str),
    /// `webhook-timestamp` is not a number of seconds since 1970.
    #[error(
        "the header `{TIMESTAMP_HEADER}` is malformed: it must be whole seconds since 1970 in decimal digits, not \
         milliseconds and not a date"
    )]
    MalformedTimestamp,
    /// Signed longer ago than the tolerance.
    #[error(
        "the request was signed {seconds} seconds ago, more than the tolerance: check this machine's clock first, \
         then what holds requests back on their way; a recorded request cannot be used again"
    )]
    TooOld {
        /// How long ago.
        seconds: u64,
    },
    /// Signed further in the future than the tolerance.
    #[error(
        "the request was signed {seconds} seconds in the future, more than the tolerance: check this machine's \
         clock first, then the sender's"
    )]
    TooNew {
        /// How far ahead.
        seconds: u64,
    },
    /// There is no `v1` signature among those given.
    #[error(
        "the header `{SIGNATURE_HEADER}` has no `v1` signature: the sender uses another scheme than this secret is for"
    )]
    NoUsableSignature,
    /// No signature was made with any of the secrets over this id, timestamp and body.
    #[error(
        "no signature matches: check that the secret is this webhook's and not rotated away, and that the body is \
         verified as the raw bytes received, before anything parses, decodes or prints it anew"
    )]
    NoMatch,
    /// The sender used a secret's text as the key, `whsec_` and all.
    #[error(
        "the signature was made with the secret's text, `whsec_` included, as the key: the sender must drop the \
         prefix and base64-decode the rest before it signs"
    )]
    SignedWithText,
    /// The sender used a secret's text behind `whsec_` as the key.
    #[error(
        "the signature was made with the secret's text behind `whsec_` as the key: the sender must base64-decode it \
         before it signs"
    )]
    SignedWithBase64,
    /// The key given to [`Verifier::from_key`] is the base64 of the one that the sender used.
    #[error(
        "the signature was made with what the key given here decodes to: the verifier was given raw base64 text for \
         a key; give the whole secret to `Verifier::new`"
    )]
    KeyNotDecoded,
}

impl Verifier {
    /// A verifier with one secret, as shown when the webhook was created: `whsec_…`, prefix included, not decoded.
    ///
    /// # Errors
    /// `SecretError` says which mistake was made with the secret. Nothing can be verified until it is mended, so let
    /// the start of the program fail.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, SecretError> {
        let secrets = vec![Secret::from_text(secret.as_ref())?];
        Ok(Self { secrets, tolerance: TOLERANCE_DEFAULT })
    }

    /// A verifier with one key: the 24 to 64 bytes that the base64 behind `whsec_` stands for.
    ///
    /// # Errors
    /// `SecretError`, above all for a secret's text in place of the key.
    pub fn from_key(key: impl AsRef<[u8]>) -> Result<Self, SecretError> {
        let secrets = vec![Secret::from_key(key.as_ref())?];
        Ok(Self { secrets, tolerance: TOLERANCE_DEFAULT })
    }

    /// Accepts signatures of another secret as well: while secrets are rotated, or for several webhooks on one path.
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub fn and(mut self, secret: impl AsRef<[u8]>) -> Result<Self, SecretError> {
        self.secrets.push(Secret::from_text(secret.as_ref())?);
        Ok(self)
    }

    /// Sets how far a signature's time may lie from the receiver's, to either side, in whole seconds and inclusive.
    ///
    /// [`TOLERANCE_DEFAULT`] otherwise. Within it a recorded request can be sent again by anybody, which only
    /// deduplication notices.
    #[must_use]
    pub fn with_tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance, ..self }
    }

    /// Checks one request: that a `v1` signature fits a secret, the id, the timestamp and the body, and that it was
    /// signed no further from `now` than the tolerance.
    ///
    /// `body` must be the bytes received. Versions other than `v1` are passed over. The comparison takes the same
    /// time whatever a signature has in common with the right one.
    ///
    /// # Errors
    /// `VerifyError`: answer 401 and do nothing else with the request.
    pub fn verify<'a>(
        &self,
        headers: SignatureHeaders<'a>,
        body: &'a [u8],
        now: Timestamp,
    ) -> Result<Verified<'a>, VerifyError> {
        let SignatureHeaders { id, timestamp, signature } = headers;
        for (name, text) in [(ID_HEADER, id), (TIMESTAMP_HEADER, timestamp), (SIGNATURE_HEADER, signature)] {
            if text.is_empty() {
                return Err(VerifyError::MissingHeader(name));
            }
        }
        let signed_at = self.check_time(timestamp, now)?;
        let macs = usable_macs(signature);
        if macs.is_empty() {
            return Err(VerifyError::NoUsableSignature);
        }
        // The header's own text, not the number read from it: what was signed is what was written.
        let head = format!("{id}.{timestamp}.");
        if !self.secrets.iter().any(|secret| fits(&secret.key, &head, body, &macs)) {
            return Err(self.mismatch(&head, body, &macs));
        }
        Ok(Verified { id, signed_at, body })
    }

    /// [`Verifier::verify`] with the headers where HTTP libraries keep them.
    ///
    /// # Errors
    /// As [`Verifier::verify`].
    pub fn verify_http<'a>(
        &self,
        headers: &'a HeaderMap,
        body: &'a [u8],
        now: Timestamp,
    ) -> Result<Verified<'a>, VerifyError> {
        self.verify(SignatureHeaders::of(headers)?, body, now)
    }

    fn check_time(&self, timestamp: &str, now: Timestamp) -> Result<Timestamp, VerifyError> {
        // `parse` alone would take a sign.
        let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let seconds =
            timestamp.parse::<i64>().ok().filter(|_| digits).ok_or(VerifyError::MalformedTimestamp)?;
        let now_seconds = now.millis().div_euclid(1000);
        let apart = now_seconds.abs_diff(seconds);
        if apart <= self.tolerance.as_secs() {
            Ok(Timestamp::from_millis(seconds.saturating_mul(1000)))
        } else if seconds < now_seconds {
            Err(VerifyError::TooOld { seconds: apart })
        } else {
            Err(VerifyError::TooNew { seconds: apart })
        }
    }

    /// Looks whether a known mistake explains that nothing fits.
    fn mismatch(&self, head: &str, body: &[u8], macs: &[Vec<u8>]) -> VerifyError {
        let mut mistaken = self.secrets.iter().flat_map(|secret| &secret.mistaken);
        match mistaken.find(|(_, key)| fits(key, head, body, macs)) {
            None => VerifyError::NoMatch,
            Some((Mistake::WholeText, _)) => VerifyError::SignedWithText,
            Some((Mistake::TextBehindPrefix, _)) => VerifyError::SignedWithBase64,
            Some((Mistake::KeyNotDecoded, _)) => VerifyError::KeyNotDecoded,
        }
    }
}

impl<'a> SignatureHeaders<'a> {
    /// Takes the three headers out of a request's.
    ///
    /// # Errors
    /// `MissingHeader` and `UnreadableHeader`, with the header's name.
    pub fn of(headers: &'a HeaderMap) -> Result<Self, VerifyError> {
        let text = |name: &'static str| {
            let value = headers.get(name).ok_or(VerifyError::MissingHeader(name))?;
            value.to_str().map_err(|_| VerifyError::UnreadableHeader(name))
        };
        Ok(Self {
            id: text(ID_HEADER)?,
            timestamp: text(TIMESTAMP_HEADER)?,
            signature: text(SIGNATURE_HEADER)?,
        })
    }
}

impl<'a> Verified<'a> {
    /// `webhook-id`: the event's id, the same on every attempt, what deduplication goes by.
    pub fn id(&self) -> &'a str {
        self.id
    }

    /// `webhook-timestamp`: when this attempt was signed, to the second. The event's own time is in the body.
    pub fn signed_at(&self) -> Timestamp {
        self.signed_at
    }

    /// The bytes that were signed.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// The `v1` signatures of the header's list that are base64 at all.
fn usable_macs(signature: &str) -> Vec<Vec<u8>> {
    let of_version = signature.split(' ').filter_map(|one| one.strip_prefix(VERSION));
    // Strict base64: a MAC has one text only.
    of_version.filter_map(|text| BASE64.decode(text.as_bytes()).ok()).collect()
}

/// Whether one of `macs` is that of the head and body under `key`.
fn fits(key: &hmac::Key, head: &str, body: &[u8], macs: &[Vec<u8>]) -> bool {
    // The body is gone over once, however many signatures a stranger wrote into the header. MACs of MACs are compared
    // then: equal when these are, and `verify` takes the same time wherever they differ.
    let expected = hmac::sign(key, mac(key, head, body).as_ref());
    macs.iter().any(|mac| hmac::verify(key, mac, expected.as_ref()).is_ok())
}

#[cfg(test)]
mod tests;
