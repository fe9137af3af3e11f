//! Emails whose every text is a stranger's.

use restante_core::Timestamp;
use restante_core::email::{Address, Attachment, Email};

use super::Input;
use crate::mail::compose::{Identity, compose};
use crate::mail::parse::{Texts, attachments_of, headers_of, texts_of};

/// Longest line (RFC 5322, 2.1.1), without its end.
const LINE_BYTES_MAX: usize = 998;
const IDENTITY: Identity<'_> =
    Identity { message_id: "em_0190", date: Timestamp::from_millis(1_796_080_781_999) };
const CONTENT_TYPES: [&str; 4] = ["text/plain", "text/HTML", "image/png", "message/rfc822"];

/// An email that is composed has the header lines it was given and no others, no long lines, and the texts and files it
/// was given; and SMTP ends it where it ends.
pub(super) fn nothing_breaks_out_of_an_email(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if let Ok(address) = Address::parse(&input.text()) {
        assert_eq!(Address::parse(&address.to_string()).as_ref(), Ok(&address), "written and read again");
    }
    let email = email(&mut input);
    let Ok(mime) = compose(&email, IDENTITY) else { return };
    check_head(&email, &mime);
    for line in mime.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(line.len() <= LINE_BYTES_MAX && !line.contains(&b'\r'), "{}", line.escape_ascii());
    }
    crate::channel::smtp::fuzzing::content_ends_where_it_ends(&mime);
    check_parts(&email, &mime);
}

fn email(input: &mut Input<'_>) -> Email {
    let flags = input.byte();
    let is_set = |bit: u8| flags & (1 << bit) != 0;
    let mut address = |fallback: &str| {
        let (email, name) = (input.text(), input.text());
        let email = if email.is_empty() { fallback } else { &email };
        Address { email: email.to_owned(), name: Some(name.into_owned()).filter(|name| !name.is_empty()) }
    };
    let (from, to) = (address("jane@example.com"), vec![address("a@example.org"), address("b@example.org")]);
    let cc = is_set(0).then(|| address("c@example.org")).into_iter().collect();
    let reply_to = is_set(1).then(|| address("d@example.org")).into_iter().collect();
    let subject = is_set(2).then(|| input.text().into_owned());
    let headers = (0..flags >> 6).map(|_| (input.text().into_owned(), input.text().into_owned())).collect();
    let files = usize::from(is_set(3)) + usize::from(is_set(4));
    let attachments = (0..files).map(|index| file(index, input)).collect();
    let html = is_set(5).then(|| input.text().into_owned());
    let text = Some(input.text().into_owned()).filter(|text| !text.is_empty() || html.is_none());
    Email {
        from,
        to,
        cc,
        bcc: vec![Address { email: "blind@bcc.example".to_owned(), name: None }],
        reply_to,
        subject,
        html,
        text,
        headers,
        attachments,
        tags: [].into(),
        metadata: None,
        scheduled_at: None,
    }
}

fn file(index: usize, input: &mut Input<'_>) -> Attachment {
    let (filename, kind, content) = (input.text(), input.byte(), input.bytes());
    Attachment {
        filename: filename.into_owned(),
        content: content.to_vec().into(),
        content_type: CONTENT_TYPES[usize::from(kind) % CONTENT_TYPES.len()].to_owned(),
        content_id: (kind >= 0x80).then(|| format!("file.{index}")),
    }
}

/// The head as a receiver sees it that knows no MIME.
fn check_head(email: &Email, mime: &[u8]) {
    let end = mime.windows(4).position(|window| window == b"\r\n\r\n").expect("an email has a head");
    let lines = String::from_utf8_lossy(&mime[..end]).into_owned();
    let starts = lines.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
    let mut found: Vec<&str> =
        starts.map(|line| line.split_once(':').map_or(line, |(name, _)| name)).collect();
    found.retain(|name| *name != "Content-Transfer-Encoding");
    let mut expected = vec!["From", "To"];
    let mut expect = |name, wanted: bool| expected.extend(Some(name).filter(|_| wanted));
    expect("Cc", !email.cc.is_empty());
    expect("Reply-To", !email.reply_to.is_empty());
    expect("Subject", email.subject.as_deref().is_some_and(|subject| !subject.is_empty()));
    expected.extend(["Date", "Message-ID", "MIME-Version"]);
    expected.extend(email.headers.iter().map(|(name, _)| name.as_str()));
    expected.push("Content-Type");
    assert_eq!(found, expected);
    assert_eq!(headers_of(mime).map(|lines| lines.len()), Ok(lines_of(&lines)), "a parser finds as many");
}

fn lines_of(head: &str) -> usize {
    head.split("\r\n").filter(|line| !line.starts_with([' ', '\t'])).count()
}

/// The parts as they are read back when a scheduled email changes, and that composing them again changes nothing.
fn check_parts(email: &Email, mime: &[u8]) {
    let attachments = attachments_of(mime).expect("what was composed is read");
    let (inline, others): (Vec<_>, Vec<_>) =
        email.attachments.iter().partition(|it| it.content_id.is_some() && email.html.is_some());
    let given: Vec<&Attachment> = inline.into_iter().chain(others).collect();
    assert_eq!(attachments.len(), given.len());
    for (found, given) in attachments.iter().zip(given) {
        assert_eq!((&found.filename, &found.content), (&given.filename, &given.content));
        assert_eq!(found.content_id, given.content_id);
    }
    let Texts { html, text } = texts_of(mime).expect("what was composed is read");
    assert_eq!((html.is_some(), text.is_some()), (email.html.is_some(), email.text.is_some()));
    let again = Email { html, text, attachments, ..email.clone() };
    assert_eq!(compose(&again, IDENTITY).as_deref(), Ok(mime), "what is frozen again is the same");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_with_everything_is_an_email_that_is_composed() {
        let mut input = Input::new(include_bytes!("../../../../fuzz/corpus/mime/full"));
        input.text();
        let email = email(&mut input);
        assert_eq!((email.headers.len(), email.attachments.len()), (3, 2));
        assert!(compose(&email, IDENTITY).is_ok());
    }
}
