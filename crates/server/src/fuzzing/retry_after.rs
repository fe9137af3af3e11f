//! What a receiver, or a server, writes into `Retry-After`.

use restante_core::outcome::Failure;
use restante_core::retry::{Jitter, RETRY_AFTER_MAX, Schedule, THROTTLED_WAIT};
use restante_core::{Outcome, Timestamp};
use restante_sdk::calls::Class;
use restante_sdk::retry::{self, Decision, Try};

use super::Input;
use crate::channel::http::retry_after;

/// From 1970 to the year 2200.
const NOW_MAX_MS: u64 = 7_258_118_400_000;

/// No wait is shorter than the schedule's or longer than the most that is waited for, whatever is written.
pub(super) fn no_wish_goes_beyond_its_bounds(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let now_ms = (input.number() % NOW_MAX_MS).cast_signed();
    let status = 300 + u16::from(input.byte()) % 300;
    let used = u32::from(input.byte()) % 10;
    let wish = input.rest();
    for_a_delivery(Timestamp::from_millis(now_ms), status, used, wish);
    if let Ok(wish) = std::str::from_utf8(wish) {
        for_a_call(restante_sdk::Timestamp::from_millis(now_ms), status, wish);
    }
}

fn for_a_delivery(now: Timestamp, status: u16, used: u32, wish: &[u8]) {
    let at = retry_after(wish, now);
    assert!(at.is_none_or(|at| at > now), "a wish lies ahead");
    let outcome = Outcome::of_status(status, at);
    let failure: Option<&Failure> = outcome.failure();
    assert!(failure.is_some());
    for schedule in [Schedule::Standard, Schedule::Quadratic { attempts: 10 }] {
        let wait = |failure| schedule.wait_after(used, failure, now, Jitter::NONE).map(|wait| wait.length);
        let (Some(planned), Some(wished)) = (wait(None), wait(failure)) else { continue };
        let most = planned.max(RETRY_AFTER_MAX).max(THROTTLED_WAIT);
        assert!(planned <= wished && wished <= most, "{planned:?}, then {wished:?}");
        assert!(schedule == Schedule::Standard || wished == planned);
    }
}

fn for_a_call(now: restante_sdk::Timestamp, status: u16, wish: &str) {
    let made = Try { number: 1, max_retries: 1 };
    let outcome = retry::Outcome::Status { status, retry_after: Some(wish) };
    let jitter = retry::Jitter::from_bits(0);
    let decision = retry::decide(Class::Read, made, outcome, now, jitter, retry::BUDGET_TOKENS, None);
    match (retry::retry_after(wish, now), decision) {
        (asked, Decision::Wait(wait)) => {
            assert!(wait <= retry::RETRY_AFTER_MAX);
            assert!(asked.is_none_or(|asked| asked == wait));
        }
        (Some(asked), Decision::GiveUp(_)) => assert!(asked > retry::RETRY_AFTER_MAX),
        (None, Decision::GiveUp(why)) => panic!("{why}, although nothing was asked for"),
        (_, Decision::Return) => {}
        (_, other) => panic!("{other:?} is none of the decisions"),
    }
    if wish.trim_start_matches([' ', '\t']).starts_with('-') {
        assert_eq!(retry::retry_after(wish, now), None, "a negative number is none");
    }
}
