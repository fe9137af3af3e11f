//! A delivery to a mailbox, as its email shows it.

use crate::Timestamp;
use crate::delivery::{Delivery, FailReason, State};
use crate::email::status::{self, EmailStatus, RecipientStatus};

/// How one recipient stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub delivery: Delivery,
    /// It was on the list of suppressions when its turn came.
    pub suppressed: bool,
}

impl Standing {
    pub const fn status(&self) -> RecipientStatus {
        match self.delivery.state {
            State::Pending | State::Sending => RecipientStatus::Pending,
            State::Delivered => RecipientStatus::Delivered,
            State::Failed(FailReason::Refused) if self.suppressed => RecipientStatus::Suppressed,
            State::Failed(FailReason::Refused) => RecipientStatus::Bounced,
            State::Failed(FailReason::Uncertain) => RecipientStatus::Uncertain,
            State::Failed(FailReason::Exhausted | FailReason::EndpointPaused)
            | State::Cancelled(_)
            | State::Skipped => RecipientStatus::Failed,
        }
    }
}

/// How an email stands. `scheduled_at`: the time it waits, or waited, for.
pub fn email_status(
    recipients: &[Standing],
    cancelled: bool,
    scheduled_at: Option<Timestamp>,
    now: Timestamp,
) -> EmailStatus {
    if cancelled {
        return EmailStatus::Cancelled;
    }
    let begun = recipients.iter().any(|it| it.delivery.attempts_made > 0);
    let statuses: Vec<RecipientStatus> = recipients.iter().map(Standing::status).collect();
    status::status(&statuses, begun, scheduled_at.unwrap_or(now), now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::CancelReason;

    #[test]
    fn what_a_delivery_came_to() {
        let table = [
            (State::Pending, false, RecipientStatus::Pending),
            (State::Sending, false, RecipientStatus::Pending),
            (State::Delivered, false, RecipientStatus::Delivered),
            (State::Failed(FailReason::Refused), false, RecipientStatus::Bounced),
            (State::Failed(FailReason::Refused), true, RecipientStatus::Suppressed),
            (State::Failed(FailReason::Uncertain), false, RecipientStatus::Uncertain),
            (State::Failed(FailReason::Exhausted), false, RecipientStatus::Failed),
            (State::Cancelled(CancelReason::Requested), false, RecipientStatus::Failed),
        ];
        for (state, suppressed, expected) in table {
            let delivery = Delivery { state, ..Delivery::new(Timestamp::from_millis(0)) };
            assert_eq!(Standing { delivery, suppressed }.status(), expected, "{state:?}");
        }
    }

    #[test]
    fn an_email_waits_is_under_way_or_was_called_off() {
        let (now, later) = (Timestamp::from_millis(1_000), Timestamp::from_millis(2_000));
        let fresh = Standing { delivery: Delivery::new(now), suppressed: false };
        let begun = Standing { delivery: Delivery::born_leased(now), suppressed: false };
        assert_eq!(
            email_status(std::slice::from_ref(&fresh), false, Some(later), now),
            EmailStatus::Scheduled
        );
        assert_eq!(email_status(std::slice::from_ref(&fresh), false, None, now), EmailStatus::Queued);
        assert_eq!(email_status(&[fresh.clone(), begun], false, None, now), EmailStatus::Sending);
        assert_eq!(email_status(&[fresh], true, Some(later), now), EmailStatus::Cancelled);
    }
}
