//! A reader of requests, and of nothing but what was written.

use std::collections::BTreeMap;

/// A request as it stands on the wire.
pub(super) struct Sent<'a> {
    pub(super) method: &'a [u8],
    pub(super) target: &'a [u8],
    /// Names as written, values without the white space around them.
    pub(super) lines: Vec<(String, &'a [u8])>,
    pub(super) body: Vec<u8>,
}

/// The next request, and `rest` behind it; `None` when there is no whole one.
pub(super) fn next<'a>(rest: &mut &'a [u8]) -> Option<Sent<'a>> {
    // Empty lines before a request are passed over (RFC 9112, 2.2).
    let start = rest.iter().position(|byte| !b"\r\n".contains(byte))?;
    let (head, mut behind) = split(&rest[start..], b"\r\n\r\n")?;
    let (request, mut lines_left) = split(head, b"\r\n").unwrap_or((head, b""));
    let mut words = request.split(|byte| *byte == b' ');
    let (method, target) = (words.next()?, words.next()?);
    let mut lines = Vec::new();
    while !lines_left.is_empty() {
        let (line, others) = split(lines_left, b"\r\n").unwrap_or((lines_left, b""));
        let (name, value) = split(line, b":")?;
        lines.push((String::from_utf8(name.to_vec()).ok()?, trim(value)));
        lines_left = others;
    }
    let value = |wanted: &str| {
        let found = lines.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| *value)
    };
    let body = match (value("transfer-encoding"), value("content-length")) {
        (Some(_), _) => chunks(&mut behind)?,
        (None, Some(length)) => {
            let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
            let (body, others) = behind.split_at_checked(length)?;
            behind = others;
            body.to_vec()
        }
        (None, None) => Vec::new(),
    };
    *rest = behind;
    Some(Sent { method, target, lines, body })
}

/// A body in chunks (RFC 9112, 7.1), with its trailer left out.
fn chunks(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let (line, behind) = split(rest, b"\r\n")?;
        let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
        let size = usize::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()?;
        *rest = behind;
        if size == 0 {
            break;
        }
        let (data, behind) = rest.split_at_checked(size)?;
        body.extend_from_slice(data);
        *rest = behind.strip_prefix(b"\r\n")?;
    }
    loop {
        let (line, behind) = split(rest, b"\r\n")?;
        *rest = behind;
        if line.is_empty() {
            return Some(body);
        }
    }
}

/// What stands before and behind the first `mark`.
fn split<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some((&bytes[..at], &bytes[at + mark.len()..]))
}

fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !b" \t".contains(byte);
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |last| last + 1);
    &value[start..end]
}

/// The values of each name, in their order.
pub(super) fn grouped<'a>(lines: &[(String, &'a [u8])]) -> BTreeMap<String, Vec<&'a [u8]>> {
    let mut groups: BTreeMap<String, Vec<&[u8]>> = BTreeMap::new();
    for (name, value) in lines {
        groups.entry(name.to_ascii_lowercase()).or_default().push(value);
    }
    groups
}
