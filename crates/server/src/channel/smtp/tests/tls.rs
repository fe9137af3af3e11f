//! Encryption and passwords.

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::server::Traits;
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

    fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// A server with this certificate that offers STARTTLS and more.
    async fn server(&self, extensions: &[&'static str]) -> Server {
        Server::start(self.traits(extensions)).await
    }

    fn traits(&self, extensions: &[&'static str]) -> Traits {
        let extensions = [extensions, &["STARTTLS"]].concat();
        Traits { tls: Some(self.acceptor()), ..Traits::offering(&extensions) }
    }

    /// A channel that trusts this certificate, read from a file as the operator gives it.
    fn trusting(&self, url: &str) -> Smtp {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.pem).unwrap();
        let channel = ChannelConfig { rules: Rules::dev(), extra_ca_file: Some(file.path().to_owned()) };
        with(Route::Relay(url.parse().unwrap()), Names::default(), &channel)
    }
}

fn url(scheme: &str, server: &Server) -> String {
    format!("{scheme}://me%40us.example:p%3Ass%20w%2Frd@mx.example:{}", server.port())
}

const PLAIN: &str = "AUTH PLAIN AG1lQHVzLmV4YW1wbGUAcDpzcyB3L3Jk";

#[tokio::test]
async fn a_password_is_sent_under_starttls() {
    let identity = Identity::of("mx.example");
    for (offer, line) in
        [("AUTH PLAIN LOGIN", PLAIN), ("AUTH=PLAIN", PLAIN), ("AUTH CRAM-MD5 LOGIN", "AUTH LOGIN")]
    {
        let server = identity.server(&[offer]).await;
        assert_eq!(send(&identity.trusting(&url("smtp", &server))).await, queued(), "{offer}");
        assert_eq!(server.lines()[..3], ["EHLO us.example", "STARTTLS", "tls EHLO us.example"]);
        assert_eq!(server.lines()[3], format!("tls {line}"));
        assert!(server.lines()[3..].iter().all(|line| line.starts_with("tls ")));
    }
}

#[tokio::test]
async fn with_smtps_everything_is_encrypted() {
    let identity = Identity::of("mx.example");
    let traits = Traits { implicit_tls: true, ..identity.traits(&["AUTH PLAIN"]) };
    let server = Server::start(traits).await;
    let smtp = identity.trusting(&url("smtps", &server));
    assert_eq!(send(&smtp).await, queued());
    assert_eq!(send(&smtp).await, queued());
    assert_eq!(server.connections(), 1);
    assert_eq!(server.lines()[..2], ["tls EHLO us.example", &format!("tls {PLAIN}")]);
}

#[tokio::test]
async fn a_relay_nobody_vouches_for_gets_nothing() {
    let identity = Identity::of("mx.example");
    let server = identity.server(&["AUTH PLAIN"]).await;
    let relay = |url: &str| smtp(Route::Relay(url.parse().unwrap()), Names::default());
    for url in [url("smtp", &server), format!("smtp://mx.example:{}", server.port())] {
        assert_eq!(deferred(send(&relay(&url)).await), (FailureKind::Tls, None));
    }
    let other = url("smtp", &server).replace("mx.example", "other.example");
    assert_eq!(deferred(send(&identity.trusting(&other)).await), (FailureKind::Tls, None));
    assert_eq!(server.lines(), ["EHLO us.example", "STARTTLS"].repeat(3));
}

/// Begins a conversation with a server on this machine that is taken for one elsewhere.
async fn open_elsewhere(server: &Server, url: &str) -> Result<Session, Fault> {
    let relay: Relay = url.parse().unwrap();
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let trust = Trust::new(None).unwrap();
    let manner = Manner {
        hello: "us.example",
        host: &relay.host,
        encryption: Encryption::Required,
        connector: &trust.verified,
        credentials: relay.credentials.as_ref(),
    };
    Session::open(stream, "192.0.2.1".parse().unwrap(), &manner).await
}

#[tokio::test]
async fn a_password_is_not_sent_in_the_clear_but_on_this_machine() {
    for extensions in [&["AUTH PLAIN LOGIN"][..], &[]] {
        let server = Server::start(Traits::offering(extensions)).await;
        let fault = open_elsewhere(&server, &url("smtp", &server)).await.err();
        assert!(matches!(fault, Some(Fault::NoTls)), "{fault:?}");
        assert_eq!(server.lines(), ["EHLO us.example"]);
    }
    let traits =
        Traits::offering(&["AUTH PLAIN", "STARTTLS"]).on("STARTTLS", &[Act::Say("454 4.7.0 not today")]);
    let server = Server::start(traits).await;
    let fault = open_elsewhere(&server, &url("smtp", &server)).await.err();
    assert!(matches!(fault, Some(Fault::Answered { command: "STARTTLS", .. })), "{fault:?}");
    assert_eq!(server.lines(), ["EHLO us.example", "STARTTLS"]);

    let server = Server::start(Traits::offering(&["AUTH PLAIN"])).await;
    let relay = Route::Relay(url("smtp", &server).parse().unwrap());
    assert_eq!(send(&smtp(relay, Names::default())).await, queued());
    assert_eq!(server.lines()[1], PLAIN);
}

#[tokio::test]
async fn a_wrong_password_is_no_judgement_about_the_recipient() {
    let server = Server::start(Traits::offering(&["AUTH PLAIN LOGIN"])).await;
    let wrong = format!("smtp://me:wrong@127.0.0.1:{}", server.port());
    let relay = smtp(Route::Relay(wrong.parse().unwrap()), Names::default());
    assert_eq!(deferred(send(&relay).await), (FailureKind::Smtp, Some(535)));
    let server = Server::start(Traits::offering(&["AUTH CRAM-MD5"])).await;
    let relay = smtp(Route::Relay(url("smtp", &server).parse().unwrap()), Names::default());
    assert_eq!(deferred(send(&relay).await), (FailureKind::Network, None));
    assert_eq!(server.lines(), ["EHLO us.example"]);
}

#[tokio::test]
async fn answers_slipped_in_before_tls_are_forgotten() {
    let identity = Identity::of("mx.example");
    let slipped = Act::Say("220 go on\r\n250-evil.example\r\n250-SIZE 1\r\n250 AUTH LOGIN");
    let server = Server::start(identity.traits(&["AUTH PLAIN"]).on("STARTTLS", &[slipped])).await;
    assert_eq!(send(&identity.trusting(&url("smtp", &server))).await, queued());
    assert_eq!(server.lines()[2..4], ["tls EHLO us.example", &format!("tls {PLAIN}")]);
}

/// A channel without a relay.
fn direct(server: &Server) -> Smtp {
    let mut smtp = smtp(Route::Direct, Names::default());
    smtp.exchange_port = server.port();
    smtp
}

#[tokio::test]
async fn an_mx_host_is_encrypted_to_whoever_it_is() {
    let server = Identity::of("somebody.else.example").server(&[]).await;
    assert_eq!(send(&direct(&server)).await, queued());
    assert!(server.lines()[2..].iter().all(|line| line.starts_with("tls ")));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_mx_host_that_cannot_encrypt_gets_the_mail_in_the_clear() {
    let traits = Traits::offering(&["STARTTLS"]).on("STARTTLS", &[Act::Say("454 4.7.0 not today")]);
    let server = Server::start(traits).await;
    assert_eq!(send(&direct(&server)).await, queued());
    assert_eq!(server.connections(), 1);

    let traits = Identity::of("mx.example").traits(&[]).on("STARTTLS", &[Act::Last("220 go on\r\nnot TLS")]);
    let server = Server::start(traits).await;
    assert_eq!(send(&direct(&server)).await, queued());
    assert_eq!(server.connections(), 2);
    assert_eq!(server.lines()[2..4], ["EHLO us.example", "MAIL FROM:<bounces@us.example>"]);
}
