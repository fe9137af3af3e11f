//! The head of a forwarded request, byte for byte.

use bytes::{BufMut, Bytes, BytesMut};

/// A header line, exactly as it came.
pub(crate) type Line = (String, Bytes);
/// Carries the request's key.
pub(crate) const KEY_HEADER: &str = "X-Adal-Idempotency";

/// The lines that belong to the message, in their order, duplicates and spelling included.
///
/// Left out is what concerns one connection only (RFC 9110, 7.6.1), and `Host`. `Content-Length` stays where it was when
/// it tells the truth, and comes last when there is a body and none did.
pub(crate) fn forwardable(lines: &[Line], body_bytes: usize, key: Option<&[u8; 16]>) -> Vec<Line> {
    let named: Vec<String> = lines
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .map(|token| String::from_utf8_lossy(token.trim_ascii()).to_ascii_lowercase())
        .collect();
    let mut measured = false;
    let mut kept = Vec::with_capacity(lines.len() + 2);
    for (name, value) in lines {
        let lower = name.to_ascii_lowercase();
        let length = lower == "content-length";
        if length && !measured && value.as_ref() == body_bytes.to_string().as_bytes() {
            measured = true;
            kept.push((name.clone(), value.clone()));
        }
        let replaced = key.is_some() && lower == KEY_HEADER.to_ascii_lowercase();
        if !(length || replaced || belongs_to_connection(&lower) || named.contains(&lower)) {
            kept.push((name.clone(), value.clone()));
        }
    }
    if !measured && body_bytes > 0 {
        kept.push(("Content-Length".to_owned(), Bytes::from(body_bytes.to_string())));
    }
    kept.extend(key.map(|key| (KEY_HEADER.to_owned(), Bytes::from(key_text(key)))));
    kept
}

fn belongs_to_connection(lower: &str) -> bool {
    matches!(lower, "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade" | "host")
        || lower.starts_with("proxy-")
}

/// The key as it is written in a header: 8-4-4-4-12 digits.
fn key_text(key: &[u8; 16]) -> String {
    let mut text = data_encoding::HEXLOWER.encode(key);
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    text
}

/// The bytes of a head; `None` when a line of it would be read as something else.
pub(crate) fn written(method: &str, path: &str, host: &str, lines: &[Line]) -> Option<Bytes> {
    let sendable = |value: &[u8]| !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    let fine = is_token(method) && lines.iter().all(|(name, value)| is_token(name) && sendable(value));
    if !fine {
        return None;
    }
    let mut head = BytesMut::with_capacity(512);
    head.put_slice(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n").as_bytes());
    for (name, value) in lines {
        head.put_slice(name.as_bytes());
        head.put_slice(b": ");
        head.put_slice(value);
        head.put_slice(b"\r\n");
    }
    head.put_slice(b"\r\n");
    Some(head.freeze())
}

/// RFC 9110, 5.6.2.
fn is_token(text: &str) -> bool {
    let mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || mark(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pairs: &[(&str, &'static str)]) -> Vec<Line> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Bytes::from_static(value.as_bytes()))).collect()
    }

    #[test]
    fn order_duplicates_and_spelling_stay() {
        let given =
            lines(&[("X-b", "1"), ("accept", "*/*"), ("x-B", "2"), ("X-b", ""), ("CONTENT-length", "3")]);
        assert_eq!(forwardable(&given, 3, None), given);
    }

    #[test]
    fn what_concerns_one_connection_stays_behind() {
        let given = lines(&[
            ("Host", "hooks.example"),
            ("Connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("Keep-Alive", "1"),
            ("Proxy-Authorization", "x"),
            ("TE", "trailers"),
            ("Trailer", "x"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("Proximity", "stays"),
        ]);
        let expected = lines(&[("Proximity", "stays"), ("Content-Length", "9")]);
        assert_eq!(forwardable(&given, 9, None), expected);
    }

    #[test]
    fn a_length_that_lies_is_replaced_and_none_is_made_up_for_nothing() {
        let given = lines(&[("Content-Length", "5"), ("content-length", "3")]);
        assert_eq!(forwardable(&given, 3, None), lines(&[("content-length", "3")]));
        assert_eq!(forwardable(&given, 4, None), lines(&[("Content-Length", "4")]));
        assert_eq!(forwardable(&[], 0, None), []);
        let zero = lines(&[("Content-Length", "0")]);
        assert_eq!(forwardable(&zero, 0, None), zero);
    }

    #[test]
    fn the_key_is_written_as_a_uuid_and_stands_alone() {
        let key = [0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        let given = lines(&[("x-adal-idempotency", "theirs")]);
        assert_eq!(
            forwardable(&given, 0, Some(&key)),
            lines(&[("X-Adal-Idempotency", "abcdef01-0203-0405-0607-08090a0b0c0d")])
        );
        assert_eq!(forwardable(&given, 0, None), given);
    }

    #[test]
    fn a_head_is_written_as_it_was_and_never_two() {
        let given = vec![("x-A".to_owned(), Bytes::from_static(b"\xff \t"))];
        assert_eq!(
            written("PROPFIND", "/a|b?{}", "localhost:3000", &given).unwrap().as_ref(),
            b"PROPFIND /a|b?{} HTTP/1.1\r\nHost: localhost:3000\r\nx-A: \xff \t\r\n\r\n"
        );
        for (method, name, value) in [
            ("G T", "a", "1"),
            ("GET", "a b", "1"),
            ("GET", "", "1"),
            ("GET", "a", "1\r\nb: 2"),
            ("", "a", ""),
        ] {
            let line = vec![(name.to_owned(), Bytes::copy_from_slice(value.as_bytes()))];
            assert_eq!(written(method, "/", "h", &line), None, "{method} {name} {value}");
        }
    }
}
