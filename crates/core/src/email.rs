//! Emails: what one is made of, and who gets it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::Timestamp;
use crate::limits::SCHEDULED_AHEAD_MAX;
use crate::time::NotATime;

pub mod address;
pub mod fingerprint;
pub mod form;
pub mod standing;
pub mod status;

pub use standing::{Standing, email_status};
pub use status::{EmailStatus, RecipientStatus};

/// A mailbox with the name people know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `local@domain`: the local part as it was given, the domain in lower case and as A-labels.
    pub email: String,
    pub name: Option<String>,
}

/// How a recipient is named in the email.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    To,
    Cc,
    /// In no header.
    Bcc,
}

impl Role {
    /// The wire's `kind` of a recipient.
    pub const fn name(self) -> &'static str {
        match self {
            Self::To => "to",
            Self::Cc => "cc",
            Self::Bcc => "bcc",
        }
    }
}

/// A file that goes with an email.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub filename: String,
    pub content: Bytes,
    /// As `text/plain`; without parameters.
    pub content_type: String,
    /// Without angle brackets: the file is shown inside the HTML, under `cid:`.
    pub content_id: Option<String>,
}

/// An email as it was asked for, checked by itself: no rule that depends on time or on what is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Email {
    pub from: Address,
    pub to: Vec<Address>,
    pub cc: Vec<Address>,
    pub bcc: Vec<Address>,
    pub reply_to: Vec<Address>,
    pub subject: Option<String>,
    pub html: Option<String>,
    pub text: Option<String>,
    /// Further header lines: names are tokens that are not ours to write, values without control characters.
    pub headers: Vec<(String, String)>,
    pub attachments: Vec<Attachment>,
    pub tags: BTreeMap<String, String>,
    /// A JSON object, in canonical form.
    pub metadata: Option<String>,
    pub scheduled_at: Option<Scheduled>,
}

/// When an email is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    pub at: Timestamp,
    /// As it was written: a repeat is told by the text.
    pub text: String,
}

impl Scheduled {
    /// Reads an RFC 3339 instant.
    ///
    /// # Errors
    /// `NotATime` for anything else; the text tells the caller what one looks like.
    pub fn parse(text: &str) -> Result<Self, NotATime> {
        Ok(Self { at: Timestamp::parse(text)?, text: text.to_owned() })
    }

    /// Whether it is further ahead of `now` than [`SCHEDULED_AHEAD_MAX`]. A time that is past is none too far: such
    /// an email leaves at once.
    pub fn is_too_far(&self, now: Timestamp) -> bool {
        self.at > now + SCHEDULED_AHEAD_MAX
    }
}

/// Whether a character may end a line somewhere, or does what is not seen: nothing of an email's head has one.
///
/// Besides the controls (CR, LF, NUL, DEL, U+0080 to U+009F and others) the two separators of Unicode.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_email_may_be_scheduled_for_the_next_30_days() {
        let now = Timestamp::parse("2026-11-30T12:00:00Z").unwrap();
        let table = [
            ("2020-01-01T00:00:00Z", false),
            ("2026-11-30T12:00:00Z", false),
            ("2026-12-30T12:00:00Z", false),
            ("2026-12-30T13:00:00+01:00", false),
            ("2026-12-30T12:00:00.001Z", true),
            ("9999-12-31T23:59:59Z", true),
        ];
        for (text, too_far) in table {
            let scheduled = Scheduled::parse(text).unwrap();
            assert_eq!((scheduled.is_too_far(now), scheduled.text.as_str()), (too_far, text));
        }
        assert_eq!(Scheduled::parse("tomorrow"), Err(NotATime));
    }
}
