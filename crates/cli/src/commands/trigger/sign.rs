//! How well-known senders sign.

use data_encoding::HEXLOWER;
use ring::hmac;

/// HMAC-SHA256 in lower-case hex.
fn hmac_hex(secret: &str, signed: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    HEXLOWER.encode(hmac::sign(&key, signed.as_bytes()).as_ref())
}

/// `X-Hub-Signature-256`: over the body.
pub(super) fn github(secret: &str, body: &str) -> String {
    format!("sha256={}", hmac_hex(secret, body))
}

/// `Stripe-Signature`: over the time and the body.
pub(super) fn stripe(secret: &str, seconds: i64, body: &str) -> String {
    format!("t={seconds},v1={}", hmac_hex(secret, &format!("{seconds}.{body}")))
}

/// `X-Slack-Signature`: over the version, the time and the body.
pub(super) fn slack(secret: &str, seconds: i64, body: &str) -> String {
    format!("v0={}", hmac_hex(secret, &format!("v0:{seconds}:{body}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_senders_own_documentation() {
        // docs.github.com, "Validating webhook deliveries".
        assert_eq!(
            github("It's a Secret to Everybody", "Hello, World!"),
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        );
        // api.slack.com, "Verifying requests from Slack".
        let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&\
                    channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&\
                    response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F\
                    96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        assert_eq!(
            slack("8f742231b10e8888abcd99yyyzzz85a5", 1_531_420_618, body),
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
        );
        // Computed with OpenSSL: printf '1492774577.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test_secret
        assert_eq!(
            stripe("whsec_test_secret", 1_492_774_577, "{\"id\":\"evt_1\"}"),
            "t=1492774577,v1=799c4ba7bb339f3c8601adfd112f0e477c930a268be1243d341abb8286501c2f"
        );
    }
}
