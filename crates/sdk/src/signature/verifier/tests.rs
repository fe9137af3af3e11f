use http::HeaderValue;
use proptest::prelude::*;

use super::*;
use crate::signature::{SigningKey, sign};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const TIMESTAMP: &str = "1614265330";
const SECONDS: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const NOW: Timestamp = Timestamp::from_millis(SECONDS * 1000);
const GOLDEN: SignatureHeaders<'static> =
    SignatureHeaders { id: ID, timestamp: TIMESTAMP, signature: SIGNATURE };

fn golden_verifier() -> Verifier {
    Verifier::new(SECRET).unwrap()
}

fn secret_of(bytes: &[u8]) -> String {
    format!("whsec_{}", BASE64.encode(bytes))
}

fn key(secret: &str) -> SigningKey {
    secret.parse().unwrap()
}

/// What a sender writes that takes `bytes` for the key.
fn signed_with(bytes: &[u8]) -> String {
    let tag = mac(&hmac::Key::new(hmac::HMAC_SHA256, bytes), &format!("{ID}.{TIMESTAMP}."), BODY);
    format!("v1,{}", BASE64.encode(tag.as_ref()))
}

fn outcome(verifier: &Verifier, signature: &str) -> Result<(), VerifyError> {
    verifier.verify(SignatureHeaders { signature, ..GOLDEN }, BODY, NOW).map(|_| ())
}

#[test]
fn the_published_example_is_verified() {
    let verified = golden_verifier().verify(GOLDEN, BODY, NOW).unwrap();
    assert_eq!((verified.id(), verified.signed_at(), verified.body()), (ID, NOW, BODY));
}

#[test]
fn one_fitting_signature_among_several_is_enough() {
    let other = secret_of(&[7; 32]);
    let foreign = sign(ID, SECONDS, BODY, &[key(&other)]);
    for (signatures, fits) in [
        (format!("{foreign} {SIGNATURE}"), true),
        (format!("{SIGNATURE} {foreign}"), true),
        (format!("v1a,AAAA {SIGNATURE} v2,BBBB"), true),
        (format!("  {SIGNATURE}  v1,not/base64? v1,"), true),
        (foreign.clone(), false),
        (SIGNATURE.replace("v1,", "v1a,"), false),
        (SIGNATURE.replace("v1,", "V1,"), false),
        (SIGNATURE.replace("v1,", ""), false),
        (SIGNATURE.replace('=', ""), false),
        (SIGNATURE.replace("OE=", "OF="), false),
        (SIGNATURE.replace(' ', ","), true),
        (SIGNATURE[..23].to_owned(), false),
        ("v1,".to_owned(), false),
    ] {
        assert_eq!(outcome(&golden_verifier(), &signatures).is_ok(), fits, "{signatures:?}");
    }
    assert_eq!(outcome(&golden_verifier(), &foreign), Err(VerifyError::NoMatch));
    assert_eq!(outcome(&golden_verifier(), "v1a,AAAA"), Err(VerifyError::NoUsableSignature));
}

#[test]
fn any_of_several_secrets_will_do() {
    let [first, second] = [secret_of(&[1; 24]), secret_of(&[2; 64])];
    let both = Verifier::new(&first).unwrap().and(&second).unwrap();
    for secret in [&first, &second] {
        assert_eq!(outcome(&both, &sign(ID, SECONDS, BODY, &[key(secret)])), Ok(()));
    }
    assert_eq!(outcome(&both, SIGNATURE), Err(VerifyError::NoMatch));
    assert_eq!(outcome(&both.and(SECRET).unwrap(), SIGNATURE), Ok(()));
}

#[test]
fn five_minutes_to_either_side_are_tolerated_and_not_a_second_more() {
    let at = |seconds: i64, millis: i64| {
        let now = Timestamp::from_millis((SECONDS + seconds) * 1000 + millis);
        golden_verifier().verify(GOLDEN, BODY, now).map(|_| ())
    };
    for (seconds, millis, expected) in [
        (0, 0, Ok(())),
        (300, 0, Ok(())),
        (300, 999, Ok(())),
        (301, 0, Err(VerifyError::TooOld { seconds: 301 })),
        (-300, 0, Ok(())),
        (-301, 0, Err(VerifyError::TooNew { seconds: 301 })),
        (86_400, 0, Err(VerifyError::TooOld { seconds: 86_400 })),
    ] {
        assert_eq!(at(seconds, millis), expected, "{seconds} s {millis} ms");
    }
    let strict = golden_verifier().with_tolerance(Duration::ZERO);
    assert!(strict.verify(GOLDEN, BODY, NOW).is_ok());
    assert!(strict.verify(GOLDEN, BODY, NOW.after(Duration::from_secs(1))).is_err());
    let lenient = golden_verifier().with_tolerance(Duration::MAX);
    for millis in [i64::MIN, i64::MAX] {
        assert!(lenient.verify(GOLDEN, BODY, Timestamp::from_millis(millis)).is_ok());
    }
}

#[test]
fn only_decimal_seconds_are_a_timestamp() {
    for timestamp in ["+1614265330", "-1614265330", "1614265330.0", "0x60380cf2", " 1614265330", "now"] {
        let result = golden_verifier().verify(SignatureHeaders { timestamp, ..GOLDEN }, BODY, NOW);
        assert_eq!(result, Err(VerifyError::MalformedTimestamp), "{timestamp}");
    }
    let far = i64::MAX.to_string();
    let result = golden_verifier().verify(SignatureHeaders { timestamp: &far, ..GOLDEN }, BODY, NOW);
    assert!(matches!(result, Err(VerifyError::TooNew { .. })));
    let beyond = "9223372036854775808";
    let result = golden_verifier().verify(SignatureHeaders { timestamp: beyond, ..GOLDEN }, BODY, NOW);
    assert_eq!(result, Err(VerifyError::MalformedTimestamp));
    let padded = "01614265330";
    let result = golden_verifier().verify(SignatureHeaders { timestamp: padded, ..GOLDEN }, BODY, NOW);
    assert_eq!(result, Err(VerifyError::NoMatch), "the same number, but not what was signed");
}

#[test]
fn a_missing_or_garbled_header_is_named() {
    let full: HeaderMap = [(ID_HEADER, ID), (TIMESTAMP_HEADER, TIMESTAMP), (SIGNATURE_HEADER, SIGNATURE)]
        .into_iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    let verify = |headers: &HeaderMap| golden_verifier().verify_http(headers, BODY, NOW).map(|_| ());
    assert_eq!(verify(&full), Ok(()));
    for name in [ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER] {
        let mut without = full.clone();
        without.remove(name);
        assert_eq!(verify(&without), Err(VerifyError::MissingHeader(name)));
        assert!(verify(&without).unwrap_err().to_string().contains(name));
        without.insert(name, HeaderValue::from_static(""));
        assert_eq!(verify(&without), Err(VerifyError::MissingHeader(name)));
        without.insert(name, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(verify(&without), Err(VerifyError::UnreadableHeader(name)));
    }
}

#[test]
fn what_was_done_wrongly_with_a_secret_is_said() {
    let decoded = BASE64.decode(&SECRET.as_bytes()[6..]).unwrap();
    let table: [(&[u8], SecretError); 13] = [
        (b"", SecretError::Empty),
        (b" \n", SecretError::Empty),
        (b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", SecretError::WhiteSpace),
        (b" whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SecretError::WhiteSpace),
        (b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SecretError::PrefixMissing),
        (b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", SecretError::PrefixMissing),
        (&decoded, SecretError::Decoded),
        (&[0xff; 64], SecretError::Decoded),
        (&[0xff; 65], SecretError::NotASecret),
        (b"WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SecretError::NotASecret),
        (b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", SecretError::NotBase64),
        (b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa", SecretError::NotBase64),
        (b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La", SecretError::KeyLength { bytes: 21 }),
    ];
    for (secret, fault) in table {
        assert_eq!(Verifier::new(secret).err(), Some(fault), "{}", secret.escape_ascii());
        assert_eq!(golden_verifier().and(secret).err(), Some(fault));
    }
    let table: [(&[u8], SecretError); 4] = [
        (SECRET.as_bytes(), SecretError::TextAsKey),
        (b"", SecretError::Empty),
        (&[1; 23], SecretError::KeyLength { bytes: 23 }),
        (&[1; 65], SecretError::KeyLength { bytes: 65 }),
    ];
    for (bytes, fault) in table {
        assert_eq!(Verifier::from_key(bytes).err(), Some(fault), "{}", bytes.escape_ascii());
    }
    assert_eq!(outcome(&Verifier::from_key(decoded).unwrap(), SIGNATURE), Ok(()));
}

#[test]
fn a_signature_made_with_the_secrets_text_is_refused_and_recognised() {
    let verifier = golden_verifier();
    let whole = signed_with(SECRET.as_bytes());
    let behind = signed_with(&SECRET.as_bytes()[6..]);
    assert_eq!(outcome(&verifier, &whole), Err(VerifyError::SignedWithText));
    assert_eq!(outcome(&verifier, &behind), Err(VerifyError::SignedWithBase64));
    assert_eq!(outcome(&verifier, &format!("{whole} {SIGNATURE}")), Ok(()));
    let undecoded = Verifier::from_key(&SECRET.as_bytes()[6..]).unwrap();
    assert_eq!(outcome(&undecoded, SIGNATURE), Err(VerifyError::KeyNotDecoded));
    assert_eq!(outcome(&undecoded, &behind), Ok(()), "a key may consist of such characters");
}

#[test]
fn an_error_tells_what_to_do_and_nothing_of_the_secret() {
    for (fault, part) in [
        (VerifyError::MissingHeader(ID_HEADER), "`webhook-id` is missing"),
        (VerifyError::TooOld { seconds: 312 }, "signed 312 seconds ago"),
        (VerifyError::TooNew { seconds: 312 }, "312 seconds in the future"),
        (VerifyError::NoMatch, "raw bytes"),
        (VerifyError::SignedWithText, "base64-decode"),
        (VerifyError::SignedWithBase64, "base64-decode"),
        (VerifyError::KeyNotDecoded, "Verifier::new"),
    ] {
        assert!(fault.to_string().contains(part), "{fault}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_of_any_one_bit_is_noticed(
        bytes in prop::collection::vec(any::<u8>(), 24..=64),
        id in "[a-z0-9_]{1,40}",
        body in prop::collection::vec(any::<u8>(), 1..500),
        (part, place, bit) in (0..4u8, any::<prop::sample::Index>(), 0..8u32),
    ) {
        let secret = secret_of(&bytes);
        let verifier = Verifier::new(&secret).unwrap();
        let signature = sign(&id, SECONDS, &body, &[key(&secret)]);
        let verify = |id: &str, timestamp: &str, signature: &str, body: &[u8]| {
            verifier.verify(SignatureHeaders { id, timestamp, signature }, body, NOW).is_ok()
        };
        prop_assert!(verify(&id, TIMESTAMP, &signature, &body));
        // Headers are ASCII, which the lower seven bits make.
        let flipped = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            bytes[place.index(text.len())] ^= 1 << (bit % 7);
            String::from_utf8(bytes).unwrap()
        };
        let accepted = match part {
            0 => verify(&flipped(&id), TIMESTAMP, &signature, &body),
            1 => verify(&id, &flipped(TIMESTAMP), &signature, &body),
            2 => verify(&id, TIMESTAMP, &flipped(&signature), &body),
            _ => {
                let mut body = body.clone();
                let at = place.index(body.len());
                body[at] ^= 1 << bit;
                verify(&id, TIMESTAMP, &signature, &body)
            }
        };
        prop_assert!(!accepted);
    }

    #[test]
    fn nothing_in_the_headers_or_the_secret_makes_it_panic(
        id in any::<String>(),
        timestamp in "[0-9]{0,30}|.*",
        signature in "(v1,[A-Za-z0-9+/=]{0,60} ?){0,4}|.*",
        secret in any::<Vec<u8>>(),
        now in any::<i64>(),
    ) {
        let headers = SignatureHeaders { id: &id, timestamp: &timestamp, signature: &signature };
        prop_assert!(golden_verifier().verify(headers, BODY, Timestamp::from_millis(now)).is_err());
        prop_assert!(Verifier::new(&secret).is_err());
        let _ = Verifier::from_key(&secret);
    }
}
