//! What an attempt without a response came to.

use std::error::Error;
use std::io;

use restante_core::{FailureKind, Outcome};
use rustls::CertificateError;
use rustls::pki_types::InvalidDnsNameError;

use crate::channel::guard::DialFault;

/// Why there is no response: of the guard, of TLS, of the HTTP library, or of the socket.
pub(super) type Fault = Box<dyn Error + Send + Sync>;

/// Judges a fault by what caused it.
pub(super) fn outcome(fault: &Fault) -> Outcome {
    let causes = causes(fault.as_ref());
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
    let texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
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
