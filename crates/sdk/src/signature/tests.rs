use proptest::prelude::*;
use ring::digest;

use super::*;

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
    let sha256 = |head: &[u8], rest: &[u8]| digest::digest(&digest::SHA256, &[head, rest].concat());
    let inner = sha256(&padded(0x36), message);
    sha256(&padded(0x5c), inner.as_ref()).as_ref().to_vec()
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
        assert_eq!(Verifier::new(&secret).is_ok(), fine, "signer and verifier agree on {secret:?}");
        if let Err(fault) = parsed {
            assert_eq!(fault.to_string(), "a signing secret is `whsec_` and the base64 of 24 to 64 bytes");
        }
    }
}

#[test]
fn nothing_of_a_key_is_shown() {
    let secret = secret_of(b"canary-canary-canary-canary");
    assert_eq!(format!("{:?}", key(&secret)), "SigningKey(Key { algorithm: SHA256 })");
    let verifier = Verifier::new(&secret).unwrap().and(SECRET).unwrap();
    let shown = format!("{verifier:?}");
    for part in ["canary", &secret[6..12], &SECRET[6..12], "99, 97"] {
        assert!(!shown.contains(part), "{part} in {shown}");
    }
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
