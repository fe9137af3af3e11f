//! What became of a delivery: what happened, what happens next and when, and why then.

use restante_sdk::Timestamp;
use restante_sdk::wire::{Attempt, AttemptResult, Delivery, DeliveryState};

use crate::detail::Detail;
use crate::paint::Tone;
use crate::table::harmless;
use crate::times::{clock, exact, took};

/// Each attempt in a line, then what comes next.
pub(super) fn timeline(detail: &mut Detail, delivery: &Delivery) {
    for attempt in delivery.attempts.iter().flatten() {
        let line = happened(detail, attempt);
        detail.line(line);
    }
    for (label, text) in next(delivery, detail.now) {
        let label = detail.paint.tone(Tone::Dim, &format!("{label:<7}"));
        detail.line(format!("  {label}  {}", harmless(&text)));
    }
}

/// A delivery among others: whose it is, how it stands, and its timeline.
pub(super) fn delivery(detail: &mut Detail, delivery: &Delivery) {
    let to = delivery.destination_id.as_deref().or(delivery.webhook_id.as_deref());
    let to = to.or(delivery.recipient.as_deref()).unwrap_or("-");
    detail.heading(&format!("{} to {to}: {}", delivery.id, stands(delivery)));
    timeline(detail, delivery);
}

fn happened(detail: &Detail, attempt: &Attempt) -> String {
    let result = attempt.result.as_ref().map_or("in flight", AttemptResult::as_str);
    let status = attempt.response_status_code.map(|code| code.to_string());
    let kind = attempt.error_kind.as_ref().map(|kind| kind.as_str().to_owned());
    let answer = status.or(kind).unwrap_or_default();
    let took = attempt.duration_ms.map(took).unwrap_or_default();
    let label = detail.paint.tone(Tone::of(result), &format!("{result:<9}"));
    let mut line = format!(
        "  {:>7}  {}  {label}  {answer:<17}  {took:>8}  {}",
        attempt.number,
        clock(attempt.started_at),
        attempt.trigger.as_str(),
    );
    if let Some(message) = &attempt.error_message {
        line.push_str(&format!("  {}", harmless(message)));
    }
    if attempt.uses_budget == Some(false) {
        line.push_str("  (does not count)");
    }
    line
}

/// State and reason.
pub(super) fn stands(delivery: &Delivery) -> String {
    match &delivery.reason {
        Some(reason) => format!("{} ({})", delivery.state, reason.as_str().replace('_', " ")),
        None => delivery.state.to_string(),
    }
}

/// What happens next and when, and why then.
fn next(delivery: &Delivery, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if delivery.state == DeliveryState::Sending {
        lines.push(("next", "an attempt is in flight".to_owned()));
    }
    if let Some(at) = delivery.next_attempt_at {
        let number = delivery.attempts_used + 1;
        let when = match at.since(now).is_zero() {
            true => "due".to_owned(),
            false => format!("not before {}", exact(at, now)),
        };
        lines.push(("next", format!("attempt {number} of {}, {when}", delivery.attempts_max)));
    }
    lines.extend(delivery.wait_because.clone().map(|because| ("because", because)));
    if delivery.cancel_requested {
        lines.push(("then", "none: it is cancelled unless this attempt delivers it".to_owned()));
    }
    if let Some(at) = delivery.ended_at {
        lines.push(("over", format!("{}, {}", stands(delivery), exact(at, now))));
    }
    lines.extend(again(delivery).map(|command| ("again", command)));
    lines
}

/// The command that would deliver what was not.
fn again(delivery: &Delivery) -> Option<String> {
    let over = [DeliveryState::Failed, DeliveryState::Cancelled, DeliveryState::Skipped];
    if !over.contains(&delivery.state) {
        return None;
    }
    match (&delivery.request_id, &delivery.webhook_id, &delivery.state) {
        (Some(_), _, _) => Some(format!("restante deliveries retry {}", delivery.id)),
        (_, Some(webhook), DeliveryState::Skipped) => Some(format!("restante webhooks recover {webhook}")),
        (_, Some(webhook), _) => Some(format!("restante webhooks replay {webhook}")),
        (None, None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::Paint;

    fn shown(json: &str) -> String {
        let now = Timestamp::parse("2026-11-30T12:00:00Z").unwrap();
        let mut detail = Detail::new(Paint::plain(), now);
        delivery(&mut detail, &serde_json::from_str(json).unwrap());
        detail.finish()
    }

    #[test]
    fn a_waiting_delivery_says_what_happened_what_comes_and_why_then() {
        let json = r#"{"object":"delivery","id":"dlv_1","request_id":"req_1","destination_id":"dst_1","state":"pending",
            "reason":null,"cancel_requested":false,"attempts_used":2,"attempts_max":5,
            "next_attempt_at":"2026-11-30T12:09:00.000Z","waiting_for":"time","wait_because":"the schedule waits 9 min before attempt 3",
            "retry_of":null,"created_at":"2026-11-30T11:50:00.000Z","ended_at":null,"attempts":[
            {"id":"att_1","number":1,"trigger":"automatic","channel":"http","url":"http://a","started_at":"2026-11-30T11:50:00.000Z",
             "duration_ms":12,"result":"failed","response_status_code":503,"error_kind":"status","error_message":null,"uses_budget":true},
            {"id":"att_2","number":2,"trigger":"automatic","channel":"http","url":"http://a","started_at":"2026-11-30T11:54:00.000Z",
             "duration_ms":3,"result":"failed","response_status_code":null,"error_kind":"lost","error_message":"the node died","uses_budget":false}]}"#;
        assert_eq!(
            shown(json),
            "\ndlv_1 to dst_1: pending\n        1  11:50:00  failed     503                   12 ms  automatic\n        \
             2  11:54:00  failed     lost                   3 ms  automatic  the node died  (does not count)\n  \
             next     attempt 3 of 5, not before 2026-11-30 12:09:00 UTC (in 9 min)\n  \
             because  the schedule waits 9 min before attempt 3"
        );
    }

    #[test]
    fn one_that_is_over_says_what_would_send_it_again() {
        let json = r#"{"object":"delivery","id":"dlv_1","event_id":"whe_1","webhook_id":"whk_1","state":"skipped",
            "reason":null,"cancel_requested":false,"attempts_used":0,"attempts_max":8,"next_attempt_at":null,
            "waiting_for":null,"wait_because":null,"retry_of":null,"created_at":"2026-11-30T11:50:00.000Z",
            "ended_at":"2026-11-30T11:50:00.000Z","attempts":[]}"#;
        assert_eq!(
            shown(json),
            "\ndlv_1 to whk_1: skipped\n  over     skipped, 2026-11-30 11:50:00 UTC (10 min ago)\n  \
             again    restante webhooks recover whk_1"
        );
    }
}
