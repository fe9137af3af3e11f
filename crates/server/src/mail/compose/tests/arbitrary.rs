//! Whatever core lets through: no header that nobody asked for, no line too long, and read back as it was.

use super::*;

/// Text without what core refuses in the head of an email.
fn phrase(chars_max: usize) -> impl Strategy<Value = String> {
    let chars = prop_oneof![
        4 => proptest::char::range(' ', '~'),
        2 => Just(' '),
        1 => proptest::sample::select(vec!['"', '\\', '<', '>', ',', ';', ':', '@', '=', '?', '_', '(', ')', '.']),
        2 => any::<char>(),
    ];
    let kept = |char: &char| !char.is_control() && !['\u{2028}', '\u{2029}'].contains(char);
    proptest::collection::vec(chars, 0..chars_max).prop_map(move |it| it.into_iter().filter(kept).collect())
}

fn body_text() -> impl Strategy<Value = String> {
    let chars = prop_oneof![
        4 => proptest::char::range(' ', '~'),
        1 => proptest::sample::select(vec!['\r', '\n', '.', '-', ' ', '\t', '=']),
        1 => any::<char>(),
    ];
    proptest::collection::vec(chars, 0..2000)
        .prop_map(|it| it.into_iter().filter(|char| *char != '\0').collect())
}

fn file() -> impl Strategy<Value = Attachment> {
    let content = proptest::collection::vec(any::<u8>(), 0..300);
    let name = phrase(255).prop_map(|name| format!("f{}", name.replace(['/', '\\'], "")));
    let kind = proptest::sample::select(vec!["text/plain", "text/html", "image/png", "application/x.y+json"]);
    (name, kind, content).prop_map(|(name, kind, content)| {
        let name: String = name.trim_end().chars().take(255).collect();
        attachment(&name, kind, &content, None)
    })
}

prop_compose! {
    fn emails()(
        names in proptest::collection::vec(proptest::option::of(phrase(250)), 4),
        subject in proptest::option::of(phrase(900)),
        html in proptest::option::of(body_text()),
        text in body_text(),
        headers in proptest::collection::vec(("X-[!-9;-~]{0,40}", phrase(300)), 0..4),
        attachments in proptest::collection::vec(file(), 0..3),
    ) -> Email {
        let mut email = email();
        let named = |index: usize, email: &str| {
            let name = names[index].as_deref().map(str::trim).filter(|name| !name.is_empty());
            address(email, name)
        };
        email.from = named(0, "jane@example.com");
        email.to = vec![named(1, "a@example.org"), named(2, "b@example.org")];
        email.reply_to = vec![named(3, "c@example.org")];
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        email.headers = headers;
        email.headers.retain(|(name, value)| {
            name.bytes().all(is_token) && name.len() + 2 + value.len() <= 998
        });
        (email.subject, email.html, email.text, email.attachments) = (subject, html, Some(text), attachments);
        email
    }
}

/// The names of the headers, as a receiver that knows no MIME sees them.
fn header_names(text: &str) -> Vec<&str> {
    let head = text.split("\r\n\r\n").next().unwrap();
    let starts = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
    starts.map(|line| line.split_once(':').unwrap().0).collect()
}

proptest! {
    #[test]
    fn no_value_makes_a_header_or_a_long_line(email in emails()) {
        let text = composed(&email);
        prop_assert!(text.is_ascii());
        let mut expected = vec!["From", "To", "Reply-To"];
        if email.subject.as_deref().is_some_and(|subject| !subject.is_empty()) {
            expected.push("Subject");
        }
        expected.extend(["Date", "Message-ID", "MIME-Version"]);
        expected.extend(email.headers.iter().map(|(name, _)| name.as_str()));
        expected.push("Content-Type");
        let mut found = header_names(&text);
        found.retain(|name| *name != "Content-Transfer-Encoding");
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn whatever_goes_in_comes_out(email in emails()) {
        let text = composed(&email);
        let message = parsed(&text);
        prop_assert_eq!(attachments_of(text.as_bytes()).unwrap(), email.attachments.clone());
        let body = email.text.as_deref().map(lines);
        prop_assert_eq!(message.text_bodies().next().unwrap().text_contents(), body.as_deref());
        let name = |address: &Address| (address.email.clone(), address.name.clone());
        // Encoded words are the caller's own where he writes some.
        let is_plain = |text: &str| !text.contains("=?");
        let all = [&email.from].into_iter().chain(&email.to);
        if all.clone().filter_map(|it| it.name.as_deref()).all(is_plain) {
            let found = [pairs(message.from()), pairs(message.to())].concat();
            prop_assert_eq!(found, all.map(name).collect::<Vec<_>>());
        }
        let subject = email.subject.as_deref().unwrap_or_default();
        if is_plain(subject) {
            prop_assert_eq!(message.subject().unwrap_or_default().trim(), subject.trim());
        }
    }
}
