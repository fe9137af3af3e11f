//! URLs that somebody wants requests sent to, and addresses that a name server gives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;
use restante_core::limits::URL_CHARS_MAX;
use restante_core::message::target;
use url::Host;

use crate::channel::guard::{Rules, Verdict};

/// Between the parts of the input: the URL, and what a sender has behind its source's.
const SEPARATOR: u8 = b'\n';

/// No URL leads to an address that is not public, whatever a sender adds to it; and what is dialled is what was judged.
pub(super) fn only_public_addresses_get_through(bytes: &[u8]) {
    judge(bytes);
    let mut parts = bytes.splitn(3, |byte| *byte == SEPARATOR);
    let mut text = || parts.next().map(String::from_utf8_lossy);
    let (url, path, query) = (text().unwrap_or_default(), text().unwrap_or_default(), text());
    let rules = Rules { http_targets: true, ..Rules::default() };
    let Ok(normal) = rules.check_url(&url) else { return };
    assert!(matches!(normal.scheme(), "http" | "https"));
    assert!(normal.username().is_empty() && normal.password().is_none() && normal.fragment().is_none());
    if normal.as_str().chars().count() <= URL_CHARS_MAX {
        assert_eq!(rules.check_url(normal.as_str()).as_ref(), Ok(&normal), "the normal form is its own");
    }
    let host = normal.host().map(|host| host.to_owned()).expect("a target has a host");
    match &host {
        Host::Ipv4(address) => assert!(is_public_4(*address), "{address} is not public"),
        Host::Ipv6(address) => assert!(is_public_6(*address), "{address} is not public"),
        Host::Domain(name) => assert!(!is_localhost(name), "{name} is this machine"),
    }
    for path in [String::new(), format!("/{path}")] {
        let target = target(normal.as_str(), &path, query.as_deref());
        // What cannot be written as a request is a failed attempt.
        let Ok(dialled) = target.parse::<Uri>() else { continue };
        let dialled_host = Host::parse(dialled.host().unwrap_or_default());
        assert_eq!(dialled_host.as_ref(), Ok(&host), "{target} goes elsewhere than {normal}");
        assert_eq!(dialled.port_u16(), normal.port(), "{target} goes to another port than {normal}");
        assert_eq!(dialled.scheme_str(), Some(normal.scheme()));
    }
}

fn is_localhost(name: &str) -> bool {
    name.trim_end_matches('.').rsplit('.').next() == Some("localhost")
}

/// What is judged allowed is public by what the standard library and a few networks say, written down anew.
fn judge(bytes: &[u8]) {
    let rules = Rules::default();
    if let Some(octets) = bytes.first_chunk::<4>() {
        let address = Ipv4Addr::from(*octets);
        let allowed = rules.judge(IpAddr::V4(address)) == Verdict::Allowed;
        assert_eq!(allowed, is_public_4(address), "{address}");
        assert_eq!(
            rules.judge(IpAddr::V6(address.to_ipv6_mapped())) == Verdict::Allowed,
            allowed,
            "{address}"
        );
    }
    if let Some(octets) = bytes.first_chunk::<16>() {
        let address = Ipv6Addr::from(*octets);
        assert!(rules.judge(IpAddr::V6(address)) != Verdict::Allowed || is_public_6(address), "{address}");
    }
}

fn is_public_4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18 | 19, _) | (240.., ..)
    );
    !(special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || address.is_broadcast())
}

/// For what is let through: global unicast that holds no other address, or one that leads to a public IPv4 address.
fn is_public_6(address: Ipv6Addr) -> bool {
    if let Some(v4) = address.to_ipv4_mapped() {
        return is_public_4(v4);
    }
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        // Protocol assignments (Teredo among them), 6to4, two ranges for documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2002, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}
