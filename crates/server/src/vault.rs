//! Secrets at rest: who has the database alone cannot read them.
//!
//! A secret is sealed with ChaCha20-Poly1305 (RFC 8439) under a key derived from the server's secret key, which
//! `vault/key.rs` finds. What a secret is for is sealed with it: the store may hand back another row's text, and that
//! opens only where the same kind of secret is wanted.

use std::fmt;
use std::path::Path;

use data_encoding::BASE64URL_NOPAD;
use restante_core::endpoint::Sealed;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce};
use ring::hkdf::{HKDF_SHA256, Prk};

use crate::clock::Clock;

mod key;

pub(crate) use key::master;
pub use key::{FILE as SECRET_KEY_FILE, KeyFault};

/// What a sealed text begins with; behind it, in base64url, nonce, ciphertext and tag.
const VERSION: &str = "s1.";
/// Tells the key that seals from others that may be derived from the same secret key one day.
const KEY_CONTEXT: &[u8] = b"restante vault 1";
/// What [`Vault::check`] seals, as what.
const CHECK: &str = "check";

/// Seals and opens secrets. `Debug` shows nothing of its key.
pub struct Vault {
    key: LessSafeKey,
}

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Signs what is sent to a webhook.
    SigningSecret,
    /// What the requests of a source are signed with.
    VerificationSecret,
    /// The value of a header that an endpoint's attempts carry.
    HeaderValue,
    /// Signs the mail of a domain.
    DomainKey,
    /// Opens a connection of a command-line client.
    AccessToken,
    /// Stands for a key in a browser.
    Session,
}

/// A secret in the clear. `Debug` shows nothing of it, and it cannot be displayed, compared or serialised by accident.
#[derive(Clone)]
pub struct Secret(String);

/// A sealed text that does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sealed with another key or for another purpose, or damaged")]
pub struct OpenFault;

impl Vault {
    /// A vault whose key is derived from `master`.
    pub fn new(master: [u8; 32]) -> Self {
        let prk = Prk::new_less_safe(HKDF_SHA256, &master);
        let okm = prk.expand(&[KEY_CONTEXT], &CHACHA20_POLY1305).expect("HKDF gives more than one key");
        Self { key: LessSafeKey::new(okm.into()) }
    }

    /// The vault of this server: its key is derived from `secret_key` (the setting), else from the file `secret.key`
    /// in `data`, which is made if there is none.
    ///
    /// `kept` is what the store kept of [`Vault::check`]; `None` while nothing was ever sealed. With it a wrong key is
    /// a fault, and so is a missing file: a fresh key would open nothing. When this returns, the key is on the disk.
    ///
    /// # Errors
    /// `KeyFault`, for the operator; the server must not start.
    pub fn load(
        secret_key: Option<&str>,
        data: &Path,
        kept: Option<&Sealed>,
        clock: &dyn Clock,
    ) -> Result<Self, KeyFault> {
        let file = data.join(key::FILE);
        let vault = Self::new(match secret_key {
            Some(text) => master(text)?,
            None if kept.is_some() => key::read(&file)?,
            None => key::read_or_make(&file, clock)?,
        });
        match kept {
            Some(kept) if !vault.opens(kept) => Err(match secret_key {
                Some(_) => KeyFault::WrongSetting,
                None => KeyFault::WrongFile(file),
            }),
            _ => Ok(vault),
        }
    }

    /// Seals a secret. Every call gives another text.
    pub fn seal(&self, purpose: Purpose, secret: &str, clock: &dyn Clock) -> Sealed {
        self.seal_as(purpose.context(), secret, clock)
    }

    /// The secret that was sealed for this purpose.
    ///
    /// # Errors
    /// `OpenFault` when this vault did not seal it so. [`Vault::load`] has ruled a wrong key out, so the row is damaged.
    pub fn open(&self, purpose: Purpose, sealed: &Sealed) -> Result<Secret, OpenFault> {
        self.open_as(purpose.context(), sealed)
    }

    /// What the store keeps to tell this key from others at the next start. Tells nothing of the key.
    pub fn check(&self, clock: &dyn Clock) -> Sealed {
        self.seal_as(CHECK, CHECK, clock)
    }

    /// Whether `kept`, a [`Vault::check`], is of a vault with the same key.
    pub fn opens(&self, kept: &Sealed) -> bool {
        self.open_as(CHECK, kept).is_ok()
    }

    fn seal_as(&self, context: &str, secret: &str, clock: &dyn Clock) -> Sealed {
        // Random nonces of 96 bits are safe for 2^32 secrets under one key (NIST SP 800-38D, 8.3).
        let nonce: [u8; NONCE_LEN] = random(clock);
        let mut bytes = [&nonce, secret.as_bytes()].concat();
        let tag = self
            .key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(context),
                &mut bytes[NONCE_LEN..],
            )
            .expect("a secret in memory is shorter than the 256 GiB that can be sealed");
        bytes.extend_from_slice(tag.as_ref());
        Sealed(format!("{VERSION}{}", BASE64URL_NOPAD.encode(&bytes)))
    }

    fn open_as(&self, context: &str, sealed: &Sealed) -> Result<Secret, OpenFault> {
        let text = sealed.0.strip_prefix(VERSION).ok_or(OpenFault)?;
        let mut bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| OpenFault)?;
        let (nonce, rest) = bytes.split_first_chunk_mut().ok_or(OpenFault)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.key.open_in_place(nonce, Aad::from(context), rest).map_err(|_| OpenFault)?;
        String::from_utf8(plain.to_vec()).map(Secret).map_err(|_| OpenFault)
    }
}

/// What the file `secret.key` in `data` holds; `None`: there is none, the key is the setting.
///
/// # Errors
/// `KeyFault`: there is one, and it cannot be used.
pub fn kept_key(data: &Path) -> Result<Option<Secret>, KeyFault> {
    match key::read_text(&data.join(key::FILE)) {
        Ok(text) => Ok(Some(Secret(text))),
        Err(KeyFault::Missing(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Makes the file `secret.key` in `data` of what [`kept_key`] gave, or finds it there. It is on the disk then.
///
/// # Errors
/// `KeyFault`: it cannot be made, or there is another.
pub fn put_key(data: &Path, text: &Secret, clock: &dyn Clock) -> Result<(), KeyFault> {
    key::put(&data.join(key::FILE), text.expose(), clock)
}

/// Whether a text is the secret key that [`Vault::check`] was kept of.
pub fn is_key(text: &str, kept: &Sealed) -> bool {
    master(text).is_ok_and(|master| Vault::new(master).opens(kept))
}

impl Purpose {
    /// Sealed with each secret: never to be changed.
    const fn context(self) -> &'static str {
        match self {
            Self::SigningSecret => "signing secret",
            Self::VerificationSecret => "verification secret",
            Self::HeaderValue => "header value",
            Self::DomainKey => "domain key",
            Self::AccessToken => "access token",
            Self::Session => "session",
        }
    }
}

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for whoever sends it, signs with it or seals it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").finish_non_exhaustive()
    }
}

/// Unpredictable bytes.
pub(crate) fn random<const N: usize>(clock: &dyn Clock) -> [u8; N] {
    let mut bytes = [0; N];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&clock.draw().to_le_bytes()[..part.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use restante_core::Timestamp;

    use super::*;
    use crate::clock::ManualClock;

    const CANARY: &str = "whsec_canary-0123456789";
    /// The canary as a signing secret under the key of 32 sevens, computed by another implementation.
    const GOLDEN: &str = "s1.AAECAwQFBgcICQoLsgsyQGRXdC-SmramZoFQ0j3kTiA0puF4mKLAm-bIDAkme6zfAFml";

    fn clock() -> ManualClock {
        ManualClock::new(Timestamp::from_millis(0), 1)
    }

    fn opened(vault: &Vault, purpose: Purpose, sealed: &Sealed) -> Option<String> {
        vault.open(purpose, sealed).ok().map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn what_is_sealed_opens_again() {
        let (vault, clock) = (Vault::new([7; 32]), clock());
        for secret in ["", "x", CANARY, "Bearer ä\0\u{10ffff}", &"long".repeat(10_000)] {
            for purpose in [Purpose::SigningSecret, Purpose::HeaderValue] {
                let sealed = vault.seal(purpose, secret, &clock);
                assert_eq!(opened(&vault, purpose, &sealed).as_deref(), Some(secret));
            }
        }
    }

    #[test]
    fn what_an_earlier_version_sealed_opens() {
        let sealed = Sealed(GOLDEN.to_owned());
        assert_eq!(opened(&Vault::new([7; 32]), Purpose::SigningSecret, &sealed).as_deref(), Some(CANARY));
    }

    #[test]
    fn another_key_opens_nothing() {
        let clock = clock();
        let sealed = Vault::new([7; 32]).seal(Purpose::HeaderValue, CANARY, &clock);
        let mut other = [7; 32];
        other[31] ^= 1;
        assert_eq!(Vault::new(other).open(Purpose::HeaderValue, &sealed).unwrap_err(), OpenFault);
    }

    #[test]
    fn a_secret_of_one_kind_is_none_of_another() {
        let (vault, clock) = (Vault::new([7; 32]), clock());
        let header = vault.seal(Purpose::HeaderValue, CANARY, &clock);
        let signing = vault.seal(Purpose::SigningSecret, CANARY, &clock);
        assert_eq!(opened(&vault, Purpose::SigningSecret, &header), None);
        assert_eq!(opened(&vault, Purpose::HeaderValue, &signing), None);
        assert_eq!(opened(&vault, Purpose::HeaderValue, &vault.check(&clock)), None);
        assert!(!vault.opens(&header) && !vault.opens(&signing));
    }

    #[test]
    fn no_changed_character_goes_unnoticed() {
        let vault = Vault::new([7; 32]);
        let Sealed(text) = vault.seal(Purpose::SigningSecret, CANARY, &clock());
        for index in 0..text.len() {
            for other in ["A", "-", "=", "", "AA"] {
                let mut changed = text.clone();
                changed.replace_range(index..=index, other);
                let is_changed = changed != text;
                let sealed = Sealed(changed);
                assert_eq!(
                    vault.open(Purpose::SigningSecret, &sealed).is_err(),
                    is_changed,
                    "{index} {other:?}"
                );
            }
            assert!(vault.open(Purpose::SigningSecret, &Sealed(text[..index].to_owned())).is_err());
        }
        for text in ["", "s1.", "s1.AAAA", "s2.", CANARY] {
            assert!(vault.open(Purpose::SigningSecret, &Sealed(text.to_owned())).is_err(), "{text}");
        }
    }

    #[test]
    fn sealed_texts_repeat_neither_nonce_nor_content() {
        let (vault, clock) = (Vault::new([7; 32]), clock());
        let sealed = || vault.seal(Purpose::HeaderValue, "the same", &clock).0;
        let starts: HashSet<String> = (0..1000).map(|_| sealed()[..VERSION.len() + 16].to_owned()).collect();
        assert_eq!(starts.len(), 1000);
    }

    #[test]
    fn a_check_tells_keys_apart() {
        let (vault, clock) = (Vault::new([7; 32]), clock());
        let kept = vault.check(&clock);
        assert!(vault.opens(&kept));
        assert!(Vault::new([7; 32]).opens(&kept));
        assert!(!Vault::new([8; 32]).opens(&kept));
        assert!(!vault.opens(&Sealed(String::new())));
    }

    #[test]
    fn nothing_secret_is_shown() {
        let vault = Vault::new(*b"canary-canary-canary-canary-0123");
        let sealed = vault.seal(Purpose::SigningSecret, CANARY, &clock());
        let secret = vault.open(Purpose::SigningSecret, &sealed).unwrap();
        let shown = format!("{vault:?} {vault:#?} {secret:?} {secret:#?} {sealed:?}");
        assert!(!shown.contains("canary") && !shown.contains("99, 97, 110"), "{shown}");
        assert_eq!(format!("{vault:?} {secret:?}"), "Vault { .. } Secret(..)");
    }

    #[test]
    fn random_bytes_fill_every_length() {
        let clock = clock();
        let (odd, none): ([u8; 13], [u8; 0]) = (random(&clock), random(&clock));
        assert!(odd[8..] != [0; 5] && none.is_empty());
        assert_ne!(random::<32>(&clock), random::<32>(&clock));
    }
}
