use proptest::prelude::*;
use restante_core::email::Email;

use super::*;
use crate::mail::compose::compose;
use crate::mail::compose::tests::{email, identity};

#[test]
fn what_was_not_composed_is_damaged() {
    let table: [&[u8]; 3] = [
        b"",
        b"Content-Type: text/plain\r\nContent-Disposition: attachment; filename=a\r\n\r\nnot base64!",
        b"Content-Disposition: attachment; filename=a\r\nContent-Transfer-Encoding: base64\r\n\r\nYQ==\r\n",
    ];
    for mime in table {
        assert_eq!(attachments_of(mime), Err(Damaged), "{}", mime.escape_ascii());
    }
}

#[test]
fn an_email_without_attachments_has_none() {
    let mime = b"From: a@example.com\r\nContent-Type: text/plain\r\n\r\nHi.\r\n";
    assert_eq!(attachments_of(mime), Ok(vec![]));
}

fn file(content_type: &str, content_id: Option<&str>) -> Attachment {
    Attachment {
        filename: "a.txt".to_owned(),
        content: b"\x00\xff file".to_vec().into(),
        content_type: content_type.to_owned(),
        content_id: content_id.map(str::to_owned),
    }
}

fn with(html: Option<&str>, text: Option<&str>, attachments: Vec<Attachment>) -> Email {
    Email { html: html.map(str::to_owned), text: text.map(str::to_owned), attachments, ..email() }
}

fn composed(email: &Email) -> Vec<u8> {
    compose(email, identity()).unwrap().to_vec()
}

#[test]
fn texts_come_back_without_the_line_end_that_was_added() {
    let table = [
        (None, Some("Hi.")),
        (None, Some("")),
        (Some("<p>ä</p>"), None),
        (Some("<p>one</p>\n<p>two </p>"), Some("one\n\ntwo \u{1b}\n")),
    ];
    for (html, text) in table {
        for files in [vec![], vec![file("text/plain", None)], vec![file("text/html", Some("logo"))]] {
            let mime = composed(&with(html, text, files));
            let found = texts_of(&mime).unwrap();
            let text = text.map(|text| text.strip_suffix('\n').unwrap_or(text));
            assert_eq!((found.html.as_deref(), found.text.as_deref()), (html, text));
        }
    }
}

#[test]
fn what_is_no_composed_email_has_no_texts() {
    let table: [&[u8]; 3] = [
        b"",
        b"Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n",
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\none\r\n--b\r\n\r\ntwo\r\n--b--\r\n",
    ];
    for mime in table {
        assert_eq!(texts_of(mime), Err(Damaged), "{}", mime.escape_ascii());
    }
}

fn body_text() -> impl Strategy<Value = String> {
    let chars = prop_oneof![
        4 => proptest::char::range(' ', '~'),
        2 => proptest::sample::select(vec!['\r', '\n', '.', '-', ' ', '\t', '=', '<', '&']),
        1 => any::<char>(),
    ];
    proptest::collection::vec(chars, 0..400)
        .prop_map(|it| it.into_iter().filter(|char| *char != '\0').collect())
}

proptest! {
    #[test]
    fn what_is_read_back_and_composed_again_is_the_same(
        html in proptest::option::of(body_text()),
        text in proptest::option::of(body_text()),
        inline in any::<bool>(),
    ) {
        let files = vec![file("text/html", inline.then_some("logo")), file("image/png", None)];
        let email = with(html.as_deref(), text.as_deref().or(html.is_none().then_some("")), files);
        let mime = composed(&email);
        let Texts { html, text } = texts_of(&mime).unwrap();
        prop_assert_eq!((html.is_some(), text.is_some()), (email.html.is_some(), email.text.is_some()));
        for (found, given) in [(&html, &email.html), (&text, &email.text)] {
            prop_assert!(found.as_ref().map(String::len) <= given.as_ref().map(String::len));
        }
        let again = Email { html, text, attachments: attachments_of(&mime).unwrap(), ..email };
        prop_assert_eq!(composed(&again), mime);
    }
}
