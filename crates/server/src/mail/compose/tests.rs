use std::collections::BTreeMap;

use mail_parser::{Addr, Message, MessageParser, MimeHeaders};
use proptest::prelude::*;

use super::*;
use crate::mail::parse::attachments_of;

mod arbitrary;

pub(in crate::mail) fn email() -> Email {
    Email {
        from: address("jane@example.com", Some("Jane")),
        to: vec![address("to@example.org", None)],
        cc: vec![],
        bcc: vec![],
        reply_to: vec![],
        subject: Some("Hello".to_owned()),
        html: None,
        text: Some("Hi.\n".to_owned()),
        headers: vec![],
        attachments: vec![],
        tags: BTreeMap::new(),
        metadata: None,
        scheduled_at: None,
    }
}

pub(in crate::mail) fn address(email: &str, name: Option<&str>) -> Address {
    Address { email: email.to_owned(), name: name.map(str::to_owned) }
}

pub(in crate::mail) fn identity() -> Identity<'static> {
    Identity { message_id: "em_0190", date: Timestamp::from_millis(1_796_080_781_999) }
}

fn attachment(filename: &str, content_type: &str, content: &[u8], content_id: Option<&str>) -> Attachment {
    Attachment {
        filename: filename.to_owned(),
        content: content.to_vec().into(),
        content_type: content_type.to_owned(),
        content_id: content_id.map(str::to_owned),
    }
}

fn composed(email: &Email) -> String {
    let bytes = compose(email, identity()).unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.ends_with("\r\n"));
    for line in text.split("\r\n") {
        assert!(!line.contains(['\r', '\n']) && line.len() <= 998, "{line:?}");
    }
    text
}

fn parsed(text: &str) -> Message<'_> {
    MessageParser::default().parse(text.as_bytes()).unwrap()
}

fn pairs(list: Option<&mail_parser::Address<'_>>) -> Vec<(String, Option<String>)> {
    let pair =
        |it: &Addr<'_>| (it.address.as_deref().unwrap().to_owned(), it.name.as_deref().map(str::to_owned));
    list.into_iter().flat_map(|list| list.iter()).map(pair).collect()
}

#[test]
fn a_small_email_is_exactly_this() {
    let mut email = email();
    email.cc = vec![address("cc@example.org", Some("Müller, Zoë"))];
    email.reply_to = vec![address("re@example.org", None)];
    email.headers = vec![("X-Order".to_owned(), "42".to_owned())];
    let expected = "From: \"Jane\" <jane@example.com>\r\n\
        To: <to@example.org>\r\n\
        Cc: =?utf-8?B?TcO8bGxlciwgWm/Dqw==?= <cc@example.org>\r\n\
        Reply-To: <re@example.org>\r\n\
        Subject: Hello\r\n\
        Date: Mon, 30 Nov 2026 23:19:41 +0000\r\n\
        Message-ID: <em_0190@example.com>\r\n\
        MIME-Version: 1.0\r\n\
        X-Order: 42\r\n\
        Content-Type: text/plain; charset=\"utf-8\"\r\n\
        Content-Transfer-Encoding: 7bit\r\n\
        \r\n\
        Hi.\r\n";
    assert_eq!(composed(&email), expected);
}

#[test]
fn parts_are_nested_as_clients_expect_them() {
    let mut email = email();
    let shape = |email: &Email| {
        let text = composed(email);
        let message = parsed(&text);
        let kinds = message.parts.iter().map(|part| {
            let kind = part.content_type().unwrap();
            format!("{}/{}", kind.ctype(), kind.subtype().unwrap())
        });
        kinds.collect::<Vec<_>>().join(" ")
    };
    let (image, file) = (
        attachment("logo.png", "image/png", b"\x89PNG", Some("logo@example.com")),
        attachment("a.pdf", "application/pdf", b"%PDF", None),
    );
    assert_eq!(shape(&email), "text/plain");
    email.html = Some("<p>Hi.</p>".to_owned());
    assert_eq!(shape(&email), "multipart/alternative text/plain text/html");
    email.attachments = vec![file.clone()];
    assert_eq!(shape(&email), "multipart/mixed multipart/alternative text/plain text/html application/pdf");
    email.attachments = vec![image.clone(), file];
    assert_eq!(
        shape(&email),
        "multipart/mixed multipart/alternative text/plain multipart/related text/html image/png application/pdf"
    );
    email.text = None;
    email.attachments = vec![image];
    assert_eq!(shape(&email), "multipart/related text/html image/png");
    // Without HTML nothing can show the image.
    (email.html, email.text) = (None, Some("Hi.".to_owned()));
    assert_eq!(shape(&email), "multipart/mixed text/plain image/png");
}

#[test]
fn names_and_subjects_are_read_as_they_were_written() {
    let long = "Grüße aus dem Süden, und noch viel mehr davon: ".repeat(12);
    let words = "many words ".repeat(22);
    let table = [
        "Jane",
        "Doe, Jane (Sales) <x@y>; \"quoted\" \\ back",
        "Zoë Müller",
        "山田 太郎",
        "👩‍👩‍👧‍👦 family",
        "two  spaces",
        "x",
        "a.b@example.com",
        "naïve = ? _ =20",
        long.trim(),
        &"w".repeat(250),
        words.trim(),
    ];
    for value in table {
        let mut email = email();
        let name: String = value.chars().take(250).collect();
        email.subject = Some(value.to_owned());
        email.from.name = Some(name.trim().to_owned());
        email.to = vec![address("a@example.org", Some(name.trim())), address("b@example.org", None)];
        email.reply_to = email.to.clone();
        let text = composed(&email);
        assert!(text.is_ascii());
        let message = parsed(&text);
        assert_eq!(message.subject(), Some(value));
        let name = Some(name.trim().to_owned());
        assert_eq!(pairs(message.from()), [("jane@example.com".to_owned(), name.clone())]);
        let list = [("a@example.org".to_owned(), name), ("b@example.org".to_owned(), None)];
        assert_eq!(pairs(message.to()), list);
        assert_eq!(pairs(message.reply_to()), list);
    }
}

#[test]
fn text_keeps_its_lines() {
    let long = "x".repeat(5000);
    let umlauts = "ä".repeat(3000);
    let table = [
        ("", "\r\n"),
        ("a", "a\r\n"),
        ("a\n", "a\r\n"),
        ("a\n\n", "a\r\n\r\n"),
        ("a\rb\nc\r\nd\n\re", "a\r\nb\r\nc\r\nd\r\n\r\ne\r\n"),
        (".\n..dot\n.", ".\r\n..dot\r\n.\r\n"),
        ("trailing \t\nspace ", "trailing \t\r\nspace \r\n"),
        ("From here\n>From there", "From here\r\n>From there\r\n"),
        ("=3D =\n", "=3D =\r\n"),
        ("bell\u{7}, escape\u{1b}[1m, del\u{7f}", "bell\u{7}, escape\u{1b}[1m, del\u{7f}\r\n"),
        ("Grüße\n山田\n👋", "Grüße\r\n山田\r\n👋\r\n"),
        (&long, &format!("{long}\r\n")),
        (&umlauts, &format!("{umlauts}\r\n")),
    ];
    for (given, expected) in table {
        for is_html in [false, true] {
            let mut email = email();
            (email.text, email.html) = (Some(given.to_owned()), None);
            if is_html {
                email.html = Some(given.to_owned());
            }
            let text = composed(&email);
            assert!(text.is_ascii());
            let message = parsed(&text);
            assert_eq!(message.text_bodies().next().unwrap().text_contents(), Some(expected), "{given:?}");
            let html = message.html_bodies().next().filter(|part| part.is_text_html());
            assert_eq!(html.and_then(|it| it.text_contents()), is_html.then_some(expected), "{given:?}");
        }
    }
}

#[test]
fn attachments_are_the_bytes_that_were_given() {
    let all: Vec<u8> = (0..=255).collect();
    let files = vec![
        attachment("logo.png", "image/png", &all.repeat(40), Some("logo.1@example.com")),
        attachment("zero", "application/octet-stream", b"", None),
        attachment("Jahresabschluß 2026, \"final\" 山田.csv", "text/csv", b"a;\xe4\r\nb\n\rc\0", None),
        attachment("page.html", "text/html", "<p>ä</p>\n".as_bytes(), None),
        attachment(&"long name ".repeat(25), "application/pdf", b"%PDF\n.\n..\n--x--\n", None),
        attachment(&"ß".repeat(255), "application/x-thing+json", b"{}", None),
        attachment("=?utf-8?q?no?=", "text/plain", b"", None),
        attachment(&"=?x".repeat(85), "text/plain", b"", None),
        attachment(
            &format!("example.p  of {} the {}", "]".repeat(29), "\"".repeat(9)),
            "text/plain",
            b"",
            None,
        ),
        attachment(&format!("{}  b  {}.txt", "a".repeat(40), "\"".repeat(15)), "text/plain", b"", None),
        attachment("100%25=?utf-8'' ;.txt", "text/plain", b"bare\rcarriage", None),
    ];
    let mut email = email();
    email.html = Some("<img src=\"cid:logo.1@example.com\">".to_owned());
    email.attachments = files.clone();
    let text = composed(&email);
    assert!(text.is_ascii());
    for (found, file) in attachments_of(text.as_bytes()).unwrap().iter().zip(&files) {
        assert_eq!(found, file);
    }
    assert_eq!(attachments_of(text.as_bytes()).unwrap().len(), files.len());
    let message = parsed(&text);
    let (plain, names): (Vec<_>, Vec<_>) =
        message.attachments().map(|part| (part.contents().to_vec(), part.attachment_name().unwrap())).unzip();
    assert_eq!(names, files.iter().map(|file| file.filename.as_str()).collect::<Vec<_>>());
    assert_eq!((&plain[0], &plain[1]), (&files[0].content.to_vec(), &vec![]));
    assert_eq!(message.body_html(0).as_deref(), Some("<img src=\"cid:logo.1@example.com\">\r\n"));
}

#[test]
fn an_attached_email_is_a_file() {
    let mut email = email();
    email.attachments = vec![attachment("mail.eml", "Message/RFC822", b"Subject: inner\r\n\r\nbody", None)];
    let text = composed(&email);
    let found = attachments_of(text.as_bytes()).unwrap();
    assert_eq!(
        found,
        [attachment("mail.eml", "application/octet-stream", &email.attachments[0].content, None)]
    );
    // What is frozen once more is the same.
    email.attachments = found;
    assert_eq!(composed(&email), text);
}

#[test]
fn blind_copies_are_blind() {
    let mut email = email();
    email.bcc = vec![address("secret@example.net", Some("Secret"))];
    let text = composed(&email).to_lowercase();
    assert!(!text.contains("secret") && !text.contains("bcc"));
    email.to.clear();
    assert!(!composed(&email).contains("To:"));
}

#[test]
fn structured_headers_are_not_encoded() {
    let url = format!("<https://example.com/unsubscribe?token={}>", "t".repeat(600));
    let mut email = email();
    email.headers = vec![
        ("List-Unsubscribe".to_owned(), format!("{url}, <mailto:leave@example.com>")),
        ("List-Unsubscribe-Post".to_owned(), "List-Unsubscribe=One-Click".to_owned()),
        ("X-Name".to_owned(), "Grüße".to_owned()),
        ("X-Empty".to_owned(), String::new()),
    ];
    let text = composed(&email);
    let expected = format!(
        "List-Unsubscribe: {url},\r\n <mailto:leave@example.com>\r\n\
         List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n\
         X-Name: =?utf-8?B?R3LDvMOfZQ==?=\r\n\
         X-Empty: \r\n"
    );
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn a_utf_8_local_part_stays_as_it_is() {
    let mut email = email();
    email.to = vec![address("zoë@example.org", Some("Zoë"))];
    let text = composed(&email);
    assert!(text.contains("<zoë@example.org>\r\n"));
    assert_eq!(pairs(parsed(&text).to()), [("zoë@example.org".to_owned(), Some("Zoë".to_owned()))]);
}

#[test]
fn the_same_email_gives_the_same_bytes() {
    let mut email = email();
    email.html = Some("<p>Hi.</p>".to_owned());
    email.attachments = vec![attachment("a", "image/png", b"\x89PNG", Some("a"))];
    let first = composed(&email);
    assert_eq!(composed(&email), first);
    let other = Identity { message_id: "em_0191", ..identity() };
    assert_ne!(compose(&email, other).unwrap(), first.as_bytes());
}

#[test]
fn a_text_that_holds_the_boundary_gets_another() {
    let mut email = email();
    email.html = Some("<p>Hi.</p>".to_owned());
    let usual = composed(&email);
    let boundary = usual.lines().find(|line| line.starts_with("--")).unwrap().to_owned();
    let text = format!("{boundary}\r\n\r\nforged\r\n{boundary}--\r\n");
    email.text = Some(text.clone());
    let unusual = composed(&email);
    let message = parsed(&unusual);
    assert_eq!(message.parts.len(), 3);
    assert_eq!(message.body_text(0).as_deref(), Some(text.as_str()));
}

#[test]
fn nothing_breaks_out_of_a_header() {
    type Spoil = fn(&mut Email, &str);
    let fields: [(&str, Spoil); 8] = [
        ("from", |email, evil| email.from.name = Some(evil.to_owned())),
        ("from", |email, evil| email.from.email = format!("jane{evil}@example.com")),
        ("to[0]", |email, evil| email.to[0].name = Some(evil.to_owned())),
        ("to[0]", |email, evil| email.to[0].email = format!("a@example.org{evil}")),
        ("subject", |email, evil| email.subject = Some(evil.to_owned())),
        ("headers.X-A", |email, evil| email.headers = vec![("X-A".to_owned(), evil.to_owned())]),
        ("headers", |email, evil| email.headers = vec![(evil.to_owned(), "b".to_owned())]),
        ("attachments[0].filename", |email, evil| {
            email.attachments = vec![attachment(evil, "text/plain", b"", None)];
        }),
    ];
    for evil in ["a\r\nBcc: x@example.com", "a\nb", "a\rb", "a\0b", "\r\n\r\nbody"] {
        for (param, spoil) in fields {
            let mut email = email();
            spoil(&mut email, evil);
            let Err(Fault::Form(faults)) = compose(&email, identity()) else { panic!("{param} {evil:?}") };
            assert_eq!(faults[0].param, param);
        }
        let identity = Identity { message_id: evil, ..identity() };
        assert_eq!(compose(&email(), identity), Err(Fault::MessageId));
    }
    let mut two = email();
    two.to[0].email = "a@example.org>, <b@example.org".to_owned();
    assert!(compose(&two, identity()).is_err());
    for name in ["From", "bcc", "SUBJECT", "Content-Type", "Message-Id", "DKIM-Signature"] {
        let mut email = email();
        email.headers = vec![(name.to_owned(), "x".to_owned())];
        assert!(compose(&email, identity()).is_err(), "{name}");
    }
}

#[test]
fn a_subject_that_looks_encoded_is_read_as_it_was_written() {
    for subject in ["=?utf-8?q?no?=", "a =?utf-8?B?bm8=?= b", "=?", &"ö=?".repeat(120)] {
        let mut email = email();
        email.subject = Some(subject.to_owned());
        let text = composed(&email);
        assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 78 || !line.contains("=?")));
        assert_eq!(parsed(&text).subject(), Some(subject));
    }
}
