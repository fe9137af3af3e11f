use super::*;

fn of_event(kind: &str, data: &str) -> Fingerprint {
    Fingerprint::builder("events.publish")
        .field("type", Some(kind))
        .json("data", Some(data))
        .unwrap()
        .finish()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_key_is_1_to_255_letters_digits_and_four_signs() {
    let longest = "k".repeat(255);
    for text in ["a", "0", "_.:-", "oe-0f8fad5b-d9cb-469f-a165-70867728950e", "Order:17.retry_1", &longest] {
        assert_eq!(IdempotencyKey::parse(text.as_bytes()).unwrap().as_str(), text);
    }
    let too_long = "k".repeat(256);
    for text in ["", " ", "a b", "a ", "a/b", "ä", "a\0", "a,b", "a\n", "\"a\"", "a+b", &too_long] {
        assert_eq!(IdempotencyKey::parse(text.as_bytes()), Err(Fault::Key), "{text:?}");
    }
    assert_eq!(IdempotencyKey::parse(b"a\xff"), Err(Fault::Key));
    assert_ne!(IdempotencyKey::parse(b"a"), IdempotencyKey::parse(b"A"));
}

#[test]
fn what_tells_two_calls_apart() {
    let table = [
        ("the same", r#"{"a":1}"#, r#"{"a":1}"#, true),
        ("white space", r#"{"a":1}"#, " { \"a\" :\n1 } ", true),
        ("order of keys", r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{"b":{"d":3,"c":2},"a":1}"#, true),
        ("escapes", r#"{"a":"\u0061\/"}"#, r#"{"\u0061":"a/"}"#, true),
        ("spelling of a number", r#"{"a":1}"#, r#"{"a":1.0}"#, false),
        ("a value", r#"{"a":1}"#, r#"{"a":2}"#, false),
        ("a number or a string", r#"{"a":1}"#, r#"{"a":"1"}"#, false),
        ("order of a list", "[1,2]", "[2,1]", false),
        ("order of equal keys", r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, false),
        ("how often a key occurs", r#"{"a":1}"#, r#"{"a":1,"a":1}"#, false),
        ("white space in a string", r#"["a b"]"#, r#"["a  b"]"#, false),
        ("null inside", r#"{"a":null}"#, "{}", false),
        ("nested lists", "[[1],[2]]", "[[1,2]]", false),
    ];
    for (name, one, other, same) in table {
        assert_eq!(of_event("a.b", one) == of_event("a.b", other), same, "{name}");
    }
    assert_ne!(of_event("a.b", "1"), of_event("a.c", "1"));
}

#[test]
fn an_absent_field_and_none_are_the_same() {
    let absent = Fingerprint::builder("x").field("a", Some("1")).finish();
    let none =
        Fingerprint::builder("x").field("b", None).field("a", Some("1")).json("c", None).unwrap().finish();
    assert_eq!(absent, none);
}

#[test]
fn no_two_sequences_of_fields_are_alike() {
    let begin = Fingerprint::builder;
    let json = |builder: Builder, name, text| builder.json(name, Some(text)).unwrap();
    let all = [
        begin("x"),
        begin("y"),
        begin(""),
        begin("x").field("", Some("")),
        begin("x").field("a", Some("")),
        begin("x").field("", Some("a")),
        begin("xa").field("", Some("")),
        begin("x").field("a", Some("b")),
        begin("x").field("ab", Some("")),
        begin("x").field("", Some("ab")),
        begin("x").field("a", Some("b")).field("a", Some("b")),
        begin("x").field("a", Some("b")).field("c", Some("d")),
        begin("x").field("c", Some("d")).field("a", Some("b")),
        begin("x").field("a", Some("bc")).field("", Some("d")),
        begin("x").field("a", Some("1")),
        json(begin("x"), "a", "1"),
        json(begin("x"), "a", "\"1\""),
        json(begin("x"), "a", "null"),
        begin("x").item("a"),
        begin("x").item("a").item("a"),
        begin("x").item("aa"),
        begin("x").item("a").field("b", Some("c")).item("a"),
        begin("x").item("a").item("a").field("b", Some("c")),
        begin("x").field("b", Some("c")).item("a").item("a"),
        begin("x").item("a").field("b", Some("c")).field("d", Some("e")).item("a"),
        begin("x").item("a").field("b", Some("c")).item("a").field("d", Some("e")),
    ];
    let mut seen: Vec<String> = all.map(|builder| hex(builder.finish().as_bytes())).into();
    seen.sort();
    let before = seen.len();
    seen.dedup();
    assert_eq!((seen.len(), before), (26, 26));
}

#[test]
fn json_that_cannot_be_read_makes_no_fingerprint() {
    let json = |text: &str| Fingerprint::builder("x").json("a", Some(text)).map(Builder::finish);
    assert_eq!(json("{"), Err(Fault::NotJson(1)));
    assert_eq!(json(&"[".repeat(129)), Err(Fault::TooDeep));
}

/// Stored fingerprints are compared with new ones: if this fails, `FORM` must rise.
#[test]
fn the_form_of_a_fingerprint_does_not_change() {
    let golden = Fingerprint::builder("events.publish_batch")
        .item("event")
        .field("type", Some("order.paid"))
        .json("data", Some(r#" {"b": [1.0, "\u00e4\n"], "a": null} "#))
        .unwrap()
        .item("event")
        .field("timestamp", None)
        .finish();
    assert_eq!(hex(golden.as_bytes()), "0179fd0efdf1fbbc3d65a5e3d49bc93bbbc90115b8e1a4b20f4390dd94b75d7caa");
}

#[test]
fn fingerprints_are_stored_and_read_back() {
    let made = of_event("a.b", "1");
    assert_eq!((made.as_bytes().len(), made.as_bytes()[0]), (33, 1));
    assert_eq!(Fingerprint::from_bytes(made.as_bytes()), Some(made));
    for length in [0, 32, 34] {
        assert_eq!(Fingerprint::from_bytes(&vec![1; length]), None, "{length}");
    }
}
