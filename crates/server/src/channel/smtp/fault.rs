//! Why a conversation with a server did not get as far as the mail.

use std::io;
use std::time::Duration;

use restante_core::FailureKind;
use restante_core::smtp::Reply;

use super::Sent;
use super::reply::{Answer, Malformed};
use crate::channel::guard::{DialFault, ResolveFault};

/// Something other than a judgement about the mail. All of it may be better next time.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the MX records of {domain} could not be looked up: {source}")]
    Exchanges { domain: String, source: ResolveFault },
    #[error(transparent)]
    Dial(#[from] DialFault),
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    #[error("the server was not ready for mail within {0:?}")]
    Slow(Duration),
    #[error("the server hung up")]
    HungUp,
    #[error("the server's answer cannot be read: {0}")]
    Malformed(#[from] Malformed),
    #[error("TLS: {0}")]
    Handshake(#[source] io::Error),
    #[error("the server offers no STARTTLS, and the password is not sent in the clear")]
    NoTls,
    #[error("the server offers neither AUTH PLAIN nor AUTH LOGIN")]
    NoLogin,
    /// A no that is about us or the server, not about the mail: greeting, `EHLO`, `STARTTLS`, `AUTH`, `RSET`.
    #[error("the server answered {} to {command}", .reply.code)]
    Answered { command: &'static str, reply: Reply },
}

impl Fault {
    /// `answer` was not what `command` should come to.
    pub(super) fn answered(command: &'static str, answer: &Answer) -> Self {
        Self::Answered { command, reply: answer.reply() }
    }

    fn kind(&self) -> FailureKind {
        match self {
            Self::Exchanges { .. } => FailureKind::Dns,
            Self::Dial(fault) => match fault {
                DialFault::Host | DialFault::Resolve { .. } | DialFault::NoAddress { .. } => FailureKind::Dns,
                DialFault::Http | DialFault::Refused { .. } => FailureKind::RefusedAddress,
                DialFault::Connect { .. } => FailureKind::Connect,
            },
            Self::Broken(_) | Self::HungUp | Self::Malformed(_) | Self::NoLogin => FailureKind::Network,
            Self::Slow(_) => FailureKind::Timeout,
            Self::Handshake(error) if is_about_tls(error) => FailureKind::Tls,
            Self::Handshake(_) => FailureKind::Network,
            Self::NoTls => FailureKind::Tls,
            Self::Answered { .. } => FailureKind::Smtp,
        }
    }
}

/// Whether a handshake failed by what was said, and not by a connection that broke.
fn is_about_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

impl From<Fault> for Sent {
    fn from(fault: Fault) -> Self {
        let (kind, message) = (fault.kind(), fault.to_string());
        let reply = if let Fault::Answered { reply, .. } = fault { Some(reply) } else { None };
        Self::Deferred { reply, kind, message }
    }
}
