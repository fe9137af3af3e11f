//! TLS, its failures and HTTP/2.

use std::convert::Infallible;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio_rustls::TlsAcceptor;

use super::super::SetupFault;
use super::receiver::{Receiver, read_request, until_closed};
use super::*;

/// A certificate that nobody has signed but itself.
struct Identity {
    pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    fn of(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        Self { pem: made.cert.pem(), certificate: made.cert.der().clone(), key }
    }

    fn server(&self, protocols: &[&str]) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A receiver that answers one request over HTTP/1.1.
    fn receiver(&self) -> Receiver {
        let config = self.server(&["http/1.1"]);
        Receiver::start(move |stream| {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            if read_request(&mut stream).is_some() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                until_closed(&mut stream);
            }
        })
    }

    /// A channel that trusts this certificate, read from a file as the operator gives it.
    fn trusting_channel(&self) -> HttpChannel {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.pem).unwrap();
        HttpChannel::with_resolver(&config(Some(file.path())), Arc::new(Here)).unwrap()
    }
}

fn config(extra_ca_file: Option<&Path>) -> ChannelConfig {
    ChannelConfig { rules: Rules::dev(), extra_ca_file: extra_ca_file.map(Path::to_owned) }
}

fn url(name: &str, receiver: &Receiver) -> String {
    format!("https://{name}:{}/hook", receiver.port())
}

#[tokio::test]
async fn a_certificate_nobody_vouches_for_is_a_tls_failure_unless_it_is_added() {
    let identity = Identity::of("hook.example");
    let receiver = identity.receiver();
    let target = url("hook.example", &receiver);
    assert_eq!(kind_of_failure(&channel(), post(target.clone(), PATIENT)).await, FailureKind::Tls);
    assert_eq!(send(&identity.trusting_channel(), post(target, PATIENT)).await, delivered(200));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_a_tls_failure() {
    let identity = Identity::of("hook.example");
    let receiver = identity.receiver();
    let channel = identity.trusting_channel();
    for name in ["other.example", "127.0.0.1"] {
        let kind = kind_of_failure(&channel, post(url(name, &receiver), PATIENT)).await;
        assert_eq!(kind, FailureKind::Tls, "{name}");
    }
}

#[tokio::test]
async fn a_receiver_that_does_not_speak_tls_is_a_tls_failure() {
    let receiver = Receiver::start(|mut stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        until_closed(&mut stream);
    });
    let kind = kind_of_failure(&channel(), post(url("hook.example", &receiver), PATIENT)).await;
    assert_eq!(kind, FailureKind::Tls);
}

#[tokio::test]
async fn a_handshake_that_stalls_is_a_timeout_and_one_that_breaks_a_network_failure() {
    let stalling = Receiver::start(|mut stream| until_closed(&mut stream));
    let kind = kind_of_failure(&channel(), post(url("hook.example", &stalling), HASTY)).await;
    assert_eq!(kind, FailureKind::Timeout);
    let breaking = Receiver::start(drop);
    let kind = kind_of_failure(&channel(), post(url("hook.example", &breaking), PATIENT)).await;
    assert_eq!(kind, FailureKind::Network);
}

/// Serves HTTP/2 in a thread with a runtime of its own; says the version, target and body of each request.
fn http2_receiver(identity: &Identity) -> (Receiver, mpsc::Receiver<(Version, String, Bytes)>) {
    let acceptor = TlsAcceptor::from(identity.server(&["h2", "http/1.1"]));
    let (seen, requests) = mpsc::channel();
    let receiver = Receiver::start(move |stream| {
        let (acceptor, seen) = (acceptor.clone(), seen.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            stream.set_nonblocking(true).unwrap();
            let stream = acceptor.accept(tokio::net::TcpStream::from_std(stream).unwrap()).await.unwrap();
            let answer = service_fn(move |request: Request<Incoming>| {
                let seen = seen.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    seen.send((head.version, head.uri.to_string(), body)).unwrap();
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
                }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            server.serve_connection(TokioIo::new(stream), answer).await.unwrap();
        });
    });
    (receiver, requests)
}

#[tokio::test]
async fn http2_is_spoken_when_the_receiver_offers_it() {
    let identity = Identity::of("hook.example");
    let (receiver, requests) = http2_receiver(&identity);
    let channel = identity.trusting_channel();
    for _ in 0..5 {
        let target = url("hook.example", &receiver);
        assert_eq!(send(&channel, post(target.clone(), PATIENT)).await, delivered(200));
        assert_eq!(requests.recv().unwrap(), (Version::HTTP_2, target, Bytes::from_static(b"hello")));
    }
    assert_eq!(receiver.connections(), 1);
}

#[test]
fn a_file_of_certificates_that_cannot_be_used_stops_the_start() {
    let build = |content: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        HttpChannel::with_resolver(&config(Some(file.path())), Arc::new(Here)).map(drop)
    };
    assert!(matches!(build(""), Err(SetupFault::Empty { .. })));
    assert!(matches!(build("-----BEGIN CERTIFICATE-----\nAAAA\n"), Err(SetupFault::Read { .. })));
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(build(garbage), Err(SetupFault::Certificate { .. })));
    let missing = HttpChannel::with_resolver(&config(Some(Path::new("/does/not/exist"))), Arc::new(Here));
    assert!(matches!(missing.map(drop), Err(SetupFault::Read { .. })));
}
