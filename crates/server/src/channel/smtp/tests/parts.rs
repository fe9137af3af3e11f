//! The parts that need no server: replies, dots, relays, hosts, offers.

use proptest::collection::vec;
use proptest::prelude::*;
use url::Host;

use super::super::dots::{Dots, END};
use super::super::exchange::{NullMx, hosts};
use super::super::extensions::Extensions;
use super::super::reply::{Answer, Inbox, LINE_BYTES_MAX, LINES_MAX, Malformed};
use super::*;

/// All whole replies, and what stopped reading them.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Answer>, Option<Malformed>) {
    let (mut inbox, mut answers) = (Inbox::default(), Vec::new());
    for piece in pieces {
        inbox.feed(piece);
        loop {
            match inbox.next() {
                Ok(Some(answer)) => answers.push(answer),
                Ok(None) => break,
                Err(malformed) => return (answers, Some(malformed)),
            }
        }
    }
    (answers, None)
}

fn read_one(text: &str) -> Reply {
    let (answers, malformed) = read([text.as_bytes()]);
    assert_eq!((answers.len(), malformed), (1, None), "{text:?}");
    answers[0].reply()
}

#[test]
fn replies_are_read() {
    let table = [
        ("250 ok\r\n", 250, None, "ok"),
        ("250\r\n", 250, None, ""),
        ("250 \n", 250, None, ""),
        ("250-\r\n250-a\r\n250 b\r\n", 250, None, "a b"),
        ("550 5.1.1 nobody\r\n", 550, Some((5, 1, 1)), "nobody"),
        ("550-5.1.1 no\r\n550 5.1.1 body\r\n", 550, Some((5, 1, 1)), "no body"),
        ("550-no\r\n550 5.7.999 body\r\n", 550, Some((5, 7, 999)), "no body"),
        ("452 4.2.2\r\n", 452, Some((4, 2, 2)), ""),
        ("550 4.1.1 nobody\r\n", 550, None, "4.1.1 nobody"),
        ("550 5.1 nobody\r\n", 550, None, "5.1 nobody"),
        ("550 5.1.1.1 nobody\r\n", 550, None, "5.1.1.1 nobody"),
        ("550 5.1.1000 nobody\r\n", 550, None, "5.1.1000 nobody"),
        ("550 5..1 nobody\r\n", 550, None, "5..1 nobody"),
        ("550 5.+1.1 nobody\r\n", 550, None, "5.+1.1 nobody"),
        ("250 a\u{1b}[1m\tb\r\n", 250, None, "a [1m b"),
        ("599 ü\r\n", 599, None, "ü"),
    ];
    for (text, code, enhanced, rest) in table {
        assert_eq!(read_one(text), Reply { code, enhanced, text: rest.to_owned() }, "{text:?}");
    }
}

#[test]
fn what_is_no_reply_is_not_taken_for_one() {
    let table = [
        ("\r\n", Malformed::NoCode),
        ("25\r\n", Malformed::NoCode),
        ("2500 ok\r\n", Malformed::NoCode),
        ("199 ok\r\n", Malformed::NoCode),
        ("600 ok\r\n", Malformed::NoCode),
        ("+50 ok\r\n", Malformed::NoCode),
        ("25٣ ok\r\n", Malformed::NoCode),
        ("HTTP/1.1 400 Bad Request\r\n", Malformed::NoCode),
        ("250-a\r\n251 b\r\n", Malformed::Codes),
        ("250-a\r\nb\r\n", Malformed::NoCode),
    ];
    for (text, malformed) in table {
        assert_eq!(read([text.as_bytes()]), (Vec::new(), Some(malformed)), "{text:?}");
    }
    for unfinished in ["", "250 ok", "250 ok\r", "250-a\r\n", "250-a\r\n250"] {
        assert_eq!(read([unfinished.as_bytes()]), (Vec::new(), None), "{unfinished:?}");
    }
}

#[test]
fn lines_and_replies_have_an_end() {
    let line = |bytes: usize| format!("250 {}\r\n", "x".repeat(bytes - 6));
    assert_eq!(read_one(&line(LINE_BYTES_MAX)).text, "x".repeat(500));
    assert_eq!(read([line(LINE_BYTES_MAX + 1).as_bytes()]).1, Some(Malformed::LongLine));
    assert_eq!(read([&[b'x'; LINE_BYTES_MAX - 1][..]]).1, None);
    assert_eq!(read([&[b'x'; LINE_BYTES_MAX][..]]).1, Some(Malformed::LongLine));
    let reply = |lines: usize| "250-x\r\n".repeat(lines - 1) + "250 x\r\n";
    assert_eq!(read([reply(LINES_MAX).as_bytes()]).0[0].lines.len(), LINES_MAX);
    assert_eq!(read([reply(LINES_MAX + 1).as_bytes()]).1, Some(Malformed::ManyLines));
}

/// Bytes that look like replies more often than chance would have it.
fn like_replies() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..20),
        "[2-5][0-9]{2}[ -][ -~]{0,20}\r?\n".prop_map(String::into_bytes),
        "[2-5][0-9]{2}[ -]?[245]\\.[0-9]{1,4}\\.[0-9]{1,4} ?".prop_map(String::into_bytes),
        Just(b"\r\n".to_vec()),
        Just(b"250-x\r\n".repeat(60)),
        Just(vec![b'x'; 1500]),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader_and_pieces_make_no_difference(bytes in like_replies(), size in 1..40_usize) {
        let (answers, malformed) = read([&bytes[..]]);
        prop_assert_eq!(&read(bytes.chunks(size)), &(answers.clone(), malformed));
        for answer in answers {
            prop_assert!((200..600).contains(&answer.code));
            prop_assert!((1..=LINES_MAX).contains(&answer.lines.len()));
            let reply = answer.reply();
            prop_assert!(reply.text.chars().count() <= 500 && !reply.text.contains(char::is_control));
            prop_assert!(reply.enhanced.is_none_or(|(class, _, _)| u16::from(class) == reply.code / 100));
            let _ = Extensions::of(&answer);
        }
    }

    #[test]
    fn what_was_stuffed_is_the_message_when_it_arrives(
        bytes in vec(prop_oneof![Just(b'.'), Just(b'\r'), Just(b'\n'), any::<u8>()], 0..60),
        size in 1..20_usize,
    ) {
        let stuffed = stuff(bytes.chunks(size));
        prop_assert_eq!(&stuffed, &stuff([&bytes[..]]));
        // Read as a server reads: line by line, up to the one that is a dot.
        let text: String = stuffed.iter().map(|byte| char::from(*byte)).collect();
        let mut lines: Vec<&str> = text.split("\r\n").collect();
        prop_assert_eq!(lines.pop(), Some(""));
        prop_assert_eq!(lines.iter().position(|line| *line == "."), Some(lines.len() - 1));
        lines.pop();
        let arrived: Vec<&str> = lines.iter().map(|line| line.strip_prefix('.').unwrap_or(line)).collect();
        let meant: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let meant = meant.replace("\r\n", "\n").replace('\r', "\n");
        prop_assert_eq!(arrived.join("\n"), meant.strip_suffix('\n').unwrap_or(&meant));
    }
}

fn stuff<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut dots, mut out) = (Dots::new(), Vec::new());
    for piece in pieces {
        dots.stuff(piece, &mut out);
    }
    [&out, END].concat()
}

#[test]
fn dots_are_doubled_and_line_ends_made_whole() {
    let table = [
        ("", "\r\n.\r\n"),
        ("a", "a\r\n.\r\n"),
        ("a\r\n", "a\r\n.\r\n"),
        ("a\r\n\r\n", "a\r\n\r\n.\r\n"),
        (".", "..\r\n.\r\n"),
        (".\r\n.a\r\na.\r\n", "..\r\n..a\r\na.\r\n.\r\n"),
        ("a\n.\nb", "a\r\n..\r\nb\r\n.\r\n"),
        ("a\r.\rb", "a\r\n..\r\nb\r\n.\r\n"),
        ("a\r\r\n.", "a\r\n\r\n..\r\n.\r\n"),
        ("a\n.\r\nMAIL FROM:<>\r\n", "a\r\n..\r\nMAIL FROM:<>\r\n.\r\n"),
    ];
    for (message, expected) in table {
        assert_eq!(String::from_utf8(stuff([message.as_bytes()])).unwrap(), expected, "{message:?}");
    }
}

#[test]
fn a_relay_is_read_from_a_url() {
    let relay = |host: &str, port, implicit_tls, login: Option<(&str, &str)>| Relay {
        host: Host::parse(host).unwrap(),
        port,
        implicit_tls,
        credentials: login
            .map(|(user, password)| Credentials { user: user.into(), password: password.into() }),
    };
    let good = [
        ("smtp://mail.example", relay("mail.example", 587, false, None)),
        ("smtps://mail.example/", relay("mail.example", 465, true, None)),
        (" SMTP://MAIL.example:25\n", relay("mail.example", 25, false, None)),
        ("smtp://u:p@127.0.0.1:2525", relay("127.0.0.1", 2525, false, Some(("u", "p")))),
        ("smtps://u:p@[::1]", relay("[::1]", 465, true, Some(("u", "p")))),
        ("smtp://u@mail.example", relay("mail.example", 587, false, Some(("u", "")))),
        ("smtp://a%40b:%3A%2f%25+@h.example", relay("h.example", 587, false, Some(("a@b", ":/%+")))),
        ("smtp://%C3%BC:p@bücher.example", relay("xn--bcher-kva.example", 587, false, Some(("ü", "p")))),
    ];
    for (text, expected) in good {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
    let bad = [
        ("", RelayFault::NotAUrl),
        ("mail.example:25", RelayFault::Scheme),
        ("http://mail.example", RelayFault::Scheme),
        ("smtp://", RelayFault::Host),
        ("smtp:mail.example", RelayFault::Rest),
        ("smtp://mail.example:0", RelayFault::PortZero),
        ("smtp://:p@mail.example", RelayFault::NoUser),
        ("smtp://u:%FF@mail.example", RelayFault::Credentials),
        ("smtp://u%00:p@mail.example", RelayFault::Credentials),
        ("smtp://u:p%0D%0A@mail.example", RelayFault::Credentials),
        ("smtp://mail.example/path", RelayFault::Rest),
        ("smtp://mail.example?tls=no", RelayFault::Rest),
        ("smtp://mail.example#x", RelayFault::Rest),
    ];
    for (text, fault) in bad {
        assert_eq!(text.parse::<Relay>(), Err(fault), "{text}");
    }
    let told = format!("{:?}", "smtp://somebody:secret@mail.example".parse::<Relay>().unwrap());
    assert!(!told.contains("secret") && !told.contains("somebody"), "{told}");
}

#[test]
fn hosts_come_by_preference_and_among_equals_by_lot() {
    let exchanges = |list: &[(u16, &str)]| -> Vec<Exchange> {
        list.iter().map(|&(preference, host)| Exchange { preference, host: host.to_owned() }).collect()
    };
    let draw = |drawn: &'static [u64]| {
        let mut drawn = drawn.iter();
        move || *drawn.next().unwrap()
    };
    let four = [(10, "a."), (5, "b."), (10, "c."), (1, "d.")];
    assert_eq!(hosts("x", exchanges(&four), draw(&[1, 2, 3, 4])).unwrap(), ["d", "b", "a", "c"]);
    assert_eq!(hosts("x", exchanges(&four), draw(&[4, 3, 2, 1])).unwrap(), ["d", "b", "c", "a"]);
    assert_eq!(hosts("x", Vec::new(), draw(&[])).unwrap(), ["x"]);
    assert_eq!(hosts("x", exchanges(&[(0, ".")]), draw(&[])), Err(NullMx));
    assert_eq!(hosts("x", exchanges(&[(0, "."), (9, "a.")]), draw(&[1])).unwrap(), ["a"]);
    let many = vec![Exchange { preference: 1, host: "a".to_owned() }; 50];
    assert_eq!(hosts("x", many, || 0).unwrap().len(), 10);
}

#[test]
fn offers_are_read_without_regard_to_case() {
    let of = |lines: &[&str]| {
        let lines = [&["mx.example SIZE 5 greets"], lines].concat();
        Extensions::of(&Answer { code: 250, lines: lines.iter().map(|line| (*line).to_owned()).collect() })
    };
    assert_eq!(of(&[]), Extensions::default());
    assert_eq!(of(&["PIPELININGS", "XSIZE 5", "AUTH", ""]), Extensions::default());
    let all = Extensions {
        pipelining: true,
        eight_bit: true,
        utf8: true,
        starttls: true,
        size: Some(Some(1000)),
        auth_plain: true,
        auth_login: true,
    };
    let lines = ["Pipelining", "8bitmime", "SMTPUTF8", "StartTLS", "size  1000", "auth login plain", "HELP"];
    assert_eq!(of(&lines), all);
    assert_eq!(of(&["SIZE 99999999999999999999999"]).size, Some(None));
}
