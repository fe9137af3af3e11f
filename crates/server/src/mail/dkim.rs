//! DKIM: keys, the record that publishes one, and signatures (RFC 6376, RFC 8301).

use std::convert::Infallible;
use std::fmt;

use data_encoding::BASE64;
use restante_core::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use rsa::pkcs8::{EncodePrivateKey, LineEnding};
use rsa::rand_core::{TryCryptoRng, TryRng};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

use crate::clock::Clock;
use crate::vault::Secret;

mod canonical;
#[cfg(test)]
mod tests;

/// Bits of the keys that are made. Longer ones do not fit into what some receivers look up.
const KEY_BITS: usize = 2048;
/// Headers that are signed, in this order, every one as often as it is there (RFC 6376, 5.4.1).
const SIGNED: [&str; 20] = [
    "from",
    "to",
    "cc",
    "reply-to",
    "sender",
    "subject",
    "date",
    "message-id",
    "in-reply-to",
    "references",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "list-id",
    "list-help",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "list-subscribe",
    "list-post",
    "list-archive",
];
/// What stands before an RSA key of 2048 bits (RFC 8017, A.1.1) to make it a SubjectPublicKeyInfo (RFC 5280, 4.1).
const SPKI_START: [u8; 24] = [
    0x30, 0x82, 0x01, 0x22, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01,
    0x05, 0x00, 0x03, 0x82, 0x01, 0x0f, 0x00,
];
/// Bytes of a DER RSA key of 2048 bits whose exponent is 65537.
const PUBLIC_KEY_BYTES: usize = 270;

/// A text that is not the key of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RSA key of 2048 bits in PKCS#8 PEM")]
pub struct KeyFault;

/// A domain's private key. `Debug` shows nothing of it.
pub struct Key {
    pair: RsaKeyPair,
}

impl Key {
    /// Makes a key, as PKCS#8 PEM.
    ///
    /// Takes some 100 ms of CPU, at times several: call it where threads may block.
    pub fn generate(clock: &dyn Clock) -> Secret {
        let key = rsa::PrivateKey::new(&mut Draws(clock), KEY_BITS).expect("2048 bits are a valid length");
        let pem = key.to_pkcs8_pem(LineEnding::LF).expect("a key that was made can be written");
        Secret::new(pem.as_str())
    }

    /// Reads what [`Key::generate`] made.
    ///
    /// # Errors
    /// `KeyFault` for anything else.
    pub fn read(pem: &Secret) -> Result<Self, KeyFault> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.expose().as_bytes()).map_err(|_| KeyFault)?;
        let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| KeyFault)?;
        if pair.public_key().as_ref().len() == PUBLIC_KEY_BYTES { Ok(Self { pair }) } else { Err(KeyFault) }
    }

    /// The text of the TXT record that publishes the public key, about 410 characters.
    ///
    /// Longer than the 255 bytes of one string of a record: who writes a zone file by hand splits it.
    pub fn record(&self) -> String {
        let spki = [SPKI_START.as_slice(), self.pair.public_key().as_ref()].concat();
        format!("v=DKIM1; k=rsa; p={}", BASE64.encode(&spki))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Who signs: the key, and where its public half is found.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// In A-labels.
    pub domain: &'a str,
    pub selector: &'a str,
    pub key: &'a Key,
}

impl Signer<'_> {
    /// The `DKIM-Signature` header for a composed email, with its CRLF, to be put in front of it. Relaxed in headers
    /// and body, RSA-SHA256, ASCII.
    ///
    /// From is named once more than it is there, so that no second one can be added. CPU-bound: about a millisecond,
    /// and as much again for every 300 KiB.
    pub fn sign(&self, mime: &[u8], at: Timestamp) -> String {
        let (fields, body) = canonical::split(mime);
        let mut names: Vec<&str> = Vec::new();
        for name in SIGNED {
            let count = fields.iter().filter(|field| canonical::name_is(field, name)).count();
            names.extend(std::iter::repeat_n(name, count));
        }
        names.push("from");
        let unsigned = format!(
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d={};\r\n s={}; t={};\r\n h={};\r\n bh={};\r\n b=",
            self.domain,
            self.selector,
            at.millis().div_euclid(1000),
            folded(names.join(":").as_bytes(), b':'),
            BASE64.encode(&canonical::body_hash(body)),
        );
        let signed = canonical::signed_bytes(&fields, &names, unsigned.as_bytes());
        let mut signature = vec![0; self.key.pair.public().modulus_len()];
        // The random numbers blind the computation; the signature is the same with any.
        self.key
            .pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &signed, &mut signature)
            .expect("the buffer has the length of the modulus");
        let lines: Vec<String> = BASE64.encode(&signature).as_bytes().chunks(LINE).map(text).collect();
        format!("{unsigned}{}\r\n", lines.join("\r\n "))
    }
}

/// Characters of a folded line.
const LINE: usize = 72;

/// ASCII with line breaks behind some of its separators.
fn folded(ascii: &[u8], separator: u8) -> String {
    let mut lines = vec![Vec::new()];
    for word in ascii.split_inclusive(|byte| *byte == separator) {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() <= LINE => line.extend_from_slice(word),
            _ => lines.push(word.to_vec()),
        }
    }
    lines.iter().map(|line| text(line)).collect::<Vec<_>>().join("\r\n ")
}

fn text(ascii: &[u8]) -> String {
    String::from_utf8_lossy(ascii).into_owned()
}

/// The clock's random bits, as the key's maker wants them.
struct Draws<'a>(&'a dyn Clock);

impl TryRng for Draws<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.draw() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.draw())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.0.draw().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

impl TryCryptoRng for Draws<'_> {}
