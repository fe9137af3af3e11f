//! The value that repeats of a request have in common.

use std::fmt;

use restante_core::intake::{Mark, Value, pointer_tokens};
use restante_core::message::Received;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The value of a request at this place; `None`: it has none, and is no repeat of anything.
pub(super) fn value(mark: &Mark, received: &Received) -> Option<Value> {
    match mark {
        Mark::Header(name) => mark.value(received.headers.get(name)?),
        Mark::JsonPointer(pointer) => {
            let text = std::str::from_utf8(&received.body).ok()?;
            mark.value(scalar(find(text, &pointer_tokens(pointer)?)?)?.as_bytes())
        }
    }
}

/// The JSON at a pointer in a JSON text, as it is written there.
///
/// Nothing is built of what lies around it: a body may be large, and is read before it is known to be its sender's.
fn find<'a>(text: &'a str, tokens: &[String]) -> Option<&'a str> {
    let mut here: &'a str = serde_json::from_str::<&RawValue>(text).ok()?.get();
    for token in tokens {
        let mut json = serde_json::Deserializer::from_str(here);
        let found = match here.as_bytes().first()? {
            b'{' => json.deserialize_map(Member(token)).ok()?,
            b'[' => json.deserialize_seq(Item(index(token)?)).ok()?,
            _ => None,
        };
        here = found?.get();
    }
    Some(here)
}

/// A string's text, a number as it is written, `true` or `false`; `None` for all else.
fn scalar(json: &str) -> Option<String> {
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok(),
        b'{' | b'[' | b'n' => None,
        _ => Some(json.to_owned()),
    }
}

fn index(token: &str) -> Option<usize> {
    let digits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (token == "0" || !token.starts_with('0'));
    token.parse().ok().filter(|_| plain)
}

/// A member of an object. Of several with one name the last counts, as for most readers.
struct Member<'t>(&'t str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<String>()? {
            if name == self.0 {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// An item of a list, counted from 0.
struct Item(usize);

impl<'de> Visitor<'de> for Item {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let mut here = 0;
        while let Some(item) = list.next_element::<&RawValue>()? {
            if here == self.0 {
                found = Some(item);
            }
            here += 1;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn at(pointer: &str, body: &str) -> Option<String> {
        scalar(find(body, &pointer_tokens(pointer).unwrap())?)
    }

    #[test]
    fn a_pointer_finds_what_it_names() {
        let body = r#" {"id": "a\u0041", "n": 1.50, "big": 12345678901234567890123, "yes": true, "no": null,
            "list": [{"id": "x"}, "y"], "a/b": {"m~n": "z"}, "": "empty", "twice": 1, "twice": 2, "o": {}} "#;
        let table = [
            ("/id", Some("aA")),
            ("/n", Some("1.50")),
            ("/big", Some("12345678901234567890123")),
            ("/yes", Some("true")),
            ("/no", None),
            ("/list", None),
            ("/o", None),
            ("/list/0/id", Some("x")),
            ("/list/1", Some("y")),
            ("/list/01", None),
            ("/list/2", None),
            ("/list/-", None),
            ("/list/+1", None),
            ("/a~1b/m~0n", Some("z")),
            ("/", Some("empty")),
            ("/twice", Some("2")),
            ("/id/x", None),
            ("/missing", None),
            ("", None),
        ];
        for (pointer, expected) in table {
            assert_eq!(at(pointer, body).as_deref(), expected, "{pointer}");
        }
        assert_eq!(at("", "7").as_deref(), Some("7"));
    }

    #[test]
    fn what_is_no_json_has_no_value() {
        for body in ["", "id=1", r#"{"id": 1"#, r#"{"id": 1} x"#, r#"{"id": "\ud800"}"#] {
            assert_eq!(at("/id", body), None, "{body}");
        }
    }

    #[test]
    fn deep_and_large_bodies_take_no_stack() {
        let deep = format!("{{\"x\": {}{}, \"id\": 1}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(at("/id", &deep).as_deref(), Some("1"));
    }

    #[test]
    fn a_header_counts_byte_for_byte() {
        let received = |value: &'static [u8]| Received {
            method: "POST".into(),
            path: String::new(),
            query: None,
            headers: [("X-Other", &b"1"[..]), ("x-id", value), ("X-Id", b"second")].into_iter().collect(),
            body: Bytes::new(),
            remote_address: String::new(),
        };
        let mark = Mark::Header("X-Id".into());
        assert_eq!(value(&mark, &received(b"\xff")), mark.value(b"\xff"));
        assert_eq!(value(&mark, &received(b"")), None);
        assert_eq!(value(&Mark::Header("X-None".into()), &received(b"a")), None);
    }
}
