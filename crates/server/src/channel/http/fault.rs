//! What an attempt without a response came to.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;
use restante_core::{FailureKind, Outcome};
use rustls::CertificateError;
use rustls::pki_types::InvalidDnsNameError;
use tokio::time::error::Elapsed;

use crate::channel::guard::DialFault;

/// Judges the client library's error by what caused it.
pub(super) fn outcome(error: &legacy::Error) -> Outcome {
    let causes = causes(error);
    if let Some(fault) = find::<DialFault>(&causes) {
        return Outcome::failed(kind_of(fault), fault.to_string());
    }
    if let Some(fault) = find::<rustls::Error>(&causes) {
        let unknown = matches!(fault, rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer));
        let hint = if unknown { "; RESTANTE_EXTRA_CA_FILE adds issuers" } else { "" };
        return Outcome::failed(FailureKind::Tls, format!("TLS: {fault}{hint}"));
    }
    if let Some(fault) = find::<InvalidDnsNameError>(&causes) {
        return Outcome::failed(FailureKind::Tls, format!("TLS: {fault}"));
    }
    if find::<Elapsed>(&causes).is_some() {
        return Outcome::failed(FailureKind::Timeout, "no connection in time");
    }
    // The first cause is the client library's own and says no more than where in its code it happened.
    let texts: Vec<String> = causes.iter().skip(1).map(ToString::to_string).collect();
    Outcome::failed(FailureKind::Network, format!("no response: {}", texts.join(": ")))
}

fn kind_of(fault: &DialFault) -> FailureKind {
    match fault {
        DialFault::Host | DialFault::Resolve { .. } | DialFault::NoAddress { .. } => FailureKind::Dns,
        DialFault::Http | DialFault::Refused { .. } => FailureKind::RefusedAddress,
        DialFault::Connect { .. } => FailureKind::Connect,
    }
}

/// An error and what caused it, outermost first.
///
/// `io::Error` hides what it was made from: its `source` is the source of that.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        causes.push(error);
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    causes
}

fn find<'a, E: Error + 'static>(causes: &[&'a (dyn Error + 'static)]) -> Option<&'a E> {
    causes.iter().find_map(|cause| cause.downcast_ref::<E>())
}
