//! Where senders put their signatures, and what they sign. Nothing is computed here: who has the keys does that.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::endpoint::Sealed;
use crate::limits::SIGNATURE_TOLERANCE;
use crate::message::Received;

/// How the requests of a source are signed, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    #[serde(flatten)]
    pub scheme: Scheme,
    /// Any of them will do, 1 to 5: while a sender changes its secret there are two.
    pub secrets: Vec<Sealed>,
}

/// A sender's way of signing. The names are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scheme {
    /// `webhook-signature`, or `svix-signature`: `v1,` and base64, over `id.timestamp.body`.
    StandardWebhooks,
    /// `Stripe-Signature`: `t=…,v1=…`, over `timestamp.body`.
    Stripe,
    /// `X-Hub-Signature-256`: `sha256=…`, over the body.
    Github,
    /// `X-Slack-Signature`: `v0=…`, over `v0:timestamp:body`.
    Slack,
    /// `X-Shopify-Hmac-Sha256`: base64, over the body.
    Shopify,
    /// Anybody else's, over the body.
    Hmac(Custom),
}

/// Where a signature over the body stands, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Custom {
    pub header: String,
    pub algorithm: Algorithm,
    pub encoding: Encoding,
    /// What stands in front of it, such as `sha256=`.
    pub prefix: String,
}

/// The hash of an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    Sha256,
    Sha1,
    Sha512,
}

impl Algorithm {
    /// The wire's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha1 => "sha1",
            Self::Sha512 => "sha512",
        }
    }
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// In upper or lower case.
    Hex,
    /// Of the standard alphabet, with padding.
    Base64,
}

impl Encoding {
    /// The wire's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Base64 => "base64",
        }
    }
}

/// What a request claims: that one of the signatures is the HMAC of what is signed.
#[derive(Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    pub algorithm: Algorithm,
    pub encoding: Encoding,
    /// At least one, as written.
    pub signatures: Vec<&'a str>,
    /// These parts, one behind the other.
    pub signed: Vec<&'a [u8]>,
    /// The header that the signatures stand in.
    pub header: &'a str,
}

/// Why a request is not taken for its sender's. Names headers and times, never what they hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error("the header {0} is missing")]
    Missing(String),
    #[error("the header {header} has no signature of the form {form}")]
    Form { header: String, form: String },
    #[error("the timestamp in {0} is not a number of seconds since 1970")]
    Time(String),
    #[error("it was signed {seconds} s ago, more than {} s", SIGNATURE_TOLERANCE.as_secs())]
    Old { seconds: u64 },
    #[error("it was signed {seconds} s ahead of our time, more than {} s", SIGNATURE_TOLERANCE.as_secs())]
    Ahead { seconds: u64 },
    #[error("no signature in {0} matches: another secret, or another body")]
    Mismatch(String),
}

impl Scheme {
    /// The wire's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::StandardWebhooks => "standard_webhooks",
            Self::Stripe => "stripe",
            Self::Github => "github",
            Self::Slack => "slack",
            Self::Shopify => "shopify",
            Self::Hmac(_) => "hmac",
        }
    }

    /// What a request claims to be signed with. A time that is signed may be up to [`SIGNATURE_TOLERANCE`] away, to
    /// either side and inclusive.
    ///
    /// # Errors
    /// `Doubt`: there is nothing to compare, or it is of another time.
    pub fn claim<'a>(&'a self, received: &'a Received, now: Timestamp) -> Result<Claim<'a>, Doubt> {
        match self {
            Self::StandardWebhooks => standard(received, now),
            Self::Stripe => stripe(received, now),
            Self::Github => {
                over_body(received, "X-Hub-Signature-256", Algorithm::Sha256, Encoding::Hex, "sha256=")
            }
            Self::Slack => slack(received, now),
            Self::Shopify => {
                over_body(received, "X-Shopify-Hmac-Sha256", Algorithm::Sha256, Encoding::Base64, "")
            }
            Self::Hmac(Custom { header, algorithm, encoding, prefix }) => {
                over_body(received, header, *algorithm, *encoding, prefix)
            }
        }
    }
}

fn over_body<'a>(
    received: &'a Received,
    header: &'a str,
    algorithm: Algorithm,
    encoding: Encoding,
    prefix: &str,
) -> Result<Claim<'a>, Doubt> {
    let signature = text(received, header)?.strip_prefix(prefix).filter(|it| !it.is_empty());
    let signature = signature.ok_or_else(|| form(header, prefix))?;
    let signed = vec![&received.body[..]];
    Ok(Claim { algorithm, encoding, signatures: vec![signature], signed, header })
}

/// Standard Webhooks; its first and largest sender has names of its own for the same headers.
fn standard(received: &Received, now: Timestamp) -> Result<Claim<'_>, Doubt> {
    let ours = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let svix = ["svix-id", "svix-timestamp", "svix-signature"];
    let is_svix = received.headers.get(ours[2]).is_none() && received.headers.get(svix[2]).is_some();
    let [id_header, time_header, header] = if is_svix { svix } else { ours };
    let (id, time) = (text(received, id_header)?, text(received, time_header)?);
    let signatures: Vec<_> =
        text(received, header)?.split(' ').filter_map(|one| one.strip_prefix("v1,")).collect();
    if signatures.is_empty() {
        return Err(form(header, "v1,"));
    }
    check_time(time, time_header, now)?;
    let signed = vec![id.as_bytes(), b".", time.as_bytes(), b".", &received.body[..]];
    Ok(Claim { algorithm: Algorithm::Sha256, encoding: Encoding::Base64, signatures, signed, header })
}

fn stripe(received: &Received, now: Timestamp) -> Result<Claim<'_>, Doubt> {
    let header = "Stripe-Signature";
    let list = text(received, header)?;
    let named = |name| {
        let items = list.split(',').filter_map(|item| item.trim().split_once('='));
        items.filter(move |(known, _)| *known == name).map(|(_, value)| value)
    };
    let signatures: Vec<_> = named("v1").collect();
    let (Some(time), false) = (named("t").next(), signatures.is_empty()) else {
        return Err(form(header, "t=…,v1="));
    };
    check_time(time, header, now)?;
    let signed = vec![time.as_bytes(), b".", &received.body[..]];
    Ok(Claim { algorithm: Algorithm::Sha256, encoding: Encoding::Hex, signatures, signed, header })
}

fn slack(received: &Received, now: Timestamp) -> Result<Claim<'_>, Doubt> {
    let (header, time_header) = ("X-Slack-Signature", "X-Slack-Request-Timestamp");
    let time = text(received, time_header)?;
    let signature = text(received, header)?.strip_prefix("v0=").ok_or_else(|| form(header, "v0="))?;
    check_time(time, time_header, now)?;
    let signed = vec![b"v0:", time.as_bytes(), b":", &received.body[..]];
    let (algorithm, encoding) = (Algorithm::Sha256, Encoding::Hex);
    Ok(Claim { algorithm, encoding, signatures: vec![signature], signed, header })
}

/// The first header line of this name. What is not text or empty is as good as missing.
fn text<'a>(received: &'a Received, header: &str) -> Result<&'a str, Doubt> {
    let value = received.headers.get(header).and_then(|value| std::str::from_utf8(value).ok());
    value.filter(|value| !value.is_empty()).ok_or_else(|| Doubt::Missing(header.to_owned()))
}

fn form(header: &str, prefix: &str) -> Doubt {
    Doubt::Form { header: header.to_owned(), form: format!("{prefix}…") }
}

fn check_time(time: &str, header: &str, now: Timestamp) -> Result<(), Doubt> {
    // `parse` alone would take a sign.
    let digits = time.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: Option<i64> = time.parse().ok().filter(|_| digits);
    let Some(signed_at) = seconds else { return Err(Doubt::Time(header.to_owned())) };
    let now = now.millis().div_euclid(1000);
    let seconds = now.abs_diff(signed_at);
    match seconds > SIGNATURE_TOLERANCE.as_secs() {
        true if signed_at < now => Err(Doubt::Old { seconds }),
        true => Err(Doubt::Ahead { seconds }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
