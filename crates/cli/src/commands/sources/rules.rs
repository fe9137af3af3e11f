//! What a source asks of requests, as flags.

use restante_sdk::wire::{Dedupe, HmacAlgorithm, HmacEncoding, NewVerification, Secret, VerificationKind};

use crate::commands::words;
use crate::input;

/// What is not delivered.
#[derive(Debug, clap::Args)]
pub(crate) struct Rules {
    /// Repeats have this header in common, and are not delivered
    #[arg(long, value_name = "NAME", conflicts_with = "dedupe_json_pointer", requires = "dedupe_hours")]
    dedupe_header: Option<String>,
    /// Repeats have this in common in their JSON, such as /id, and are not delivered
    #[arg(long, value_name = "POINTER", requires = "dedupe_hours")]
    dedupe_json_pointer: Option<String>,
    /// For how long the first of them is known, 1 to 8760
    #[arg(long, value_name = "HOURS")]
    dedupe_hours: Option<u32>,
    /// Whose way of signing: what is not signed so is rejected
    #[arg(long, value_name = "KIND", value_parser = words::verification_kind(), requires = "verify_secret")]
    verify: Option<VerificationKind>,
    /// The sender's secret, @FILE or -; several times: any of them will do
    #[arg(long, value_name = "SECRET", requires = "verify")]
    verify_secret: Vec<String>,
    /// For hmac: the header with the signature
    #[arg(long, value_name = "NAME", requires = "verify")]
    verify_header: Option<String>,
    /// For hmac: the hash [default: sha256]
    #[arg(long, value_name = "HASH", value_parser = words::hmac_algorithm(), requires = "verify")]
    verify_algorithm: Option<HmacAlgorithm>,
    /// For hmac: how the signature is written [default: hex]
    #[arg(long, value_name = "ENCODING", value_parser = words::hmac_encoding(), requires = "verify")]
    verify_encoding: Option<HmacEncoding>,
    /// For hmac: what stands in front of the signature, such as sha256=
    #[arg(long, value_name = "TEXT", requires = "verify")]
    verify_prefix: Option<String>,
}

impl Rules {
    pub(super) fn dedupe(&self) -> Option<Dedupe> {
        let (header, json_pointer) = (self.dedupe_header.clone(), self.dedupe_json_pointer.clone());
        // Without a place the server says what is missing.
        self.dedupe_hours.map(|hours| Dedupe { header, json_pointer, hours })
    }

    pub(super) fn verification(&self) -> anyhow::Result<Option<NewVerification>> {
        let Some(kind) = self.verify.clone() else { return Ok(None) };
        // A file ends with a line break that is none of the secret's.
        let secret = |given: &String| Ok(Secret::from(input::text(given)?.trim_end_matches(['\r', '\n'])));
        let secret = self.verify_secret.iter().map(secret).collect::<anyhow::Result<_>>()?;
        Ok(Some(NewVerification {
            kind,
            secret,
            header: self.verify_header.clone(),
            algorithm: self.verify_algorithm.clone(),
            encoding: self.verify_encoding.clone(),
            prefix: self.verify_prefix.clone(),
        }))
    }
}
