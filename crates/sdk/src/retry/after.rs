use std::time::Duration;

use crate::Timestamp;

/// The wait that a `Retry-After` asks for (RFC 9110, 10.2.3), fractions of seconds accepted.
///
/// A date that is past is no wait. `None` for what is neither a delay nor a date: negative numbers and garbage.
pub fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    if text.starts_with(|first: char| first.is_ascii_digit()) && text.bytes().all(is_of_a_number) {
        let seconds: f64 = text.parse().ok()?;
        return Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    date(text).map(|at| at.since(now))
}

/// The time that an HTTP date names (RFC 9110, 5.6.7).
pub(crate) fn date(text: &str) -> Option<Timestamp> {
    httpdate::parse_http_date(text).ok().map(Timestamp::from)
}

/// No exponents, signs, infinities or hexadecimal digits.
fn is_of_a_number(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'.'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-11-29T23:19:41.250Z.
    const NOW: Timestamp = Timestamp::from_millis(1_795_994_381_250);

    #[test]
    fn delays_and_dates_are_read() {
        let table = [
            ("0", Some(0)),
            ("120", Some(120_000)),
            ("007", Some(7_000)),
            ("0.25", Some(250)),
            ("1.", Some(1_000)),
            (" \t3 ", Some(3_000)),
            ("Sun, 29 Nov 2026 23:19:42 GMT", Some(750)),
            ("Sunday, 29-Nov-26 23:19:44 GMT", Some(2_750)),
            ("Sun Nov 29 23:20:41 2026", Some(59_750)),
            ("Sun, 29 Nov 2026 23:19:41 GMT", Some(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("-0.5", None),
            ("+1", None),
            (".5", None),
            ("1e3", None),
            ("1.2.3", None),
            ("0x10", None),
            ("inf", None),
            ("NaN", None),
            ("5 s", None),
            ("soon", None),
            ("2026-11-29T23:19:41Z", None),
            ("Sun, 29 Nov 2026 23:19:42 CET", None),
        ];
        for (text, expected_ms) in table {
            assert_eq!(retry_after(text, NOW), expected_ms.map(Duration::from_millis), "{text:?}");
        }
        let endless = "9".repeat(400);
        assert_eq!(retry_after(&endless, NOW), Some(Duration::MAX));
        assert_eq!(retry_after("99999999999999999999999", NOW), Some(Duration::MAX));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,40}") {
            let _ = retry_after(&text, NOW);
        }

        #[test]
        fn whole_seconds_are_exact(seconds in 0_u32..) {
            let wait = retry_after(&seconds.to_string(), NOW);
            prop_assert_eq!(wait, Some(Duration::from_secs(seconds.into())));
        }
    }
}
