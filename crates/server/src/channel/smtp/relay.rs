//! The relay all mail goes through, when the operator has one.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// Where mail is submitted (RFC 6409).
const SUBMISSION_PORT: u16 = 587;
/// Where it is submitted with TLS from the first byte (RFC 8314, 3.3).
const SUBMISSIONS_PORT: u16 = 465;

/// A mail server that takes our mail to everybody.
///
/// Written as `smtp://user:password@host:port` or `smtps://…`; user and password may be left out, and what is not
/// allowed in a URL is percent-encoded in them. `smtps` is TLS from the first byte, port 465 unless said otherwise.
/// `smtp` is port 587; TLS begins with STARTTLS where the relay offers it, and has to when there is a password,
/// unless the relay is on this machine. The relay's certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    pub host: Host<String>,
    pub port: u16,
    /// `smtps`: TLS from the first byte.
    pub implicit_tls: bool,
    pub credentials: Option<Credentials>,
}

/// What we log in with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

/// Neither user nor password is for a log.
impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials")
    }
}

/// Why a text is no relay. Never tells the text, for there may be a password in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayFault {
    #[error("not a URL such as smtp://user:password@mail.example.com:587")]
    NotAUrl,
    #[error("the scheme must be smtp or smtps")]
    Scheme,
    #[error("the URL names no host")]
    Host,
    #[error("port 0 cannot be dialled")]
    PortZero,
    #[error("there is a password and no user")]
    NoUser,
    #[error("user and password must be UTF-8, percent-encoded, without control characters")]
    Credentials,
    #[error("nothing may follow host and port")]
    Rest,
}

impl FromStr for Relay {
    type Err = RelayFault;

    fn from_str(text: &str) -> Result<Self, RelayFault> {
        let url = Url::parse(text.trim()).map_err(|_| RelayFault::NotAUrl)?;
        let implicit_tls = match url.scheme() {
            "smtp" => false,
            "smtps" => true,
            _ => return Err(RelayFault::Scheme),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(RelayFault::Rest);
        }
        // Hosts of schemes that browsers do not know are left as they were written.
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(RelayFault::Host)?;
        let host = Host::parse(host).map_err(|_| RelayFault::Host)?;
        let default = if implicit_tls { SUBMISSIONS_PORT } else { SUBMISSION_PORT };
        let port = url.port().unwrap_or(default);
        if port == 0 {
            return Err(RelayFault::PortZero);
        }
        Ok(Self { host, port, implicit_tls, credentials: credentials(&url)? })
    }
}

fn credentials(url: &Url) -> Result<Option<Credentials>, RelayFault> {
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        ("", Some(_)) => Err(RelayFault::NoUser),
        (user, password) => {
            let password = decoded(password.unwrap_or_default())?;
            Ok(Some(Credentials { user: decoded(user)?, password }))
        }
    }
}

fn decoded(text: &str) -> Result<String, RelayFault> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| RelayFault::Credentials)?;
    // A NUL separates user and password on the wire.
    if text.chars().any(char::is_control) { Err(RelayFault::Credentials) } else { Ok(text.into_owned()) }
}
