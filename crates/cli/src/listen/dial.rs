//! Connections: to the server, and to the local service.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::target::Place;

/// For TCP and for TLS, each.
const DIAL_TIME: Duration = Duration::from_secs(5);

/// What bytes go through.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}
pub(crate) type Stream = Box<dyn Io>;

/// Why there is no connection, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot connect to {place}: {reason}")]
pub(crate) struct DialFault {
    pub(crate) place: String,
    pub(crate) reason: String,
}

/// Opens connections.
pub(crate) struct Dialer {
    verified: TlsConnector,
    /// For this machine's own services, whose certificates nobody signs; nobody else is on the way either.
    unverified: TlsConnector,
}

impl Dialer {
    /// Trusts the public authorities, and what is in this file of PEM certificates.
    ///
    /// # Errors
    /// The file cannot be read, or the TLS library refuses.
    pub(crate) fn new(extra_ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = extra_ca_file {
            for certificate in CertificateDer::pem_file_iter(path)? {
                roots.add(certificate?)?;
            }
        }
        let provider = Arc::new(ring::default_provider());
        let builder = || {
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()
        };
        let verified = builder()?.with_root_certificates(roots).with_no_client_auth();
        let anybody = Arc::new(Anybody(Arc::clone(&provider)));
        let unverified =
            builder()?.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth();
        Ok(Self { verified: Arc::new(verified).into(), unverified: Arc::new(unverified).into() })
    }

    /// To a server: its certificate is always checked.
    ///
    /// # Errors
    /// `DialFault`, within 10 s.
    pub(crate) async fn server(&self, place: &Place) -> Result<Stream, DialFault> {
        self.dial(place, &self.verified).await
    }

    /// To the local service.
    ///
    /// # Errors
    /// `DialFault`, within 10 s.
    pub(crate) async fn local(&self, place: &Place) -> Result<Stream, DialFault> {
        let connector = if place.is_this_machine() { &self.unverified } else { &self.verified };
        self.dial(place, connector).await
    }

    async fn dial(&self, place: &Place, connector: &TlsConnector) -> Result<Stream, DialFault> {
        let fault = |reason: String| DialFault { place: place.to_string(), reason };
        let tcp = connect(place).await.map_err(fault)?;
        if !place.tls {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(place.host.clone()).map_err(|error| fault(error.to_string()))?;
        match timeout(DIAL_TIME, connector.connect(name, tcp)).await {
            Ok(Ok(tls)) => Ok(Box::new(tls)),
            Ok(Err(error)) => Err(fault(format!("TLS: {}", reason(&error)))),
            Err(_) => Err(fault(format!("no TLS within {} s", DIAL_TIME.as_secs()))),
        }
    }
}

/// A connection by TCP, or why there is none.
pub(crate) async fn connect(place: &Place) -> Result<TcpStream, String> {
    match timeout(DIAL_TIME, TcpStream::connect((place.host.as_str(), place.port))).await {
        Ok(Ok(tcp)) => {
            // Without it small frames wait for others; a machine that refuses works all the same.
            let _ = tcp.set_nodelay(true);
            Ok(tcp)
        }
        Ok(Err(error)) => Err(reason(&error)),
        Err(_) => Err(format!("no connection within {} s", DIAL_TIME.as_secs())),
    }
}

/// What went wrong, without the numbers of the operating system.
pub(crate) fn reason(error: &io::Error) -> String {
    let known = [
        (ErrorKind::ConnectionRefused, "connection refused"),
        (ErrorKind::ConnectionReset, "connection reset"),
        (ErrorKind::BrokenPipe, "the connection broke"),
        (ErrorKind::UnexpectedEof, "the connection ended"),
        (ErrorKind::NetworkUnreachable, "the network is unreachable"),
        (ErrorKind::HostUnreachable, "the host is unreachable"),
    ];
    let text = known.iter().find(|(kind, _)| *kind == error.kind()).map(|(_, text)| (*text).to_owned());
    text.unwrap_or_else(|| {
        let text = error.to_string();
        text.split(" (os error").next().unwrap_or_default().to_owned()
    })
}

/// Takes every certificate, and checks only that its holder is speaking.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
