//! The text of the screens that show one thing.

use restante_core::Timestamp;
use serde_json::value::RawValue;

use super::rows::Row;
use super::{Screen, View, curl};
use crate::listen::event::Outcome;
use crate::listen::forward::head::Line as Header;
use crate::listen::render::{link, word};
use crate::listen::text::{bytes, duration};
use crate::table::harmless;

/// Most lines of a body that are shown.
const BODY_LINES_MAX: usize = 5_000;
/// Most bytes of a body that are made pretty.
const PRETTY_BYTES_MAX: usize = 1024 * 1024;

const HELP: &str = "\
Every line is one attempt to deliver a request to the local service.

  ↑ ↓  j k       select an attempt; the list stays where it is
  g  Home        back to the newest: the list follows again
  G  End         the oldest
  PgUp PgDn      a page
  d  Enter       headers and body of the request and of the answer
  r              retry: a new delivery of the request, with fresh attempts;
                 while one is pending: when it is tried next, and r again
                 cancels it and makes the new one
  c              copy as curl
  o              open the request in the dashboard
  ?              this page
  q              quit; Ctrl-C as well

A 2xx is a success. Redirects are not followed, and are failures.
A failed attempt is made again as the destination's schedule says.
While nothing is connected, requests wait on the server.";

/// A line of a text, and whether it is a heading.
pub(super) type Line = (String, bool);

impl View {
    /// The text of a screen other than the list.
    pub(super) fn text(&self) -> Vec<Line> {
        match self.screen {
            Screen::List => Vec::new(),
            Screen::Help => HELP.lines().map(|line| (line.to_owned(), false)).collect(),
            Screen::Detail(serial) => self.row(serial).map_or_else(gone, |row| self.detail(row)),
            Screen::Curl(serial) => self.row(serial).map_or_else(gone, |row| {
                let command = curl::command(&row.attempt).unwrap_or_default();
                command.lines().map(|line| (harmless(line), false)).collect()
            }),
        }
    }

    fn detail(&self, row: &Row) -> Vec<Line> {
        let attempt = &row.attempt;
        let mut lines = vec![
            (harmless(&format!("{} {}", attempt.method, attempt.url)), true),
            (format!("received from {}, {}", self.name(attempt.source), self.stamp(attempt.at)), false),
            (outcome(row), false),
        ];
        lines.extend(attempt.request_id.as_ref().map(|id| (link(&self.dashboard, id), false)));
        lines.extend(attempt.delivery_id.as_ref().map(|id| (format!("delivery {}", harmless(id)), false)));
        section(&mut lines, "Request headers");
        lines.extend(attempt.lines.iter().map(header));
        section(&mut lines, &format!("Request body, {}", bytes(attempt.body_bytes)));
        if attempt.body.len() == attempt.body_bytes {
            lines.extend(pretty(&attempt.body));
        } else {
            lines.push(("kept no longer".to_owned(), false));
        }
        if let Some(end) = row.end.as_ref().filter(|end| !end.lines.is_empty()) {
            section(&mut lines, "Answer headers");
            lines.extend(end.lines.iter().map(header));
        }
        if let Some((body, whole)) = &row.answer {
            let more = if *whole { "" } else { ", and more that is not shown" };
            section(&mut lines, &format!("Answer body, {}{more}", bytes(body.len())));
            lines.extend(pretty(body));
        }
        lines
    }

    pub(super) fn name(&self, source: usize) -> String {
        self.sources.get(source).map_or_else(String::new, |line| harmless(&line.chosen.name))
    }

    fn stamp(&self, at: Timestamp) -> String {
        format!("{} ({at})", self.zone.clock(at))
    }
}

fn gone() -> Vec<Line> {
    vec![("it is kept no longer".to_owned(), false)]
}

fn section(lines: &mut Vec<Line>, title: &str) {
    lines.extend([(String::new(), false), (title.to_owned(), true)]);
}

fn header((name, value): &Header) -> Line {
    (harmless(&format!("{name}: {}", String::from_utf8_lossy(value))), false)
}

/// What became of it, in one sentence.
fn outcome(row: &Row) -> String {
    let of = row.attempt.attempts_max.map_or_else(String::new, |max| format!(" of {max}"));
    let attempt = format!("attempt {}{of}", row.attempt.number);
    let Some(end) = &row.end else { return format!("{attempt}: on its way") };
    let told = if end.reported { "" } else { "; the server was not told, and counts it as failed" };
    let time = duration(end.duration);
    match &end.outcome {
        Outcome::Answer { status } => {
            let word = if end.outcome.is_success() { "success" } else { "failed" };
            format!("{attempt}: {word}, {status} after {time}{told}")
        }
        Outcome::Fault { kind, detail } => {
            format!("{attempt}: failed, {} after {time}: {}{told}", word(*kind), harmless(detail))
        }
        Outcome::Cancelled => format!("{attempt}: called off by the server after {time}"),
    }
}

/// A body as lines: JSON indented, other text as it is, the rest as bytes.
fn pretty(body: &[u8]) -> Vec<Line> {
    let small = body.get(..PRETTY_BYTES_MAX).unwrap_or(body);
    let json = (small.len() == body.len()).then(|| serde_json::from_slice::<&RawValue>(body).ok()).flatten();
    let text = match (json, std::str::from_utf8(small)) {
        (Some(json), _) => indented(json.get()),
        (None, Ok(text)) => text.to_owned(),
        (None, Err(error)) if error.valid_up_to() + 4 > PRETTY_BYTES_MAX => {
            String::from_utf8_lossy(small).into_owned()
        }
        (None, Err(_)) => hex(small.get(..=BODY_LINES_MAX * 16).unwrap_or(small)),
    };
    let mut lines = text.lines().map(|line| (harmless(&line.replace('\t', "    ")), false));
    let mut shown: Vec<Line> = lines.by_ref().take(BODY_LINES_MAX).collect();
    if lines.next().is_some() || body.len() > PRETTY_BYTES_MAX {
        shown.push(("… and more that is not shown".to_owned(), true));
    }
    shown
}

/// JSON with a line for each member, its members in their order and its numbers as they are written.
fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut lines, mut quoted, mut escaped) = (0_usize, 0, false, false);
    let mut chars = json.chars().peekable();
    // Much nesting makes much of little: nobody sees the rest.
    while lines <= BODY_LINES_MAX
        && let Some(char) = chars.next()
    {
        if quoted {
            text.push(char);
            (quoted, escaped) = (escaped || char != '"', !escaped && char == '\\');
            continue;
        }
        match char {
            '"' => {
                quoted = true;
                text.push(char);
            }
            '{' | '[' => {
                text.push(char);
                while chars.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(close) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(close);
                } else {
                    depth += 1;
                    lines += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(char);
            }
            ',' => {
                text.push(char);
                lines += 1;
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            char if char.is_ascii_whitespace() => {}
            char => text.push(char),
        }
    }
    text
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

fn hex(bytes: &[u8]) -> String {
    let row = |(index, row): (usize, &[u8])| {
        let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        format!(
            "{:08x}  {:<47}  {}\n",
            index * 16,
            digits.join(" "),
            row.iter().map(shown).collect::<String>()
        )
    };
    bytes.chunks(16).enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn texts(body: &[u8]) -> Vec<String> {
        pretty(body).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn json_is_indented_and_otherwise_as_it_was() {
        let body = br#" {"b":1.10,"a":[ ],"c":[{"x":"}\",: \\"},12345678901234567890e5],"b":{} } "#;
        let expected = "{\n  \"b\": 1.10,\n  \"a\": [],\n  \"c\": [\n    {\n      \"x\": \"}\\\",: \\\\\"\n    },\n    12345678901234567890e5\n  ],\n  \"b\": {}\n}";
        assert_eq!(texts(body).join("\n"), expected);
        let before: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(serde_json::from_str::<Value>(expected).unwrap(), before);
    }

    #[test]
    fn other_bodies_are_text_or_bytes_and_never_commands() {
        assert_eq!(texts(b""), Vec::<String>::new());
        assert_eq!(texts(b"a=1\n\tb\x1b[2J"), ["a=1", "    b\\u{1b}[2J"]);
        assert_eq!(
            texts(b"\x00\xff0123456789abcdef"),
            [
                "00000000  00 ff 30 31 32 33 34 35 36 37 38 39 61 62 63 64  ..0123456789abcd",
                "00000010  65 66                                            ef",
            ]
        );
    }
}
