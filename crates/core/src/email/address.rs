//! Addresses: read from what a caller writes, checked, and brought into one form.

use std::fmt;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use super::{Address, is_control};
use crate::limits::{ADDRESS_BYTES_MAX, DISPLAY_NAME_CHARS_MAX, LOCAL_PART_BYTES_MAX};

/// What is wrong with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("an address is written local@domain or Name <local@domain>")]
    Form,
    #[error("an address has no line breaks or control characters")]
    Control,
    #[error("a double quote in the address is not closed")]
    Quote,
    #[error("a name with , ; : > or \\ has to be in double quotes, as in \"Doe, Jane\" <jane@example.com>")]
    Name,
    #[error("the name beside an address has at most {DISPLAY_NAME_CHARS_MAX} characters")]
    NameTooLong,
    #[error(
        "the part before the @ is letters, digits and !#$%&'*+-/=?^_`{{|}}~ with single dots in between, or in \
         double quotes"
    )]
    Local,
    #[error("the part before the @ has at most {LOCAL_PART_BYTES_MAX} bytes")]
    LocalTooLong,
    #[error("the part behind the @ is not the name of a domain")]
    Domain,
    #[error("an IP address cannot stand in for the domain")]
    Literal,
    #[error("an address has at most {ADDRESS_BYTES_MAX} bytes")]
    TooLong,
}

impl Address {
    /// Reads `local@domain`, `<local@domain>`, `Name <local@domain>` or `"Name, quoted" <local@domain>`.
    ///
    /// More generous with names than RFC 5322: dots, brackets and `@` need no quotes. What could be a list of
    /// addresses is none.
    ///
    /// # Errors
    /// The first `Fault`; its text tells the caller what is wrong.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.contains(is_control) {
            return Err(Fault::Control);
        }
        let text = text.trim();
        let Some(open) = bracket(text)? else { return Self::from_parts(text, None) };
        let email = text[open + 1..].strip_suffix('>').ok_or(Fault::Form)?;
        Self::from_parts(email, Some(&phrase(&text[..open])?))
    }

    /// Takes an address and a name that came apart. The name is what it reads, without quotes; an empty one is none.
    ///
    /// # Errors
    /// The first `Fault`; its text tells the caller what is wrong.
    pub fn from_parts(email: &str, name: Option<&str>) -> Result<Self, Fault> {
        // Before white space is cut off at the ends: some of it are controls.
        if email.contains(is_control) || name.is_some_and(|name| name.contains(is_control)) {
            return Err(Fault::Control);
        }
        let name = name.map(str::trim).filter(|name| !name.is_empty());
        if name.is_some_and(|name| name.chars().count() > DISPLAY_NAME_CHARS_MAX) {
            return Err(Fault::NameTooLong);
        }
        Ok(Self { email: mailbox(email.trim())?, name: name.map(str::to_owned) })
    }

    /// The part before the `@`, as it was given.
    pub fn local(&self) -> &str {
        self.split().0
    }

    /// The part behind the `@`: A-labels in lower case, fit for a look-up.
    pub fn domain(&self) -> &str {
        self.split().1
    }

    /// Whether only a server with SMTPUTF8 can take the address (RFC 6531).
    pub fn needs_utf8(&self) -> bool {
        !self.email.is_ascii()
    }

    /// What the suppression list knows the address by: equal for all ways to write the same mailbox.
    ///
    /// In lower case, for no server in use tells mailboxes apart by case; without quotes that are not needed, for
    /// `"jane"@example.com` is `jane@example.com` (RFC 5321, 4.1.2).
    pub fn suppression_key(&self) -> String {
        let (local, domain) = self.split();
        let key = match quoted(local) {
            Some(content) if is_dot_atom(&content) => format!("{content}@{domain}"),
            Some(content) => format!("{}@{domain}", Quoted(&content)),
            None => self.email.clone(),
        };
        key.to_lowercase()
    }

    fn split(&self) -> (&str, &str) {
        self.email.rsplit_once('@').unwrap_or((&self.email, ""))
    }
}

/// One line that [`Address::parse`] reads back: for people and answers, not for the head of a mail.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => f.write_str(&self.email),
            Some(name) if name.chars().all(|c| is_atext(c) || c == ' ') => {
                write!(f, "{name} <{}>", self.email)
            }
            Some(name) => write!(f, "{} <{}>", Quoted(name), self.email),
        }
    }
}

/// Writes text in double quotes, with a backslash before what would end them.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        f.write_str("\"")
    }
}

/// Where the first `<` outside of quotes stands: before it a name, behind it the address.
fn bracket(text: &str) -> Result<Option<usize>, Fault> {
    let mut inside = false;
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => inside = !inside,
            '<' if !inside => return Ok(Some(index)),
            '\\' if inside => {
                chars.next();
            }
            _ => {}
        }
    }
    if inside { Err(Fault::Quote) } else { Ok(None) }
}

/// The name that is written before a `<`; its quotes are closed.
fn phrase(text: &str) -> Result<String, Fault> {
    let mut name = String::with_capacity(text.len());
    let mut inside = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => inside = !inside,
            '\\' if inside => name.extend(chars.next()),
            ',' | ';' | ':' | '>' | '\\' if !inside => return Err(Fault::Name),
            _ => name.push(c),
        }
    }
    Ok(name)
}

/// Checks `local@domain` (RFC 5321, 4.1.2 with RFC 6531, 3.3) and writes the domain in one way.
fn mailbox(text: &str) -> Result<String, Fault> {
    let (local, domain) = text.rsplit_once('@').ok_or(Fault::Form)?;
    if local.len() > LOCAL_PART_BYTES_MAX {
        return Err(Fault::LocalTooLong);
    }
    if !is_dot_atom(local) && quoted(local).is_none() {
        return Err(Fault::Local);
    }
    let mailbox = format!("{local}@{}", ascii(domain)?);
    if mailbox.len() > ADDRESS_BYTES_MAX { Err(Fault::TooLong) } else { Ok(mailbox) }
}

/// The domain in lower case and as A-labels (UTS 46): 1 to 63 letters, digits and inner hyphens each, at most 253
/// bytes together.
///
/// One label will do, as in `postmaster@localhost`: relays of a private network have such names. None is made of
/// digits alone in the last place, so no IPv4 address passes for a domain (RFC 3696, 2).
fn ascii(domain: &str) -> Result<String, Fault> {
    if domain.starts_with('[') {
        return Err(Fault::Literal);
    }
    // Hyphens in the third and fourth place are allowed: such domains are registered and get mail.
    let name = Uts46::new()
        .to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify)
        .map_err(|_| Fault::Domain)?;
    match name.rsplit('.').next() {
        Some(last) if last.bytes().all(|byte| byte.is_ascii_digit()) => Err(Fault::Literal),
        Some(_) | None => Ok(name.into_owned()),
    }
}

/// One or more runs of letters and signs, joined by single dots.
fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

/// `atext` of RFC 5322, 3.2.3 and RFC 6532, 3.2; of the characters beyond ASCII no white space.
fn is_atext(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
    } else {
        !c.is_whitespace() && !is_control(c)
    }
}

/// What a quoted string says (RFC 5321, `Quoted-string`); `None` when the text is not one from end to end.
fn quoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut content = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => content.push(chars.next().filter(char::is_ascii)?),
            _ => content.push(c),
        }
    }
    Some(content)
}

#[cfg(test)]
mod tests;
