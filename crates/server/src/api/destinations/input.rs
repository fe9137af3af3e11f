//! What callers may set of a destination, and what is valid.

use std::collections::BTreeMap;

use restante_core::endpoint::{Destination, DestinationKind, IdempotencyHeader, settable_header};
use restante_core::limits;
use restante_core::retry::{CUSTOM_WAITS_MAX_DESTINATION, Schedule};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::body::Change;
use crate::api::endpoints::{
    HEADER_RULE, Judge, ScheduleInput, ScheduleRules, apply_headers, apply_schedule, check_pace,
};
use crate::api::error::ApiError;
use crate::api::fault::Faults;
use crate::channel::guard::Rules;

const SCHEDULE: ScheduleRules =
    ScheduleRules { default: Schedule::default, waits_max: CUSTOM_WAITS_MAX_DESTINATION };

/// Settings of a destination. `kind` and `url` are required in a new one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DestinationInput {
    /// How it is reached. Cannot be changed.
    #[schema(value_type = DestinationKindInput)]
    #[serde(default)]
    kind: Change<DestinationKindInput>,
    /// Where to send. For `http` https and public unless the operator allows more; for `cli` any http or https URL.
    #[schema(value_type = String)]
    #[serde(default)]
    url: Change<String>,
    /// Short for a quadratic schedule with so many attempts, 1 to 10.
    #[schema(value_type = Option<u32>)]
    #[serde(default)]
    attempts: Change<u32>,
    /// When attempts are made; quadratic with 5 attempts unless set.
    #[schema(value_type = Option<ScheduleInput>)]
    #[serde(default)]
    schedule: Change<ScheduleInput>,
    /// Whether attempts carry the request's key, and in which header; `true`: X-Adal-Idempotency.
    #[schema(value_type = Option<HeaderChoice>)]
    #[serde(default)]
    idempotency_header: Change<HeaderChoice>,
    /// Whether deliveries stay pending until it is resumed.
    #[schema(value_type = Option<bool>)]
    #[serde(default)]
    paused: Change<bool>,
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
    /// From name lookup to the end of the response head, 1 to 60; 30 unless set.
    #[schema(value_type = Option<u32>)]
    #[serde(default)]
    timeout_seconds: Change<u32>,
}

/// How a destination is reached.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = DestinationKind)]
pub(crate) enum DestinationKindInput {
    /// By HTTP.
    Http,
    /// Through a connected command-line client.
    Cli,
}

/// `false`, `true`, or a header's name.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(untagged, expecting = "must be false, true or the name of a header")]
#[schema(as = IdempotencyHeader)]
pub(crate) enum HeaderChoice {
    Switch(bool),
    Name(String),
}

impl DestinationInput {
    /// A new destination.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn create(self, judge: Judge<'_>) -> Result<Destination, ApiError> {
        let Change::Set(kind) = self.kind else {
            return Err(ApiError::invalid("missing_field", "kind is required").on("kind"));
        };
        if !matches!(self.url, Change::Set(_)) {
            return Err(ApiError::invalid("missing_field", "url is required").on("url"));
        }
        let mut destination = Destination {
            kind: match kind {
                DestinationKindInput::Http => DestinationKind::Http,
                DestinationKindInput::Cli => DestinationKind::Cli,
            },
            url: String::new(),
            schedule: Schedule::default(),
            idempotency_header: IdempotencyHeader::Off,
            paused: false,
            headers: Vec::new(),
            max_in_flight: limits::MAX_IN_FLIGHT_DEFAULT,
            rate_per_second: None,
            timeout_seconds: limits::TIMEOUT_SECONDS_DESTINATION,
        };
        self.update(&mut destination, judge)?;
        Ok(destination)
    }

    /// Changes a destination.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn update(self, destination: &mut Destination, judge: Judge<'_>) -> Result<(), ApiError> {
        let mut faults = Faults::default();
        check_kind(self.kind, destination.kind, &mut faults);
        apply_url(self.url, destination, judge.rules, &mut faults);
        apply_schedule(self.attempts, self.schedule, &mut destination.schedule, SCHEDULE, &mut faults);
        apply_idempotency_header(self.idempotency_header, &mut destination.idempotency_header, &mut faults);
        apply_headers(self.headers, &mut destination.headers, judge, &mut faults);
        self.paused.apply(&mut destination.paused, false);
        self.max_in_flight.apply(&mut destination.max_in_flight, limits::MAX_IN_FLIGHT_DEFAULT);
        self.rate_per_second.apply_nullable(&mut destination.rate_per_second);
        self.timeout_seconds.apply(&mut destination.timeout_seconds, limits::TIMEOUT_SECONDS_DESTINATION);

        let Destination { max_in_flight, rate_per_second, timeout_seconds, .. } = *destination;
        check_pace(max_in_flight, rate_per_second, timeout_seconds, &mut faults);
        faults.finish()
    }
}

fn check_kind(change: Change<DestinationKindInput>, kind: DestinationKind, faults: &mut Faults) {
    let same = match change {
        Change::Keep => true,
        Change::Reset => false,
        Change::Set(DestinationKindInput::Http) => kind == DestinationKind::Http,
        Change::Set(DestinationKindInput::Cli) => kind == DestinationKind::Cli,
    };
    faults.unless(same, "kind", "cannot be changed; create another destination");
}

fn apply_url(change: Change<String>, destination: &mut Destination, rules: &Rules, faults: &mut Faults) {
    let url = match change {
        Change::Keep => return,
        Change::Reset => return faults.add("url", "must not be null"),
        Change::Set(url) => url,
    };
    let checked = match destination.kind {
        DestinationKind::Http => rules.check_url(&url),
        // The client dials it from where it runs: nothing there is private to us.
        DestinationKind::Cli => Rules::dev().check_url(&url),
    };
    match checked {
        Ok(url) => destination.url = url.into(),
        Err(fault) => faults.add("url", fault.to_string()),
    }
}

fn apply_idempotency_header(
    change: Change<HeaderChoice>,
    header: &mut IdempotencyHeader,
    faults: &mut Faults,
) {
    *header = match change {
        Change::Keep => return,
        Change::Reset | Change::Set(HeaderChoice::Switch(false)) => IdempotencyHeader::Off,
        Change::Set(HeaderChoice::Switch(true)) => IdempotencyHeader::Standard,
        Change::Set(HeaderChoice::Name(name)) => {
            faults.unless(settable_header(&name), "idempotency_header", HEADER_RULE);
            IdempotencyHeader::Named(name)
        }
    };
}

#[cfg(test)]
mod tests;
