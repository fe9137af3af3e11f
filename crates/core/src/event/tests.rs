use super::*;

fn of(text: &str) -> EventType {
    EventType::parse(text).unwrap()
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}

#[test]
fn a_type_is_two_or_more_segments() {
    let longest = format!("a.{}", "b".repeat(126));
    for text in ["a.b", "order.paid", "a.b.c.d", "0.1", "_._", "order_2.line_item.added", &longest] {
        assert_eq!(EventType::parse(text).map(|kind| kind.to_string()), Ok(text.to_owned()));
    }
    for text in [
        "",
        ".",
        "a",
        "a.",
        ".a",
        "a..b",
        "a.b.",
        "A.b",
        "a.B",
        "a-b.c",
        "a.b ",
        " a.b",
        "a.b\n",
        "a b.c",
        "a.*",
        "*",
        "ä.b",
        "a.b\0",
        "a/b.c",
        "a.\u{ff42}",
    ] {
        assert_eq!(EventType::parse(text), Err(Fault::Type), "{text:?}");
    }
    assert_eq!(EventType::parse(&format!("{longest}b")), Err(Fault::TooLong));
}

#[test]
fn a_filter_lets_through_what_it_says() {
    let table: [(&str, &[&str], &[&str]); 6] = [
        ("a.b", &["a.b"], &["a.b.c", "a.bc", "a.c", "b.a"]),
        ("a.*", &["a.b", "a.b.c", "a._"], &["b.a", "aa.b", "b.a.c"]),
        ("a.b.*", &["a.b.c", "a.b.c.d"], &["a.b", "a.bb.c", "a.c", "a.c.b"]),
        ("*", &["a.b", "a.b.c", "webhook.test"], &[]),
        ("_.*", &["_.a"], &["a._", "__.a"]),
        ("1.2.3", &["1.2.3"], &["1.2", "1.2.3.4", "1.2.30"]),
    ];
    for (text, through, held) in table {
        for kind in through {
            assert!(filter(text).matches(&of(kind)), "{text} lets {kind} through");
        }
        for kind in held {
            assert!(!filter(text).matches(&of(kind)), "{text} holds {kind}");
        }
    }
}

#[test]
fn what_is_no_filter_is_refused() {
    for text in [
        "", "a", ".*", "a*", "a.b*", "*.*", "**", "*.a", "a.*.b", "a.*.*", "a..*", ".a.*", "A.*", "a.",
        "a.b.", "a.* ", " *", "ä.*", "a.**",
    ] {
        assert_eq!(Filter::parse(text), Err(Fault::Filter), "{text:?}");
    }
    let longest = format!("{}.*", "a".repeat(126));
    assert_eq!(filter(&longest).to_string(), longest);
    assert_eq!(Filter::parse(&format!("a{longest}")), Err(Fault::TooLong));
    assert_eq!(Filter::parse(&format!("a.{}", "b".repeat(127))), Err(Fault::TooLong));
}

#[test]
fn types_and_filters_are_strings_on_the_wire() {
    for text in ["a.b", "a.b.*", "a.*", "*"] {
        let wire = format!("\"{text}\"");
        let read: Filter = serde_json::from_str(&wire).unwrap();
        assert_eq!((read.to_string(), serde_json::to_string(&read).unwrap()), (text.to_owned(), wire));
    }
    let read: EventType = serde_json::from_str(r#""a.\u0062""#).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), r#""a.b""#);
    let fault = serde_json::from_str::<EventType>(r#""a""#).unwrap_err().to_string();
    assert!(fault.starts_with("an event type is two or more segments"), "{fault}");
    let fault = serde_json::from_str::<Filter>(r#""a""#).unwrap_err().to_string();
    assert!(fault.starts_with("a filter is an event type"), "{fault}");
    assert!(serde_json::from_str::<Filter>("1").is_err());
}

#[test]
fn a_test_event_is_of_the_first_type_named_in_full() {
    let table: [(&[&str], Option<&str>); 4] = [
        (&["*", "a.*", "c.d", "a.b"], Some("c.d")),
        (&["a.b"], Some("a.b")),
        (&["*", "a.*"], None),
        (&[], None),
    ];
    for (filters, expected) in table {
        let filters: Vec<Filter> = filters.iter().map(|text| filter(text)).collect();
        assert_eq!(first_exact(&filters).map(EventType::as_str), expected, "{filters:?}");
    }
}

#[test]
fn a_body_is_written_in_one_way() {
    let at = Timestamp::from_millis(1_796_080_781_007);
    assert_eq!(
        body(&of("order.paid"), at, r#"{"b":1.0,"a":"ü"}"#),
        r#"{"type":"order.paid","timestamp":"2026-11-30T23:19:41.007Z","data":{"b":1.0,"a":"ü"}}"#
    );
    assert_eq!(
        body(&of("webhook.test"), Timestamp::from_millis(0), "null"),
        r#"{"type":"webhook.test","timestamp":"1970-01-01T00:00:00.000Z","data":null}"#
    );
}
