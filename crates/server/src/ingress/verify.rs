//! Whether a request's signature was made with a secret of its source.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use restante_core::Timestamp;
use restante_core::message::Received;
use restante_core::verification::{Algorithm, Claim, Doubt, Encoding, Scheme, Verification};
use restante_sdk::signature::PREFIX;
use ring::hmac;

use crate::vault::{OpenFault, Purpose, Secret, Vault};

/// Checks a request's signature. The comparison takes the same time whatever a signature has in common with the right
/// one.
///
/// # Errors
/// `OpenFault`: a secret is damaged. Within, `Doubt`: the request is not its sender's.
pub(super) fn verify(
    verification: &Verification,
    received: &Received,
    vault: &Vault,
    now: Timestamp,
) -> Result<Result<(), Doubt>, OpenFault> {
    let claim = match verification.scheme.claim(received, now) {
        Ok(claim) => claim,
        Err(doubt) => return Ok(Err(doubt)),
    };
    let given: Vec<Vec<u8>> =
        claim.signatures.iter().filter_map(|text| decode(claim.encoding, text)).collect();
    for sealed in &verification.secrets {
        let secret = vault.open(Purpose::VerificationSecret, sealed)?;
        let Some(key) = key(&verification.scheme, claim.algorithm, &secret) else { continue };
        if fits(&key, &claim, &given) {
            return Ok(Ok(()));
        }
    }
    Ok(Err(Doubt::Mismatch(claim.header.to_owned())))
}

/// Whether a secret can be one of this kind; if not, what it must be.
pub(crate) fn check_secret(scheme: &Scheme, secret: &str) -> Result<(), String> {
    match scheme {
        Scheme::StandardWebhooks => {
            restante_sdk::signature::Verifier::new(secret).map(drop).map_err(|error| error.to_string())
        }
        Scheme::Stripe | Scheme::Github | Scheme::Slack | Scheme::Shopify | Scheme::Hmac(_) => {
            if secret.trim() == secret { Ok(()) } else { Err("has white space around it".into()) }
        }
    }
}

fn key(scheme: &Scheme, algorithm: Algorithm, secret: &Secret) -> Option<hmac::Key> {
    let algorithm = match algorithm {
        Algorithm::Sha256 => hmac::HMAC_SHA256,
        Algorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Algorithm::Sha512 => hmac::HMAC_SHA512,
    };
    let text = secret.expose();
    match scheme {
        Scheme::StandardWebhooks => {
            let key = BASE64.decode(text.strip_prefix(PREFIX)?.as_bytes()).ok()?;
            Some(hmac::Key::new(algorithm, &key))
        }
        Scheme::Stripe | Scheme::Github | Scheme::Slack | Scheme::Shopify | Scheme::Hmac(_) => {
            Some(hmac::Key::new(algorithm, text.as_bytes()))
        }
    }
}

fn decode(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Hex => HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok(),
        Encoding::Base64 => BASE64.decode(text.as_bytes()).ok(),
    }
}

fn fits(key: &hmac::Key, claim: &Claim<'_>, given: &[Vec<u8>]) -> bool {
    let mut context = hmac::Context::with_key(key);
    claim.signed.iter().for_each(|part| context.update(part));
    let right = context.sign();
    // Both are hashed once more, so that the library compares them, in constant time.
    given.iter().any(|given| hmac::verify(key, right.as_ref(), hmac::sign(key, given).as_ref()).is_ok())
}

#[cfg(test)]
mod tests;
