use bytes::Bytes;

use super::*;

const NOW: i64 = 1_614_265_330;

/// Names and values of header lines.
type Lines<'a> = &'a [(&'a str, &'a str)];

fn received(headers: &[(&str, &str)]) -> Received {
    Received {
        method: "POST".into(),
        path: String::new(),
        query: None,
        headers: headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect(),
        body: Bytes::from_static(b"{}"),
        remote_address: "192.0.2.1".into(),
    }
}

fn claimed(
    scheme: &Scheme,
    headers: &[(&str, &str)],
    now_seconds: i64,
) -> Result<(String, Vec<String>), Doubt> {
    let received = received(headers);
    let claim = scheme.claim(&received, Timestamp::from_millis(now_seconds * 1000 + 999))?;
    let signed = String::from_utf8(claim.signed.concat()).unwrap();
    Ok((signed, claim.signatures.into_iter().map(str::to_owned).collect()))
}

fn custom(prefix: &str) -> Scheme {
    Scheme::Hmac(Custom {
        header: "X-Sign".into(),
        algorithm: Algorithm::Sha512,
        encoding: Encoding::Base64,
        prefix: prefix.into(),
    })
}

#[test]
fn each_sender_signs_in_its_own_way() {
    let standard = [
        ("webhook-id", "msg_1"),
        ("Webhook-Timestamp", "1614265330"),
        ("webhook-signature", "v1a,x v1,a= v1,b="),
    ];
    let svix = [("svix-id", "msg_1"), ("svix-timestamp", "1614265330"), ("svix-signature", "v1,c=")];
    let slack = [("x-slack-request-timestamp", "1614265330"), ("x-slack-signature", "v0=ab")];
    let table: [(Scheme, Lines<'_>, &str, &[&str]); 8] = [
        (Scheme::StandardWebhooks, &standard, "msg_1.1614265330.{}", &["a=", "b="]),
        (Scheme::StandardWebhooks, &svix, "msg_1.1614265330.{}", &["c="]),
        (
            Scheme::Stripe,
            &[("Stripe-Signature", "t=1614265330,v1=ab, v1=cd,v0=ef")],
            "1614265330.{}",
            &["ab", "cd"],
        ),
        (Scheme::Github, &[("x-hub-signature-256", "sha256=ab")], "{}", &["ab"]),
        (Scheme::Slack, &slack, "v0:1614265330:{}", &["ab"]),
        (Scheme::Shopify, &[("X-Shopify-Hmac-SHA256", "ab=")], "{}", &["ab="]),
        (custom(""), &[("x-sign", "ab=")], "{}", &["ab="]),
        (custom("sig "), &[("x-sign", "sig ab=")], "{}", &["ab="]),
    ];
    for (scheme, headers, signed, signatures) in table {
        let claim = claimed(&scheme, headers, NOW).unwrap();
        assert_eq!(
            (claim.0.as_str(), claim.1),
            (signed, signatures.iter().map(|it| (*it).to_owned()).collect())
        );
    }
}

#[test]
fn what_is_wrong_is_told_without_what_was_sent() {
    let table: [(Scheme, Lines<'_>, &str); 10] = [
        (Scheme::Github, &[("x-hub-signature", "sha1=ab")], "the header X-Hub-Signature-256 is missing"),
        (Scheme::Github, &[("x-hub-signature-256", "")], "the header X-Hub-Signature-256 is missing"),
        (
            Scheme::Github,
            &[("x-hub-signature-256", "secret")],
            "the header X-Hub-Signature-256 has no signature of the form sha256=…",
        ),
        (Scheme::Shopify, &[], "the header X-Shopify-Hmac-Sha256 is missing"),
        (
            Scheme::Stripe,
            &[("stripe-signature", "t=1,v0=x")],
            "the header Stripe-Signature has no signature of the form t=…,v1=…",
        ),
        (
            Scheme::Stripe,
            &[("stripe-signature", "t=+1,v1=x")],
            "the timestamp in Stripe-Signature is not a number of seconds since 1970",
        ),
        (Scheme::Slack, &[("x-slack-signature", "v0=x")], "the header X-Slack-Request-Timestamp is missing"),
        (
            Scheme::Slack,
            &[("x-slack-signature", "v1=x"), ("x-slack-request-timestamp", "1614265330")],
            "the header X-Slack-Signature has no signature of the form v0=…",
        ),
        (Scheme::StandardWebhooks, &[("svix-signature", "v1,x")], "the header svix-id is missing"),
        (Scheme::StandardWebhooks, &[], "the header webhook-id is missing"),
    ];
    for (scheme, headers, expected) in table {
        assert_eq!(claimed(&scheme, headers, NOW).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_signed_time_may_be_three_hundred_seconds_away_and_no_more() {
    let headers = [("stripe-signature", "t=1614265330,v1=ab")];
    for (away, doubt) in [
        (-301, Some("it was signed 301 s ahead of our time, more than 300 s")),
        (-300, None),
        (0, None),
        (300, None),
        (301, Some("it was signed 301 s ago, more than 300 s")),
    ] {
        let claim = claimed(&Scheme::Stripe, &headers, NOW + away);
        assert_eq!(claim.err().map(|doubt| doubt.to_string()).as_deref(), doubt, "{away}");
    }
    let far = [("stripe-signature", "t=99999999999999999999,v1=ab")];
    assert_eq!(claimed(&Scheme::Stripe, &far, NOW), Err(Doubt::Time("Stripe-Signature".into())));
}

#[test]
fn what_is_stored_of_a_scheme_is_its_name_and_its_fields() {
    for scheme in [
        Scheme::StandardWebhooks,
        Scheme::Stripe,
        Scheme::Github,
        Scheme::Slack,
        Scheme::Shopify,
        custom("p"),
    ] {
        let verification = Verification { scheme, secrets: vec![Sealed("s1.x".into())] };
        let stored = serde_json::to_value(&verification).unwrap();
        assert_eq!(stored["kind"], verification.scheme.name());
        assert_eq!(serde_json::from_value::<Verification>(stored).unwrap(), verification);
    }
}
