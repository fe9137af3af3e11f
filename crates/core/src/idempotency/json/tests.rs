use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

fn canonical_of(text: &str) -> String {
    let mut out = String::new();
    canonical(text, &mut out).unwrap();
    out
}

#[test]
fn the_canonical_form_of() {
    let table = [
        ("null", "null"),
        (" [ ] ", "[]"),
        ("{\n}\r\t", "{}"),
        (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        (r#"{"a":{"d":[3,1,2],"c":null}}"#, r#"{"a":{"c":null,"d":[3,1,2]}}"#),
        (r#"[ { "y" : [ [ 1 ] , { } ] , "x" : true } , -0 ]"#, r#"[{"x":true,"y":[[1],{}]},-0]"#),
        // Numbers as written.
        ("1", "1"),
        ("1.0", "1.0"),
        ("1E+2", "1E+2"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
        // Strings by value.
        (r#""\u0061\/\u00e4\u2028""#, "\"a/ä\u{2028}\""),
        (r#""\ud83d\ude00 \uD83D\uDE00 😀""#, r#""😀 😀 😀""#),
        (r#""\"\\\b\f\n\r\t\u0000\u001F""#, r#""\u0022\u005c\u0008\u000c\u000a\u000d\u0009\u0000\u001f""#),
        (r#""\u005c\u0022\u005Cu0061""#, r#""\u005c\u0022\u005cu0061""#),
        ("\"\u{7f}\"", "\"\u{7f}\""),
        // Halves of a pair stay escapes.
        (r#""\uD83D""#, r#""\ud83d""#),
        (r#""\ude00\ud83d""#, r#""\ude00\ud83d""#),
        (r#""\ud83d\ud83d\ude00\ude00""#, r#""\ud83d😀\ude00""#),
        (r#""\ud83dude00 \ud83d\n""#, r#""\ud83dude00 \ud83d\u000a""#),
        // Keys by value, too; equal ones keep their order.
        (r#"{"b":1,"\u0061":2,"A":3}"#, r#"{"A":3,"a":2,"b":1}"#),
        (r#"{"b":0,"a":2,"\u0061":1,"a":0}"#, r#"{"a":2,"a":1,"a":0,"b":0}"#),
        (r#"{"aa":1,"a":2,"":3,"a b":4,"a!":5}"#, r#"{"":3,"a":2,"a b":4,"a!":5,"aa":1}"#),
    ];
    for (text, expected) in table {
        assert_eq!(canonical_of(text), expected, "{text}");
    }
}

#[test]
fn the_canonical_form_is_appended() {
    let mut out = String::from("before ");
    canonical("[1, 2]", &mut out).unwrap();
    assert_eq!(out, "before [1,2]");
    assert!(canonical("[1, 2", &mut out).is_err());
    assert_eq!(out, "before [1,2]");
}

#[test]
fn compact_drops_white_space_between_tokens_and_nothing_else() {
    let table = [
        (" null\n", "null"),
        ("{ \"b\" : 1.0 ,\r\n\t\"a\" : [ ] , \"a\":-1e-5 }", r#"{"b":1.0,"a":[],"a":-1e-5}"#),
        (r#"[ " a  b\t\" \u0061\/ " , "" ]"#, r#"[" a  b\t\" \u0061\/ ",""]"#),
        (r#"{"already":["compact",{}]}"#, r#"{"already":["compact",{}]}"#),
    ];
    for (text, expected) in table {
        assert_eq!(compact(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    let table = [
        ("", 0),
        ("  ", 2),
        ("nul", 0),
        ("1 2", 2),
        ("[1,]", 3),
        ("[1 2]", 3),
        ("[1", 2),
        ("[1}", 2),
        ("{\"a\":1,}", 7),
        ("{\"a\" 1}", 5),
        ("{a:1}", 1),
        ("{\"a\"}", 4),
        ("]", 0),
        ("[]]", 2),
        ("\"a", 2),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 1),
        ("\"\\u12g4\"", 1),
        ("\"\\u+123\"", 1),
        ("\"\\u00ä0\"", 1),
        ("\"\\", 1),
        ("01", 0),
        ("-", 0),
        ("1.", 0),
        (".5", 0),
        ("+1", 0),
        ("1e", 0),
        ("1e+", 0),
        ("1.e5", 0),
        ("--1", 0),
        ("NaN", 0),
        ("\u{feff}1", 0),
        ("\u{a0}1", 0),
        ("1ä", 1),
    ];
    for (text, at) in table {
        assert_eq!(compact(text), Err(Fault::NotJson(at)), "{text:?}");
        assert_eq!(canonical(text, &mut String::new()), Err(Fault::NotJson(at)), "{text:?}");
    }
}

#[test]
fn json_that_is_nested_too_deep_is_refused_however_deep() {
    let arrays = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    for text in [arrays(128), objects(128)] {
        assert_eq!(compact(&text).as_ref(), Ok(&text));
        assert_eq!(canonical_of(&text), text);
    }
    let bombs =
        [arrays(129), objects(129), arrays(1_000_000), "[".repeat(1_000_000), r#"{"a":["#.repeat(500_000)];
    for text in bombs {
        assert_eq!(compact(&text), Err(Fault::TooDeep));
        assert_eq!(canonical(&text, &mut String::new()), Err(Fault::TooDeep));
    }
    let wide = format!("[{}[]]", "[[]],".repeat(100_000));
    assert_eq!(compact(&wide), Ok(wide));
}

/// A value that can be written in many ways.
#[derive(Clone, Debug)]
enum Model {
    Literal(String),
    String(String),
    Array(Vec<Model>),
    Object(BTreeMap<String, Model>),
}

fn model() -> impl Strategy<Value = Model> {
    let literal =
        prop_oneof!["true|false|null", "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",];
    let leaf = prop_oneof![literal.prop_map(Model::Literal), any::<String>().prop_map(Model::String)];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Model::Array),
            prop::collection::btree_map("[a-c\"\\\\ ä😀]{0,3}", inner, 0..6).prop_map(Model::Object),
        ]
    })
}

/// Choices, one after the other (splitmix64).
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % end
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", "", " ", "\n", "\t\r "][self.below(6)]);
    }

    fn string(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for char in text.chars() {
            if char < ' ' || char == '"' || char == '\\' || self.below(4) == 0 {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let escape = format!("\\u{unit:04x}");
                    out.push_str(&if self.below(2) == 0 {
                        escape
                    } else {
                        escape.to_uppercase().replace('U', "u")
                    });
                }
            } else {
                out.push(char);
            }
        }
        out.push('"');
    }

    /// Writes `model` in one of its many ways.
    fn write(&mut self, model: &Model, out: &mut String) {
        self.space(out);
        match model {
            Model::Literal(text) => out.push_str(text),
            Model::String(text) => self.string(text, out),
            Model::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    self.write(item, out);
                }
                self.space(out);
                out.push(']');
            }
            Model::Object(members) => {
                let mut left: Vec<_> = members.iter().collect();
                out.push('{');
                while !left.is_empty() {
                    out.push_str(if left.len() < members.len() { "," } else { "" });
                    let (key, value) = left.swap_remove(self.below(left.len()));
                    self.space(out);
                    self.string(key, out);
                    self.space(out);
                    out.push(':');
                    self.write(value, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }
}

fn written(model: &Model, seed: u64) -> String {
    let mut out = String::new();
    Choices(seed).write(model, &mut out);
    out
}

proptest! {
    #[test]
    fn however_a_value_is_written_its_canonical_form_is_the_same(model in model(), one: u64, other: u64) {
        let (one, other) = (written(&model, one), written(&model, other));
        prop_assert_eq!(canonical_of(&one), canonical_of(&other));
    }

    #[test]
    fn the_canonical_form_is_its_own_and_means_the_same(model in model(), seed: u64) {
        let text = written(&model, seed);
        let form = canonical_of(&text);
        prop_assert_eq!(&canonical_of(&form), &form);
        prop_assert_eq!(compact(&form), Ok(form.clone()));
        let means = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        prop_assert_eq!(means(&form), means(&text));
    }

    #[test]
    fn values_that_differ_have_different_canonical_forms(one in model(), other in model(), seed: u64) {
        let (one, other) = (written(&one, seed), written(&other, seed));
        let means = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        prop_assert_eq!(canonical_of(&one) == canonical_of(&other), means(&one) == means(&other));
    }

    #[test]
    fn compact_json_means_the_same_and_only_gets_shorter(model in model(), seed: u64) {
        let text = written(&model, seed);
        let short = compact(&text).unwrap();
        let means = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        prop_assert_eq!(means(&short), means(&text));
        prop_assert!(short.len() <= text.len());
        let mut left = text.chars();
        prop_assert!(short.chars().all(|kept| left.any(|char| char == kept)), "something was added or moved");
        prop_assert_eq!(compact(&short), Ok(short));
    }

    #[test]
    fn json_is_what_serde_json_takes_for_it(
        model in model(),
        seed: u64,
        place: prop::sample::Index,
        put in "[\\[\\]{},:\"\\\\ue0-2.+\\-tn\n \u{1}ä]{0,2}",
    ) {
        let text = written(&model, seed);
        let mut spoilt: Vec<char> = text.chars().collect();
        let at = place.index(spoilt.len());
        spoilt.splice(at..=at, put.chars());
        let spoilt: String = spoilt.into_iter().collect();
        let taken = serde_json::from_str::<IgnoredAny>(&spoilt).is_ok();
        prop_assert_eq!(compact(&spoilt).is_ok(), taken, "{}", spoilt);
        prop_assert_eq!(canonical(&spoilt, &mut String::new()).is_ok(), taken, "{}", spoilt);
    }

    #[test]
    fn no_text_is_too_odd(text: String) {
        let taken = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        prop_assert_eq!(compact(&text).is_ok(), taken);
    }
}
