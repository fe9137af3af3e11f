use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Address {
    Address::parse(text).unwrap_or_else(|fault| panic!("{text:?}: {fault}"))
}

#[test]
fn an_address_is_read_in_all_its_forms() {
    let table = [
        ("a@b", "a@b", None),
        ("jane@example.com", "jane@example.com", None),
        ("  jane@example.com ", "jane@example.com", None),
        ("<jane@example.com>", "jane@example.com", None),
        ("Jane <jane@example.com>", "jane@example.com", Some("Jane")),
        ("Jane<jane@example.com>", "jane@example.com", Some("Jane")),
        (" Jane  Doe  < jane@example.com >", "jane@example.com", Some("Jane  Doe")),
        ("\"Doe, Jane\" <jane@example.com>", "jane@example.com", Some("Doe, Jane")),
        ("\"Jane \\\"J\\\" \\\\ Doe\" <jane@example.com>", "jane@example.com", Some("Jane \"J\" \\ Doe")),
        ("\"<not@this.one>\" <jane@example.com>", "jane@example.com", Some("<not@this.one>")),
        ("\"Jane\" Doe <jane@example.com>", "jane@example.com", Some("Jane Doe")),
        ("\"\" <jane@example.com>", "jane@example.com", None),
        ("Jane (Sales) J. [x] <jane@example.com>", "jane@example.com", Some("Jane (Sales) J. [x]")),
        ("jane@example.com <jane@example.com>", "jane@example.com", Some("jane@example.com")),
        ("Jäne Dœ 漢字 <jane@example.com>", "jane@example.com", Some("Jäne Dœ 漢字")),
        ("Jane.Doe+tag@Example.COM", "Jane.Doe+tag@example.com", None),
        ("!#$%&'*+-/=?^_`{|}~@example.com", "!#$%&'*+-/=?^_`{|}~@example.com", None),
        ("\"jane doe\"@example.com", "\"jane doe\"@example.com", None),
        ("\"a@b\"@example.com", "\"a@b\"@example.com", None),
        ("\"a<b\"@example.com", "\"a<b\"@example.com", None),
        ("\"\"@example.com", "\"\"@example.com", None),
        ("Jane <\"a>b\\\"\"@example.com>", "\"a>b\\\"\"@example.com", Some("Jane")),
        ("用户@例子.广告", "用户@xn--fsqu00a.xn--4rr70v", None),
        ("jane@BÜCHER.example", "jane@xn--bcher-kva.example", None),
        ("jane@xn--bcher-kva.example", "jane@xn--bcher-kva.example", None),
        ("jane@bücher。example", "jane@xn--bcher-kva.example", None),
        ("jane@a1-2.example", "jane@a1-2.example", None),
        ("jane@ab--cd.example", "jane@ab--cd.example", None),
        ("jane@1.2.3.4.example", "jane@1.2.3.4.example", None),
    ];
    for (text, email, name) in table {
        let address = read(text);
        assert_eq!((address.email.as_str(), address.name.as_deref()), (email, name), "{text}");
    }
}

#[test]
fn what_is_no_address_is_refused_with_the_reason() {
    let table = [
        ("", Fault::Form),
        ("   ", Fault::Form),
        ("jane", Fault::Form),
        ("example.com", Fault::Form),
        ("Jane <jane>", Fault::Form),
        ("Jane <jane@example.com", Fault::Form),
        ("Jane <jane@example.com> Doe", Fault::Form),
        ("Jane <>", Fault::Form),
        ("jane@example.com\r\nBcc: x@example.com", Fault::Control),
        ("jane@example.com\n", Fault::Control),
        ("\tjane@example.com", Fault::Control),
        ("Ja\0ne <jane@example.com>", Fault::Control),
        ("Jane\u{7f} <jane@example.com>", Fault::Control),
        ("Jane\u{85} <jane@example.com>", Fault::Control),
        ("Jane\u{2028} <jane@example.com>", Fault::Control),
        ("\"Jane\r\n\" <jane@example.com>", Fault::Control),
        ("\"ja\\\nne\"@example.com", Fault::Control),
        ("Friends: Jane <jane@example.com>;", Fault::Form),
        ("\"Jane <jane@example.com>", Fault::Quote),
        ("\"Jane\\\" <jane@example.com>", Fault::Quote),
        ("\"jane@example.com", Fault::Quote),
        ("Doe, Jane <jane@example.com>", Fault::Name),
        ("a@example.com, b <b@example.com>", Fault::Name),
        ("Friends: Jane <jane@example.com>", Fault::Name),
        ("Jane\\ <jane@example.com>", Fault::Name),
        ("@example.com", Fault::Local),
        (".jane@example.com", Fault::Local),
        ("jane.@example.com", Fault::Local),
        ("ja..ne@example.com", Fault::Local),
        ("ja ne@example.com", Fault::Local),
        ("ja\u{a0}ne@example.com", Fault::Local),
        ("ja(ne)@example.com", Fault::Local),
        ("a@example.com,b@example.com", Fault::Local),
        ("mailto:jane@example.com", Fault::Local),
        ("jane@@example.com", Fault::Local),
        ("\"ja\"ne\"\"@example.com", Fault::Local),
        ("\"jane\".doe@example.com", Fault::Local),
        ("\"ja\\ne\\\u{e4}\"@example.com", Fault::Local),
        ("jane@", Fault::Domain),
        ("jane@.", Fault::Domain),
        ("jane@example.com.", Fault::Domain),
        ("jane@.example.com", Fault::Domain),
        ("jane@example..com", Fault::Domain),
        ("jane@-example.com", Fault::Domain),
        ("jane@example-.com", Fault::Domain),
        ("jane@exam_ple.com", Fault::Domain),
        ("jane@exam ple.com", Fault::Domain),
        ("jane@example.com:25", Fault::Domain),
        ("jane@xn--a", Fault::Domain),
        ("jane@a\u{200b}\u{fffd}.example", Fault::Domain),
        ("jane@[192.0.2.1]", Fault::Literal),
        ("jane@[IPv6:2001:db8::1]", Fault::Literal),
        ("jane@192.0.2.1", Fault::Literal),
        ("jane@１９２.0.2.1", Fault::Literal),
    ];
    for (text, fault) in table {
        assert_eq!(Address::parse(text), Err(fault), "{text:?}");
    }
}

#[test]
fn lengths_are_counted_in_bytes_and_names_in_characters() {
    let longest_local = "a".repeat(64);
    let label = "b".repeat(63);
    let domain = |last: usize| format!("{label}.{label}.{}", "c".repeat(last));
    let table = [
        (format!("{longest_local}@example.com"), None),
        (format!("{longest_local}a@example.com"), Some(Fault::LocalTooLong)),
        (format!("{}@example.com", "ä".repeat(32)), None),
        (format!("{}a@example.com", "ä".repeat(32)), Some(Fault::LocalTooLong)),
        (format!("{longest_local}@{}", domain(61)), None),
        (format!("{longest_local}@{}", domain(62)), Some(Fault::TooLong)),
        (format!("a@{}", domain(63)), None),
        (format!("a@{}", domain(64)), Some(Fault::Domain)),
        (format!("a@{label}.{label}.{label}.{label}"), Some(Fault::Domain)),
        (format!("{} <a@b>", "ä".repeat(256)), None),
        (format!("{} <a@b>", "ä".repeat(257)), Some(Fault::NameTooLong)),
    ];
    for (text, fault) in table {
        assert_eq!(Address::parse(&text).err(), fault, "{text}");
    }
}

#[test]
fn parts_are_taken_as_they_read() {
    let table = [
        ("jane@Example.com", None, Ok(("jane@example.com", None))),
        ("jane@example.com", Some(""), Ok(("jane@example.com", None))),
        ("jane@example.com", Some("  "), Ok(("jane@example.com", None))),
        ("jane@example.com", Some(" Doe, \"J\" <x> "), Ok(("jane@example.com", Some("Doe, \"J\" <x>")))),
        ("jane@example.com", Some("Jane\n"), Err(Fault::Control)),
        ("jane@example.com\n", Some("Jane"), Err(Fault::Control)),
        ("Jane <jane@example.com>", None, Err(Fault::Local)),
        ("<jane@example.com>", None, Err(Fault::Local)),
    ];
    for (email, name, expected) in table {
        let expected = expected.map(|(email, name): (&str, Option<&str>)| Address {
            email: email.into(),
            name: name.map(str::to_owned),
        });
        assert_eq!(Address::from_parts(email, name), expected, "{email} {name:?}");
    }
}

#[test]
fn an_address_knows_its_parts_and_whether_ascii_will_do() {
    let table = [
        ("Jane@Example.com", "Jane", "example.com", false),
        ("Jäne <jane@bücher.example>", "jane", "xn--bcher-kva.example", false),
        ("jäne@example.com", "jäne", "example.com", true),
        ("\"a@b\"@example.com", "\"a@b\"", "example.com", false),
    ];
    for (text, local, domain, utf8) in table {
        let address = read(text);
        assert_eq!(
            (address.local(), address.domain(), address.needs_utf8()),
            (local, domain, utf8),
            "{text}"
        );
    }
}

#[test]
fn no_way_of_writing_evades_a_suppression() {
    let table = [
        ("jane@example.com", "jane@example.com"),
        ("JANE@EXAMPLE.COM", "jane@example.com"),
        ("Jane Doe <Jane@Example.Com>", "jane@example.com"),
        ("\"Jane\"@example.com", "jane@example.com"),
        ("\"J\\ane\"@example.com", "jane@example.com"),
        ("\"jane.doe\"@example.com", "jane.doe@example.com"),
        ("\"Jane Doe\"@example.com", "\"jane doe\"@example.com"),
        ("\"Jane\\ Doe\"@example.com", "\"jane doe\"@example.com"),
        ("\"a\\\"\\\\b\"@example.com", "\"a\\\"\\\\b\"@example.com"),
        ("\"\"@example.com", "\"\"@example.com"),
        ("JÄNE@BÜCHER.example", "jäne@xn--bcher-kva.example"),
        ("jane+news@example.com", "jane+news@example.com"),
    ];
    for (text, key) in table {
        assert_eq!(read(text).suppression_key(), key, "{text}");
    }
}

#[test]
fn an_address_is_written_so_that_it_can_be_read() {
    let table = [
        ("jane@example.com", None, "jane@example.com"),
        ("jane@example.com", Some("Jane Doe"), "Jane Doe <jane@example.com>"),
        ("jane@example.com", Some("Jäne"), "Jäne <jane@example.com>"),
        ("jane@example.com", Some("Doe, Jane"), "\"Doe, Jane\" <jane@example.com>"),
        ("jane@example.com", Some("J. \"J\" \\"), "\"J. \\\"J\\\" \\\\\" <jane@example.com>"),
    ];
    for (email, name, text) in table {
        assert_eq!(Address::from_parts(email, name).unwrap().to_string(), text);
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_as_the_same(
        local in r#"[a-zA-Z0-9!+/äß漢]{1,8}(\.[a-z]{1,4})?|"([ a-z<>@,;:äß]|\\["\\ a]){0,8}""#,
        domain in r"[a-zA-Zäöü]{1,8}(\.[a-z]{2,4}){0,2}",
        name in proptest::option::of(r#"[ -~äß漢\u{a0}\u{3000}]{0,20}"#),
    ) {
        let address = Address::from_parts(&format!("{local}@{domain}"), name.as_deref()).unwrap();
        prop_assert_eq!(Address::parse(&address.to_string()), Ok(address.clone()));
        prop_assert_eq!(Address::from_parts(&address.email, address.name.as_deref()), Ok(address.clone()));
        let key = address.suppression_key();
        prop_assert_eq!(read(&key).suppression_key(), key);
    }

    #[test]
    fn no_accepted_address_has_a_control_character(
        text in r#"([ -~äß漢]|\PC|[\r\n\t\x00\x7f\u{85}\u{2028}]|[a-z"<>@.\\]){0,12}[a-z@\r\n]@[a-z.\r\n]{1,6}>?"#,
        name in any::<Option<String>>(),
    ) {
        for read in [Address::parse(&text), Address::from_parts(&text, name.as_deref())] {
            let Ok(address) = read else { continue };
            prop_assert!(!address.to_string().contains(is_control), "{address:?}");
            prop_assert!(address.email.len() <= 254 && address.local().len() <= 64);
            prop_assert!(address.domain().is_ascii());
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = Address::parse(&text);
    }
}
