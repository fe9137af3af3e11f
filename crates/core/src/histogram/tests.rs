use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn of(durations: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    durations.iter().for_each(|it| histogram.record(*it));
    histogram
}

#[test]
fn short_times_are_exact_and_long_ones_are_close() {
    // What was recorded, and what is told of it.
    let table = [
        (0, 0),
        (1, 1),
        (7, 7),
        (8, 8),
        (15, 15),
        (16, 17),
        (17, 17),
        (18, 19),
        (100, 100),
        (1_000, 992),
        (30_000, 29_696),
        (3_600_000, 3_538_944),
        (LONGEST_MS, 176_160_768),
        (u64::MAX, 176_160_768),
    ];
    for (recorded, told) in table {
        assert_eq!(of(&[recorded]).percentile(50), Some(told), "{recorded} ms");
    }
}

#[test]
fn a_percentile_is_the_nearest_rank() {
    let ten = of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let table = [(0, 1), (10, 1), (11, 2), (50, 5), (51, 6), (95, 10), (100, 10), (200, 10)];
    for (percent, told) in table {
        assert_eq!(ten.percentile(percent), Some(told), "{percent} %");
    }
    assert_eq!(Histogram::default().percentile(50), None);
}

#[test]
fn what_is_stored_is_a_few_bytes() {
    assert!(of(&[]).encode().is_empty());
    assert_eq!(of(&[3, 3, 5]).encode(), vec![3, 2, 2, 1]);
    assert_eq!(of(&[u64::MAX; 200]).encode(), vec![202, 1, 200, 1]);
}

#[test]
fn what_nobody_wrote_is_not_read() {
    let table: [&[u8]; 7] = [
        &[3],
        &[3, 0],
        &[3, 1, 0, 1],
        &[203, 1],
        &[0x80, 0, 1],
        &[0x80],
        &[3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255],
    ];
    for bytes in table {
        assert_eq!(Histogram::decode(bytes), None, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn what_is_told_is_within_a_tenth(duration in 0..=LONGEST_MS) {
        let told = of(&[duration]).percentile(50).unwrap();
        prop_assert!(told.abs_diff(duration) * 10 <= duration, "{told} for {duration}");
    }

    #[test]
    fn buckets_are_in_the_order_of_what_they_hold(one in 0..=LONGEST_MS, other in 0..=LONGEST_MS) {
        prop_assert_eq!(one.cmp(&other).then(bucket(one).cmp(&bucket(other))), one.cmp(&other));
        prop_assert_eq!(bucket(middle(bucket(one))), bucket(one));
    }

    #[test]
    fn a_histogram_comes_back(durations in vec(any::<u64>().prop_map(|bits| bits >> (bits % 64)), 0..200)) {
        let histogram = of(&durations);
        prop_assert_eq!(histogram.count(), durations.len() as u64);
        prop_assert_eq!(Histogram::decode(&histogram.encode()), Some(histogram));
    }

    #[test]
    fn only_what_we_write_is_read(bytes in vec(any::<u8>(), 0..12)) {
        if let Some(histogram) = Histogram::decode(&bytes) {
            prop_assert_eq!(histogram.encode(), bytes);
        }
    }

    #[test]
    fn merging_counts_what_both_counted(one in vec(0..LONGEST_MS, 0..50), other in vec(0..LONGEST_MS, 0..50)) {
        let mut merged = of(&one);
        merged.merge(&of(&other));
        prop_assert_eq!(merged, of(&[one, other].concat()));
    }
}
