use bytes::Bytes;

use super::*;
use crate::email::Scheduled;

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

fn addresses(texts: &[&str]) -> Vec<Address> {
    texts.iter().map(|text| address(text)).collect()
}

/// An email with something in every field.
fn full() -> Email {
    let attachment = |filename: &str, content: &'static [u8]| Attachment {
        filename: filename.into(),
        content: Bytes::from_static(content),
        content_type: "text/plain".into(),
        content_id: Some(format!("id-{filename}")),
    };
    Email {
        from: address("Shop <shop@example.com>"),
        to: addresses(&["Jane <jane@example.com>", "joe@example.com"]),
        cc: addresses(&["cc@example.com"]),
        bcc: addresses(&["bcc@example.com"]),
        reply_to: addresses(&["reply@example.com"]),
        subject: Some("Your order".into()),
        html: Some("<p>Hello</p>".into()),
        text: Some("Hello".into()),
        headers: vec![("X-A".into(), "1".into()), ("X-B".into(), "2".into()), ("X-A".into(), "3".into())],
        attachments: vec![attachment("a.txt", b"a"), attachment("b.txt", b"\xff\x00")],
        tags: [("kind".into(), "order".into()), ("team".into(), "a".into())].into(),
        metadata: Some(r#"{"a":1,"b":2}"#.into()),
        scheduled_at: Some(Scheduled::parse("2026-11-30T12:00:00Z").unwrap()),
    }
}

fn minimal() -> Email {
    Email {
        from: address("a@b"),
        to: addresses(&["c@d"]),
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: None,
        html: None,
        text: Some("t".into()),
        headers: Vec::new(),
        attachments: Vec::new(),
        tags: [].into(),
        metadata: None,
        scheduled_at: None,
    }
}

const TEMPLATE: Template<'static> =
    Template { id: "welcome", version: Some(2), props: Some(r#"{"a":1,"b":2}"#) };

fn of(email: &Email) -> Fingerprint {
    of_email(email, None).unwrap()
}

fn hex(fingerprint: Fingerprint) -> String {
    fingerprint.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A change by name.
type Change = (&'static str, fn(&mut Email));

#[test]
fn ways_of_writing_the_same_email_are_the_same_call() {
    let same: [Change; 9] = [
        ("nothing", |_| {}),
        ("case of a domain", |email| email.from = address("Shop <shop@EXAMPLE.com>")),
        ("quotes of a name", |email| email.to[0] = address("\"Jane\" <jane@example.com>")),
        ("email and name apart", |email| {
            email.to[0] = Address::from_parts("jane@example.com", Some("Jane")).unwrap();
        }),
        ("an empty name", |email| email.to[1] = Address::from_parts("joe@example.com", Some("")).unwrap()),
        ("order of metadata", |email| email.metadata = Some(r#"{"b":2,"a":1}"#.into())),
        ("white space of metadata", |email| email.metadata = Some(" { \"a\": 1,\n\"b\":2 }".into())),
        ("escapes of metadata", |email| email.metadata = Some(r#"{"\u0061":1,"b":2}"#.into())),
        ("order of headers", |email| email.headers.swap(0, 1)),
    ];
    for (name, change) in same {
        let mut email = full();
        change(&mut email);
        assert_eq!(of(&email), of(&full()), "{name}");
    }
}

#[test]
fn every_other_change_is_another_call() {
    let changes: [Change; 55] = [
        ("nothing", |_| {}),
        ("from", |email| email.from.email = "store@example.com".into()),
        ("case of a local part", |email| email.from.email = "Shop@example.com".into()),
        ("from's name", |email| email.from.name = Some("Store".into())),
        ("no name of from", |email| email.from.name = None),
        ("to", |email| email.to[1].email = "jo@example.com".into()),
        ("to's name", |email| email.to[0].name = Some("Janet".into())),
        ("a name for to", |email| email.to[1].name = Some("Jane".into())),
        ("order of to", |email| email.to.swap(0, 1)),
        ("one to less", |email| email.to.truncate(1)),
        ("no to", |email| email.to.clear()),
        ("one to more", |email| email.to.push(address("x@example.com"))),
        ("the same to twice", |email| email.to.push(address("joe@example.com"))),
        ("to moved to cc", |email| email.cc.extend(email.to.pop())),
        ("to moved to bcc", |email| email.bcc.extend(email.to.pop())),
        ("cc", |email| email.cc = addresses(&["x@example.com"])),
        ("no cc", |email| email.cc.clear()),
        ("cc moved to bcc", |email| email.bcc.insert(0, email.cc.pop().unwrap())),
        ("bcc", |email| email.bcc = addresses(&["x@example.com"])),
        ("no bcc", |email| email.bcc.clear()),
        ("bcc moved to reply_to", |email| email.reply_to.insert(0, email.bcc.pop().unwrap())),
        ("reply_to", |email| email.reply_to = addresses(&["x@example.com"])),
        ("no reply_to", |email| email.reply_to.clear()),
        ("subject", |email| email.subject = Some("Your order ".into())),
        ("empty subject", |email| email.subject = Some(String::new())),
        ("no subject", |email| email.subject = None),
        ("html", |email| email.html = Some("<p>Hallo</p>".into())),
        ("empty html", |email| email.html = Some(String::new())),
        ("no html", |email| email.html = None),
        ("html and text swapped", |email| std::mem::swap(&mut email.html, &mut email.text)),
        ("text", |email| email.text = Some("Hallo".into())),
        ("empty text", |email| email.text = Some(String::new())),
        ("no text", |email| email.text = None),
        ("value of a header", |email| email.headers[0].1 = "x".into()),
        ("name of a header", |email| email.headers[0].0 = "X-C".into()),
        ("case of a header", |email| email.headers[0].0 = "x-a".into()),
        ("order of one header's values", |email| email.headers.swap(0, 2)),
        ("one header less", |email| email.headers.truncate(2)),
        ("content of an attachment", |email| email.attachments[0].content = Bytes::from_static(b"b")),
        ("no content", |email| email.attachments[0].content = Bytes::new()),
        ("filename", |email| email.attachments[0].filename = "c.txt".into()),
        ("content type", |email| email.attachments[0].content_type = "text/html".into()),
        ("content id", |email| email.attachments[0].content_id = Some("x".into())),
        ("no content id", |email| email.attachments[0].content_id = None),
        ("order of attachments", |email| email.attachments.swap(0, 1)),
        ("one attachment less", |email| email.attachments.truncate(1)),
        ("value of a tag", |email| *email.tags.get_mut("kind").unwrap() = "a".into()),
        ("name of a tag", |email| {
            email.tags = [("sort".into(), "order".into()), ("team".into(), "a".into())].into()
        }),
        ("values of tags swapped", |email| {
            email.tags = [("kind".into(), "a".into()), ("team".into(), "order".into())].into();
        }),
        ("no tags", |email| email.tags.clear()),
        ("metadata", |email| email.metadata = Some(r#"{"a":1,"b":3}"#.into())),
        ("spelling of a number in metadata", |email| email.metadata = Some(r#"{"a":1.0,"b":2}"#.into())),
        ("no metadata", |email| email.metadata = None),
        ("spelling of scheduled_at", |email| {
            email.scheduled_at = Some(Scheduled::parse("2026-11-30T13:00:00+01:00").unwrap());
        }),
        ("no scheduled_at", |email| email.scheduled_at = None),
    ];
    let made: Vec<_> = changes
        .into_iter()
        .map(|(name, change)| {
            let mut email = full();
            change(&mut email);
            (name, of(&email))
        })
        .collect();
    for (index, (name, one)) in made.iter().enumerate() {
        for (other_name, other) in &made[index + 1..] {
            assert_ne!(one, other, "{name}, {other_name}");
        }
    }
}

#[test]
fn a_template_is_told_by_id_version_props_and_the_call() {
    let email = minimal();
    let with = |template| of_email(&email, Some(template)).unwrap();
    for props in [r#"{"b":2,"a":1}"#, " {\"a\":1, \"b\":2}"] {
        assert_eq!(with(Template { props: Some(props), ..TEMPLATE }), with(TEMPLATE), "{props}");
    }
    let all = [
        of(&email),
        with(TEMPLATE),
        with(Template { id: "welcome2", ..TEMPLATE }),
        with(Template { version: Some(3), ..TEMPLATE }),
        with(Template { version: None, ..TEMPLATE }),
        with(Template { props: Some("{}"), ..TEMPLATE }),
        with(Template { props: Some(r#"{"a":1,"b":3}"#), ..TEMPLATE }),
        with(Template { props: None, ..TEMPLATE }),
        of_template(&email, TEMPLATE).unwrap(),
        of_template(&full(), TEMPLATE).unwrap(),
        of_batch([Ok((&email, Some(TEMPLATE)))]).unwrap(),
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(!all[index + 1..].contains(one), "{index}");
    }
}

#[test]
fn a_batch_is_told_by_its_items_and_their_order() {
    let (a, b) = (minimal(), full());
    let (a, b) = (Ok((&a, None)), Ok((&b, None)));
    let sent = r#"{"to":"x","from":1}"#;
    let of = |items: &[Item<'_>]| of_batch(items.iter().copied()).unwrap();
    assert_eq!(of(&[a, Err(sent)]), of(&[a, Err(r#" { "from": 1, "to": "x" }"#)]));
    let all = [
        of(&[]),
        of(&[a]),
        of(&[b]),
        of(&[a, a]),
        of(&[a, b]),
        of(&[b, a]),
        of(&[Err(sent)]),
        of(&[Err(sent), Err(sent)]),
        of(&[Err(r#"{"to":"x","from":2}"#)]),
        of(&[Err("null")]),
        of(&[a, Err(sent)]),
        of(&[Err(sent), a]),
        of(&[a, Err(sent), b]),
        of_email(&minimal(), None).unwrap(),
    ];
    for (index, one) in all.iter().enumerate() {
        assert!(!all[index + 1..].contains(one), "{index}");
    }
}

#[test]
fn json_that_cannot_be_read_makes_no_fingerprint() {
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    let props = Template { props: Some(&deep), ..TEMPLATE };
    assert_eq!(of_email(&minimal(), Some(props)), Err(Fault::TooDeep));
    assert_eq!(of_template(&minimal(), props), Err(Fault::TooDeep));
    assert_eq!(of_batch([Err("{")]), Err(Fault::NotJson(1)));
    assert_eq!(of_email(&Email { metadata: Some("x".into()), ..minimal() }, None), Err(Fault::NotJson(0)));
}

/// Stored fingerprints are compared with new ones: if this fails, keys that are held no longer know their calls.
#[test]
fn the_form_of_a_fingerprint_does_not_change() {
    let (email, small) = (full(), minimal());
    let batch = [Ok((&small, Some(TEMPLATE))), Err(r#"{"to":"x"}"#)];
    let golden = [
        (of(&email), "012fdf210d7dbaf2d0da752625d85aa9f28e864a65607c4f1a78533efe8da05c3b"),
        (of_batch(batch).unwrap(), "016dbd46ff200126b48e0407b78d20fde82fb4d71504283d9e92dd5adc80bde188"),
        (
            of_template(&small, TEMPLATE).unwrap(),
            "01389d8bf4bf356c736c14906f0372ba7005fb752e8da2ecfccd2ef2905e48b585",
        ),
    ];
    for (made, expected) in golden {
        assert_eq!(hex(made), expected);
    }
}
