//! Lines for programs: one JSON object each, in a shape with a version.

use restante_core::Timestamp;
use serde::Serialize;

use super::{Render, link, word};
use crate::listen::event::{Attempt, End, Event, LinkState, Outcome};

/// Version of the shape. Fields may be added; none is renamed, removed or given another meaning within it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Head<'a> {
    v: u32,
    event: &'a str,
    at: String,
    source: Option<&'a str>,
    source_id: Option<&'a str>,
}

#[derive(Serialize)]
struct StateLine<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    state: &'a str,
    reason: Option<&'a str>,
    next_try_at: Option<String>,
    url: Option<&'a str>,
}

#[derive(Serialize)]
struct LocalLine<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    url: &'a str,
    answers: bool,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct AttemptLine<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    request_id: Option<&'a str>,
    delivery_id: Option<&'a str>,
    destination_id: Option<&'a str>,
    attempt: u32,
    attempts_max: Option<u32>,
    method: &'a str,
    path: &'a str,
    url: &'a str,
    body_bytes: usize,
    outcome: &'a str,
    status: Option<u16>,
    error: Option<&'a str>,
    detail: Option<&'a str>,
    duration_us: u64,
    reported: bool,
    dashboard_url: Option<String>,
}

/// The line of an event, if programs are told of it.
pub(super) fn line(render: &Render, event: &Event, now: Timestamp) -> Option<String> {
    let head = |event, source, at| head(render, event, source, at);
    match event {
        Event::Link { source, at, state } => {
            Some(written(&state_line(render, head("state", *source, *at), state)))
        }
        Event::Local { source, url, fault } => {
            let reason = fault.as_deref();
            let head = head("local", *source, now);
            Some(written(&LocalLine { head, url, answers: reason.is_none(), reason }))
        }
        Event::Ended { attempt, end } => {
            Some(written(&attempt_line(render, head("attempt", attempt.source, attempt.at), attempt, end)))
        }
        Event::Began(_)
        | Event::Answered { .. }
        | Event::Missed { .. }
        | Event::Note(_)
        | Event::Stopping { .. }
        | Event::Over => None,
    }
}

fn written(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect("lines are made of texts and numbers")
}

fn head<'a>(render: &'a Render, event: &'a str, source: usize, at: Timestamp) -> Head<'a> {
    let source = render.sources.get(source);
    Head {
        v: VERSION,
        event,
        at: at.to_string(),
        source: source.map(|it| it.name.as_str()),
        source_id: source.map(|it| it.id.as_str()),
    }
}

fn state_line<'a>(render: &'a Render, head: Head<'a>, state: &'a LinkState) -> StateLine<'a> {
    let (state, reason, next) = match state {
        LinkState::Connecting => ("connecting", None, None),
        LinkState::Connected => ("connected", None, None),
        LinkState::Reconnecting { why, next } => ("reconnecting", Some(why.as_str()), *next),
        LinkState::Failed { why } => ("failed", Some(why.as_str()), None),
        LinkState::Stopped => ("stopped", None, None),
    };
    let named = |name| render.sources.iter().find(|it| Some(it.name.as_str()) == name);
    let url = named(head.source).map(|it| it.url.as_str());
    StateLine { head, state, reason, next_try_at: next.map(|it| it.to_string()), url }
}

fn attempt_line<'a>(render: &Render, head: Head<'a>, attempt: &'a Attempt, end: &'a End) -> AttemptLine<'a> {
    let (status, error, detail) = match &end.outcome {
        Outcome::Answer { status } => (Some(*status), None, None),
        Outcome::Fault { kind, detail } => (None, Some(word(*kind)), Some(detail.as_str())),
        Outcome::Cancelled => (None, None, None),
    };
    AttemptLine {
        head,
        request_id: attempt.request_id.as_deref(),
        delivery_id: attempt.delivery_id.as_deref(),
        destination_id: attempt.destination_id.as_deref(),
        attempt: attempt.number,
        attempts_max: attempt.attempts_max,
        method: &attempt.method,
        path: &attempt.uri,
        url: &attempt.url,
        body_bytes: attempt.body_bytes,
        outcome: match &end.outcome {
            Outcome::Cancelled => "cancelled",
            outcome if outcome.is_success() => "success",
            Outcome::Answer { .. } | Outcome::Fault { .. } => "failed",
        },
        status,
        error,
        detail,
        duration_us: u64::try_from(end.duration.as_micros()).unwrap_or(u64::MAX),
        reported: end.reported,
        dashboard_url: attempt.request_id.as_ref().map(|id| link(&render.dashboard, id)),
    }
}
