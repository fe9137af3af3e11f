use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn minimal() -> Email {
    Email {
        from: Address::parse("a@b").unwrap(),
        to: vec![Address::parse("c@d").unwrap()],
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        subject: None,
        html: None,
        text: Some(String::new()),
        headers: Vec::new(),
        attachments: Vec::new(),
        tags: [].into(),
        metadata: None,
        scheduled_at: None,
    }
}

fn attachment() -> Attachment {
    Attachment {
        filename: "a.txt".into(),
        content: Bytes::from_static(b"a"),
        content_type: "text/plain".into(),
        content_id: None,
    }
}

/// The params of what is wrong with a minimal email after a change.
fn params(change: impl FnOnce(&mut Email)) -> Vec<String> {
    let mut email = minimal();
    change(&mut email);
    match check(&email, Content::Own) {
        Ok(()) => Vec::new(),
        Err(faults) => faults.into_iter().map(|fault| fault.param).collect(),
    }
}

/// The params of what is wrong with attachments after a change of the only one.
fn of_attachment(change: impl FnOnce(&mut Attachment)) -> Vec<String> {
    let mut attachment = attachment();
    change(&mut attachment);
    params(|email| email.attachments.push(attachment))
}

const FINE: [&str; 0] = [];

#[test]
fn an_email_needs_a_recipient_and_content() {
    assert_eq!(params(|_| {}), FINE);
    assert_eq!(params(|email| email.to.clear()), ["to"]);
    assert_eq!(params(|email| email.cc = std::mem::take(&mut email.to)), FINE);
    assert_eq!(params(|email| email.bcc = std::mem::take(&mut email.to)), FINE);
    assert_eq!(params(|email| email.reply_to = std::mem::take(&mut email.to)), ["to"]);
    assert_eq!(params(|email| email.text = None), ["html"]);
    assert_eq!(params(|email| email.html = email.text.take()), FINE);
    assert_eq!(check(&Email { text: None, ..minimal() }, Content::Template), Ok(()));
}

#[test]
fn limits_are_reached_and_not_passed() {
    type Bound = (&'static str, usize, fn(&mut Email, usize));
    let table: [Bound; 12] = [
        ("to", 50, |email, length| email.to = vec![Address::parse("c@d").unwrap(); length]),
        ("cc", 50, |email, length| email.cc = vec![Address::parse("c@d").unwrap(); length]),
        ("bcc", 50, |email, length| email.bcc = vec![Address::parse("c@d").unwrap(); length]),
        ("reply_to", 50, |email, length| email.reply_to = vec![Address::parse("c@d").unwrap(); length]),
        ("subject", 998, |email, length| email.subject = Some("ä".repeat(length))),
        ("html", 524_288, |email, length| email.html = Some("a".repeat(length))),
        ("text", 524_288, |email, length| email.text = Some("a".repeat(length))),
        ("headers", 50, |email, length| email.headers = vec![("X-A".into(), "1".into()); length]),
        ("attachments", 20, |email, length| email.attachments = vec![attachment(); length]),
        ("tags", 50, |email, length| {
            email.tags = (0..length).map(|index| (index.to_string(), "a".into())).collect();
        }),
        ("metadata", 16_384, |email, length| {
            email.metadata = Some(format!(r#"{{"a":"{}"}}"#, "a".repeat(length - 8)));
        }),
        ("attachments", 26_214_400, |email, length| {
            email.html = Some("a".repeat(1000));
            email.text = Some("a".repeat(24));
            let content = Bytes::from(vec![0; (length - 1024) / 2]);
            email.attachments = vec![Attachment { content, ..attachment() }; 2];
            if !length.is_multiple_of(2) {
                email.text = Some("a".repeat(25));
            }
        }),
    ];
    for (param, longest, change) in table {
        assert_eq!(params(|email| change(email, longest)), FINE, "{param} of {longest}");
        assert_eq!(params(|email| change(email, longest + 1)), [param], "{param} over {longest}");
    }
}

#[test]
fn every_fault_is_told_by_the_name_of_its_field() {
    let mut email = minimal();
    let bad = Address { email: "a\r\nb@c".into(), name: None };
    email.from = Address { email: "a".into(), name: None };
    email.to = vec![minimal().from, minimal().from, minimal().from, bad.clone()];
    email.cc = vec![Address { email: "a@b".into(), name: Some("x\n".into()) }];
    email.bcc = vec![bad.clone()];
    email.reply_to = vec![bad];
    email.subject = Some("a\r\nBcc: b@c".into());
    email.html = Some("\0".into());
    email.text = Some("\0".into());
    email.headers = vec![
        ("X A".into(), "1".into()),
        ("X-B".into(), "1\n2".into()),
        ("X-C".into(), "1".into()),
        ("To".into(), "\0".into()),
    ];
    email.attachments = vec![
        attachment(),
        Attachment {
            filename: String::new(),
            content_type: "text".into(),
            content_id: Some("<a>".into()),
            ..attachment()
        },
    ];
    email.tags = [("a b".into(), "1".into()), ("kind".into(), String::new())].into();
    email.metadata = Some("[]".into());
    let faults = check(&email, Content::Own).unwrap_err();
    let told: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert_eq!(
        told,
        [
            "from: an address is written local@domain or Name <local@domain>",
            "to[3]: an address has no line breaks or control characters",
            "cc[0]: an address has no line breaks or control characters",
            "bcc[0]: an address has no line breaks or control characters",
            "reply_to[0]: an address has no line breaks or control characters",
            "subject: a subject has no line breaks or control characters",
            "html: the text has no NUL characters",
            "text: the text has no NUL characters",
            "headers: a name is ASCII letters, digits and !#$%&'*+-.^_`|~",
            "headers.X-B: a value has no line breaks or control characters",
            "headers.To: this header cannot be set",
            "headers.To: a value has no line breaks or control characters",
            "attachments[1].filename: a file name has 1 to 255 characters, no slashes and no control characters",
            "attachments[1].content_type: a content type is written type/subtype, and not multipart",
            "attachments[1].content_id: a content id has 1 to 255 ASCII letters, digits and -_.+=@",
            "tags: the name of a tag is 1 to 256 ASCII letters, digits, _ and -",
            "tags.kind: the value of a tag is 1 to 256 ASCII letters, digits, _ and -",
            "metadata: metadata is a JSON object",
        ]
    );
}

#[test]
fn headers_that_are_ours_cannot_be_set() {
    for name in [
        "From",
        "from",
        "FROM",
        "Sender",
        "To",
        "Cc",
        "Bcc",
        "Reply-To",
        "Subject",
        "Date",
        "Message-ID",
        "Message-Id",
        "MIME-Version",
        "Content-Type",
        "Content-Transfer-Encoding",
        "Content-Disposition",
        "content-anything",
        "DKIM-Signature",
        "Received",
        "Return-Path",
        "Delivered-To",
        "Resent-From",
        "Resent-Message-ID",
        "ARC-Seal",
        "Authentication-Results",
    ] {
        let told = params(|email| email.headers = vec![(name.into(), "1".into())]);
        assert_eq!(told, [format!("headers.{name}")]);
    }
    for name in [
        "X-A",
        "x",
        "In-Reply-To",
        "References",
        "List-Unsubscribe",
        "List-Unsubscribe-Post",
        "Auto-Submitted",
        "Precedence",
        "Feedback-ID",
        "X-From",
        "To-Do",
        "Contents",
        "X_A",
        "1",
    ] {
        assert_eq!(params(|email| email.headers = vec![(name.into(), "ä 1".into())]), FINE, "{name}");
    }
    for name in ["", " ", "X A", "X-A:", "X-A ", " X-A", "X-Ä", "X-A\r\nBcc", "X\0", "(X)", "X/A", "\"X\""] {
        assert_eq!(params(|email| email.headers = vec![(name.into(), "1".into())]), ["headers"], "{name:?}");
    }
}

#[test]
fn the_line_of_a_header_is_bounded() {
    let line = |name: usize, value: usize| {
        params(|email| email.headers = vec![("X".repeat(name), "v".repeat(value))])
    };
    assert_eq!(line(1, 0), FINE);
    assert_eq!(line(1, 995), FINE);
    assert_eq!(line(1, 996), ["headers.X"]);
    assert_eq!(line(996, 0), FINE);
    assert_eq!(line(997, 0), [format!("headers.{}", "X".repeat(997))]);
}

#[test]
fn files_have_harmless_names() {
    let longest = "ä".repeat(255);
    for name in ["a", "a.txt", "Rechnung März.pdf", "..a", "a\"b;c.txt", " ", "漢字", &longest] {
        assert_eq!(of_attachment(|attachment| attachment.filename = name.into()), FINE, "{name}");
    }
    let too_long = "a".repeat(256);
    for name in ["", ".", "..", "/", "a/b", "..\\a", "C:\\a", "a\r\nb", "a\0", "a\t", "a\u{2029}", &too_long]
    {
        let told = of_attachment(|attachment| attachment.filename = name.into());
        assert_eq!(told, ["attachments[0].filename"], "{name:?}");
    }
}

#[test]
fn content_types_have_two_parts_and_no_parameters() {
    let longest = format!("a/{}", "b".repeat(127));
    for text in [
        "text/plain",
        "TEXT/Plain",
        "application/vnd.api+json",
        "image/svg+xml",
        "message/rfc822",
        "x/1",
        &longest,
    ] {
        assert_eq!(of_attachment(|attachment| attachment.content_type = text.into()), FINE, "{text}");
    }
    let too_long = format!("{longest}b");
    for text in [
        "",
        "text",
        "/",
        "text/",
        "/plain",
        "text/plain/x",
        "text/plain; charset=utf-8",
        "text /plain",
        "text/*",
        "text/.x",
        "text/plain\r\nX: 1",
        "täxt/plain",
        "multipart/mixed",
        "Multipart/Related",
        &too_long,
    ] {
        let told = of_attachment(|attachment| attachment.content_type = text.into());
        assert_eq!(told, ["attachments[0].content_type"], "{text:?}");
    }
}

#[test]
fn content_ids_are_plain_and_differ() {
    let longest = "a".repeat(255);
    for text in ["logo", "logo.1@example.com", "a-_.+=@", &longest] {
        assert_eq!(of_attachment(|attachment| attachment.content_id = Some(text.into())), FINE, "{text}");
    }
    let too_long = "a".repeat(256);
    for text in ["", "<logo>", "a b", "a\r\nb", "logö", "a%20b", "a\"b", &too_long] {
        let told = of_attachment(|attachment| attachment.content_id = Some(text.into()));
        assert_eq!(told, ["attachments[0].content_id"], "{text:?}");
    }
    let files = |ids: [Option<&str>; 3]| {
        let of = |id: Option<&str>| Attachment { content_id: id.map(str::to_owned), ..attachment() };
        params(|email| email.attachments = ids.map(of).into())
    };
    assert_eq!(files([Some("a"), Some("b"), Some("A")]), FINE);
    assert_eq!(files([None, None, None]), FINE);
    assert_eq!(files([Some("a"), None, Some("a")]), ["attachments[2].content_id"]);
}

#[test]
fn tags_are_what_clients_can_read() {
    let longest = "a".repeat(256);
    let too_long = "a".repeat(257);
    for text in ["a", "0", "_", "-", "Kind_of-1", &longest] {
        assert_eq!(params(|email| email.tags = [(text.into(), text.into())].into()), FINE, "{text}");
    }
    for text in ["", " ", "a b", "a.b", "a:b", "ä", "a\n", &too_long] {
        assert_eq!(params(|email| email.tags = [(text.into(), "a".into())].into()), ["tags"], "{text:?}");
        assert_eq!(params(|email| email.tags = [("a".into(), text.into())].into()), ["tags.a"], "{text:?}");
    }
}

#[test]
fn metadata_is_an_object_in_one_form() {
    let table = [
        ("{}", Ok("{}")),
        (" { \"b\" : 1.0 , \"a\" : [ null ] } ", Ok(r#"{"a":[null],"b":1.0}"#)),
        ("", Err("metadata: not JSON from byte 0 on")),
        ("{", Err("metadata: not JSON from byte 1 on")),
        ("null", Err("metadata: metadata is a JSON object")),
        ("[{}]", Err("metadata: metadata is a JSON object")),
        ("\"{}\"", Err("metadata: metadata is a JSON object")),
    ];
    for (text, expected) in table {
        let read = metadata(text).map_err(|fault| fault.to_string());
        assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
    }
    let deep = format!("{}{}", r#"{"a":"#.repeat(129), "1".to_owned() + &"}".repeat(129));
    assert_eq!(
        metadata(&deep).unwrap_err().to_string(),
        "metadata: the JSON is nested more than 128 levels deep"
    );
}

proptest! {
    #[test]
    fn nothing_that_passes_can_end_a_line_of_the_head(
        subject in any::<String>(),
        name in "[A-Z][-:\r\n a-z]{0,6}",
        value in "([ -~]|[\r\n\0\t\u{85}\u{2028}]){0,12}",
        filename in any::<String>(),
        content_type in "[a-z]{1,4}/[a-z;\r\n]{1,4}",
        content_id in "[a-z<>@\r\n]{1,4}",
    ) {
        let mut email = minimal();
        email.subject = Some(subject.clone());
        email.headers = vec![(name.clone(), value.clone())];
        email.attachments = vec![Attachment {
            filename: filename.clone(),
            content_type: content_type.clone(),
            content_id: Some(content_id.clone()),
            ..attachment()
        }];
        if check(&email, Content::Own).is_ok() {
            for text in [subject, name, value, filename, content_type, content_id] {
                prop_assert!(!text.contains(|c: char| c < ' ' || c == '\u{7f}'), "{text:?}");
            }
        }
    }
}
