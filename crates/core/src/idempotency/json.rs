//! JSON written in one way: canonical, for comparing, and compact, for sending.
//!
//! Both read the text into a tree of slices. Nothing is converted: a number is the characters it was written with.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::Fault;
use crate::limits::JSON_DEPTH_MAX;

/// Appends the canonical form of JSON: texts that differ only in order of keys, white space or escapes share it.
///
/// Numbers stay as written, so `1` and `1.0` differ. A key that occurs more than once stays so, its values in
/// their order. The canonical form is JSON too, and its own canonical form.
///
/// # Errors
/// `Fault::TooDeep` beyond [`JSON_DEPTH_MAX`] levels, `Fault::NotJson` for any other text; `out` is unchanged.
pub fn canonical(text: &str, out: &mut String) -> Result<(), Fault> {
    let mut value = Reader::read(text)?;
    value.normalise();
    value.write(out);
    Ok(())
}

/// The JSON without the white space between its tokens; order, numbers and escapes as written.
///
/// # Errors
/// `Fault::TooDeep` beyond [`JSON_DEPTH_MAX`] levels, `Fault::NotJson` for any other text.
pub fn compact(text: &str) -> Result<String, Fault> {
    let value = Reader::read(text)?;
    let mut out = String::with_capacity(text.len());
    value.write(&mut out);
    Ok(out)
}

enum Value<'a> {
    /// A number, `true`, `false` or `null`.
    Literal(&'a str),
    String(Written<'a>),
    Array(Vec<Self>),
    Object(Vec<(Written<'a>, Self)>),
}

/// What stands between the quotes of a string: UTF-8 with escapes.
type Written<'a> = Cow<'a, str>;

impl Value<'_> {
    /// Sorts keys and writes strings in one way, all the way down.
    fn normalise(&mut self) {
        match self {
            Self::Literal(_) => {}
            Self::String(written) => normalise(written),
            Self::Array(items) => items.iter_mut().for_each(Self::normalise),
            Self::Object(members) => {
                for (key, value) in &mut *members {
                    normalise(key);
                    value.normalise();
                }
                // Stable: of two equal keys most readers keep the last, so their order means something.
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
            }
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Literal(text) => out.push_str(text),
            Self::String(written) => write_string(written, out),
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

fn write_string(written: &str, out: &mut String) {
    out.push('"');
    out.push_str(written);
    out.push('"');
}

/// Leaves only the escapes that JSON demands, each as `\u` and four small hexadecimal digits.
fn normalise(written: &mut Written<'_>) {
    if !written.contains('\\') {
        return;
    }
    let mut out = String::with_capacity(written.len());
    let mut rest = &**written;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        out.push_str(plain);
        let Some((unit, behind)) = escape(escaped) else { break };
        rest = behind;
        let low = rest.strip_prefix('\\').and_then(escape);
        if let Some((char, behind)) = low.and_then(|(low, behind)| Some((pair(unit, low)?, behind))) {
            out.push(char);
            rest = behind;
        } else {
            push_unit(unit, &mut out);
        }
    }
    out.push_str(rest);
    *written = Cow::Owned(out);
}

/// Writes what one escape stood for. Half of a surrogate pair is no character: it can only stay an escape.
fn push_unit(unit: u16, out: &mut String) {
    match char::from_u32(unit.into()) {
        Some(char) if char >= ' ' && char != '"' && char != '\\' => out.push(char),
        Some(_) | None => write!(out, "\\u{unit:04x}").expect("a string takes all that is written"),
    }
}

/// The character that two units of UTF-16 make together.
fn pair(high: u16, low: u16) -> Option<char> {
    let mut chars = char::decode_utf16([high, low]);
    let char = chars.next()?.ok()?;
    chars.next().is_none().then_some(char)
}

/// The unit of UTF-16 that an escape stands for and what follows it; `text` begins behind the backslash.
fn escape(text: &str) -> Option<(u16, &str)> {
    let unit = match *text.as_bytes().first()? {
        byte @ (b'"' | b'\\' | b'/') => byte,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let digits =
                text.get(1..5).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
            return Some((u16::from_str_radix(digits, 16).ok()?, &text[5..]));
        }
        _ => return None,
    };
    Some((unit.into(), &text[1..]))
}

/// Reads JSON (RFC 8259) from the front to the back.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The one value that is all of `text`.
    fn read(text: &'a str) -> Result<Value<'a>, Fault> {
        let mut reader = Self { text, at: 0 };
        let value = reader.value(0)?;
        if reader.peek().is_none() { Ok(value) } else { Err(reader.fault()) }
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, Fault> {
        match self.peek() {
            Some(b'{' | b'[') if depth == JSON_DEPTH_MAX => Err(Fault::TooDeep),
            Some(b'{') => self
                .list(b'}', |reader| {
                    let key = reader.string()?;
                    if reader.take(b':') { Ok((key, reader.value(depth + 1)?)) } else { Err(reader.fault()) }
                })
                .map(Value::Object),
            Some(b'[') => self.list(b']', |reader| reader.value(depth + 1)).map(Value::Array),
            Some(b'"') => self.string().map(Value::String),
            Some(_) => self.literal(),
            None => Err(self.fault()),
        }
    }

    /// What stands between an opening bracket, which is next, and `close`.
    fn list<T>(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.take(close) {
                return Ok(items);
            }
            if !self.take(b',') {
                return Err(self.fault());
            }
        }
    }

    fn string(&mut self) -> Result<Written<'a>, Fault> {
        if !self.take(b'"') {
            return Err(self.fault());
        }
        let begin = self.at;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '));
            self.at += plain.unwrap_or(rest.len());
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    let (_, behind) = escape(&self.text[self.at + 1..]).ok_or_else(|| self.fault())?;
                    self.at = self.text.len() - behind.len();
                }
                Some(_) | None => return Err(self.fault()),
            }
        }
        let written = &self.text[begin..self.at];
        self.at += 1;
        Ok(Cow::Borrowed(written))
    }

    fn literal(&mut self) -> Result<Value<'a>, Fault> {
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .position(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'E' | b'+' | b'-' | b'.'));
        let literal = &rest[..length.unwrap_or(rest.len())];
        if matches!(literal, "true" | "false" | "null") || is_number(literal) {
            self.at += literal.len();
            Ok(Value::Literal(literal))
        } else {
            Err(self.fault())
        }
    }

    /// The first byte behind white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.at += blank;
        rest.get(blank).copied()
    }

    /// Steps over `byte` if it is next behind white space.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn fault(&self) -> Fault {
        Fault::NotJson(self.at)
    }
}

/// Whether `text` is a number as RFC 8259, section 6, writes it.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests;
