//! How somebody stands, and how that is told.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use super::Rate;

/// What may be done in which time (draft-ietf-httpapi-ratelimit-headers).
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What is left of it.
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// How somebody stands who has just asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standing {
    pub(super) rate: Rate,
    /// Whether it was counted, and may be done.
    pub(crate) admitted: bool,
    /// How many more would be admitted now.
    pub(super) remaining: u64,
    /// Until it is one more than `remaining`.
    pub(super) next: Duration,
}

impl Standing {
    /// Until one more is admitted than now, in whole seconds, 1 or more.
    pub(crate) fn next_seconds(&self) -> u64 {
        self.next.as_secs() + u64::from(self.next.subsec_nanos() > 0)
    }

    /// Writes it into the headers of an answer. `Retry-After` stands in that to who was refused.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let (quota, window_seconds) = self.rate.policy();
        let seconds = self.next_seconds();
        let text = |text: String| HeaderValue::try_from(text).expect("numbers between names of ours");
        headers.insert(RATE_LIMIT_POLICY, text(format!(r#""default";q={quota};w={window_seconds}"#)));
        headers.insert(RATE_LIMIT, text(format!(r#""default";r={};t={seconds}"#, self.remaining)));
        if !self.admitted {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
    }
}

impl Rate {
    /// How many in how many seconds: in as many as the burst takes to come back.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast keeps to the range")]
    pub(super) fn policy(self) -> (u64, u64) {
        let window_seconds = (f64::from(self.burst) / self.per_second).ceil();
        // It is no less than the burst but by what floating point loses.
        let quota = (window_seconds * self.per_second).floor().max(f64::from(self.burst));
        (quota as u64, window_seconds as u64)
    }
}

/// How the key of a call stands, once it was counted. It goes with the request: a call that is made of several of ours
/// counts once, and all of them are admitted or none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counted(Arc<OnceLock<Standing>>);

impl Counted {
    /// Counts the call, unless that was done.
    pub(crate) fn once(&self, count: impl FnOnce() -> Standing) -> Standing {
        *self.0.get_or_init(count)
    }

    /// `None`: it was not counted.
    pub(crate) fn standing(&self) -> Option<Standing> {
        self.0.get().copied()
    }
}
