use bytes::Bytes;
use restante_core::verification::Custom;

use super::*;
use crate::clock::ManualClock;

const SLACK_BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&\
    channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&\
    response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&\
    trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

/// A published example: the secret, the headers, the body, and when.
struct Example {
    scheme: Scheme,
    secret: &'static str,
    headers: Vec<(&'static str, String)>,
    body: &'static str,
    now_seconds: i64,
}

fn published() -> Vec<Example> {
    vec![
        // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
        Example {
            scheme: Scheme::Github,
            secret: "It's a Secret to Everybody",
            headers: vec![(
                "X-Hub-Signature-256",
                "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17".into(),
            )],
            body: "Hello, World!",
            now_seconds: 0,
        },
        // https://docs.slack.dev/authentication/verifying-requests-from-slack
        Example {
            scheme: Scheme::Slack,
            secret: "8f742231b10e8888abcd99yyyzzz85a5",
            headers: vec![
                ("X-Slack-Request-Timestamp", "1531420618".into()),
                (
                    "X-Slack-Signature",
                    "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503".into(),
                ),
            ],
            body: SLACK_BODY,
            now_seconds: 1_531_420_618,
        },
        // https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
        Example {
            scheme: Scheme::StandardWebhooks,
            secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            headers: vec![
                ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".into()),
                ("webhook-timestamp", "1614265330".into()),
                ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".into()),
            ],
            body: r#"{"test": 2432232314}"#,
            now_seconds: 1_614_265_330,
        },
        // RFC 2202, 3, case 2, and RFC 4231, 4.3.
        custom(Algorithm::Sha1, Encoding::Hex, "sha1=", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        custom(
            Algorithm::Sha512,
            Encoding::Hex,
            "",
            "164B7A7BFCF819E2E395FBE73B56E0A387BD64222E831FD610270CD7EA2505549758BF75C05A994A6D034F65F8F0E6FDCAEAB1A34D4A6B4B636E070A38BCE737",
        ),
        custom(Algorithm::Sha256, Encoding::Base64, "", "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="),
    ]
}

fn custom(algorithm: Algorithm, encoding: Encoding, prefix: &str, signature: &str) -> Example {
    let scheme = Scheme::Hmac(Custom { header: "X-Sign".into(), algorithm, encoding, prefix: prefix.into() });
    let headers = vec![("x-sign", format!("{prefix}{signature}"))];
    Example { scheme, secret: "Jefe", headers, body: "what do ya want for nothing?", now_seconds: 0 }
}

fn judged(example: &Example, secrets: &[&str], body: &str) -> Result<(), Doubt> {
    let (vault, clock) = (Vault::new([7; 32]), ManualClock::new(Timestamp::from_millis(0), 1));
    let seal = |secret: &&str| vault.seal(Purpose::VerificationSecret, secret, &clock);
    let verification =
        Verification { scheme: example.scheme.clone(), secrets: secrets.iter().map(seal).collect() };
    let received = Received {
        method: "POST".into(),
        path: String::new(),
        query: None,
        headers: example.headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        remote_address: "192.0.2.1".into(),
    };
    verify(&verification, &received, &vault, Timestamp::from_millis(example.now_seconds * 1000)).unwrap()
}

#[test]
fn published_examples_are_their_senders() {
    for example in published() {
        assert_eq!(judged(&example, &[example.secret], example.body), Ok(()), "{:?}", example.scheme);
        check_secret(&example.scheme, example.secret).unwrap();
    }
}

#[test]
fn another_body_another_secret_or_a_shorter_signature_is_not() {
    let other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";
    for mut example in published() {
        let changed = format!("{} ", example.body);
        let doubts =
            [judged(&example, &[example.secret], &changed), judged(&example, &[other], example.body)];
        let (_, signature) = example.headers.last_mut().unwrap();
        signature.truncate(signature.len() - 4);
        let cut = judged(&example, &[example.secret], example.body);
        for doubt in doubts.into_iter().chain([cut]) {
            assert!(matches!(doubt, Err(Doubt::Mismatch(_))), "{:?}: {doubt:?}", example.scheme);
        }
    }
}

#[test]
fn any_of_several_secrets_will_do() {
    let other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";
    for example in published() {
        assert_eq!(judged(&example, &[other, example.secret], example.body), Ok(()));
    }
}

#[test]
fn a_damaged_secret_judges_nobody() {
    let vault = Vault::new([7; 32]);
    let sealed = restante_core::endpoint::Sealed("s1.AAAA".into());
    let verification = Verification { scheme: Scheme::Github, secrets: vec![sealed] };
    let received = Received {
        method: "POST".into(),
        path: String::new(),
        query: None,
        headers: [("x-hub-signature-256", &b"sha256=00"[..])].into_iter().collect(),
        body: Bytes::new(),
        remote_address: String::new(),
    };
    assert!(verify(&verification, &received, &vault, Timestamp::from_millis(0)).is_err());
}
