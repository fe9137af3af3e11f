//! Verdicts, in tables.

use super::*;

mod dial;

/// Addresses that are not dialled, and what each is.
pub(super) const FORBIDDEN: [(&str, &str); 49] = [
    ("0.0.0.0", "the unspecified address"),
    ("0.1.2.3", "an address of this network"),
    ("10.0.0.0", "a private address"),
    ("10.255.255.255", "a private address"),
    ("100.64.0.1", "a shared address behind carrier NAT"),
    ("100.127.255.255", "a shared address behind carrier NAT"),
    ("127.0.0.1", "a loopback address"),
    ("127.255.255.254", "a loopback address"),
    ("169.254.0.1", "a link-local address"),
    ("169.254.169.254", "a link-local address (cloud metadata)"),
    ("172.16.0.1", "a private address"),
    ("172.31.255.255", "a private address"),
    ("192.0.0.8", "a protocol assignment"),
    ("192.0.2.1", "a documentation address"),
    ("192.88.99.1", "a 6to4 relay address"),
    ("192.168.0.1", "a private address"),
    ("198.18.0.1", "a benchmarking address"),
    ("198.19.255.255", "a benchmarking address"),
    ("198.51.100.7", "a documentation address"),
    ("203.0.113.7", "a documentation address"),
    ("224.0.0.1", "a multicast address"),
    ("239.255.255.255", "a multicast address"),
    ("240.0.0.1", "a reserved address"),
    ("255.255.255.255", "the broadcast address"),
    ("::", "the unspecified address"),
    ("::1", "a loopback address"),
    ("::7f00:1", "an IPv4-compatible address"),
    ("::8.8.8.8", "an IPv4-compatible address"),
    ("::ffff:127.0.0.1", "a loopback address"),
    ("::ffff:a9fe:a9fe", "a link-local address (cloud metadata)"),
    ("::ffff:0:127.0.0.1", "outside the global unicast addresses"),
    ("64:ff9b::10.0.0.1", "a private address"),
    ("64:ff9b::7f00:1", "a loopback address"),
    ("64:ff9b:1::8.8.8.8", "a local NAT64 address"),
    ("100::1", "a discard-only address"),
    ("2001::1", "a Teredo address"),
    ("2001:2::1", "a benchmarking address"),
    ("2001:10::1", "an ORCHID address"),
    ("2001:2f::1", "an ORCHID address"),
    ("2001:db8::1", "a documentation address"),
    ("2002:7f00:1::1", "a 6to4 address"),
    ("3fff:fff::1", "a documentation address"),
    ("4000::1", "outside the global unicast addresses"),
    ("fc00::1", "a unique local address"),
    ("fd00:ec2::254", "a unique local address"),
    ("fe80::1", "a link-local address"),
    ("febf:ffff::1", "a link-local address"),
    ("fec0::1", "a site-local address"),
    ("ff02::1", "a multicast address"),
];

/// Spellings of forbidden hosts in a URL, as somebody might try them.
pub(super) const SPELLINGS: [&str; 27] = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0x7f.0x0.0x0.0x1",
    "127.0.0.1.",
    "127.0.0.%31",
    "%31%32%37.0.0.1",
    "0",
    "0.0.0.0",
    "0xA9FEA9FE",
    "169.254.43518",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::FFFF:7F00:1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::127.0.0.1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fd00:ec2::254]",
];

/// Likewise, in characters that only a URL parser takes for digits, dots or letters.
const WIDE_SPELLINGS: [&str; 5] =
    ["１２７.０.０.１", "127。0。0。1", "①②⑦.⓪.⓪.①", "ｌｏｃａｌｈｏｓｔ", "127．0．0．1"];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn only(list: &str) -> Rules {
    Rules { private_targets: list.parse().unwrap(), http_targets: false }
}

#[test]
fn only_global_unicast_may_be_dialled() {
    for (address, ground) in FORBIDDEN {
        assert_eq!(Rules::default().judge(ip(address)), Verdict::Refused(ground), "{address}");
        assert_eq!(Rules::dev().judge(ip(address)), Verdict::Allowed, "{address}");
    }
    let public = [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:200::1",
        "2a00::1",
        "2003::1",
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
    ];
    for address in public {
        assert_eq!(Rules::default().judge(ip(address)), Verdict::Allowed, "{address}");
    }
}

#[test]
fn an_allow_list_permits_its_networks_in_every_spelling_and_nothing_else() {
    let table = [
        ("10.0.0.0/8", "10.1.2.3", true),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("10.0.0.0/8", "64:ff9b::10.1.2.3", true),
        ("10.0.0.0/8", "::10.1.2.3", true),
        ("10.0.0.0/8", "2002:a01:203::1", false),
        ("10.0.0.0/8", "192.168.0.1", false),
        ("10.0.0.0/8", "127.0.0.1", false),
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("127.0.0.1", "::1", false),
        ("192.168.0.0/16,fd00::/8 ::1", "fd12::1", true),
        ("192.168.0.0/16,fd00::/8 ::1", "::1", true),
        ("192.168.0.0/16,fd00::/8 ::1", "fe80::1", false),
        ("::/0", "fe80::1", true),
        ("::/0", "::ffff:127.0.0.1", false),
        ("::/0", "127.0.0.1", false),
        ("0.0.0.0/0", "127.0.0.1", true),
        ("0.0.0.0/0", "::1", false),
        ("2002::/16", "2002:7f00:1::1", true),
    ];
    for (list, address, allowed) in table {
        let verdict = only(list).judge(ip(address));
        assert_eq!(verdict == Verdict::Allowed, allowed, "{list} and {address}");
    }
}

#[test]
fn the_setting_is_all_or_a_list() {
    assert_eq!("".parse(), Ok(PrivateTargets::None));
    assert_eq!(" , ".parse(), Ok(PrivateTargets::None));
    assert_eq!(" ALL ".parse(), Ok(PrivateTargets::All));
    assert_eq!(
        "10.0.0.0/8, ::1".parse(),
        Ok(PrivateTargets::Cidrs(vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]))
    );
    for item in ["10.0.0.0/33", "example.com", "10.0.0", "any", "all,"] {
        assert_eq!(item.parse::<PrivateTargets>(), Err(NotATargetList(item.trim_matches(',').to_owned())));
    }
}

#[test]
fn a_url_with_a_forbidden_host_is_refused_in_every_spelling() {
    for host in SPELLINGS.into_iter().chain(WIDE_SPELLINGS) {
        let url = format!("https://{host}:8443/hook");
        let fault = Rules::default().check_url(&url).unwrap_err();
        assert!(matches!(fault, UrlFault::Address { .. }), "{url}: {fault}");
        assert!(fault.to_string().contains("RESTANTE_ALLOW_PRIVATE_TARGETS"), "{fault}");
        assert!(Rules::dev().check_url(&url).is_ok(), "{url}");
    }
}

#[test]
fn names_of_this_machine_are_refused_unless_it_may_be_dialled() {
    for name in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "localhost..",
        "api.localhost",
        "a.b.localhost.",
        "a.localhost...",
    ] {
        let url = format!("https://{name}/hook");
        assert!(matches!(Rules::default().check_url(&url), Err(UrlFault::Address { .. })), "{url}");
        assert!(matches!(only("10.0.0.0/8").check_url(&url), Err(UrlFault::Address { .. })), "{url}");
        for rules in [only("127.0.0.0/8"), only("::1"), Rules::dev()] {
            assert!(rules.check_url(&url).is_ok(), "{url}");
        }
    }
    for name in ["localhost.example.com", "notlocalhost", "localhosts"] {
        assert!(Rules::default().check_url(&format!("https://{name}/")).is_ok(), "{name}");
    }
}

#[test]
fn urls_are_checked_and_normalised() {
    let rules = Rules::default();
    let good = [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://Example.COM:443/a//b/?q", "https://example.com/a//b/?q"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://example.com:8443/%2f", "https://example.com:8443/%2f"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/"),
    ];
    for (given, normal) in good {
        assert_eq!(rules.check_url(given).unwrap().as_str(), normal);
    }
    let bad = [
        ("http://example.com/", UrlFault::Http),
        ("ftp://example.com/", UrlFault::Scheme("ftp".to_owned())),
        ("file:///etc/passwd", UrlFault::Scheme("file".to_owned())),
        ("https://user@example.com/", UrlFault::Userinfo),
        ("https://user:pass@example.com/", UrlFault::Userinfo),
        ("https://:pass@example.com/", UrlFault::Userinfo),
        ("https://example.com:0/", UrlFault::PortZero),
        ("https://example.com/#part", UrlFault::Fragment),
        ("https://example.com/#", UrlFault::Fragment),
        (" https://example.com/", UrlFault::Space),
        ("https://exam\tple.com/", UrlFault::Space),
        ("https://example.com/a b", UrlFault::Space),
        ("https://example.com/\u{0}", UrlFault::Space),
        ("https://", UrlFault::NotAUrl(url::ParseError::EmptyHost)),
        ("/hook", UrlFault::NotAUrl(url::ParseError::RelativeUrlWithoutBase)),
        ("https://example.com:99999/", UrlFault::NotAUrl(url::ParseError::InvalidPort)),
        ("https://[::1%25eth0]/", UrlFault::NotAUrl(url::ParseError::InvalidIpv6Address)),
        ("https://256.1.1.1/", UrlFault::NotAUrl(url::ParseError::InvalidIpv4Address)),
    ];
    for (given, fault) in bad {
        assert_eq!(rules.check_url(given), Err(fault), "{given:?}");
    }
    assert!(UrlFault::Http.to_string().contains("RESTANTE_ALLOW_HTTP_TARGETS"));
    assert!(Rules { http_targets: true, ..Rules::default() }.check_url("http://example.com/").is_ok());
}

#[test]
fn a_url_has_at_most_2048_characters() {
    let of = |chars: usize| format!("https://example.com/{}", "ü".repeat(chars - 20));
    assert!(Rules::default().check_url(&of(2048)).is_ok());
    assert_eq!(Rules::default().check_url(&of(2049)), Err(UrlFault::TooLong));
}
