//! Times as people write and read them.

use std::time::Duration;

use restante_sdk::Timestamp;

/// A moment on the command line: an instant, or a span from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    At(Timestamp),
    Ago(Duration),
    Ahead(Duration),
}

impl Moment {
    /// Reads `2026-11-30T09:00:00Z`, `90s`, `15m`, `2h` or `7d`.
    ///
    /// # Errors
    /// What it should look like.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(at) = Timestamp::parse(text) {
            return Ok(Self::At(at));
        }
        let wrong = "a time such as 2026-11-30T09:00:00Z, or how long ago: 90s, 15m, 2h, 7d";
        read_span(text).map(Self::Ago).ok_or_else(|| wrong.to_owned())
    }

    /// As [`Self::parse`], but spans lead into the future.
    ///
    /// # Errors
    /// What it should look like.
    pub(crate) fn parse_ahead(text: &str) -> Result<Self, String> {
        if let Ok(at) = Timestamp::parse(text) {
            return Ok(Self::At(at));
        }
        let wrong = "a time such as 2026-11-30T09:00:00Z, or how long from now: 90s, 15m, 2h, 7d";
        read_span(text).map(Self::Ahead).ok_or_else(|| wrong.to_owned())
    }

    pub(crate) fn on(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now.before(span),
            Self::Ahead(span) => now.after(span),
        }
    }
}

/// `90s`, `15m`, `2h`, `7d`.
fn read_span(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return None,
    };
    let count: u64 = text[..text.len() - 1].parse().ok()?;
    Some(Duration::from_secs(count.saturating_mul(seconds)))
}

/// `3 min ago`, `in 2 h`, `now`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let (past, future) = (now.since(at), at.since(now));
    match (past.as_secs(), future.as_secs()) {
        (0, 0) => "now".to_owned(),
        (0, _) => format!("in {}", span(future)),
        (_, _) => format!("{} ago", span(past)),
    }
}

/// `2026-11-30 09:00:00 UTC (3 min ago)`.
pub(crate) fn exact(at: Timestamp, now: Timestamp) -> String {
    format!("{} {} UTC ({})", day(at), clock(at), relative(at, now))
}

/// `09:00:00`, in UTC.
pub(crate) fn clock(at: Timestamp) -> String {
    at.to_string()[11..19].to_owned()
}

/// `2026-11-30`, in UTC.
fn day(at: Timestamp) -> String {
    at.to_string()[..10].to_owned()
}

/// The greatest unit of a span that fits, cut: `59 s`, `59 min`, `47 h`, `2 d`.
pub(crate) fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// `12 ms`, `1.2 s`.
pub(crate) fn took(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_instants_or_spans_back_from_now() {
        let now = Timestamp::parse("2026-11-30T12:00:00Z").unwrap();
        let table = [
            ("2026-11-30T09:00:00+01:00", "2026-11-30T08:00:00.000Z"),
            ("90s", "2026-11-30T11:58:30.000Z"),
            ("15m", "2026-11-30T11:45:00.000Z"),
            ("2h", "2026-11-30T10:00:00.000Z"),
            ("7d", "2026-11-23T12:00:00.000Z"),
        ];
        for (text, expected) in table {
            assert_eq!(Moment::parse(text).unwrap().on(now).to_string(), expected, "{text}");
        }
        assert_eq!(Moment::parse_ahead("2h").unwrap().on(now).to_string(), "2026-11-30T14:00:00.000Z");
        for text in ["", "h", "-2h", "2 h", "2w", "yesterday", "2026-11-30", "é"] {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_greatest_unit_that_fits_is_told() {
        let now = Timestamp::from_millis(10_000_000_000);
        let table = [
            (0, "now"),
            (999, "now"),
            (-999, "now"),
            (1000, "1 s ago"),
            (59_999, "59 s ago"),
            (60_000, "1 min ago"),
            (3_600_000, "1 h ago"),
            (172_799_000, "47 h ago"),
            (172_800_000, "2 d ago"),
            (-240_000, "in 4 min"),
        ];
        for (ago, expected) in table {
            let at = Timestamp::from_millis(10_000_000_000 - ago);
            assert_eq!(relative(at, now), expected, "{ago}");
        }
        assert_eq!([took(0), took(999), took(1249)], ["0 ms", "999 ms", "1.2 s"]);
        let at = Timestamp::parse("2026-11-30T09:00:00Z").unwrap();
        assert_eq!(exact(at, at.after(Duration::from_secs(180))), "2026-11-30 09:00:00 UTC (3 min ago)");
    }
}
