//! The one judge of addresses: which URLs may be set as targets, and which addresses may be dialled.
//!
//! A URL is checked when it is set ([`Rules::check_url`]) and its addresses again at every dial (`guard/dial.rs`),
//! because a name can point elsewhere by then. Both ask [`Rules::judge`]; no other code decides about an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use restante_core::limits::URL_CHARS_MAX;
use url::{Host, Url};

mod address;
mod dial;
mod resolve;
#[cfg(test)]
mod tests;

pub(crate) use dial::{DialFault, Dialer, Patience};
pub use resolve::{Resolve, ResolveFault, SystemResolver};

/// The operator's rules about targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `RESTANTE_ALLOW_PRIVATE_TARGETS`: addresses that are dialled although they are not public.
    pub private_targets: PrivateTargets,
    /// `RESTANTE_ALLOW_HTTP_TARGETS`: whether plain `http` is allowed beside `https`.
    pub http_targets: bool,
}

/// Which addresses outside the public internet may be dialled.
///
/// Written as `all`, or as a list of networks and single addresses separated by commas or white space:
/// `10.0.0.0/8, 192.168.1.20, fd00::/8`. An empty text means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrivateTargets {
    #[default]
    None,
    All,
    Cidrs(Vec<IpNet>),
}

/// A piece of `RESTANTE_ALLOW_PRIVATE_TARGETS` that is neither a network nor an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a network such as 10.0.0.0/8, nor an address, nor `all` standing alone")]
pub struct NotATargetList(pub String);

impl FromStr for PrivateTargets {
    type Err = NotATargetList;

    fn from_str(text: &str) -> Result<Self, NotATargetList> {
        if text.trim().eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        let items = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|item| !item.is_empty());
        let nets = items.map(network).collect::<Result<Vec<_>, _>>()?;
        Ok(if nets.is_empty() { Self::None } else { Self::Cidrs(nets) })
    }
}

fn network(item: &str) -> Result<IpNet, NotATargetList> {
    let net = item.parse::<IpNet>().or_else(|_| item.parse::<IpAddr>().map(IpNet::from));
    net.map_err(|_| NotATargetList(item.to_owned()))
}

/// Whether an address may be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// Not dialled; the ground completes "is …", as in "is a loopback address".
    Refused(&'static str),
}

/// Why a URL cannot be a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    #[error("the URL is longer than {URL_CHARS_MAX} characters")]
    TooLong,
    #[error("the URL contains white space or control characters")]
    Space,
    #[error("not an absolute URL such as https://example.com/hook: {0}")]
    NotAUrl(url::ParseError),
    #[error("the URL must be https; RESTANTE_ALLOW_HTTP_TARGETS allows http")]
    Http,
    #[error("the URL must be https, not {0}")]
    Scheme(String),
    #[error("the URL must not carry a user name or password; use a header instead")]
    Userinfo,
    #[error("the URL names no host")]
    NoHost,
    #[error("port 0 cannot be dialled")]
    PortZero,
    #[error("the URL must not have a fragment (#...): it would never be sent")]
    Fragment,
    #[error("{host} is {ground}; RESTANTE_ALLOW_PRIVATE_TARGETS allows such targets")]
    Address { host: String, ground: &'static str },
}

impl Rules {
    /// What `restante serve --dev` sets: everything goes.
    pub const fn dev() -> Self {
        Self { private_targets: PrivateTargets::All, http_targets: true }
    }

    /// Checks a URL that is to become a target, and gives its normal form.
    ///
    /// Keep the normal form and send to that: it is the one that was judged. Names are not resolved here.
    ///
    /// # Errors
    /// `UrlFault`, to be shown to whoever set the URL; it names the setting that would change the answer.
    pub fn check_url(&self, text: &str) -> Result<Url, UrlFault> {
        if text.chars().nth(URL_CHARS_MAX).is_some() {
            return Err(UrlFault::TooLong);
        }
        // The parser would silently remove these, and what is stored would not be what was typed.
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(UrlFault::Space);
        }
        let url = Url::parse(text).map_err(UrlFault::NotAUrl)?;
        match url.scheme() {
            "https" => {}
            "http" if self.http_targets => {}
            "http" => return Err(UrlFault::Http),
            other => return Err(UrlFault::Scheme(other.to_owned())),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlFault::Userinfo);
        }
        if url.port() == Some(0) {
            return Err(UrlFault::PortZero);
        }
        if url.fragment().is_some() {
            return Err(UrlFault::Fragment);
        }
        match self.judge_host(&url.host().ok_or(UrlFault::NoHost)?) {
            Verdict::Allowed => Ok(url),
            Verdict::Refused(ground) => {
                Err(UrlFault::Address { host: url.host_str().unwrap_or_default().to_owned(), ground })
            }
        }
    }

    /// Judges one address, whatever it was written as.
    ///
    /// An allow-list is matched against the IPv4 address that is embedded in an IPv4-mapped, IPv4-compatible or
    /// NAT64 address, so a network of it covers every spelling and `::/0` opens no IPv4 network.
    pub fn judge(&self, address: IpAddr) -> Verdict {
        let listed = match &self.private_targets {
            PrivateTargets::None => false,
            PrivateTargets::All => true,
            PrivateTargets::Cidrs(nets) => {
                let target = address::embedded(address);
                nets.iter().any(|net| net.contains(&target))
            }
        };
        match address::ground_to_refuse(address) {
            Some(ground) if !listed => Verdict::Refused(ground),
            _ => Verdict::Allowed,
        }
    }

    /// Judges a host as far as it can be without resolving it.
    fn judge_host(&self, host: &Host<&str>) -> Verdict {
        match host {
            Host::Ipv4(address) => self.judge(IpAddr::V4(*address)),
            Host::Ipv6(address) => self.judge(IpAddr::V6(*address)),
            Host::Domain(name) if is_localhost(name) => match self.judge(IpAddr::V4(Ipv4Addr::LOCALHOST)) {
                Verdict::Allowed => Verdict::Allowed,
                Verdict::Refused(_) => self.judge(IpAddr::V6(Ipv6Addr::LOCALHOST)),
            },
            Host::Domain(_) => Verdict::Allowed,
        }
    }
}

/// Whether a name is reserved for this machine (RFC 6761, 6.3). `name` is in lower case.
///
/// With more than one dot at its end it is none, but what a resolver makes of that is not known.
fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}
