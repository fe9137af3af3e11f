//! What callers may set of a webhook, and what is valid.

use std::collections::BTreeMap;

use restante_core::endpoint::{SigningSecret, Webhook};
use restante_core::event::Filter;
use restante_core::limits;
use restante_core::retry::{CUSTOM_WAITS_MAX, Schedule};
use serde::Deserialize;
use serde::de::IgnoredAny;
use utoipa::ToSchema;

use crate::api::body::Change;
use crate::api::endpoints::{Judge, ScheduleInput, ScheduleRules, apply_headers, apply_schedule, check_pace};
use crate::api::error::ApiError;
use crate::api::fault::Faults;
use crate::channel::guard::Rules;

const SCHEDULE: ScheduleRules = ScheduleRules { default: || Schedule::Standard, waits_max: CUSTOM_WAITS_MAX };

/// Settings of a webhook. `url` and `events` are required in a new one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookInput {
    /// Where to send: https and public unless the operator allows more.
    #[schema(value_type = String)]
    #[serde(default)]
    url: Change<String>,
    /// Types it is subscribed to, 1 to 100: exact ones, `a.*` for all below `a`, or `*`.
    #[schema(value_type = Vec<String>)]
    #[serde(default)]
    events: Change<Vec<String>>,
    /// At most 256 characters; null or empty: none.
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    description: Change<String>,
    /// `active` or `paused`.
    #[schema(value_type = Option<StatusInput>)]
    #[serde(default)]
    status: Change<StatusInput>,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    filter: Change<IgnoredAny>,
    /// `{"type": "webhook"}`, which is what it is anyway.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    destination: Change<Kind>,
    /// When attempts are made; standard unless set.
    #[schema(value_type = Option<ScheduleInput>)]
    #[serde(default)]
    schedule: Change<ScheduleInput>,
    /// Static headers, at most 20. Replaces all; a null value keeps the one that is set.
    #[schema(value_type = Option<HashMap<String, Option<String>>>)]
    #[serde(default)]
    headers: Change<BTreeMap<String, Option<String>>>,
    /// Attempts at the same time, 1 to 1,000; 64 unless set.
    #[schema(value_type = Option<u32>)]
    #[serde(default)]
    max_in_flight: Change<u32>,
    /// Attempts per second, 0.1 to 10,000; null: as many as there are.
    #[schema(value_type = Option<f64>)]
    #[serde(default)]
    rate_per_second: Change<f64>,
    /// From name lookup to the end of the response head, 1 to 60; 15 unless set.
    #[schema(value_type = Option<u32>)]
    #[serde(default)]
    timeout_seconds: Change<u32>,
}

/// What `status` can be set to.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = WebhookStatusInput)]
pub(crate) enum StatusInput {
    Active,
    Paused,
}

/// The only kind there is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    #[serde(rename = "type")]
    _type: KindName,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindName {
    Webhook,
}

impl WebhookInput {
    /// A new webhook that signs with `secret`.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn create(self, secret: SigningSecret, judge: Judge<'_>) -> Result<Webhook, ApiError> {
        let required = |set: bool, field: &str| {
            let missing = || ApiError::invalid("missing_field", format!("{field} is required")).on(field);
            set.then_some(()).ok_or_else(missing)
        };
        required(matches!(self.url, Change::Set(_)), "url")?;
        required(matches!(self.events, Change::Set(_)), "events")?;
        let mut webhook = Webhook {
            url: String::new(),
            description: None,
            events: Vec::new(),
            secrets: vec![secret],
            paused: false,
            schedule: Schedule::Standard,
            headers: Vec::new(),
            max_in_flight: limits::MAX_IN_FLIGHT_DEFAULT,
            rate_per_second: None,
            timeout_seconds: limits::TIMEOUT_SECONDS_WEBHOOK,
        };
        self.update(&mut webhook, judge)?;
        Ok(webhook)
    }

    /// Changes a webhook.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn update(self, webhook: &mut Webhook, judge: Judge<'_>) -> Result<(), ApiError> {
        let mut faults = Faults::default();
        apply_url(self.url, &mut webhook.url, judge.rules, &mut faults);
        apply_events(self.events, &mut webhook.events, &mut faults);
        apply_description(self.description, &mut webhook.description, &mut faults);
        match self.status {
            Change::Keep => {}
            Change::Reset => faults.add("status", "must be active or paused"),
            Change::Set(status) => webhook.paused = status == StatusInput::Paused,
        }
        let unfiltered = !matches!(self.filter, Change::Set(_));
        faults.unless(unfiltered, "filter", "must be null: a webhook is chosen by its events");
        faults.unless(!matches!(self.destination, Change::Reset), "destination", "must not be null");
        apply_schedule(Change::Keep, self.schedule, &mut webhook.schedule, SCHEDULE, &mut faults);
        apply_headers(self.headers, &mut webhook.headers, judge, &mut faults);
        self.max_in_flight.apply(&mut webhook.max_in_flight, limits::MAX_IN_FLIGHT_DEFAULT);
        self.rate_per_second.apply_nullable(&mut webhook.rate_per_second);
        self.timeout_seconds.apply(&mut webhook.timeout_seconds, limits::TIMEOUT_SECONDS_WEBHOOK);
        let Webhook { max_in_flight, rate_per_second, timeout_seconds, .. } = *webhook;
        check_pace(max_in_flight, rate_per_second, timeout_seconds, &mut faults);
        faults.finish()
    }
}

fn apply_url(change: Change<String>, field: &mut String, rules: &Rules, faults: &mut Faults) {
    match change {
        Change::Keep => {}
        Change::Reset => faults.add("url", "must not be null"),
        Change::Set(url) => match rules.check_url(&url) {
            Ok(url) => *field = url.into(),
            Err(fault) => faults.add("url", fault.to_string()),
        },
    }
}

fn apply_events(change: Change<Vec<String>>, field: &mut Vec<Filter>, faults: &mut Faults) {
    let wanted = match change {
        Change::Keep => return,
        Change::Reset => return faults.add("events", "must not be null"),
        Change::Set(wanted) => wanted,
    };
    faults.unless(limits::FILTERS_PER_WEBHOOK.contains(&wanted.len()), "events", "must be 1 to 100 types");
    field.clear();
    for (index, text) in wanted.iter().enumerate() {
        match Filter::parse(text) {
            Ok(filter) => field.push(filter),
            Err(fault) => faults.add(format!("events[{index}]"), fault.to_string()),
        }
    }
}

fn apply_description(change: Change<String>, field: &mut Option<String>, faults: &mut Faults) {
    match change {
        Change::Keep => {}
        Change::Reset => *field = None,
        Change::Set(text) => {
            let fine = text.chars().count() <= limits::DESCRIPTION_CHARS_MAX;
            faults.unless(fine, "description", "must be at most 256 characters");
            *field = Some(text).filter(|text| !text.is_empty());
        }
    }
}

#[cfg(test)]
mod tests;
