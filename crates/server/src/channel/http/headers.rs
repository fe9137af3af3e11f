//! Which headers of a received request go on to a receiver.

use hyper::header::{CONNECTION, HeaderName, HeaderValue};

/// The headers that belong to the message, in their order, duplicates included.
///
/// Left out is what concerns one connection only (RFC 9110, 7.6.1): `Connection` and the headers it names,
/// `Keep-Alive`, `Proxy-*`, `TE`, `Trailer`, `Transfer-Encoding`, `Upgrade`; and `Host` and `Content-Length`,
/// which every request gets anew.
pub fn forwardable(mut headers: Vec<(HeaderName, HeaderValue)>) -> Vec<(HeaderName, HeaderValue)> {
    let named: Vec<HeaderName> = headers
        .iter()
        .filter(|(name, _)| *name == CONNECTION)
        .flat_map(|(_, value)| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok())
        .collect();
    headers.retain(|(name, _)| !belongs_to_connection(name.as_str()) && !named.contains(name));
    headers
}

fn belongs_to_connection(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "host"
            | "content-length"
    ) || name.starts_with("proxy-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(&'static str, &'static str)]) -> Vec<(HeaderName, HeaderValue)> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn the_headers_of_a_message_keep_their_order_and_duplicates() {
        let given =
            list(&[("X-B", "1"), ("Accept", "*/*"), ("X-B", "2"), ("x-b", "1"), ("Expect", "100-continue")]);
        assert_eq!(forwardable(given.clone()), given);
    }

    #[test]
    fn what_concerns_one_connection_stays_behind() {
        let given = list(&[
            ("Host", "example.com"),
            ("Content-Length", "3"),
            ("Connection", "close, X-Hop ,\"not a name\",,"),
            ("connection", "x-hop-2"),
            ("X-Hop", "1"),
            ("X-Hop-2", "1"),
            ("X-Hop-3", "stays"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Authorization", "Basic x"),
            ("Proxy-Anything", "1"),
            ("Proximity", "stays"),
            ("TE", "trailers"),
            ("Trailer", "X-T"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
        ]);
        assert_eq!(forwardable(given), list(&[("X-Hop-3", "stays"), ("Proximity", "stays")]));
    }
}
