//! What callers may set of a source's rules, and what is valid.

use restante_core::endpoint::{Sealed, is_token};
use restante_core::intake::{Dedupe, Mark, pointer_tokens};
use restante_core::limits;
use restante_core::verification::{Algorithm, Custom, Encoding, Scheme, Verification};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::endpoints::Judge;
use crate::api::fault::Faults;
use crate::ingress::verify::check_secret;
use crate::vault::Purpose;

/// Longest text in front of a signature, in bytes.
const PREFIX_BYTES_MAX: usize = 64;

/// By what repeats are known. Either `header` or `json_pointer`.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Dedupe)]
pub(crate) struct DedupeInput {
    /// The header that repeats have in common, such as `X-GitHub-Delivery`.
    header: Option<String>,
    /// Where in a JSON body (RFC 6901), such as `/id`.
    json_pointer: Option<String>,
    /// For how long, 1 to 8,760; never longer than the first request is kept.
    hours: u32,
}

/// How requests are signed.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewVerification)]
pub(crate) struct VerificationInput {
    kind: VerificationKind,
    /// The sender's secret, or up to 5 of which any will do. Never read back.
    secret: SecretInput,
    /// Of `hmac`: the header with the signature.
    header: Option<String>,
    /// Of `hmac`: `sha256` unless set.
    #[schema(value_type = Option<AlgorithmInput>)]
    algorithm: Option<AlgorithmInput>,
    /// Of `hmac`: `hex` unless set.
    #[schema(value_type = Option<EncodingInput>)]
    encoding: Option<EncodingInput>,
    /// Of `hmac`: what stands in front of the signature, such as `sha256=`; nothing unless set.
    prefix: Option<String>,
}

/// Whose way of signing.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum VerificationKind {
    StandardWebhooks,
    Stripe,
    Github,
    Slack,
    Shopify,
    Hmac,
}

/// One secret or several.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(untagged, expecting = "must be a text or a list of texts")]
#[schema(as = VerificationSecret)]
enum SecretInput {
    One(String),
    Several(Vec<String>),
}

impl std::fmt::Debug for SecretInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretInput(..)")
    }
}

/// The hash of an HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = HmacAlgorithm)]
enum AlgorithmInput {
    Sha256,
    Sha1,
    Sha512,
}

/// How a signature is written.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = HmacEncoding)]
enum EncodingInput {
    Hex,
    Base64,
}

impl DedupeInput {
    /// The rule meant, if it is one.
    pub(super) fn read(self, faults: &mut Faults) -> Option<Dedupe> {
        let fine = limits::DEDUPE_HOURS.contains(&self.hours);
        faults.unless(fine, "dedupe.hours", "must be 1 to 8760");
        let by = match (self.header, self.json_pointer) {
            (Some(header), None) => {
                faults.unless(is_header(&header), "dedupe.header", "must be a header's name");
                Mark::Header(header)
            }
            (None, Some(pointer)) => {
                let fine =
                    pointer.len() <= limits::JSON_POINTER_BYTES_MAX && pointer_tokens(&pointer).is_some();
                faults.unless(
                    fine,
                    "dedupe.json_pointer",
                    "must be a JSON pointer, such as /id, of at most 256 bytes",
                );
                Mark::JsonPointer(pointer)
            }
            (Some(_), Some(_)) | (None, None) => {
                faults.add("dedupe", "must have either header or json_pointer");
                return None;
            }
        };
        Some(Dedupe { by, hours: self.hours })
    }
}

impl VerificationInput {
    /// The rule meant, if it is one. `known`: what was set before, whose secrets are not sealed anew.
    pub(super) fn read(
        self,
        known: Option<&Verification>,
        judge: Judge<'_>,
        faults: &mut Faults,
    ) -> Option<Verification> {
        let secrets = match &self.secret {
            SecretInput::One(secret) => std::slice::from_ref(secret),
            SecretInput::Several(secrets) => secrets,
        }
        .to_vec();
        let scheme = self.scheme(faults)?;
        let fine = limits::VERIFICATION_SECRETS.contains(&secrets.len());
        faults.unless(fine, "verification.secret", "must be 1 to 5");
        let known = known.map(|known| &known.secrets[..]).unwrap_or_default();
        let secrets = secrets.into_iter().map(|secret| {
            let fine = (1..=limits::VERIFICATION_SECRET_BYTES_MAX).contains(&secret.len());
            faults.unless(fine, "verification.secret", "must have 1 to 512 bytes");
            if fine && let Err(what) = check_secret(&scheme, &secret) {
                faults.add("verification.secret", what);
            }
            seal(&secret, known, judge)
        });
        let secrets = secrets.collect();
        Some(Verification { scheme, secrets })
    }

    fn scheme(self, faults: &mut Faults) -> Option<Scheme> {
        let fields = [
            ("header", self.header.is_some()),
            ("algorithm", self.algorithm.is_some()),
            ("encoding", self.encoding.is_some()),
            ("prefix", self.prefix.is_some()),
        ];
        let is_custom = self.kind == VerificationKind::Hmac;
        if let Some((field, _)) = fields.into_iter().find(|(_, set)| *set && !is_custom) {
            faults.add(format!("verification.{field}"), "belongs to the kind hmac only");
            return None;
        }
        Some(match self.kind {
            VerificationKind::StandardWebhooks => Scheme::StandardWebhooks,
            VerificationKind::Stripe => Scheme::Stripe,
            VerificationKind::Github => Scheme::Github,
            VerificationKind::Slack => Scheme::Slack,
            VerificationKind::Shopify => Scheme::Shopify,
            VerificationKind::Hmac => {
                let header = self.header.unwrap_or_default();
                faults.unless(is_header(&header), "verification.header", "must be a header's name");
                let prefix = self.prefix.unwrap_or_default();
                let fine = prefix.len() <= PREFIX_BYTES_MAX
                    && prefix.bytes().all(|byte| (b' '..=b'~').contains(&byte));
                faults.unless(fine, "verification.prefix", "must be at most 64 visible ASCII characters");
                Scheme::Hmac(Custom {
                    header,
                    prefix,
                    algorithm: match self.algorithm {
                        Some(AlgorithmInput::Sha256) | None => Algorithm::Sha256,
                        Some(AlgorithmInput::Sha1) => Algorithm::Sha1,
                        Some(AlgorithmInput::Sha512) => Algorithm::Sha512,
                    },
                    encoding: match self.encoding {
                        Some(EncodingInput::Hex) | None => Encoding::Hex,
                        Some(EncodingInput::Base64) => Encoding::Base64,
                    },
                })
            }
        })
    }
}

/// Sealed anew, the same secret would look like another, and setting it like a change.
fn seal(secret: &str, known: &[Sealed], judge: Judge<'_>) -> Sealed {
    let same = known.iter().find(|known| {
        let open = judge.vault.open(Purpose::VerificationSecret, known);
        open.is_ok_and(|open| open.expose() == secret)
    });
    let fresh = || judge.vault.seal(Purpose::VerificationSecret, secret, judge.clock);
    same.cloned().unwrap_or_else(fresh)
}

fn is_header(name: &str) -> bool {
    is_token(name) && name.len() <= limits::HEADER_NAME_BYTES_MAX
}
