//! The receiver's wish for when to come again.

use std::time::{Duration, UNIX_EPOCH};

use restante_core::Timestamp;

/// Reads `Retry-After` (RFC 9110, 10.2.3): whole seconds from `now`, or an HTTP date in any of its three formats.
///
/// `None` for what is past when the attempt ends, so also for no seconds and for this very moment; for a negative or
/// fractional number, and anything else that is neither.
pub fn retry_after(value: &[u8], now: Timestamp) -> Option<Timestamp> {
    let text = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // An empty text ends here as well, and so does a number beyond all time.
        let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
        return seconds.map(|seconds| now.after(Duration::from_secs(seconds)));
    }
    let since_1970 = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let at = Timestamp::default().after(since_1970);
    (at > now).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06T08:49:37Z, the example of RFC 9110.
    const EXAMPLE: i64 = 784_111_777_000;

    fn read(value: &str, now: i64) -> Option<i64> {
        retry_after(value.as_bytes(), Timestamp::from_millis(now)).map(Timestamp::millis)
    }

    #[test]
    fn seconds_count_from_the_response() {
        let table = [
            ("0", None),
            ("000", None),
            ("1", Some(6_000)),
            (" 120\t", Some(125_000)),
            ("0007", Some(12_000)),
            ("18446744073709551615", Some(i64::MAX)),
            ("18446744073709551616", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1e3", None),
            ("1 2", None),
            ("0x10", None),
            ("", None),
            ("soon", None),
            ("١", None),
        ];
        for (value, expected) in table {
            assert_eq!(read(value, 5_000), expected, "{value:?}");
        }
    }

    #[test]
    fn a_date_counts_in_all_three_formats_unless_it_is_past() {
        let formats =
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
        for text in formats {
            assert_eq!(read(text, EXAMPLE - 1), Some(EXAMPLE), "{text}");
            assert_eq!(read(text, EXAMPLE), None, "{text}");
            assert_eq!(read(text, EXAMPLE + 1), None, "{text}");
        }
        for text in ["Sun, 06 Nov 1994 08:49:37 CET", "Sun, 31 Feb 2094 08:49:37 GMT", "1994-11-06T08:49:37Z"]
        {
            assert_eq!(read(text, 0), None, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_ignored() {
        assert_eq!(retry_after(&[0xff, b'1'], Timestamp::default()), None);
    }
}
