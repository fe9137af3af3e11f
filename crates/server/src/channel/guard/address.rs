//! Classes of addresses: which are not on the public internet, and why.
//!
//! After the IANA special-purpose address registries (RFC 6890 and its successors).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 network that is not public: base address, prefix length, what its addresses are.
type Special4 = ([u8; 4], u32, &'static str);

/// An IPv6 network that is not public, likewise.
type Special6 = ([u16; 8], u32, &'static str);

/// Ordered from narrow to wide where they overlap.
const SPECIAL_4: [Special4; 18] = [
    ([169, 254, 169, 254], 32, "a link-local address (cloud metadata)"),
    ([255, 255, 255, 255], 32, "the broadcast address"),
    ([0, 0, 0, 0], 32, "the unspecified address"),
    ([0, 0, 0, 0], 8, "an address of this network"),
    ([10, 0, 0, 0], 8, "a private address"),
    ([100, 64, 0, 0], 10, "a shared address behind carrier NAT"),
    ([127, 0, 0, 0], 8, "a loopback address"),
    ([169, 254, 0, 0], 16, "a link-local address"),
    ([172, 16, 0, 0], 12, "a private address"),
    ([192, 0, 0, 0], 24, "a protocol assignment"),
    ([192, 0, 2, 0], 24, "a documentation address"),
    ([192, 88, 99, 0], 24, "a 6to4 relay address"),
    ([192, 168, 0, 0], 16, "a private address"),
    ([198, 18, 0, 0], 15, "a benchmarking address"),
    ([198, 51, 100, 0], 24, "a documentation address"),
    ([203, 0, 113, 0], 24, "a documentation address"),
    ([224, 0, 0, 0], 4, "a multicast address"),
    ([240, 0, 0, 0], 4, "a reserved address"),
];

/// Ordered from narrow to wide where they overlap. What is not listed is refused too unless it is in `2000::/3`.
const SPECIAL_6: [Special6; 17] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "the unspecified address"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "a loopback address"),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, "an IPv4-compatible address"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "a local NAT64 address"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "a discard-only address"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "a Teredo address"),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, "a benchmarking address"),
    ([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28, "an ORCHID address"),
    ([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, "an ORCHID address"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "a protocol assignment"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "a documentation address"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "a 6to4 address"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "a documentation address"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "a unique local address"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "a link-local address"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "a site-local address"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "a multicast address"),
];

/// The address a packet ends up at: the IPv4 address in an IPv4-mapped, IPv4-compatible or NAT64 address.
///
/// 6to4 and Teredo stay what they are: there the embedded address is a relay's, and they are refused as such.
pub(super) fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let in_v4 = match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => false,
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => true,
        _ => false,
    };
    if in_v4 { IpAddr::V4(last_four(v6)) } else { address }
}

/// Why an address is not one of the public internet; `None` for global unicast.
pub(super) fn ground_to_refuse(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => ground_4(v4),
        IpAddr::V6(v6) => match v6.segments() {
            [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => ground_4(last_four(v6)),
            _ => ground_6(v6),
        },
    }
}

fn ground_4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let special = SPECIAL_4.iter().find(|(base, prefix, _)| {
        let mask = u32::MAX << (u32::BITS - prefix);
        bits & mask == Ipv4Addr::from(*base).to_bits()
    });
    special.map(|(_, _, ground)| *ground)
}

fn ground_6(address: Ipv6Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let special = SPECIAL_6.iter().find(|(base, prefix, _)| {
        let mask = u128::MAX << (u128::BITS - prefix);
        bits & mask == Ipv6Addr::from(*base).to_bits()
    });
    match special {
        Some((_, _, ground)) => Some(ground),
        None if bits >> 125 == 0b001 => None,
        None => Some("outside the global unicast addresses"),
    }
}

fn last_four(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}
