//! Mail servers: what their replies mean for an email and for its recipient.

/// A reply of a mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The basic code, such as 250 (RFC 5321, 4.2).
    pub code: u16,
    /// The enhanced status code, as `(5, 1, 1)`: class, subject, detail (RFC 3463); many servers give none.
    pub enhanced: Option<(u8, u16, u16)>,
    /// What is said to people, without the codes; lines joined by spaces.
    pub text: String,
}

/// What a reply decides about the command it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Done, or go on.
    Accepted,
    /// Not now: a later attempt may succeed.
    Deferred,
    /// No, and a repeat gets the same answer.
    Refused,
}

/// Why a mail server did not take an email.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BounceType {
    /// The mailbox or its domain does not exist: goes to the suppression list.
    Hard,
    /// The mailbox or its server cannot take the email as things are.
    Soft,
    /// The receiver's policy: reputation, content, relaying.
    Block,
    /// Something our own side has to set up, such as signing in to the relay.
    Admin,
    /// The reply does not say.
    Undetermined,
}

impl BounceType {
    pub const ALL: [Self; 5] = [Self::Hard, Self::Soft, Self::Block, Self::Admin, Self::Undetermined];

    /// The wire's `bounce_type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::Block => "block",
            Self::Admin => "admin",
            Self::Undetermined => "undetermined",
        }
    }
}

/// A judgement on a reply that did not accept.
///
/// One for each class that a reply can be told to be of. Readers of the wire's `bounce_class` know the numbers from
/// SparkPost ("Bounce Classification Codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bounce {
    Undetermined,
    /// An enhanced code says that the address gets no mail.
    InvalidRecipient,
    Soft,
    /// A server further on could not look up the next one.
    Dns,
    MailboxFull,
    TooLarge,
    /// A server further on was not reached in time.
    Timeout,
    Admin,
    /// The basic code says that there is no such recipient, and there is no other.
    NoRecipient,
    Block,
    /// For spam, or for coming from where spam comes from.
    Spam,
    /// The server does not pass mail on for us.
    Relaying,
    /// A delay for whatever reason.
    Transient,
}

impl Bounce {
    pub const ALL: [Self; 13] = [
        Self::Undetermined,
        Self::InvalidRecipient,
        Self::Soft,
        Self::Dns,
        Self::MailboxFull,
        Self::TooLarge,
        Self::Timeout,
        Self::Admin,
        Self::NoRecipient,
        Self::Block,
        Self::Spam,
        Self::Relaying,
        Self::Transient,
    ];

    /// The wire's `bounce_class`.
    pub const fn class(self) -> u8 {
        match self {
            Self::Undetermined => 1,
            Self::InvalidRecipient => 10,
            Self::Soft => 20,
            Self::Dns => 21,
            Self::MailboxFull => 22,
            Self::TooLarge => 23,
            Self::Timeout => 24,
            Self::Admin => 25,
            Self::NoRecipient => 30,
            Self::Block => 50,
            Self::Spam => 51,
            Self::Relaying => 54,
            Self::Transient => 70,
        }
    }

    pub const fn kind(self) -> BounceType {
        match self {
            Self::Undetermined => BounceType::Undetermined,
            Self::InvalidRecipient | Self::NoRecipient => BounceType::Hard,
            Self::Soft | Self::Dns | Self::MailboxFull | Self::TooLarge | Self::Timeout | Self::Transient => {
                BounceType::Soft
            }
            Self::Admin => BounceType::Admin,
            Self::Block | Self::Spam | Self::Relaying => BounceType::Block,
        }
    }
}

impl Reply {
    /// What the reply decides. A code outside 200 to 599 is none of SMTP's: whoever said it may come to its senses.
    pub const fn verdict(&self) -> Verdict {
        match self.code {
            200..=399 => Verdict::Accepted,
            500..=599 => Verdict::Refused,
            _ => Verdict::Deferred,
        }
    }

    /// Why the email was not taken; `None` when it was.
    ///
    /// Only `Refused` can be hard. An enhanced code goes before the basic one, which servers give for many things.
    pub fn bounce(&self) -> Option<Bounce> {
        match self.verdict() {
            Verdict::Accepted => None,
            Verdict::Deferred => Some(deferred(self.enhanced)),
            Verdict::Refused => Some(match self.enhanced {
                Some(status) => refused(status),
                None => refused_without_status(self.code, &self.text),
            }),
        }
    }
}

/// Judges a delay by its enhanced code: what would be hard is not, and what tells nothing is a delay.
fn deferred(enhanced: Option<(u8, u16, u16)>) -> Bounce {
    let Some(status) = enhanced else { return Bounce::Transient };
    match (status.1, status.2) {
        // No answer from the host, a bad connection, the time for delivery is up.
        (4, 1 | 2 | 7) => return Bounce::Timeout,
        // The directory server failed, no route.
        (4, 3 | 4) => return Bounce::Dns,
        _ => {}
    }
    let bounce = refused(status);
    match bounce.kind() {
        BounceType::Hard | BounceType::Undetermined => Bounce::Transient,
        BounceType::Soft | BounceType::Block | BounceType::Admin => bounce,
    }
}

/// Judges a refusal by its enhanced code (RFC 3463 and IANA's "SMTP Enhanced Status Codes").
///
/// What is left is undetermined, for it does not tell whose fault it is: 5.0.x (undefined), 5.4.x (routing: Exchange
/// Online says 5.4.1 of recipients it does not know), 5.5.x (protocol), 5.6.x (content and its encoding).
const fn refused((class, subject, detail): (u8, u16, u16)) -> Bounce {
    match (subject, detail) {
        // No such mailbox, no such domain, no such syntax, moved away, a domain that takes no mail (RFC 7505). A
        // status whose class is not that of its reply is no proof.
        (1, 1 | 2 | 3 | 6 | 10) if class == 5 => Bounce::InvalidRecipient,
        // The sender's address: its syntax, its domain; and a domain of it that takes no mail (RFC 7505).
        (1, 7 | 8) | (7, 27) => Bounce::Admin,
        // "The mailbox exists, but is not accepting messages": Gmail also says so of one that gets too much.
        (2, 1) => Bounce::Soft,
        (2, 2) => Bounce::MailboxFull,
        // Longer than the mailbox or the system takes.
        (2, 3) | (3, 4) => Bounce::TooLarge,
        // The mail system is full, or takes nothing at the moment.
        (3, 1 | 2) => Bounce::Soft,
        // Encryption and signing in (RFC 3463, RFC 4954, RFC 5248), REQUIRETLS (RFC 8689).
        (7, 3..=14 | 30) => Bounce::Admin,
        // Not authorised, lists, SPF, DKIM, reverse names, floods.
        (7, _) => Bounce::Block,
        _ => Bounce::Undetermined,
    }
}

/// Judges a refusal by the basic code alone (RFC 5321, 4.2.3; RFC 4954; RFC 7504).
fn refused_without_status(code: u16, text: &str) -> Bounce {
    match code {
        // Signing in is required, or failed.
        530 | 534 | 535 | 538 => Bounce::Admin,
        // No such mailbox, not here, no such name. RFC 5321 has 550 for the receiver's policy as well.
        550 | 551 | 553 => by_words(text).unwrap_or(Bounce::NoRecipient),
        // A full mailbox (RFC 5321) or an email that is too large (RFC 1870).
        552 => Bounce::Soft,
        554 => by_words(text).unwrap_or(Bounce::Undetermined),
        // The domain takes no mail.
        556 => Bounce::InvalidRecipient,
        _ => Bounce::Undetermined,
    }
}

/// Parts of words that tell a refusal from "no such mailbox", in lower case.
///
/// The first that occurs counts. One that occurs by chance, in an address that the reply repeats, only makes the
/// judgement milder.
const WORDS: [(&str, Bounce); 29] = [
    ("relay", Bounce::Relaying),
    ("rcpthosts", Bounce::Relaying),
    ("spam", Bounce::Spam),
    ("blacklist", Bounce::Spam),
    ("blocklist", Bounce::Spam),
    ("block list", Bounce::Spam),
    ("dnsbl", Bounce::Spam),
    ("rbl", Bounce::Spam),
    ("reputation", Bounce::Spam),
    ("block", Bounce::Block),
    ("polic", Bounce::Block),
    ("denied", Bounce::Block),
    ("banned", Bounce::Block),
    ("not authori", Bounce::Block),
    ("authentic", Bounce::Block),
    ("spf", Bounce::Block),
    ("dkim", Bounce::Block),
    ("dmarc", Bounce::Block),
    ("sender", Bounce::Block),
    ("reverse", Bounce::Block),
    ("helo", Bounce::Block),
    ("virus", Bounce::Block),
    ("too many", Bounce::Block),
    ("quota", Bounce::MailboxFull),
    ("full", Bounce::MailboxFull),
    ("disabled", Bounce::Soft),
    ("inactive", Bounce::Soft),
    ("suspended", Bounce::Soft),
    ("try again", Bounce::Soft),
];

fn by_words(text: &str) -> Option<Bounce> {
    let text = text.to_lowercase();
    WORDS.iter().find(|(word, _)| text.contains(word)).map(|(_, bounce)| *bounce)
}

#[cfg(test)]
mod tests;
