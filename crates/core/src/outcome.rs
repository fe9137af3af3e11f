//! What became of an attempt, as data.

use crate::Timestamp;

/// What one attempt came to.
///
/// An outcome is never an `Err`: a receiver that refuses is as expected as one that accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The channel's definition of success was met. For HTTP: a 2xx response head was read.
    Delivered { status: Option<u16> },
    /// The attempt began and did not succeed. It uses one attempt of the budget.
    Failed(Failure),
    /// As `Failed`, and the receiver will not have it later either: the delivery ends. Only for emails.
    Refused(Failure),
    /// All was sent, and the answer did not come: the receiver may have it (RFC 1047). The delivery ends, for another
    /// attempt may be another copy. Only for emails.
    Uncertain(Failure),
    /// Our own fault ended the attempt: the node died or stopped while it was on the wire. Uses no budget.
    Lost,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// Response status code, or a mail server's reply code; present exactly when `kind` is `Status` or `Smtp`.
    pub status: Option<u16>,
    /// A mail server's enhanced status code (RFC 3463), where it gave one.
    pub enhanced: Option<(u8, u16, u16)>,
    /// One line for people, at most [`MESSAGE_CHARS_MAX`] characters, never a payload.
    pub message: String,
    /// The receiver's wish from `Retry-After`, as an instant.
    pub retry_after: Option<Timestamp>,
}

/// Longest `Failure::message` that is kept, in characters.
pub const MESSAGE_CHARS_MAX: usize = 300;

/// Where an attempt broke. The names are those of the wire's `error_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The name has no address, or the resolver did not answer.
    Dns,
    /// No connection: refused, unreachable.
    Connect,
    /// The TLS handshake failed: certificate, name, protocol.
    Tls,
    /// The attempt's time was up before the end of the response head.
    Timeout,
    /// The connection broke after it was made and before a response head was read.
    Network,
    /// The address is one we do not dial.
    RefusedAddress,
    /// A response with a status outside 200 to 299.
    Status,
    /// A command-line client could not reach its local service.
    LocalUnreachable,
    /// A mail server said no.
    Smtp,
}

impl FailureKind {
    pub const ALL: [Self; 9] = [
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::Network,
        Self::RefusedAddress,
        Self::Status,
        Self::LocalUnreachable,
        Self::Smtp,
    ];

    /// The wire's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::RefusedAddress => "refused_address",
            Self::Status => "status",
            Self::LocalUnreachable => "local_unreachable",
            Self::Smtp => "smtp",
        }
    }
}

impl Outcome {
    /// What went wrong; `None` when nothing did, and when it was our own fault.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) | Self::Refused(failure) | Self::Uncertain(failure) => Some(failure),
            Self::Delivered { .. } | Self::Lost => None,
        }
    }

    /// Judges an HTTP response head. `retry_after` counts on any failed status.
    pub fn of_status(status: u16, retry_after: Option<Timestamp>) -> Self {
        if (200..300).contains(&status) {
            return Self::Delivered { status: Some(status) };
        }
        let message = if (300..400).contains(&status) {
            format!("the receiver answered {status}; redirects are not followed")
        } else {
            format!("the receiver answered {status}")
        };
        Self::Failed(Failure {
            kind: FailureKind::Status,
            status: Some(status),
            enhanced: None,
            message,
            retry_after,
        })
    }

    /// An attempt whose node died when all of the message had been sent (RFC 1047).
    pub fn lost_behind_data() -> Self {
        let message = "the node was lost after it had sent the message and before it had the answer: it may have arrived";
        Self::Uncertain(Failure::new(FailureKind::Network, message))
    }

    /// An attempt that failed without a response.
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::Failed(Failure::new(kind, message))
    }
}

impl Failure {
    /// A failure without a response. A message that is too long is cut.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = match message.char_indices().nth(MESSAGE_CHARS_MAX) {
            Some((end, _)) => message[..end].to_owned(),
            None => message,
        };
        Self { kind, status: None, enhanced: None, message, retry_after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_2xx_delivers_and_every_other_status_fails() {
        for status in 200..300 {
            assert_eq!(Outcome::of_status(status, None), Outcome::Delivered { status: Some(status) });
        }
        for status in
            [100, 101, 199, 300, 301, 302, 304, 307, 308, 400, 401, 404, 408, 410, 429, 500, 503, 599]
        {
            let Outcome::Failed(failure) = Outcome::of_status(status, None) else {
                panic!("{status} must fail");
            };
            assert_eq!((failure.kind, failure.status), (FailureKind::Status, Some(status)));
        }
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let Outcome::Failed(failure) = Outcome::failed(FailureKind::Network, "ß".repeat(400)) else {
            panic!("failed() fails");
        };
        assert_eq!(failure.message, "ß".repeat(300));
    }
}
