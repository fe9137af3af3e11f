//! Standard Webhooks, between our signer and our verifier.

use data_encoding::BASE64;
use restante_sdk::Timestamp;
use restante_sdk::signature::{PREFIX, SignatureHeaders, SigningKey, Verifier, sign};
use sha2::{Digest, Sha256};

use super::Input;

/// Of what a signature covers one bit is turned.
const PARTS: u8 = 4;

/// What was signed verifies; with one bit turned it does not; and nobody makes a signature without the secret.
pub(super) fn only_the_sender_signs(bytes: &[u8]) {
    nobody_signs_without_the_secret(bytes);
    let mut input = Input::new(bytes);
    let (part, place, bit) = (input.byte() % PARTS, input.number(), input.byte() % 8);
    let key: Vec<u8> = input.bytes().iter().copied().chain([0; 64]).take(24 + usize::from(part)).collect();
    let id = format!("msg_{}", input.text());
    let seconds = (input.number() >> 20).cast_signed();
    let body = input.rest().to_vec();
    let secret = format!("{PREFIX}{}", BASE64.encode(&key));
    let Ok(signer) = secret.parse::<SigningKey>() else { panic!("{secret} is a secret") };
    let signature = sign(&id, seconds, &body, &[signer]);
    let verifier = Verifier::new(&secret).expect("what signs verifies");
    let now = Timestamp::from_millis(seconds.saturating_mul(1000));
    let is_good = |id: &str, timestamp: &str, body: &[u8], signature: &str| {
        verifier.verify(SignatureHeaders { id, timestamp, signature }, body, now).is_ok()
    };
    let timestamp = seconds.to_string();
    assert!(is_good(&id, &timestamp, &body, &signature));
    // The list may be long, and the right one anywhere in it.
    assert!(is_good(&id, &timestamp, &body, &format!("v1a,x v1,AAAA {signature} v2,=")));
    let turned = |text: &str| String::from_utf8(with_a_bit_turned(text.as_bytes(), place, bit)).ok();
    let is_taken = match part {
        0 => turned(&id).is_some_and(|id| is_good(&id, &timestamp, &body, &signature)),
        1 => turned(&timestamp).is_some_and(|timestamp| is_good(&id, &timestamp, &body, &signature)),
        2 => turned(&signature).is_some_and(|signature| is_good(&id, &timestamp, &body, &signature)),
        _ => !body.is_empty() && is_good(&id, &timestamp, &with_a_bit_turned(&body, place, bit), &signature),
    };
    assert!(!is_taken, "part {part} may be changed");
}

/// The secret depends on all of the input, so that no input can hold a signature made with it.
fn nobody_signs_without_the_secret(bytes: &[u8]) {
    let verifier = Verifier::from_key(Sha256::digest(bytes)).expect("32 bytes are a key");
    let mut input = Input::new(bytes);
    let (id, timestamp, signature) = (input.text(), input.text(), input.text());
    let seconds = timestamp.parse().unwrap_or(0_i64);
    let headers = SignatureHeaders { id: &id, timestamp: &timestamp, signature: &signature };
    let now = Timestamp::from_millis(seconds.saturating_mul(1000));
    assert!(verifier.verify(headers, input.rest(), now).is_err());
    // Nor does a text for a secret do more than be refused.
    let _ = (Verifier::new(bytes), id.parse::<SigningKey>());
}

fn with_a_bit_turned(bytes: &[u8], place: u64, bit: u8) -> Vec<u8> {
    let mut turned = bytes.to_vec();
    let at = place as usize % turned.len();
    turned[at] ^= 1 << bit;
    turned
}
