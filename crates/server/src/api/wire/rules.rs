//! The shapes of what a source asks of requests.

use restante_core::{intake, verification};
use serde::Serialize;
use utoipa::ToSchema;

/// By what repeats are known, as it was set.
#[derive(Debug, Serialize)]
pub(crate) struct Dedupe {
    #[serde(flatten)]
    by: intake::Mark,
    hours: u32,
}

/// How requests are signed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verification {
    /// `standard_webhooks`, `stripe`, `github`, `slack`, `shopify` or `hmac`.
    kind: &'static str,
    /// Of `hmac`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    header: Option<String>,
    /// Of `hmac`: `sha256`, `sha1` or `sha512`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    algorithm: Option<&'static str>,
    /// Of `hmac`: `hex` or `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    encoding: Option<&'static str>,
    /// Of `hmac`: what stands in front of the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    prefix: Option<String>,
}

impl From<intake::Dedupe> for Dedupe {
    fn from(intake::Dedupe { by, hours }: intake::Dedupe) -> Self {
        Self { by, hours }
    }
}

impl From<verification::Verification> for Verification {
    fn from(verification: verification::Verification) -> Self {
        let kind = verification.scheme.name();
        let verification::Scheme::Hmac(custom) = verification.scheme else {
            return Self { kind, header: None, algorithm: None, encoding: None, prefix: None };
        };
        Self {
            kind,
            header: Some(custom.header),
            algorithm: Some(custom.algorithm.name()),
            encoding: Some(custom.encoding.name()),
            prefix: Some(custom.prefix),
        }
    }
}
