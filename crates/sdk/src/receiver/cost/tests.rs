use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn decimal(text: &str) -> Decimal {
    Decimal::from_str_exact(text).unwrap()
}

fn cost(currency_code: &str, components: &[(&str, Option<&str>)]) -> SmsCost {
    SmsCost {
        amount: Decimal::ZERO,
        currency_code: currency_code.to_owned(),
        components: components
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), amount.map(decimal)))
            .collect(),
    }
}

fn total(ledger: &CostLedger, sms_id: &str) -> Option<String> {
    ledger.total(sms_id).unwrap().map(|total| format!("{} {}", total.amount, total.currency_code))
}

#[test]
fn components_are_put_together_by_their_newest_event() {
    let mut ledger = CostLedger::new();
    let mut step = |millis, id, components: &[(&str, Option<&str>)], merged, sum: Option<&str>| {
        let offered = cost("EUR", components);
        assert_eq!(ledger.merge("sms_1", at(millis), id, Some(&offered)), Ok(merged), "{id}");
        assert_eq!(total(&ledger, "sms_1").as_deref(), sum, "{id}");
    };
    let [transaction, passthrough] = ["transaction_amount", "passthrough_amount"];
    step(1, "whe_a", &[(transaction, None)], Merged::Unchanged, None);
    step(5, "whe_b", &[(transaction, Some("0.0075"))], Merged::Changed, Some("0.0075 EUR"));
    step(4, "whe_c", &[(passthrough, Some("0.003"))], Merged::Changed, Some("0.0105 EUR"));
    step(4, "whe_d", &[(transaction, Some("9"))], Merged::Unchanged, Some("0.0105 EUR"));
    step(6, "whe_e", &[(transaction, None), (passthrough, None)], Merged::Unchanged, Some("0.0105 EUR"));
    step(5, "whe_c", &[(transaction, Some("0.01"))], Merged::Changed, Some("0.013 EUR"));
    step(5, "whe_b", &[(transaction, Some("0.0075"))], Merged::Unchanged, Some("0.013 EUR"));
    step(7, "whe_f", &[(passthrough, Some("0"))], Merged::Changed, Some("0.01 EUR"));
    step(7, "whe_g", &[("surcharge_amount", Some("-0.002"))], Merged::Changed, Some("0.008 EUR"));
    assert_eq!(ledger.merge("sms_1", at(9), "whe_h", None), Ok(Merged::Unchanged));
    assert_eq!(ledger.component("sms_1", passthrough), Some(Decimal::ZERO));
    assert_eq!(ledger.component("sms_1", "other_amount"), None);
    let known: Vec<_> = ledger.components("sms_1").collect();
    let surcharge = ("surcharge_amount", decimal("-0.002"));
    assert_eq!(known, [(passthrough, Decimal::ZERO), surcharge, (transaction, decimal("0.01"))]);
    assert_eq!(total(&ledger, "sms_2"), None);
    ledger.remove("sms_1");
    assert_eq!(total(&ledger, "sms_1"), None);
}

#[test]
fn another_currency_is_an_error_and_changes_nothing() {
    let mut ledger = CostLedger::new();
    let nothing_priced = cost("CHF", &[("transaction_amount", None)]);
    assert_eq!(ledger.merge("sms_1", at(1), "whe_1", Some(&nothing_priced)), Ok(Merged::Unchanged));
    let priced = cost("EUR", &[("transaction_amount", Some("1"))]);
    assert_eq!(ledger.merge("sms_1", at(1), "whe_2", Some(&priced)), Ok(Merged::Changed));
    let before = ledger.clone();
    let other = cost("USD", &[("transaction_amount", Some("2")), ("passthrough_amount", Some("1"))]);
    let refused = ledger.merge("sms_1", at(2), "whe_3", Some(&other)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "costs of sms_1 are in EUR, and one came in USD: two currencies cannot be added up"
    );
    assert!(ledger.merge("sms_1", at(2), "whe_3", Some(&nothing_priced)).is_err());
    assert_eq!(ledger, before);
    assert_eq!(ledger.merge("sms_2", at(2), "whe_3", Some(&other)), Ok(Merged::Changed));
    assert_eq!(total(&ledger, "sms_2").as_deref(), Some("3 USD"));
}

#[test]
fn a_sum_is_exact_or_an_error() {
    let sum = |amounts: &[&str]| {
        let components: Vec<_> = ["a_amount", "b_amount", "c_amount"]
            .into_iter()
            .zip(amounts.iter().map(|amount| Some(*amount)))
            .collect();
        let mut ledger = CostLedger::new();
        ledger.merge("sms_1", at(1), "whe_1", Some(&cost("EUR", &components))).unwrap();
        ledger.total("sms_1").map(|total| total.unwrap().amount.to_string())
    };
    let inexact = Err(CostError::Inexact { sms_id: "sms_1".to_owned() });
    let max = "79228162514264337593543950335";
    for (amounts, expected) in [
        (&["0.1", "0.2"][..], Ok("0.3".to_owned())),
        (&["0.0075", "0.0025"], Ok("0.0100".to_owned())),
        (&["0.0000000000000000000000000001", "7"], Ok("7.0000000000000000000000000001".to_owned())),
        (&[max], Ok(max.to_owned())),
        (&[max, "0.1"], inexact.clone()),
        (&[max, "1"], inexact.clone()),
        (&[max, "1", "-1"], Ok(max.to_owned())),
        (&[max, max, max], inexact.clone()),
        (&["1234567890.5", "0.0000000000000000000000000001"], inexact),
    ] {
        assert_eq!(sum(amounts), expected, "{amounts:?}");
    }
}

#[test]
fn a_cost_is_read_with_every_component() {
    let read: SmsCost = serde_json::from_str(
        r#"{"currency_code":"USD","amount":"0.0105","transaction_amount":"0.0075","passthrough_amount":null,
            "new_amount":"-0.30","note":{"a":[1]},"amounts":3}"#,
    )
    .unwrap();
    assert_eq!(read.amount, decimal("0.0105"));
    assert_eq!(read.currency_code, "USD");
    let components: Vec<_> = read.components.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
    assert_eq!(
        components,
        [
            ("new_amount", Some(decimal("-0.30"))),
            ("passthrough_amount", None),
            ("transaction_amount", Some(decimal("0.0075"))),
        ]
    );
    assert_eq!(serde_json::from_str::<Option<SmsCost>>("null").unwrap(), None);
}

#[test]
fn an_unreadable_decimal_is_told_by_its_name() {
    let long = format!("\"0.{}1\"", "0".repeat(28));
    for value in [
        "\"\"",
        "\"1,5\"",
        "\"1.\"",
        "\".5\"",
        "\"+1\"",
        "\"1e3\"",
        "\"1_000\"",
        "\" 1\"",
        "\"NaN\"",
        "\"--1\"",
        "\"1.2.3\"",
        "\"١\"",
        "0.0075",
        "1",
        "true",
        "[]",
        "{}",
        "\"79228162514264337593543950336\"",
        &long,
    ] {
        for name in ["amount", "transaction_amount", "new_amount"] {
            let rest = if name == "amount" { "" } else { r#""amount":"1","# };
            let text = format!(r#"{{{rest}"currency_code":"USD","{name}":{value}}}"#);
            let fault = serde_json::from_str::<SmsCost>(&text).unwrap_err().to_string();
            assert!(fault.contains(&format!("`{name}` of a cost")), "{value}: {fault}");
        }
    }
    for (text, part) in [
        (r#"{"amount":null,"currency_code":"USD"}"#, "`amount` of a cost is no string"),
        (r#"{"currency_code":"USD"}"#, "missing field `amount`"),
        (r#"{"amount":"1"}"#, "missing field `currency_code`"),
        (r#"{"amount":"1","amount":"1"}"#, "twice"),
        (r#"{"a_amount":null,"a_amount":"1"}"#, "twice"),
        ("\"1\"", "a cost: an object"),
    ] {
        let fault = serde_json::from_str::<SmsCost>(text).unwrap_err().to_string();
        assert!(fault.contains(part), "{text}: {fault}");
    }
}

#[test]
fn it_comes_back_from_where_it_is_stored() {
    let mut ledger = CostLedger::new();
    let priced = cost("EUR", &[("transaction_amount", Some("0.0750")), ("passthrough_amount", Some("7"))]);
    ledger.merge("sms_1", at(1_796_080_781_007), "whe_1", Some(&priced)).unwrap();
    let stored = serde_json::to_string(&ledger).unwrap();
    let read: CostLedger = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, ledger);
    assert_eq!(total(&read, "sms_1").as_deref(), Some("7.0750 EUR"));
}

/// An event about one of two messages: time, id, message, and what it says of the components.
type Said = (i64, String, usize, Option<[Option<i64>; 3]>);

const MESSAGES: [&str; 2] = ["sms_1", "sms_2"];
const NAMES: [&str; 3] = ["transaction_amount", "passthrough_amount", "new_amount"];

fn events() -> impl Strategy<Value = Vec<Said>> {
    let components = prop::option::of(prop::array::uniform3(prop::option::of(-3..1000i64)));
    prop::collection::btree_map("[a-d]{1,2}", (0..4i64, 0..2usize, components), 1..8).prop_map(|events| {
        events.into_iter().map(|(id, (time, message, said))| (time, id, message, said)).collect()
    })
}

fn arrivals() -> impl Strategy<Value = (Vec<Said>, Vec<usize>)> {
    events().prop_flat_map(|events| {
        let again = prop::collection::vec(0..events.len(), 0..12);
        let arrivals = again.prop_map({
            let count = events.len();
            move |again| (0..count).chain(again).collect::<Vec<_>>()
        });
        (Just(events), arrivals.prop_shuffle())
    })
}

/// Thousandths that the newest event to price a component says it costs.
fn newest(events: &[Said], message: usize, component: usize) -> Option<i64> {
    let priced = events.iter().filter(|(_, _, of, _)| *of == message).filter_map(|(time, id, _, said)| {
        said.and_then(|said| said[component]).map(|amount| ((*time, id), amount))
    });
    priced.max().map(|(_, amount)| amount)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_with_any_repeats_gives_each_components_newest((events, arrivals) in arrivals()) {
        let mut ledger = CostLedger::new();
        for index in arrivals {
            let (time, id, message, said) = &events[index];
            let offered = said.map(|said| SmsCost {
                amount: Decimal::ZERO,
                currency_code: "EUR".to_owned(),
                components: NAMES
                    .into_iter()
                    .zip(said)
                    .map(|(name, amount)| (name.to_owned(), amount.map(|amount| Decimal::new(amount, 3))))
                    .collect(),
            });
            prop_assert!(ledger.merge(MESSAGES[*message], at(*time), id, offered.as_ref()).is_ok());
        }
        for (message, sms_id) in MESSAGES.into_iter().enumerate() {
            let expected: Vec<_> = (0..3).map(|component| newest(&events, message, component)).collect();
            for (name, amount) in NAMES.into_iter().zip(&expected) {
                prop_assert_eq!(ledger.component(sms_id, name), amount.map(|amount| Decimal::new(amount, 3)));
            }
            let sum = expected.iter().any(Option::is_some).then(|| expected.iter().flatten().sum());
            let total = ledger.total(sms_id).unwrap().map(|total| total.amount);
            prop_assert_eq!(total, sum.map(|sum: i64| Decimal::new(sum, 3)));
        }
    }
}
