//! An attempt as a line for a shell.

use bytes::Bytes;

use crate::listen::event::Attempt;

/// Bodies up to here are written into the line; larger ones would be cut by terminals and shells.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// What makes the same request again; `None` when its body is kept no longer.
pub(crate) fn command(attempt: &Attempt) -> Option<String> {
    let Attempt { method, url, lines, body, .. } = attempt;
    if body.len() != attempt.body_bytes {
        return None;
    }
    let mut parts = vec!["curl".to_owned()];
    match method.as_str() {
        "HEAD" => parts.push("--head".to_owned()),
        method => parts.extend(["--request".to_owned(), quoted(method)]),
    }
    // What curl would change in the address, and do at its own choice.
    parts.extend(["--path-as-is", "--globoff"].map(str::to_owned));
    parts.push(quoted(url));
    let has = |wanted: &str| lines.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    for (name, value) in lines.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-length")) {
        parts.extend(["--header".to_owned(), header(name, value)]);
    }
    let own = ["Accept", "User-Agent", "Content-Type"];
    let own = own.iter().filter(|name| !has(name) && (**name != "Content-Type" || !body.is_empty()));
    parts.extend(own.flat_map(|name| ["--header".to_owned(), quoted(&format!("{name}:"))]));
    let text = std::str::from_utf8(body).ok().filter(|text| !text.contains('\0'));
    match text {
        _ if body.is_empty() => Some(parts.join(" ")),
        Some(text) if text.len() <= BODY_BYTES_MAX => {
            parts.extend(["--data-raw".to_owned(), quoted(text)]);
            Some(parts.join(" "))
        }
        Some(_) | None => {
            parts.extend(["--data-binary", "@-"].map(str::to_owned));
            let encoded = data_encoding::BASE64.encode(body);
            Some(format!("echo {encoded} | base64 -d | {}", parts.join(" ")))
        }
    }
}

fn header(name: &str, value: &Bytes) -> String {
    match std::str::from_utf8(value) {
        Ok("") => quoted(&format!("{name};")),
        Ok(text) => quoted(&format!("{name}: {text}")),
        Err(_) => {
            let escaped = |byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                0x20..=0x7e => char::from(*byte).to_string(),
                byte => format!("\\x{byte:02x}"),
            };
            format!("$'{name}: {}'", value.iter().map(escaped).collect::<String>())
        }
    }
}

/// In quotes in which a shell changes nothing. Control characters are written as escapes: they would act on the
/// terminal into which the line is pasted.
fn quoted(text: &str) -> String {
    if !text.chars().any(|char| char.is_control() && char != '\n' && char != '\t') {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let escaped = |char: char| match char {
        '\'' | '\\' => format!("\\{char}"),
        '\n' => "\\n".to_owned(),
        // Two digits, so that what follows is not taken for a third; beyond them are the bytes of UTF-8.
        char if char.is_control() => char.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        char => char.to_string(),
    };
    format!("$'{}'", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use super::*;
    use crate::listen::tests::attempt;

    fn of(method: &str, url: &str, lines: &[(&str, &'static [u8])], body: &'static [u8]) -> Attempt {
        let line = |(name, value): &(&str, &'static [u8])| ((*name).to_owned(), Bytes::from_static(value));
        let bare = Arc::unwrap_or_clone(attempt(1, method, "", body));
        Attempt { url: url.to_owned(), lines: lines.iter().map(line).collect(), ..bare }
    }

    #[test]
    fn the_command_makes_the_same_request() {
        let table = [
            (
                of("GET", "http://x/a?b[]=1", &[("Accept", b"*/*"), ("User-Agent", b"u")], b""),
                "curl --request 'GET' --path-as-is --globoff 'http://x/a?b[]=1' --header 'Accept: */*' --header \
                 'User-Agent: u'",
            ),
            (
                of("HEAD", "http://x", &[("X-Empty", b""), ("Content-Length", b"0")], b""),
                "curl --head --path-as-is --globoff 'http://x' --header 'X-Empty;' --header 'Accept:' --header \
                 'User-Agent:'",
            ),
            (
                of("POST", "http://x", &[("X-B", b"it's \xff\\")], b"@it's {\"a\":\n1}"),
                "curl --request 'POST' --path-as-is --globoff 'http://x' --header $'X-B: it\\'s \\xff\\\\' --header \
                 'Accept:' --header 'User-Agent:' --header 'Content-Type:' --data-raw '@it'\\''s {\"a\":\n1}'",
            ),
            (
                of("POST", "http://x", &[("Content-Type", b"x")], b"\x00\xff"),
                "echo AP8= | base64 -d | curl --request 'POST' --path-as-is --globoff 'http://x' --header \
                 'Content-Type: x' --header 'Accept:' --header 'User-Agent:' --data-binary @-",
            ),
            (
                of("POST", "http://x", &[("Content-Type", b"x")], b"\x1b[2J'\\\n1"),
                "curl --request 'POST' --path-as-is --globoff 'http://x' --header 'Content-Type: x' --header \
                 'Accept:' --header 'User-Agent:' --data-raw $'\\x1b[2J\\'\\\\\\n1'",
            ),
        ];
        for (attempt, expected) in table {
            assert_eq!(command(&attempt).unwrap(), expected);
        }
        let forgotten = Attempt { body_bytes: 9, ..of("GET", "http://x", &[], b"") };
        assert_eq!(command(&forgotten), None);
    }

    #[test]
    fn a_shell_reads_the_quotes_as_they_were_meant() {
        for text in ["it's", "a\nb\tc", "\x1b[2J'\\x41\n", "\u{85}1é", "$HOME `x` \"y\" !z \\"] {
            let shell =
                Command::new("bash").args(["-c", &format!("printf %s {}", quoted(text))]).output().unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), text);
        }
    }
}
