//! What a source asks of requests before it delivers them.

use serde::Serialize;

use super::Secret;
use super::word::words;

words! {
    /// Whose way of signing.
    VerificationKind {
        /// Standard Webhooks: `webhook-signature`, or `svix-signature`.
        StandardWebhooks = "standard_webhooks",
        /// `Stripe-Signature`.
        Stripe = "stripe",
        /// `X-Hub-Signature-256`.
        Github = "github",
        /// `X-Slack-Signature`.
        Slack = "slack",
        /// `X-Shopify-Hmac-Sha256`.
        Shopify = "shopify",
        /// An HMAC over the body, in a header of one's own choice.
        Hmac = "hmac",
    }

    /// The hash of an HMAC.
    HmacAlgorithm {
        /// HMAC-SHA256.
        Sha256 = "sha256",
        /// HMAC-SHA1.
        Sha1 = "sha1",
        /// HMAC-SHA512.
        Sha512 = "sha512",
    }

    /// How a signature is written.
    HmacEncoding {
        /// In upper or lower case.
        Hex = "hex",
        /// Of the standard alphabet, with padding.
        Base64 = "base64",
    }
}

/// By what repeats of a request are known. One of the two places is given.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Dedupe {
    /// The header that they have in common, such as `X-GitHub-Delivery`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Where in a JSON body (RFC 6901), such as `/id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_pointer: Option<String>,
    /// For how long from the first one on, 1 to 8,760; never longer than that is kept.
    pub hours: u32,
}

/// How requests are to be signed. The secret is never read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewVerification {
    /// Whose way of signing.
    pub kind: VerificationKind,
    /// The sender's secret, or up to 5 of which any will do.
    pub secret: Vec<Secret>,
    /// Of `hmac`, where it is required: the header with the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Of `hmac`: SHA-256 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<HmacAlgorithm>,
    /// Of `hmac`: hexadecimal unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<HmacEncoding>,
    /// Of `hmac`: what stands in front of the signature, such as `sha256=`; nothing unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

impl NewVerification {
    /// Requests are signed in this way with one secret.
    pub fn new(kind: VerificationKind, secret: impl Into<Secret>) -> Self {
        let secret = vec![secret.into()];
        Self { kind, secret, header: None, algorithm: None, encoding: None, prefix: None }
    }
}
