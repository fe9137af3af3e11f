//! The relaxed forms of headers and bodies (RFC 6376, 3.4.2 and 3.4.4).

use sha2::{Digest, Sha256};

/// The header fields of an email, each with its folds and without its last CRLF, and the body.
pub(super) fn split(mime: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut fields, mut start) = (Vec::new(), 0);
    while let Some(length) = find(&mime[start..]) {
        let end = start + length;
        if length == 0 {
            return (fields, &mime[end + 2..]);
        }
        fields.push(&mime[start..end]);
        start = end + 2;
    }
    if start < mime.len() {
        fields.push(&mime[start..]);
    }
    (fields, &[])
}

/// Where the first CRLF is that no space follows, which would make it a fold.
fn find(bytes: &[u8]) -> Option<usize> {
    let mut ends = bytes.windows(2).enumerate().filter(|(_, pair)| *pair == b"\r\n");
    let is_fold = |at: usize| at > 0 && bytes.get(at + 2).copied().is_some_and(is_space);
    ends.find(|(at, _)| !is_fold(*at)).map(|(at, _)| at)
}

/// Whether this is the header of that name, given in lower case.
pub(super) fn name_is(field: &[u8], name: &str) -> bool {
    field_name(field).eq_ignore_ascii_case(name.as_bytes())
}

fn field_name(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == b':').unwrap_or(field.len());
    field[..end].trim_ascii_end()
}

/// What a signature is computed over: the named headers, for each name the last that was not yet taken, then
/// `unsigned`, the signature's own header with an empty `b=`.
pub(super) fn signed_bytes(fields: &[&[u8]], names: &[&str], unsigned: &[u8]) -> Vec<u8> {
    let mut left: Vec<&[u8]> = fields.to_vec();
    let mut bytes = Vec::new();
    for name in names {
        if let Some(at) = left.iter().rposition(|field| name_is(field, name)) {
            relaxed(left.remove(at), &mut bytes);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    relaxed(unsigned, &mut bytes);
    bytes
}

/// Writes the relaxed form of a header field.
fn relaxed(field: &[u8], to: &mut Vec<u8>) {
    let name = field_name(field);
    to.extend(name.iter().map(u8::to_ascii_lowercase));
    to.push(b':');
    let colon = field.iter().position(|byte| *byte == b':');
    let value = colon.map_or(&[][..], |at| &field[at + 1..]);
    let words = value.split(|byte| is_space(*byte) || *byte == b'\r' || *byte == b'\n');
    for (index, word) in words.filter(|word| !word.is_empty()).enumerate() {
        if index > 0 {
            to.push(b' ');
        }
        to.extend_from_slice(word);
    }
}

/// SHA-256 of the relaxed body. Empty lines at its end do not count, and an empty body has no line.
pub(super) fn body_hash(body: &[u8]) -> [u8; 32] {
    let (mut hash, mut empty_lines, mut buffer) = (Sha256::new(), 0, Vec::new());
    for line in body.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        squeeze(line, &mut buffer);
        if buffer.is_empty() {
            empty_lines += 1;
            continue;
        }
        for _ in 0..std::mem::take(&mut empty_lines) {
            hash.update(b"\r\n");
        }
        buffer.extend_from_slice(b"\r\n");
        hash.update(&buffer);
    }
    hash.finalize().into()
}

/// A line with one space for every run of them, and none at its end.
fn squeeze(line: &[u8], to: &mut Vec<u8>) {
    to.clear();
    let end = line.iter().rposition(|byte| !is_space(*byte)).map_or(0, |at| at + 1);
    let mut after_space = false;
    for byte in &line[..end] {
        if !is_space(*byte) {
            to.push(*byte);
        } else if !after_space {
            to.push(b' ');
        }
        after_space = is_space(*byte);
    }
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;
    use ring::signature::{RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};

    use super::*;

    /// The email of RFC 8463, appendix A.3.
    const EMAIL: &str = "From: Joe SixPack <joe@football.example.com>\r\n\
        To: Suzie Q <suzie@shopping.example.net>\r\n\
        Subject: Is dinner ready?\r\n\
        Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
        Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n\
        \r\n\
        Hi.\r\n\
        \r\n\
        We lost the game.  Are you hungry yet?\r\n\
        \r\n\
        Joe.\r\n";
    /// Its RSA signature, without the value of `b=`.
    const UNSIGNED: &str = "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n \
        d=football.example.com; i=@football.example.com;\r\n \
        q=dns/txt; s=test; t=1528637909; h=from : to : subject :\r\n \
        date : message-id : from : subject : date;\r\n \
        bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b=";
    const SIGNATURE: &str = "F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3\
        DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz\
        dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=";
    const PUBLIC_KEY: &str = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2\
        jLQiY/J16JYi0Qvx/byYzCNb3W91y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3Ip3G\
        +2kryOTIKT+l/K4w3QIDAQAB";
    /// Bytes of SubjectPublicKeyInfo before the RSA key of 1024 bits in it.
    const SPKI_START: usize = 22;

    #[test]
    fn the_example_of_rfc_8463_verifies() {
        let (fields, body) = split(EMAIL.as_bytes());
        assert_eq!(fields.len(), 5);
        assert_eq!(BASE64.encode(&body_hash(body)), "2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=");
        let names = ["from", "to", "subject", "date", "message-id", "from", "subject", "date"];
        let signed = signed_bytes(&fields, &names, UNSIGNED.as_bytes());
        let spki = BASE64.decode(PUBLIC_KEY.as_bytes()).unwrap();
        let algorithm = &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY;
        let key = UnparsedPublicKey::new(algorithm, &spki[SPKI_START..]);
        key.verify(&signed, &BASE64.decode(SIGNATURE.as_bytes()).unwrap()).unwrap();
    }

    #[test]
    fn headers_relax_as_in_rfc_6376() {
        let (fields, body) = split(b"A: X\r\nB : Y\t\r\n\tZ  \r\na:2\r\n\r\n C \r\nD \t E\r\n\r\n\r\n");
        assert_eq!(fields, [&b"A: X"[..], b"B : Y\t\r\n\tZ  ", b"a:2"]);
        assert_eq!(signed_bytes(&fields, &["a", "b", "a", "a"], b"S: b="), b"a:2\r\nb:Y Z\r\na:X\r\ns:b=");
        let relaxed: [u8; 32] = Sha256::digest(b" C\r\nD E\r\n").into();
        assert_eq!(body_hash(body), relaxed);
    }

    #[test]
    fn empty_lines_at_the_end_of_a_body_do_not_count() {
        let nothing: [u8; 32] = Sha256::digest(b"").into();
        for body in [&b""[..], b"\r\n", b"\r\n \r\n\t\r\n"] {
            assert_eq!(body_hash(body), nothing, "{body:?}");
        }
        for body in [&b"\r\na"[..], b"\r\na\r\n", b" \r\na \r\n\r\n \r\n"] {
            assert_eq!(body_hash(body), body_hash(b"\r\na\r\n"), "{body:?}");
        }
        assert_ne!(body_hash(b"\r\na"), body_hash(b"a"));
    }

    #[test]
    fn an_email_may_end_with_its_headers() {
        assert_eq!(split(b""), (vec![], &[][..]));
        assert_eq!(split(b"\r\nbody"), (vec![], &b"body"[..]));
        assert_eq!(split(b"A: 1\r\nB: 2"), (vec![&b"A: 1"[..], b"B: 2"], &[][..]));
        assert_eq!(split(b"A: 1\r\n\r\n"), (vec![&b"A: 1"[..]], &[][..]));
    }
}
