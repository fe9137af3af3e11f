//! Where an attempt goes: kept as text, because a URL library would tidy up what must arrive as it was sent.

use std::fmt;

use restante_core::message;
use url::{Host, ParseError, Url};

/// A place to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// By TLS.
    pub(crate) tls: bool,
    /// A name or an address, IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Place {
    /// Of `http`, `https`, `ws` and `wss`.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let tls = match url.scheme() {
            "http" | "ws" => false,
            "https" | "wss" => true,
            _ => return None,
        };
        let host = match url.host()? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let port = url.port().unwrap_or(if tls { 443 } else { 80 });
        (port > 0).then_some(Self { tls, host, port })
    }

    /// Whether it is this machine itself, by its name.
    pub(crate) fn is_this_machine(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        address.map_or_else(
            |_| self.host == "localhost" || self.host.ends_with(".localhost"),
            |it| it.is_loopback(),
        )
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The address of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    /// For the header `Host`.
    pub(crate) authority: String,
    /// Path and query, byte for byte.
    pub(crate) path: String,
}

/// What is said of a text that is no target.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotATarget {
    #[error("{text:?} is no http or https URL")]
    Url { text: String },
    #[error("{text:?} has a port that there is not: they go from 1 to 65535")]
    Port { text: String },
}

impl Target {
    /// # Errors
    /// `NotATarget`: another scheme, no host, a user, a fragment, or a character that no request line can have.
    pub(crate) fn parse(text: &str) -> Result<Self, NotATarget> {
        Self::read(text).ok_or_else(|| {
            let text = text.to_owned();
            match Url::parse(&text).map(|url| url.port()) {
                Ok(Some(0)) | Err(ParseError::InvalidPort) => NotATarget::Port { text },
                Ok(_) | Err(_) => NotATarget::Url { text },
            }
        })
    }

    fn read(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let place = Place::of(&url).filter(|_| matches!(url.scheme(), "http" | "https"))?;
        let (_, rest) = text.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let sendable = |char: char| char > ' ' && char != '\x7f' && char != '#';
        if !path.chars().all(sendable) || authority.contains('@') || authority.contains('\\') {
            return None;
        }
        let default = if place.tls { 443 } else { 80 };
        let host = url.host_str()?;
        let authority = match place.port == default {
            true => host.to_owned(),
            false => format!("{host}:{}", place.port),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some(Self { place, authority, path })
    }
}

/// What the command line says of where requests go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Local {
    /// In place of the destinations' own URLs.
    pub(crate) url: Option<String>,
    /// In front of what followed the source's URL: `/hooks`, or empty.
    pub(crate) prefix: String,
}

impl Local {
    /// Of `3000`, `localhost:3000`, `http://localhost:3000/hook`.
    ///
    /// # Errors
    /// `NotATarget`.
    pub(crate) fn parse(argument: Option<&str>, prefix: Option<&str>) -> Result<Self, NotATarget> {
        let url = argument.map(|text| match text.contains("://") {
            true => text.to_owned(),
            // Digits alone are a port; as a host they would be an address in a form nobody means.
            false if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("http://127.0.0.1:{text}")
            }
            false => format!("http://{text}"),
        });
        let prefix = prefix.map(|it| it.trim_end_matches('/')).filter(|it| !it.is_empty());
        let prefix = prefix.map_or_else(String::new, |it| format!("/{}", it.trim_start_matches('/')));
        let local = Self { url, prefix };
        Target::parse(&local.target(local.url.as_deref().unwrap_or("http://localhost"), ""))?;
        Ok(local)
    }

    /// The address for what followed the source's URL, `uri`, when the destination has this URL.
    pub(crate) fn target(&self, destination: &str, uri: &str) -> String {
        let base = message::target(self.url.as_deref().unwrap_or(destination), &self.prefix, None);
        let (path, query) = match uri.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (uri, None),
        };
        message::target(&base, path, query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> (String, String, String) {
        let target = Target::parse(text).unwrap();
        (target.place.to_string(), target.authority, target.path)
    }

    #[test]
    fn a_target_is_split_and_not_tidied_up() {
        let table = [
            ("http://localhost", "localhost:80", "localhost", "/"),
            ("http://LOCALHOST:80/", "localhost:80", "localhost", "/"),
            ("https://[::1]:8443?x", "[::1]:8443", "[::1]:8443", "/?x"),
            (
                "http://127.0.0.1:3000/a/../b//c%2F%zz|?q=ä&q={}",
                "127.0.0.1:3000",
                "127.0.0.1:3000",
                "/a/../b//c%2F%zz|?q=ä&q={}",
            ),
        ];
        for (text, place, authority, path) in table {
            assert_eq!(target(text), (place.to_owned(), authority.to_owned(), path.to_owned()), "{text}");
        }
        assert!(Target::parse("https://a.example").unwrap().place.tls);
    }

    #[test]
    fn what_is_no_target_is_told() {
        for text in [
            "",
            "localhost:3000",
            "ftp://localhost/",
            "ws://localhost/",
            "http://",
            "http://user@localhost/",
            "http://localhost/#x",
            "http://localhost/a b",
            "http://localhost/a\r\nb",
            "http://localhost:99999/",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
        assert_eq!(Target::parse("x").unwrap_err().to_string(), "\"x\" is no http or https URL");
        for argument in ["99999", "65536", "0", "127.0.0.1:99999"] {
            let fault = Local::parse(Some(argument), None).unwrap_err().to_string();
            assert!(fault.ends_with("has a port that there is not: they go from 1 to 65535"), "{fault}");
        }
    }

    #[test]
    fn the_argument_replaces_the_destination_and_the_prefix_comes_before_the_suffix() {
        let table = [
            (None, None, "/orders?x=1", "https://d.example/hook/orders?x=1"),
            (Some("3000"), None, "/orders?x=1", "http://127.0.0.1:3000/orders?x=1"),
            (Some("localhost:3000"), None, "", "http://localhost:3000"),
            (Some("http://localhost:3000/hook"), None, "?a", "http://localhost:3000/hook?a"),
            (
                Some("http://localhost:3000/hook?k=1"),
                Some("v2"),
                "/x?a=2",
                "http://localhost:3000/hook/v2/x?k=1&a=2",
            ),
            (Some("3000"), Some("/webhooks/"), "", "http://127.0.0.1:3000/webhooks"),
            (None, Some("/"), "/x/../y", "https://d.example/hook/x/../y"),
        ];
        for (argument, prefix, uri, expected) in table {
            let local = Local::parse(argument, prefix).unwrap();
            assert_eq!(local.target("https://d.example/hook", uri), expected);
        }
        for argument in ["99999", "0", "", "http://", "ftp://x", "a b", "user@localhost"] {
            assert!(Local::parse(Some(argument), None).is_err(), "{argument}");
        }
        assert!(Local::parse(Some("3000"), Some("a b")).is_err());
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for (host, expected) in [
            ("localhost", true),
            ("a.localhost", true),
            ("127.3.2.1", true),
            ("[::1]", true),
            ("a.example", false),
            ("10.0.0.1", false),
        ] {
            let target = Target::parse(&format!("https://{host}/")).unwrap();
            assert_eq!(target.place.is_this_machine(), expected, "{host}");
        }
    }
}
