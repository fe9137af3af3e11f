//! Frames as bytes.

use super::{Error, Frame, Side, Splitter};

/// What a session says: the bytes of each frame, and what it is.
fn client() -> Vec<(&'static [u8], Frame)> {
    let owned = str::to_owned;
    vec![
        (b"\0\0\0\x08\x04\xd2\x16\x30", Frame::Encrypt),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", Frame::Encrypt),
        (b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0", Frame::Startup),
        (b"Q\0\0\0\x0aBEGIN\0", Frame::Query(owned("BEGIN"))),
        (b"P\0\0\0\x10s1\0COMMIT\0\0\0", Frame::Parse { statement: owned("s1"), text: owned("COMMIT") }),
        (b"D\0\0\0\x08Ss1\0", Frame::Other(b'D')),
        (b"B\0\0\0\x0fp\0s1\0\0\0\0\0\0\0", Frame::Bind { portal: owned("p"), statement: owned("s1") }),
        (b"E\0\0\0\x0ap\0\0\0\0\0", Frame::Execute(owned("COMMIT"))),
        (b"E\0\0\0\x09\0\0\0\0\0", Frame::Execute(String::new())),
        (b"S\0\0\0\x04", Frame::Sync),
        (b"X\0\0\0\x04", Frame::Terminate),
    ]
}

/// What a server answers.
fn server() -> Vec<(&'static [u8], Frame)> {
    let error = Frame::Error { code: "42P04".to_owned(), text: "there is one".to_owned() };
    vec![
        (b"R\0\0\0\x08\0\0\0\0", Frame::Other(b'R')),
        (b"Z\0\0\0\x05I", Frame::ReadyForQuery(b'I')),
        (b"D\0\0\0\x0b\0\x01\0\0\0\x01x", Frame::Other(b'D')),
        (b"C\0\0\0\x0fINSERT 0 1\0", Frame::CommandComplete("INSERT 0 1".to_owned())),
        (b"Z\0\0\0\x05T", Frame::ReadyForQuery(b'T')),
        (b"C\0\0\0\x0bCOMMIT\0", Frame::CommandComplete("COMMIT".to_owned())),
        (b"E\0\0\0\x21SERROR\0C42P04\0Mthere is one\0\0", error),
        (b"Z\0\0\0\x05E", Frame::ReadyForQuery(b'E')),
    ]
}

/// What comes out when `pieces` go in one by one.
fn split(from: Side, pieces: &[&[u8]]) -> Vec<(Vec<u8>, Frame)> {
    let (mut splitter, mut found) = (Splitter::new(from), Vec::new());
    for piece in pieces {
        splitter.push(piece);
        while let Some((bytes, frame)) = splitter.take().unwrap() {
            found.push((bytes.to_vec(), frame));
        }
    }
    found
}

#[test]
fn frames_are_found_wherever_the_bytes_are_split() {
    for (from, said) in [(Side::Client, client()), (Side::Server, server())] {
        let bytes: Vec<u8> = said.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
        let wanted: Vec<_> = said.into_iter().map(|(bytes, frame)| (bytes.to_vec(), frame)).collect();
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(split(from, &[head, tail]), wanted, "{from:?}, split at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(split(from, &single), wanted);
    }
}

#[test]
fn a_frame_without_its_last_byte_is_none() {
    for (from, said) in [(Side::Client, client()), (Side::Server, server())] {
        let bytes: Vec<u8> = said.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
        assert_eq!(split(from, &[&bytes[..bytes.len() - 1]]).len(), said.len() - 1);
    }
}

#[test]
fn a_request_to_cancel_is_all_its_client_says() {
    let bytes = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02";
    assert_eq!(split(Side::Client, &[bytes]), [(bytes.to_vec(), Frame::Cancel)]);
}

#[test]
fn other_protocols_are_refused() {
    for (from, bytes, length) in [
        (Side::Client, &b"GET / HTTP/1.1\r\n"[..], 0x4745_5420),
        (Side::Client, b"\0\0\0\x07\0\x03\0\0", 7),
        (Side::Server, b"C\0\0\0\x03", 3),
        (Side::Server, b"HTTP/1.1 400", 0x5454_502f),
    ] {
        let mut splitter = Splitter::new(from);
        splitter.push(bytes);
        assert_eq!(splitter.take().unwrap_err(), Error(length));
    }
}

#[test]
fn sql_is_recognised_however_it_is_sent() {
    for (frame, executes) in [
        (Frame::Query("COMMIT".to_owned()), true),
        (Frame::Query("commit;\n".to_owned()), true),
        (Frame::Execute("COMMIT".to_owned()), true),
        (Frame::Query("COMMIT PREPARED 'x'".to_owned()), false),
        (Frame::Parse { statement: String::new(), text: "COMMIT".to_owned() }, false),
        (Frame::CommandComplete("COMMIT".to_owned()), false),
    ] {
        assert_eq!(frame.executes("COMMIT"), executes, "{frame:?}");
    }
    for (tag, completes) in [("INSERT 0 1", true), ("INSERT", true), ("COMMIT", false), ("", false)] {
        assert_eq!(Frame::CommandComplete(tag.to_owned()).completes("INSERT"), completes, "{tag}");
    }
    assert!(!Frame::Query("COMMIT".to_owned()).completes("COMMIT"));
}
