//! Medians and ratios.

/// The middle of `values`, or the mean of the two in the middle; `None` without values.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// `value` as a share of `whole`; 0 when there is no whole.
pub(super) fn ratio(value: f64, whole: f64) -> f64 {
    if whole > 0.0 { value / whole } else { 0.0 }
}

/// A count as a float.
#[expect(clippy::cast_precision_loss, reason = "counts of a run stay far below 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median([]), None);
        assert_eq!(median([5.0]), Some(5.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 100.0, 2.0]), Some(3.0));
    }

    #[test]
    fn a_ratio_to_nothing_is_zero() {
        assert_eq!(ratio(30_000.0, 80_000.0), 0.375);
        assert_eq!(ratio(1.0, 0.0), 0.0);
    }
}
