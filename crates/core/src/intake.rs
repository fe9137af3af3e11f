//! What a source asks of what comes in: that it is signed, and that it is new.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Timestamp;
use crate::verification::Verification;

const HOUR_MS: i64 = 3_600_000;

/// What a source asks of a request before it is delivered. At least one of the two is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub verification: Option<Verification>,
    pub dedupe: Option<Dedupe>,
}

/// By what repeats of a request are known, and for how long.
///
/// A value is known from the request that first brought it, the time of which is counted from, for as long as that
/// request is kept. A rejected request brings no value, and a repeat does not lengthen the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dedupe {
    pub by: Mark,
    /// 1 to 8,760.
    pub hours: u32,
}

/// Where the value stands that repeats have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// In the first header line of this name, byte for byte.
    Header(String),
    /// In the JSON of the body, at this pointer (RFC 6901): a string, a number as written, `true` or `false`.
    JsonPointer(String),
}

/// A value of a source's [`Mark`], condensed: all that is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value([u8; 32]);

impl Value {
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Mark {
    /// Condenses a value that stands here; `None` for an empty one, which is none.
    ///
    /// Where it stood is hashed with it: a source that is told to look elsewhere knows nothing of what it found here.
    pub fn value(&self, text: &[u8]) -> Option<Value> {
        if text.is_empty() {
            return None;
        }
        let mut hash = Sha256::new();
        match self {
            Self::Header(name) => hash.update(format!("header\0{}\0", name.to_ascii_lowercase())),
            Self::JsonPointer(pointer) => hash.update(format!("json\0{pointer}\0")),
        }
        hash.update(text);
        Some(Value(hash.finalize().into()))
    }
}

impl Dedupe {
    /// What came at or before this moment is not known any more. `retention_ms`: how long the source keeps requests.
    pub fn forgotten_at(&self, now: Timestamp, retention_ms: i64) -> Timestamp {
        Timestamp::from_millis(now.millis().saturating_sub(self.window_ms().min(retention_ms)))
    }

    /// Until when a value is held that came now.
    pub fn held_until(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_millis(now.millis().saturating_add(self.window_ms()))
    }

    fn window_ms(&self) -> i64 {
        i64::from(self.hours) * HOUR_MS
    }
}

/// The reference tokens of a JSON pointer (RFC 6901); `None` for a text that is none.
pub fn pointer_tokens(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    pointer.strip_prefix('/')?.split('/').map(unescape).collect()
}

fn unescape(token: &str) -> Option<String> {
    let mut plain = String::with_capacity(token.len());
    let mut rest = token.chars();
    while let Some(next) = rest.next() {
        plain.push(match next {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_apart_by_what_they_are_and_where_they_stood() {
        let header = Mark::Header("X-Id".into());
        let pointer = Mark::JsonPointer("/id".into());
        assert_eq!(header.value(b"7"), Mark::Header("x-id".into()).value(b"7"), "names have no case");
        assert_ne!(header.value(b"7"), header.value(b"7 "));
        assert_ne!(header.value(b"7"), pointer.value(b"7"));
        assert_ne!(pointer.value(b"7"), Mark::JsonPointer("/Id".into()).value(b"7"));
        assert_eq!(header.value(b""), None);
    }

    #[test]
    fn a_value_is_known_for_its_hours_or_as_long_as_requests_are_kept() {
        let dedupe = Dedupe { by: Mark::Header("x".into()), hours: 2 };
        let now = Timestamp::from_millis(10 * HOUR_MS);
        assert_eq!(dedupe.forgotten_at(now, 24 * HOUR_MS).millis(), 8 * HOUR_MS);
        assert_eq!(dedupe.forgotten_at(now, HOUR_MS).millis(), 9 * HOUR_MS);
        assert_eq!(dedupe.held_until(now).millis(), 12 * HOUR_MS);
    }

    #[test]
    fn pointers_are_read_as_written() {
        let table: [(&str, Option<&[&str]>); 8] = [
            ("", Some(&[])),
            ("/", Some(&[""])),
            ("/a/b", Some(&["a", "b"])),
            ("/a~1b/m~0n/~01", Some(&["a/b", "m~n", "~1"])),
            ("/data/0", Some(&["data", "0"])),
            ("id", None),
            ("/a~2", None),
            ("/a~", None),
        ];
        for (pointer, expected) in table {
            let tokens = pointer_tokens(pointer);
            let tokens = tokens.as_ref().map(|it| it.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(tokens.as_deref(), expected, "{pointer}");
        }
    }
}
