//! What webhooks are told about emails, in the shape that receivers' clients want (wire of the `email.*` events).

use std::time::Duration;

use restante_core::delivery::FailReason;
use restante_core::email::{Address, Role};
use restante_core::event::EventType;
use restante_core::id::{EmailId, RecipientId, Tail, WorkspaceId};
use restante_core::outcome::Failure;
use restante_core::smtp::{Bounce, BounceType, Reply};
use restante_core::{Attempt, Delivery, FailureKind, Outcome, State, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Details;
use crate::NewEvent;
use crate::code::Damaged;

/// The email that something is told of.
pub(crate) struct About<'a> {
    pub(crate) email: EmailId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) details: &'a Details,
}

/// One of its recipients.
pub(crate) struct To<'a> {
    pub(crate) id: RecipientId,
    pub(crate) role: Role,
    pub(crate) email: &'a str,
}

/// What happened to a recipient.
pub(crate) enum Happened<'a> {
    Accepted,
    /// Its first attempt began.
    Processed,
    /// It failed for now.
    Deferred(&'a Failure),
    Delivered,
    /// The mail server said no, or may have it and did not say so.
    Bounced(&'a Failure),
    Rejected(Rejection),
}

/// Why there is no attempt, or none any more.
#[derive(Clone, Copy)]
pub(crate) enum Rejection {
    Suppressed,
    /// All attempts failed.
    GivenUp,
}

#[derive(Serialize)]
struct Body<T> {
    #[serde(rename = "type")]
    event_type: &'static str,
    timestamp: Timestamp,
    data: T,
}

#[derive(Serialize)]
struct Common<'a> {
    email_id: EmailId,
    workspace_id: WorkspaceId,
    /// There are none yet, but clients want to see the field.
    broadcast_id: Option<()>,
    tags: Option<Vec<Tag<'a>>>,
    metadata: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Tag<'a> {
    name: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct ForRecipient<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    recipient_id: RecipientId,
    recipient: &'a str,
    recipient_role: &'static str,
    #[serde(flatten)]
    more: More,
}

#[derive(Serialize)]
#[serde(untagged)]
enum More {
    Nothing {},
    Bounced {
        bounce_type: &'static str,
        bounce_class: u8,
        bounce_code: String,
        bounce_description: String,
        sending_ip: Option<()>,
    },
    Deferred {
        bounce_type: &'static str,
        bounce_class: u8,
        defer_reason: String,
        sending_ip: Option<()>,
    },
    Rejected {
        rejection_reason: &'static str,
    },
}

#[derive(Serialize)]
struct Planned<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    scheduled_at: Timestamp,
}

impl<'a> About<'a> {
    fn common(&self) -> Common<'a> {
        let tags = &self.details.tags;
        let listed = || tags.iter().map(|(name, value)| Tag { name, value }).collect();
        Common {
            email_id: self.email,
            workspace_id: self.workspace,
            broadcast_id: None,
            tags: (!tags.is_empty()).then(listed),
            metadata: self.details.metadata.as_deref(),
        }
    }

    /// What happened to a recipient.
    ///
    /// # Errors
    /// `Damaged` if it cannot be written down: what is stored is not what it was.
    pub(crate) fn tell(&self, to: &To<'_>, what: &Happened<'_>, at: Timestamp) -> Result<NewEvent, Damaged> {
        let name = what.event_type();
        let data = ForRecipient {
            common: self.common(),
            recipient_id: to.id,
            recipient: to.email,
            recipient_role: to.role.name(),
            more: what.more(),
        };
        self.event(name, at, data, u64::try_from(to.id.key().value()).unwrap_or(0))
    }

    /// The email was accepted. `suppressed`: which of its recipients get nothing. Their keys are those behind its own.
    ///
    /// # Errors
    /// As [`About::tell`].
    pub(crate) fn tell_accepted(
        &self,
        recipients: &[(Role, Address)],
        suppressed: &[bool],
        scheduled_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<Vec<NewEvent>, Damaged> {
        let mut told = Vec::with_capacity(recipients.len() + 1);
        for (index, ((role, address), suppressed)) in (1..).zip(recipients.iter().zip(suppressed)) {
            let id = RecipientId::new(self.email.key().plus(index), self.email.tail());
            let to = To { id, role: *role, email: &address.email };
            told.push(self.tell(&to, &Happened::Accepted, at)?);
            if *suppressed {
                told.push(self.tell(&to, &Happened::Rejected(Rejection::Suppressed), at)?);
            }
        }
        if let Some(scheduled_at) = scheduled_at {
            told.push(self.tell_scheduled(scheduled_at, at)?);
        }
        Ok(told)
    }

    /// The email waits for a time.
    ///
    /// # Errors
    /// As [`About::tell`].
    pub(crate) fn tell_scheduled(&self, scheduled_at: Timestamp, at: Timestamp) -> Result<NewEvent, Damaged> {
        self.event("email.scheduled", at, Planned { common: self.common(), scheduled_at }, 1)
    }

    /// The email was cancelled.
    ///
    /// # Errors
    /// As [`About::tell`].
    pub(crate) fn tell_cancelled(&self, at: Timestamp) -> Result<NewEvent, Damaged> {
        self.event("email.canceled", at, self.common(), 2)
    }

    /// `salt`: so that no two events of the email have the same tail.
    fn event(
        &self,
        name: &'static str,
        timestamp: Timestamp,
        data: impl Serialize,
        salt: u64,
    ) -> Result<NewEvent, Damaged> {
        let damaged = |what: &dyn std::fmt::Display| Damaged(format!("event of {}: {what}", self.email));
        let body = Body { event_type: name, timestamp, data };
        let body = serde_json::to_vec(&body).map_err(|error| damaged(&error))?;
        let event_type = EventType::parse(name).map_err(|fault| damaged(&fault))?;
        let named = name.bytes().fold(salt, |sum, byte| mixed(sum ^ u64::from(byte)));
        let tail = Tail::from_bits(mixed(self.email.tail().value() ^ named));
        Ok(NewEvent { event_type, body: body.into(), tail })
    }
}

/// Spreads bits (the finaliser of SplitMix64). Ids of events are no secrets; they only should not look alike.
const fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Happened<'_> {
    const fn event_type(&self) -> &'static str {
        match self {
            Self::Accepted => "email.accepted",
            Self::Processed => "email.processed",
            Self::Deferred(_) => "email.deferred",
            Self::Delivered => "email.delivered",
            Self::Bounced(_) => "email.bounced",
            Self::Rejected(_) => "email.rejected",
        }
    }

    fn more(&self) -> More {
        match self {
            Self::Accepted | Self::Processed | Self::Delivered => More::Nothing {},
            Self::Deferred(failure) => {
                let bounce = bounce(failure);
                More::Deferred {
                    bounce_type: bounce.kind().name(),
                    bounce_class: bounce.class(),
                    defer_reason: failure.message.clone(),
                    sending_ip: None,
                }
            }
            Self::Bounced(failure) => {
                let bounce = bounce(failure);
                More::Bounced {
                    bounce_type: bounce.kind().name(),
                    bounce_class: bounce.class(),
                    bounce_code: failure.status.map_or_else(String::new, |status| status.to_string()),
                    bounce_description: failure.message.clone(),
                    sending_ip: None,
                }
            }
            Self::Rejected(why) => More::Rejected {
                rejection_reason: match why {
                    Rejection::Suppressed => "recipient_suppressed",
                    Rejection::GivenUp => "transmission_failed",
                },
            },
        }
    }
}

/// What an attempt came to, in the order of its happening. `life`: the delivery after it.
pub(crate) fn of_attempt<'a>(attempt: &'a Attempt, life: &Delivery) -> Vec<(Happened<'a>, Timestamp)> {
    let mut happened = Vec::new();
    // What it says of times rises along the way, also where all of it took less than a millisecond.
    let started_at = attempt.started_at + Duration::from_millis(1);
    let ended_at = attempt.ended_at.max(started_at) + Duration::from_millis(1);
    if attempt.number == 1 {
        happened.push((Happened::Processed, started_at));
    }
    match (&attempt.outcome, life.state) {
        (Outcome::Delivered { .. }, _) => happened.push((Happened::Delivered, ended_at)),
        (Outcome::Refused(failure) | Outcome::Uncertain(failure), _) => {
            happened.push((Happened::Bounced(failure), ended_at));
        }
        (Outcome::Failed(failure), State::Pending) => {
            happened.push((Happened::Deferred(failure), ended_at));
        }
        (_, State::Failed(FailReason::Exhausted)) => {
            happened.push((Happened::Rejected(Rejection::GivenUp), ended_at));
        }
        (Outcome::Failed(_) | Outcome::Lost, _) => {}
    }
    happened
}

/// What the mail server said if there is no such mailbox.
pub(crate) fn hard_bounce(outcome: &Outcome) -> Option<&Failure> {
    let refused = match outcome {
        Outcome::Refused(failure) => Some(failure),
        Outcome::Delivered { .. } | Outcome::Failed(_) | Outcome::Uncertain(_) | Outcome::Lost => None,
    };
    refused.filter(|failure| bounce(failure).kind() == BounceType::Hard)
}

/// What kind of no a mail server's reply is. What was no reply is undetermined.
fn bounce(failure: &Failure) -> Bounce {
    let Some(code) = failure.status.filter(|_| failure.kind == FailureKind::Smtp) else {
        return Bounce::Undetermined;
    };
    let reply = Reply { code, enhanced: failure.enhanced, text: failure.message.clone() };
    reply.bounce().unwrap_or(Bounce::Undetermined)
}
