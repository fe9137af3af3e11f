use std::collections::HashMap;

use data_encoding::BASE64;
use restante_core::email::Email;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use sha2::{Digest, Sha256};

use super::*;
use crate::clock::ManualClock;
use crate::mail::compose::compose;
use crate::mail::compose::tests::{address, email, identity};

/// Made by OpenSSL for these tests, and its public half.
const PRIVATE: &str = include_str!("tests/key.pem");
const PUBLIC: &str = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA36kWEtp+vytOK7drAlcw0n86w+34fMvd1n5DxsOYn+gXFhFxqvXRrOsUxNAJjwoOVqD8sxVW1rEDimLmwjVgnJwoXcOBhan5XbW5nmIMYddbixwgiVUUlY46etpm4RQFDavrMo9tUg7zyu3bvpNPel2XDVE7Q6iKlTg4cAC/FYz+biKpTQN0Ixta6tiXo9V59MYaFsIyJv9j9H1zLRY8uB4Td3i1DShIOvYRCOBEQ0f8GUkODTRTbGhiocxktc9JtJtHrU/etvxapH3kDHHxFkV6N7FnD9IY2qQQEbDI3NAEqYlZFh87QR8yQklkt24Nu1y9XXhYK2Trr9o9BMumrwIDAQAB";
/// 2026-11-30T23:19:41.999Z
const NOW: Timestamp = Timestamp::from_millis(1_796_080_781_999);

fn key() -> Key {
    Key::read(&Secret::new(PRIVATE)).unwrap()
}

fn sign(mime: &[u8]) -> String {
    Signer { domain: "example.com", selector: "r1", key: &key() }.sign(mime, NOW)
}

/// A verifier that shares nothing with the signer: text, and one rule of RFC 6376 after the other.
fn verifies(email: &str, record: &str) -> bool {
    let (head, body) = email.split_once("\r\n\r\n").unwrap();
    let unfolded = head.replace("\r\n ", " ").replace("\r\n\t", " ");
    let fields: Vec<(String, String)> = unfolded
        .split("\r\n")
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.trim().to_lowercase(), value.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    let (name, signature) = &fields[0];
    assert_eq!(name, "dkim-signature");
    let tags: HashMap<&str, String> = signature
        .split("; ")
        .map(|it| it.split_once('=').unwrap())
        .map(|(k, v)| (k, v.replace(' ', "")))
        .collect();

    let lines: Vec<String> = body
        .split("\r\n")
        .map(|line| {
            let line = line.trim_end_matches([' ', '\t']);
            let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
            let indent = if line.starts_with([' ', '\t']) { " " } else { "" };
            format!("{indent}{}", words.join(" "))
        })
        .collect();
    let body = lines.join("\r\n");
    let body = body.trim_end_matches("\r\n");
    let body = if body.is_empty() { String::new() } else { format!("{body}\r\n") };
    if tags["bh"] != BASE64.encode(&Sha256::digest(body)) {
        return false;
    }

    let mut rest: Vec<&(String, String)> = fields[1..].iter().collect();
    let mut signed = String::new();
    for wanted in tags["h"].split(':') {
        if let Some(at) = rest.iter().rposition(|(name, _)| name == wanted) {
            let (name, value) = rest.remove(at);
            signed += &format!("{name}:{value}\r\n");
        }
    }
    let empty = signature.split_once(" b=").unwrap().0;
    signed += &format!("dkim-signature:{empty} b=");
    let spki = BASE64.decode(record.split_once("p=").unwrap().1.as_bytes()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &spki[24..]);
    public.verify(signed.as_bytes(), &BASE64.decode(tags["b"].as_bytes()).unwrap()).is_ok()
}

fn signed(email: &Email) -> String {
    let mime = compose(email, identity()).unwrap();
    sign(&mime) + std::str::from_utf8(&mime).unwrap()
}

fn rich() -> Email {
    let mut email = email();
    email.subject = Some("Grüße aus dem Süden, und noch viel mehr davon als in eine Zeile passt".to_owned());
    email.cc = vec![address("c@example.org", Some("Zoë")), address("d@example.org", None)];
    email.reply_to = vec![address("zoë@example.org", None)];
    email.html = Some("<p>  two  spaces </p>\n\n\n".to_owned());
    email.headers = vec![
        ("List-Unsubscribe".to_owned(), "<https://example.com/u?t=1>, <mailto:leave@example.com>".to_owned()),
        ("List-Unsubscribe-Post".to_owned(), "List-Unsubscribe=One-Click".to_owned()),
        ("X-Free".to_owned(), "1".to_owned()),
    ];
    email
}

#[test]
fn the_record_is_the_key_as_openssl_writes_it() {
    assert_eq!(key().record(), format!("v=DKIM1; k=rsa; p={PUBLIC}"));
}

#[test]
fn signatures_verify() {
    let mut spaces = email();
    spaces.text = Some("  indented \t text\t\n\n \nend\n\n\n".to_owned());
    let mut empty = email();
    empty.text = Some("\n\n".to_owned());
    for email in [email(), rich(), spaces, empty] {
        assert!(verifies(&signed(&email), &key().record()), "{email:?}");
    }
}

#[test]
fn whoever_changes_an_email_breaks_its_signature() {
    let (email, record) = (signed(&rich()), key().record());
    let changes = [
        ("Jane", "Janet"),
        ("To: ", "To: <x@example.com>, "),
        ("2026 23:19", "2026 23:20"),
        ("One-Click", "Two-Click"),
        ("t=1>", "t=2>"),
        ("Hi.", "Hi!"),
        ("alternative", "mixed"),
        ("\r\nTo: ", "\r\nFrom: <x@example.com>\r\nTo: "),
        ("s=r1", "s=r2"),
    ];
    for (from, to) in changes {
        let changed = email.replacen(from, to, 1);
        assert_ne!(changed, email);
        assert!(!verifies(&changed, &record), "{from} {to}");
    }
    // What is not signed, and how white space is written, may change on the way.
    for (from, to) in [("X-Free: 1", "X-Free: 2"), ("Subject: ", "SUBJECT :\r\n  ")] {
        let changed = email.replacen(from, to, 1);
        assert_ne!(changed, email);
        assert!(verifies(&changed, &record), "{from} {to}");
    }
}

#[test]
fn a_signature_names_what_it_covers() {
    let email = signed(&rich());
    let header =
        email.split_inclusive("\r\n").take_while(|line| !line.starts_with("From")).collect::<String>();
    let expected = "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com;\r\n \
        s=r1; t=1796080781;\r\n \
        h=from:to:cc:reply-to:subject:date:message-id:mime-version:content-type:\r\n \
        list-unsubscribe:list-unsubscribe-post:from;\r\n \
        bh=";
    assert_eq!(&header[..expected.len()], expected);
    assert!(header.ends_with("\r\n") && header.is_ascii());
    assert!(header.lines().all(|line| line.len() <= 78));
    // A later attempt signs again, with its own time.
    let mime = compose(&rich(), identity()).unwrap();
    let later = Signer { domain: "example.com", selector: "r1", key: &key() }
        .sign(&mime, Timestamp::from_millis(1_796_084_381_000));
    assert!(later.contains(" t=1796084381;"));
    assert_eq!(sign(&mime), header);
}

#[test]
fn a_key_that_is_made_can_be_read_and_signs() {
    let clock = ManualClock::new(Timestamp::from_millis(0), 7);
    let made = Key::generate(&clock);
    assert!(made.expose().starts_with("-----BEGIN PRIVATE KEY-----\n"));
    let key = Key::read(&made).unwrap();
    assert_ne!(key.record(), self::key().record());
    let mime = compose(&email(), identity()).unwrap();
    let header = Signer { domain: "example.com", selector: "r2", key: &key }.sign(&mime, NOW);
    assert!(verifies(&(header + std::str::from_utf8(&mime).unwrap()), &key.record()));
}

#[test]
fn what_is_no_key_is_refused() {
    let short = PRIVATE.replacen("MII", "MIJ", 1);
    for text in ["", "key", "-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----\n", &short] {
        assert_eq!(Key::read(&Secret::new(text)).err(), Some(KeyFault), "{text}");
    }
    assert_eq!(format!("{:?}", key()), "Key { .. }");
}
