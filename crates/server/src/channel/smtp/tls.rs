//! Encryption, with and without knowing to whom.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::channel::http::{SetupFault, client_config};

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    /// TLS from the first byte.
    Implicit,
    /// STARTTLS, or nothing is sent. Only a server on this machine is spared.
    Required,
    /// STARTTLS where the server offers it.
    Offered,
    /// In the clear.
    Never,
}

/// Whom a certificate has to convince.
pub(super) struct Trust {
    /// The public roots and those of `RESTANTE_EXTRA_CA_FILE`.
    pub(super) verified: TlsConnector,
    /// Nobody: for MX hosts. Their names come from a DNS that anyone on the way can forge, and many have no valid
    /// certificate (RFC 7672, 1.3.2). It keeps out those who only listen; the alternative would be plain text.
    pub(super) anyone: TlsConnector,
}

impl Trust {
    /// # Errors
    /// `SetupFault` when the file of extra certificates cannot be used: the operator has to mend it.
    pub(super) fn new(extra_ca_file: Option<&Path>) -> Result<Self, SetupFault> {
        let verified = client_config(extra_ca_file)?;
        let anyone = anyone()?;
        Ok(Self {
            verified: TlsConnector::from(Arc::new(verified)),
            anyone: TlsConnector::from(Arc::new(anyone)),
        })
    }
}

fn anyone() -> Result<ClientConfig, SetupFault> {
    let provider = Arc::new(ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = versions.map_err(SetupFault::Versions)?.dangerous();
    Ok(builder.with_custom_certificate_verifier(Arc::new(Anyone(provider))).with_no_client_auth())
}

/// Takes any certificate whose key the server has.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
