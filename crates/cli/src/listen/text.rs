//! Measures as people read them.

use std::time::Duration;

/// Three digits at most, and a unit.
pub(crate) fn duration(time: Duration) -> String {
    match (time.as_millis(), time.as_secs()) {
        (0, _) => "<1 ms".to_owned(),
        (millis @ 1..=999, _) => format!("{millis} ms"),
        (_, 1..=9) => format!("{:.1} s", time.as_secs_f64()),
        (_, seconds) => format!("{seconds} s"),
    }
}

pub(crate) fn bytes(count: usize) -> String {
    match count {
        0..=9_999 => plural(count, "byte"),
        10_000..=9_999_999 => format!("{} kB", count / 1_000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

pub(crate) fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_have_units() {
        let durations = [0, 999_999, 1_000_000, 999_999_999, 1_000_000_000, 9_940_000_000, 31_900_000_000];
        let expected = ["<1 ms", "<1 ms", "1 ms", "999 ms", "1.0 s", "9.9 s", "31 s"];
        assert_eq!(durations.map(|nanos| duration(Duration::from_nanos(nanos))), expected);
        assert_eq!(
            [0, 1, 9_999, 10_000, 5_242_880].map(bytes),
            ["0 bytes", "1 byte", "9999 bytes", "10 kB", "5242 kB"]
        );
    }
}
