//! A message as the API shows it, beside what its receivers saw.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::Value;

use super::Judged;
use crate::receiver::{Receiver, Visit};
use crate::soak::ledger::Ledger;
use crate::soak::world::{Endpoint, Source};

pub(super) struct Record<'a> {
    pub(super) shown: &'a Value,
    /// What all its attempts carry.
    identity: &'a str,
    body: Option<&'a Bytes>,
    /// By endpoint that it must have gone to.
    parts: Vec<Part<'a>>,
}

/// What went to one endpoint: a delivery, and its manual retries.
struct Part<'a> {
    path: &'a str,
    deliveries: Vec<&'a Value>,
}

impl<'a> Record<'a> {
    /// A duplicate has no parts.
    pub(super) fn of_request(shown: &'a Value, source: &'a Source, body: Option<&'a Bytes>) -> Self {
        let endpoints = if shown["duplicate_of"].is_string() { &[][..] } else { &source.destinations };
        let identity = shown["key"].as_str().unwrap();
        Self { shown, identity, body, parts: parts(shown, endpoints.iter(), "destination_id") }
    }

    /// Those about emails are for `*` only.
    pub(super) fn of_event(shown: &'a Value, webhooks: &'a [Endpoint]) -> Self {
        let of_email = shown["type"].as_str().unwrap().starts_with("email.");
        let told = webhooks.iter().filter(|webhook| !of_email || webhook.path == "/all");
        let identity = shown["id"].as_str().unwrap();
        Self { shown, identity, body: None, parts: parts(shown, told, "webhook_id") }
    }

    pub(super) fn has(&self, delivery: &str) -> bool {
        self.deliveries().any(|it| it["id"] == delivery)
    }

    fn deliveries(&self) -> impl Iterator<Item = &'a Value> {
        self.parts.iter().flat_map(|part| part.deliveries.iter().copied())
    }

    /// Requests seen by each endpoint.
    pub(super) fn visits(&self, receiver: &Receiver) -> Vec<Vec<Visit>> {
        self.parts.iter().map(|part| receiver.visits_of(part.path, self.identity)).collect()
    }

    /// What is wrong at any time.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for part in &self.parts {
            if part.deliveries.is_empty() {
                faults.push(format!("{}: there is no delivery", part.path));
            }
            for delivery in &part.deliveries {
                let attempts = delivery["attempts"].as_array().unwrap();
                if attempts.iter().enumerate().any(|(index, it)| it["number"] != index + 1) {
                    faults.push(format!("{}: the attempts are not dense", part.path));
                }
                let is_delivered = attempts.iter().any(|it| it["result"] == "delivered");
                if is_delivered != (delivery["state"] == "delivered") {
                    faults.push(format!("{}: state and attempts differ", part.path));
                }
            }
        }
        faults
    }

    /// What is not over, or ended as neither its endpoint nor anybody's call explains.
    pub(super) fn open(&self, ledger: &Ledger) -> Vec<String> {
        let cancelled = ledger.cancelled.lock().unwrap();
        let mut faults = Vec::new();
        for part in &self.parts {
            for delivery in &part.deliveries {
                let attempts = delivery["attempts"].as_array().unwrap();
                let called = cancelled.get(delivery["id"].as_str().unwrap());
                let is_explained = match (delivery["state"].as_str().unwrap(), delivery["reason"].as_str()) {
                    ("delivered", None) => true,
                    ("cancelled", Some("requested")) => called.is_some(),
                    ("failed", Some("exhausted")) => part.path == "/stalls" && is_our_or_its_fault(attempts),
                    ("failed", Some("endpoint_paused")) | ("skipped", None) => part.path == "/hook-paused",
                    _ => false,
                };
                let was = called.copied().flatten();
                if !is_explained
                    || was.is_some_and(|was| delivery["state"] != "cancelled" || attempts.len() != was)
                {
                    faults.push(format!("{}: it ended otherwise (cancelled: {called:?})", part.path));
                }
            }
        }
        faults
    }

    /// Requests that were seen and are not recorded as attempts.
    pub(super) fn unrecorded(&self, visits: &[Vec<Visit>]) -> Vec<String> {
        let mut faults = Vec::new();
        for (part, visits) in self.parts.iter().zip(visits) {
            let attempts = part.attempts();
            if visits.len() > attempts {
                faults.push(format!("{}: {} requests of {attempts} attempts", part.path, visits.len()));
            }
            let first = self.body.or_else(|| visits.iter().find(|it| it.delivered).map(|it| &it.body));
            if visits.iter().any(|it| it.delivered && Some(&it.body) != first) {
                faults.push(format!("{}: other bytes arrived", part.path));
            }
        }
        faults
    }

    /// What is recorded and was not seen, or the other way.
    pub(super) fn unseen(&self, visits: &[Vec<Visit>]) -> Vec<String> {
        let mut faults = self.unrecorded(visits);
        for (part, visits) in self.parts.iter().zip(visits) {
            let delivered = part.deliveries.iter().filter(|it| it["state"] == "delivered").count();
            let seen = visits.iter().filter(|it| it.delivered).count();
            if seen < delivered {
                faults.push(format!("{}: {delivered} are delivered, {seen} arrived", part.path));
            }
        }
        faults
    }

    pub(super) fn count(&self, judged: &mut Judged) {
        for delivery in self.deliveries() {
            let state = delivery["state"].as_str().unwrap().to_owned();
            *judged.deliveries.entry(state).or_default() += 1;
            let attempts = delivery["attempts"].as_array().unwrap();
            judged.attempts += attempts.len() as u64;
            judged.lost += attempts.iter().filter(|it| it["error_kind"] == "lost").count() as u64;
        }
    }
}

impl Part<'_> {
    fn attempts(&self) -> usize {
        self.deliveries.iter().map(|it| it["attempts"].as_array().unwrap().len()).sum()
    }
}

fn parts<'a>(shown: &'a Value, endpoints: impl Iterator<Item = &'a Endpoint>, field: &str) -> Vec<Part<'a>> {
    let all = shown["deliveries"].as_array().unwrap();
    let to = |id: &str| all.iter().filter(|it| it[field] == id).collect();
    endpoints.map(|endpoint| Part { path: endpoint.path, deliveries: to(&endpoint.id) }).collect()
}

/// It hung, or the server was killed so often that this counts.
fn is_our_or_its_fault(attempts: &[Value]) -> bool {
    attempts
        .last()
        .is_some_and(|last| ["timeout", "lost"].contains(&last["error_kind"].as_str().unwrap_or("")))
}
