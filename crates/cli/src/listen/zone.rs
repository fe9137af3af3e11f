//! Times of day where the user is.

use restante_core::Timestamp;
use time::UtcOffset;

/// How far the clocks on the wall are from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    Local {
        offset_seconds: i32,
    },
    /// When the machine does not tell.
    Utc,
}

impl Zone {
    /// This machine's, as of now. Only before there are threads: afterwards it cannot be asked safely.
    pub(crate) fn here() -> Self {
        UtcOffset::current_local_offset()
            .map_or(Self::Utc, |offset| Self::Local { offset_seconds: offset.whole_seconds() })
    }

    /// `14:03:22`, and with a `Z` when it is UTC for want of better knowledge.
    pub(crate) fn clock(self, at: Timestamp) -> String {
        let (offset, mark) = match self {
            Self::Local { offset_seconds } => (i64::from(offset_seconds), ""),
            Self::Utc => (0, "Z"),
        };
        let second = (at.millis().div_euclid(1000) + offset).rem_euclid(86_400);
        format!("{:02}:{:02}:{:02}{mark}", second / 3600, second / 60 % 60, second % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_that_on_the_wall() {
        let at = Timestamp::parse("2026-11-29T23:19:41.999Z").unwrap();
        assert_eq!(Zone::Utc.clock(at), "23:19:41Z");
        assert_eq!(Zone::Local { offset_seconds: 3600 }.clock(at), "00:19:41");
        assert_eq!(Zone::Local { offset_seconds: -19_800 }.clock(at), "17:49:41");
    }
}
