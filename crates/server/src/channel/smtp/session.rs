//! A conversation from the greeting to the point where mail can be handed over, and its end.

use std::net::IpAddr;
use std::time::Duration;

use data_encoding::BASE64;
use rustls::pki_types::{DnsName, IpAddr as TlsAddress, ServerName};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;

use super::extensions::Extensions;
use super::fault::Fault;
use super::relay::Credentials;
use super::reply::Answer;
use super::tls::Encryption;
use super::wire::Wire;

/// How long a server may take to say goodbye.
const QUIT_TIME: Duration = Duration::from_secs(1);

/// A server that is ready for mail.
pub(super) struct Session {
    pub(super) wire: Wire,
    pub(super) extensions: Extensions,
    /// A transaction was begun and not ended: `RSET` comes before the next one.
    pub(super) is_dirty: bool,
    /// Mails accepted on it.
    pub(super) mails: usize,
}

/// How to begin a conversation.
pub(super) struct Manner<'a> {
    /// The name we give ourselves.
    pub(super) hello: &'a str,
    /// Whom we take the server for.
    pub(super) host: &'a Host<String>,
    pub(super) encryption: Encryption,
    pub(super) connector: &'a TlsConnector,
    pub(super) credentials: Option<&'a Credentials>,
}

impl Session {
    /// Greeting, hello, encryption, login.
    ///
    /// # Errors
    /// Whatever it is, nothing of any mail was said. A 5xx is no judgement about a recipient here: our address is
    /// on a list, the password has changed. It is tried again like the rest.
    pub(super) async fn open(stream: TcpStream, peer: IpAddr, manner: &Manner<'_>) -> Result<Self, Fault> {
        let mut wire = Wire::new(stream);
        let mut is_secure = false;
        if manner.encryption == Encryption::Implicit {
            wire = wire.encrypt(manner.connector, server_name(manner.host)?).await?;
            is_secure = true;
        }
        positive("the connection", wire.answer().await?)?;
        let mut extensions = hello(&mut wire, manner.hello).await?;
        if wants_starttls(manner, &extensions) && begin_tls(&mut wire, manner).await? {
            wire = wire.encrypt(manner.connector, server_name(manner.host)?).await?;
            is_secure = true;
            // What was offered in the clear may have been anybody's offer (RFC 3207, 4.2).
            extensions = hello(&mut wire, manner.hello).await?;
        }
        let may_speak =
            is_secure || manner.encryption != Encryption::Required || peer.to_canonical().is_loopback();
        if !may_speak {
            return Err(Fault::NoTls);
        }
        if let Some(credentials) = manner.credentials {
            log_in(&mut wire, &extensions, credentials).await?;
        }
        Ok(Self { wire, extensions, is_dirty: false, mails: 0 })
    }

    /// Says goodbye, as far as the server listens.
    pub(super) async fn quit(mut self) {
        let _ = timeout(QUIT_TIME, self.wire.ask("QUIT")).await;
    }
}

/// Passes a 2xx on.
pub(super) fn positive(command: &'static str, answer: Answer) -> Result<Answer, Fault> {
    if answer.is_positive() { Ok(answer) } else { Err(Fault::answered(command, &answer)) }
}

/// `EHLO`, or `HELO` for a server that does not know it.
async fn hello(wire: &mut Wire, name: &str) -> Result<Extensions, Fault> {
    let answer = wire.ask(&format!("EHLO {name}")).await?;
    if answer.is_positive() {
        return Ok(Extensions::of(&answer));
    }
    if answer.code < 500 {
        return Err(Fault::answered("EHLO", &answer));
    }
    positive("HELO", wire.ask(&format!("HELO {name}")).await?)?;
    Ok(Extensions::default())
}

fn wants_starttls(manner: &Manner<'_>, extensions: &Extensions) -> bool {
    match manner.encryption {
        Encryption::Required | Encryption::Offered => extensions.starttls,
        Encryption::Implicit | Encryption::Never => false,
    }
}

/// `STARTTLS`; whether the handshake is next.
async fn begin_tls(wire: &mut Wire, manner: &Manner<'_>) -> Result<bool, Fault> {
    let answer = wire.ask("STARTTLS").await?;
    if answer.is_positive() {
        return Ok(true);
    }
    // A server that cannot encrypt today may still take mail that nobody insists on encrypting.
    if manner.encryption == Encryption::Required || answer.code == 421 {
        return Err(Fault::answered("STARTTLS", &answer));
    }
    Ok(false)
}

/// The name the certificate has to carry.
fn server_name(host: &Host<String>) -> Result<ServerName<'static>, Fault> {
    match host {
        Host::Ipv4(address) => Ok(ServerName::IpAddress(TlsAddress::from(IpAddr::V4(*address)))),
        Host::Ipv6(address) => Ok(ServerName::IpAddress(TlsAddress::from(IpAddr::V6(*address)))),
        Host::Domain(name) => {
            let name = DnsName::try_from(name.trim_end_matches('.').to_owned());
            let name = name.map_err(|fault| Fault::Handshake(std::io::Error::other(fault)))?;
            Ok(ServerName::DnsName(name))
        }
    }
}

/// `AUTH` (RFC 4954), with the user and the password as they are: the connection is encrypted or goes nowhere.
async fn log_in(wire: &mut Wire, extensions: &Extensions, credentials: &Credentials) -> Result<(), Fault> {
    let Credentials { user, password } = credentials;
    let answer = if extensions.auth_plain {
        let response = BASE64.encode(format!("\0{user}\0{password}").as_bytes());
        wire.ask(&format!("AUTH PLAIN {response}")).await?
    } else if extensions.auth_login {
        let mut answer = wire.ask("AUTH LOGIN").await?;
        for word in [user, password] {
            if answer.code != 334 {
                break;
            }
            answer = wire.ask(&BASE64.encode(word.as_bytes())).await?;
        }
        answer
    } else {
        return Err(Fault::NoLogin);
    };
    positive("AUTH", answer).map(drop)
}
