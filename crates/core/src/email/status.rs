//! What became of an email, told from what became of its recipients.

use crate::Timestamp;

/// What became of an email for one of those it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecipientStatus {
    /// Not decided: scheduled, waiting or on the wire.
    Pending,
    /// A mail server took it.
    Delivered,
    /// A mail server said no for good.
    Bounced,
    /// No mail server took it while there were attempts left.
    Failed,
    /// On the suppression list: not sent.
    Suppressed,
    /// All was sent and the answer did not come: a mail server may have it.
    Uncertain,
}

impl RecipientStatus {
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Delivered, Self::Bounced, Self::Failed, Self::Suppressed, Self::Uncertain];

    /// The wire's `status` of a recipient.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Failed => "failed",
            Self::Suppressed => "suppressed",
            Self::Uncertain => "uncertain",
        }
    }

    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending => false,
            Self::Delivered | Self::Bounced | Self::Failed | Self::Suppressed | Self::Uncertain => true,
        }
    }
}

/// What became of an email as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmailStatus {
    /// Waits for its time.
    Scheduled,
    /// Due, and no attempt has begun.
    Queued,
    /// An attempt has begun, and not all is decided.
    Sending,
    /// Called off before an attempt began. Somebody's decision: no roll-up gives it.
    Cancelled,
    /// Delivered to all.
    Sent,
    /// Delivered to some, or perhaps to some.
    Partial,
    /// Delivered to none, and a mail server said no for good.
    Bounced,
    /// Delivered to none for other reasons.
    Failed,
}

impl EmailStatus {
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Queued,
        Self::Sending,
        Self::Cancelled,
        Self::Sent,
        Self::Partial,
        Self::Bounced,
        Self::Failed,
    ];

    /// The wire's `status` of an email.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Cancelled => "cancelled",
            Self::Sent => "sent",
            Self::Partial => "partial",
            Self::Bounced => "bounced",
            Self::Failed => "failed",
        }
    }

    /// Whether all is decided.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Scheduled | Self::Queued | Self::Sending => false,
            Self::Cancelled | Self::Sent | Self::Partial | Self::Bounced | Self::Failed => true,
        }
    }
}

/// The status of an email that was not cancelled.
///
/// `begun` says whether an attempt began for any recipient; `due_at` is when the email is to leave. An email has at
/// least one recipient.
pub fn status(recipients: &[RecipientStatus], begun: bool, due_at: Timestamp, now: Timestamp) -> EmailStatus {
    if recipients.iter().all(|recipient| recipient.is_final()) {
        return decided(recipients);
    }
    if begun {
        EmailStatus::Sending
    } else if due_at > now {
        EmailStatus::Scheduled
    } else {
        EmailStatus::Queued
    }
}

/// The status of an email whose recipients are all final.
fn decided(recipients: &[RecipientStatus]) -> EmailStatus {
    let count = |status| recipients.iter().filter(|recipient| **recipient == status).count();
    let delivered = count(RecipientStatus::Delivered);
    if delivered > 0 && delivered == recipients.len() {
        EmailStatus::Sent
    } else if delivered + count(RecipientStatus::Uncertain) > 0 {
        EmailStatus::Partial
    } else if count(RecipientStatus::Bounced) > 0 {
        EmailStatus::Bounced
    } else {
        EmailStatus::Failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAST: Timestamp = Timestamp::from_millis(999);
    const NOW: Timestamp = Timestamp::from_millis(1000);
    const FUTURE: Timestamp = Timestamp::from_millis(1001);

    /// One letter for each recipient: the first of its status.
    fn recipients(letters: &str) -> Vec<RecipientStatus> {
        let of =
            |letter: char| RecipientStatus::ALL.into_iter().find(|status| status.name().starts_with(letter));
        letters.chars().map(|letter| of(letter).unwrap()).collect()
    }

    #[test]
    fn the_recipients_decide() {
        let table = [
            ("d", EmailStatus::Sent),
            ("ddd", EmailStatus::Sent),
            ("db", EmailStatus::Partial),
            ("bd", EmailStatus::Partial),
            ("df", EmailStatus::Partial),
            ("ds", EmailStatus::Partial),
            ("du", EmailStatus::Partial),
            ("ddddb", EmailStatus::Partial),
            ("u", EmailStatus::Partial),
            ("uu", EmailStatus::Partial),
            ("ub", EmailStatus::Partial),
            ("uf", EmailStatus::Partial),
            ("su", EmailStatus::Partial),
            ("dbfsu", EmailStatus::Partial),
            ("b", EmailStatus::Bounced),
            ("bb", EmailStatus::Bounced),
            ("bf", EmailStatus::Bounced),
            ("sb", EmailStatus::Bounced),
            ("fsb", EmailStatus::Bounced),
            ("f", EmailStatus::Failed),
            ("s", EmailStatus::Failed),
            ("sf", EmailStatus::Failed),
            ("", EmailStatus::Failed),
        ];
        for (letters, expected) in table {
            for (begun, due_at) in [(true, PAST), (false, PAST), (true, FUTURE), (false, FUTURE)] {
                assert_eq!(status(&recipients(letters), begun, due_at, NOW), expected, "{letters}");
            }
        }
    }

    #[test]
    fn until_all_is_decided_time_and_attempts_tell() {
        let table = [
            (false, FUTURE, EmailStatus::Scheduled),
            (false, NOW, EmailStatus::Queued),
            (false, PAST, EmailStatus::Queued),
            (true, PAST, EmailStatus::Sending),
            (true, FUTURE, EmailStatus::Sending),
        ];
        for (begun, due_at, expected) in table {
            for letters in ["p", "pp", "ps", "dp", "bp", "up", "fp", "dbfsup"] {
                assert_eq!(status(&recipients(letters), begun, due_at, NOW), expected, "{letters}");
            }
        }
    }

    #[test]
    fn statuses_have_the_names_of_the_wire() {
        let names = RecipientStatus::ALL.map(|status| (status.name(), status.is_final()));
        assert_eq!(
            names,
            [
                ("pending", false),
                ("delivered", true),
                ("bounced", true),
                ("failed", true),
                ("suppressed", true),
                ("uncertain", true),
            ]
        );
        let names = EmailStatus::ALL.map(|status| (status.name(), status.is_final()));
        assert_eq!(
            names,
            [
                ("scheduled", false),
                ("queued", false),
                ("sending", false),
                ("cancelled", true),
                ("sent", true),
                ("partial", true),
                ("bounced", true),
                ("failed", true),
            ]
        );
    }
}
