//! What is promised of a mail server's bytes, whatever they are; and of ours to it. See [`crate::fuzzing`].

use restante_core::smtp::{BounceType, Reply, Verdict};

use super::dots::{Dots, END};
use super::extensions::Extensions;
use super::reply::{Answer, Inbox, LINES_MAX, Malformed};
use crate::fuzzing::Input;

/// What the wire reads at once.
const CHUNK_BYTES: usize = 1024;
/// Longest text of a reply that is kept, in characters.
const TEXT_CHARS_MAX: usize = 500;

/// However the bytes are cut into reads, the replies are the same; each is bounded, and judged.
pub(crate) fn replies_are_bounded_and_read_alike(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let piece = 1 + usize::from(input.byte());
    let bytes = input.rest();
    let (answers, fault) = read(bytes, piece);
    assert_eq!(read(bytes, CHUNK_BYTES), (answers.clone(), fault));
    for answer in &answers {
        assert!((1..=LINES_MAX).contains(&answer.lines.len()));
        assert!(answer.lines.iter().all(|line| !line.contains(char::is_control)));
        let _ = Extensions::of(answer);
        check(&answer.reply());
    }
    content_ends_where_it_ends(bytes);
}

fn read(bytes: &[u8], piece: usize) -> (Vec<Answer>, Option<Malformed>) {
    let (mut inbox, mut answers) = (Inbox::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        inbox.feed(piece);
        loop {
            match inbox.next() {
                Ok(Some(answer)) => answers.push(answer),
                Ok(None) => break,
                Err(fault) => return (answers, Some(fault)),
            }
        }
    }
    (answers, None)
}

fn check(reply: &Reply) {
    assert!((200..600).contains(&reply.code));
    assert!(reply.text.chars().count() <= TEXT_CHARS_MAX && !reply.text.contains(char::is_control));
    if let Some((class, subject, detail)) = reply.enhanced {
        assert_eq!(u16::from(class), reply.code / 100);
        assert!(subject < 1000 && detail < 1000);
    }
    let kind = reply.bounce().map(|bounce| bounce.kind());
    match reply.verdict() {
        Verdict::Accepted => assert_eq!((kind, reply.code / 100 < 4), (None, true)),
        Verdict::Deferred => {
            assert!(reply.code / 100 == 4 && kind.is_some_and(|kind| kind != BounceType::Hard))
        }
        Verdict::Refused => assert!(reply.code / 100 == 5 && kind.is_some()),
    }
}

/// Whatever the content, a server finds its end at the end and nowhere before, and has the content then.
pub(crate) fn content_ends_where_it_ends(content: &[u8]) {
    let (mut dots, mut sent) = (Dots::new(), Vec::new());
    for piece in content.chunks(7) {
        dots.stuff(piece, &mut sent);
    }
    sent.extend_from_slice(END);
    let ends = sent.windows(END.len()).filter(|window| *window == END).count();
    assert_eq!(ends, 1, "the content ends once");
    assert!(
        !sent.starts_with(&END[2..])
            || content.is_empty()
            || content == b"\r"
            || content == b"\n"
            || content == b"\r\n"
    );
    let lone = |index: usize| match sent[index] {
        b'\r' => sent.get(index + 1) != Some(&b'\n'),
        b'\n' => index == 0 || sent[index - 1] != b'\r',
        _ => false,
    };
    assert!((0..sent.len()).all(|index| !lone(index)), "a line ends with CR and LF");
    let lines = sent[..sent.len() - END.len() + 2].split(|byte| *byte == b'\n');
    let received: Vec<&[u8]> = lines.map(|line| line.strip_prefix(b".").unwrap_or(line)).collect();
    let received = received.join(&b'\n');
    assert_eq!(received, with_crlf(content), "what is received is what was sent");
}

/// The content with one CRLF for every line end, and for a last line that has none.
fn with_crlf(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 2);
    let mut bytes = content.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if_eq(&b'\n');
                out.extend_from_slice(b"\r\n");
            }
            b'\n' => out.extend_from_slice(b"\r\n"),
            _ => out.push(byte),
        }
    }
    if !out.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    }
    out
}
