//! Points in time, as the wire has them.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::time::format_description::well_known::Rfc3339;
use ::time::{OffsetDateTime, UtcOffset};

/// Milliseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
///
/// On the wire an RFC 3339 string in UTC with milliseconds, `2026-11-29T23:19:41.000Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(i64);

/// A text that is not an RFC 3339 instant between the years 1970 and 9999.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-01-31T12:00:00Z")]
pub struct NotATime;

impl Timestamp {
    /// The time so many milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Reads RFC 3339 with any offset; digits past the milliseconds are cut.
    ///
    /// # Errors
    /// `NotATime` for anything else, and for instants before 1970 or after 9999.
    pub fn parse(text: &str) -> Result<Self, NotATime> {
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| NotATime)?;
        let millis = i64::try_from(at.unix_timestamp_nanos().div_euclid(1_000_000)).map_err(|_| NotATime)?;
        if millis < 0 || at.to_offset(UtcOffset::UTC).year() > 9999 {
            return Err(NotATime);
        }
        Ok(Self(millis))
    }

    /// The time `duration` later; stops at the end of time instead of overflowing.
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// The time `duration` earlier; stops at the beginning of time.
    pub fn before(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(millis))
    }

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Times before 1970 become 1970, fractions of milliseconds are cut.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(0).after(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(time.0).unwrap_or(0))
    }
}

impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        Self::parse(text)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        self.after(duration)
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        self.before(duration)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from_unix_timestamp(self.0.div_euclid(1000)).ok();
        let Some(at) = at.filter(|at| (0..=9999).contains(&at.year())) else {
            // Out of the calendar's range: only a broken clock leads here, and a log line must still be written.
            return f.write_str("9999-12-31T23:59:59.999Z");
        };
        // Filled in by hand: every log line and every resource has several.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let year = at.year().unsigned_abs();
        put(&mut text[0..4], year);
        put(&mut text[5..7], u8::from(at.month()).into());
        put(&mut text[8..10], at.day().into());
        put(&mut text[11..13], at.hour().into());
        put(&mut text[14..16], at.minute().into());
        put(&mut text[17..19], at.second().into());
        put(&mut text[20..23], self.0.rem_euclid(1000) as u32);
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// Writes a number right-aligned over zeros.
fn put(places: &mut [u8], mut number: u32) {
    for place in places.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(951_827_696_120).to_string(), "2000-02-29T12:34:56.120Z");
        assert_eq!(Timestamp::from_millis(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(1_796_080_781_007).to_string(), "2026-11-30T23:19:41.007Z");
    }

    #[test]
    fn any_offset_is_read_and_fractions_past_milliseconds_are_cut() {
        let table = [
            ("2026-11-29T23:19:41Z", 1_795_994_381_000),
            ("2026-11-30T00:19:41.5+01:00", 1_795_994_381_500),
            ("2026-11-29T23:19:41.0019Z", 1_795_994_381_001),
        ];
        for (text, millis) in table {
            assert_eq!(Timestamp::parse(text), Ok(Timestamp::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_not_an_instant_is_refused() {
        for text in ["", "now", "2026-11-29", "2026-11-29T23:19:41", "1969-12-31T23:59:59Z", "1795994381"] {
            assert_eq!(Timestamp::parse(text), Err(NotATime), "{text}");
        }
    }

    #[test]
    fn the_systems_times_and_these_are_each_others() {
        let time = Timestamp::from_millis(1_795_994_381_001);
        assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(1)), Timestamp::from_millis(0));
        assert_eq!(SystemTime::from(Timestamp::from_millis(-5)), UNIX_EPOCH);
        assert_eq!("2026-11-29T23:19:41.001Z".parse(), Ok(time));
    }
}
