use proptest::prelude::*;

use super::*;

#[test]
fn newer_replaces_and_older_does_not() {
    let mut latest = Latest::new();
    assert_eq!((latest.get(), latest.timestamp(), latest.id()), (None, None, None));
    for (millis, id, value, expected) in [
        (5, "whe_b", "first", Offered::Newest),
        (4, "whe_z", "older", Offered::Late),
        (5, "whe_a", "lesser id", Offered::Late),
        (5, "whe_b", "repeated", Offered::Late),
        (5, "whe_c", "greater id", Offered::Newest),
        (6, "whe_0", "newer", Offered::Newest),
        (5, "whe_c", "late retry", Offered::Late),
    ] {
        assert_eq!(latest.offer(Timestamp::from_millis(millis), id, value), expected, "{value}");
    }
    assert_eq!(latest.get(), Some(&"newer"));
    assert_eq!((latest.timestamp(), latest.id()), (Some(Timestamp::from_millis(6)), Some("whe_0")));
    assert_eq!(latest.into_inner(), Some("newer"));
}

#[test]
fn it_comes_back_from_where_it_is_stored() {
    let mut latest = Latest::new();
    latest.offer(Timestamp::from_millis(1_796_080_781_007), "whe_1", "delivered".to_owned());
    let stored = serde_json::to_string(&latest).unwrap();
    assert_eq!(serde_json::from_str::<Latest<String>>(&stored).unwrap(), latest);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_with_any_repeats_leaves_the_newest(
        (events, arrivals) in prop::collection::btree_map("[a-c]{1,2}", 0..4i64, 1..8)
            .prop_flat_map(|times| {
                let events: Vec<(i64, String)> = times.into_iter().map(|(id, time)| (time, id)).collect();
                let arrivals = prop::collection::vec(0..events.len(), 0..20);
                let once = Just((0..events.len()).collect::<Vec<_>>()).prop_shuffle();
                (Just(events), (arrivals, once).prop_map(|(more, once)| [more, once].concat()).prop_shuffle())
            }),
    ) {
        let mut latest = Latest::new();
        for index in arrivals {
            let (millis, id) = &events[index];
            latest.offer(Timestamp::from_millis(*millis), id, index);
        }
        let newest = (0..events.len()).max_by_key(|index| &events[*index]).unwrap();
        prop_assert_eq!(latest.get(), Some(&newest));
    }
}
