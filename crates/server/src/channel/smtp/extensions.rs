//! What a server offers in its answer to `EHLO`.

use super::reply::Answer;

/// The extensions we use; none after `HELO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    /// RFC 2920.
    pub(super) pipelining: bool,
    /// RFC 6152.
    pub(super) eight_bit: bool,
    /// RFC 6531.
    pub(super) utf8: bool,
    /// RFC 3207.
    pub(super) starttls: bool,
    /// RFC 1870: the largest message that is taken, in bytes; `Some(None)` when the server tells no limit.
    pub(super) size: Option<Option<u64>>,
    /// RFC 4616.
    pub(super) auth_plain: bool,
    pub(super) auth_login: bool,
}

impl Extensions {
    /// Reads an answer to `EHLO`; its first line is the server's name for itself.
    pub(super) fn of(answer: &Answer) -> Self {
        let mut found = Self::default();
        for line in answer.lines.iter().skip(1) {
            // `AUTH=LOGIN` is how it was written before there was a standard.
            let mut words = line.split([' ', '=']).filter(|word| !word.is_empty());
            match words.next().unwrap_or_default().to_ascii_uppercase().as_str() {
                "PIPELINING" => found.pipelining = true,
                "8BITMIME" => found.eight_bit = true,
                "SMTPUTF8" => found.utf8 = true,
                "STARTTLS" => found.starttls = true,
                "SIZE" => {
                    let limit = words.next().and_then(|bytes| bytes.parse().ok());
                    found.size = Some(limit.filter(|bytes| *bytes > 0));
                }
                "AUTH" => {
                    for word in words {
                        found.auth_plain |= word.eq_ignore_ascii_case("PLAIN");
                        found.auth_login |= word.eq_ignore_ascii_case("LOGIN");
                    }
                }
                _ => {}
            }
        }
        found
    }
}
