//! Who sent a request, when it came through proxies.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use restante_core::message::Headers;

/// Proxies whose `X-Forwarded-For` is believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

/// Not a list of networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no network such as 10.0.0.0/8 or an address")]
pub struct NotANetwork(String);

impl FromStr for TrustedProxies {
    type Err = NotANetwork;

    /// Networks or single addresses, separated by commas.
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let network = |part: &str| {
            part.parse::<IpNet>()
                .or_else(|_| part.parse::<IpAddr>().map(IpNet::from))
                .map_err(|_| NotANetwork(part.to_owned()))
        };
        Ok(Self(parts.map(network).collect::<Result<_, _>>()?))
    }
}

impl TrustedProxies {
    /// The address of the sender: from the right, the first that is not one of the proxies.
    pub(super) fn sender(&self, peer: IpAddr, headers: &Headers) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return peer;
        }
        let forwarded: Vec<&str> = headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("x-forwarded-for"))
            .filter_map(|(_, value)| std::str::from_utf8(value).ok())
            .flat_map(|value| value.split(','))
            .collect();
        let mut sender = peer;
        // Each proxy vouches for what it added at the right; what an outsider wrote further left counts for nothing.
        for part in forwarded.iter().rev() {
            let Ok(address) = part.trim().parse::<IpAddr>() else { break };
            sender = address.to_canonical();
            if !self.trusts(sender) {
                break;
            }
        }
        sender
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let proxies: TrustedProxies = "10.0.0.0/8, ::1".parse().unwrap();
        let table = [
            ("203.0.113.9", "1.2.3.4", "203.0.113.9"),
            ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
            ("10.0.0.1", "9.9.9.9, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
            ("::ffff:10.0.0.1", "1.2.3.4", "1.2.3.4"),
            ("::1", "", "::1"),
            ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
            ("10.0.0.1", "unknown, 1.2.3.4", "1.2.3.4"),
            ("10.0.0.1", "1.2.3.4, unknown, 10.0.0.2", "10.0.0.2"),
        ];
        for (peer, forwarded, expected) in table {
            let headers: Headers = [("X-Forwarded-For", forwarded.as_bytes())].into_iter().collect();
            assert_eq!(
                proxies.sender(peer.parse().unwrap(), &headers).to_string(),
                expected,
                "{peer} {forwarded}"
            );
        }
        assert!("10.0.0.0/99".parse::<TrustedProxies>().is_err());
    }
}
