//! Lines for people and for programs, where there is no terminal to paint on.

mod json;
#[cfg(test)]
mod tests;

use restante_core::Timestamp;

use super::event::{Attempt, End, Event, FaultKind, LinkState, Outcome};
use super::sources::Chosen;
use super::text::{duration, plural};
use super::zone::Zone;
use crate::table::harmless;

/// A line, and whether it is data (standard output) or talk (standard error).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Data(String),
    Talk(String),
}

/// How events become lines.
#[derive(Clone, Debug)]
pub(crate) struct Render {
    pub(crate) sources: Vec<Chosen>,
    /// Address of the dashboard, without a slash at the end.
    pub(crate) dashboard: String,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) colours: bool,
    pub(crate) zone: Zone,
}

impl Render {
    /// The lines of one event, `now` for those that have no time of their own.
    pub(crate) fn lines(&self, event: &Event, now: Timestamp) -> Vec<Line> {
        let mut lines = Vec::new();
        let data = if self.json { json::line(self, event, now) } else { self.data(event) };
        lines.extend(data.map(Line::Data));
        lines.extend(self.talk(event).map(Line::Talk));
        lines
    }

    fn data(&self, event: &Event) -> Option<String> {
        match event {
            Event::Ended { attempt, end } if !self.quiet => Some(self.attempt(attempt, end)),
            Event::Ended { .. }
            | Event::Link { .. }
            | Event::Local { .. }
            | Event::Began(_)
            | Event::Answered { .. }
            | Event::Missed { .. }
            | Event::Note(_)
            | Event::Stopping { .. }
            | Event::Over => None,
        }
    }

    fn attempt(&self, attempt: &Attempt, end: &End) -> String {
        let time = self.zone.clock(attempt.at);
        let (status, tail) = match &end.outcome {
            Outcome::Answer { status } => (status.to_string(), String::new()),
            Outcome::Fault { kind, detail } => (word(*kind).to_owned(), format!(" ({})", harmless(detail))),
            Outcome::Cancelled => ("cancelled".to_owned(), String::new()),
        };
        let status = match (self.colours, end.outcome.is_success()) {
            (false, _) => status,
            (true, true) => format!("\x1b[32m{status}\x1b[0m"),
            (true, false) => format!("\x1b[31m{status}\x1b[0m"),
        };
        let path =
            if attempt.uri.starts_with('/') { attempt.uri.clone() } else { format!("/{}", attempt.uri) };
        let mut line = format!(
            "{time} ← {status} {} {} {} attempt {}",
            harmless(&attempt.method),
            harmless(&path),
            duration(end.duration),
            attempt.number
        );
        if let Some(max) = attempt.attempts_max {
            line.push_str(&format!(" of {max}"));
        }
        if let [_, _, ..] = self.sources.as_slice() {
            line.push_str(&format!(" {}", harmless(&self.name(attempt.source))));
        }
        if let Some(id) = &attempt.request_id {
            line.push_str(&format!(" {}", link(&self.dashboard, id)));
        }
        line.push_str(&tail);
        if !end.reported {
            line.push_str(" (the server was not told: it counts as failed)");
        }
        line
    }

    fn talk(&self, event: &Event) -> Option<String> {
        match event {
            Event::Link { source, state, .. } => self.state(&self.name(*source), *source, state),
            Event::Local { url, fault, .. } => match fault {
                Some(fault) => Some(format!("the local service does not answer: {url}: {fault}")),
                None => self.unless_quiet(format!("the local service answers: {url}")),
            },
            Event::Missed { count } => self.unless_quiet(format!(
                "{} not shown: the output is not read as fast",
                plural(*count, "attempt")
            )),
            Event::Note(note) => self.unless_quiet(note.clone()),
            Event::Stopping { running: 0 } => self.unless_quiet("stopping".to_owned()),
            Event::Stopping { running } => {
                let running = plural(*running, "attempt");
                self.unless_quiet(format!("stopping: {running} may still end, at most 5 s"))
            }
            Event::Began(_) | Event::Ended { .. } | Event::Answered { .. } | Event::Over => None,
        }
    }

    fn state(&self, name: &str, source: usize, state: &LinkState) -> Option<String> {
        match state {
            LinkState::Connecting => self.unless_quiet(format!("{name}: connecting")),
            LinkState::Connected => {
                let source = self.sources.get(source);
                let (url, targets) =
                    source.map_or(("", String::new()), |it| (&it.url, it.targets.join(", ")));
                self.unless_quiet(format!("{name}: connected: {url} → {targets}"))
            }
            LinkState::Reconnecting { why, next: Some(next) } => Some(format!(
                "{name}: reconnecting: {}; next try at {}",
                harmless(why),
                self.zone.clock(*next)
            )),
            LinkState::Reconnecting { next: None, .. } => None,
            LinkState::Failed { why } => Some(format!("{name}: failed: {}", harmless(why))),
            LinkState::Stopped => self.unless_quiet(format!("{name}: stopped")),
        }
    }

    fn unless_quiet(&self, text: String) -> Option<String> {
        (!self.quiet).then_some(text)
    }

    fn name(&self, source: usize) -> String {
        self.sources.get(source).map_or_else(String::new, |it| it.name.clone())
    }
}

/// The word on the wire.
pub(crate) fn word(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::InvalidUrl => restante_sdk::tunnel::INVALID_URL,
        FaultKind::Network => restante_sdk::tunnel::NETWORK_ERROR,
        FaultKind::Timeout => restante_sdk::tunnel::TIMEOUT,
    }
}

/// A request's page in the dashboard.
pub(crate) fn link(dashboard: &str, request_id: &str) -> String {
    format!("{dashboard}/requests/{request_id}")
}
