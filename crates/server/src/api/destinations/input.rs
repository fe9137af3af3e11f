//! What callers may set of a destination, and what is valid.

use std::collections::BTreeMap;

use restante_core::endpoint::{
    Destination, DestinationKind, IdempotencyHeader, settable_header, settable_value,
};
use restante_core::limits;
use restante_core::retry::{CUSTOM_WAITS_MAX_DESTINATION, QUADRATIC_ATTEMPTS_DEFAULT, Schedule};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::body::Change;
use crate::api::error::ApiError;
use crate::api::fault::Faults;
use crate::channel::guard::Rules;

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

/// When attempts are made.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleInput {
    kind: ScheduleKind,
    /// Of `quadratic`: 1 to 10, the first included.
    attempts: Option<u32>,
    /// Of `custom`: the waits between attempts, at most 9, each at most 604,800.
    waits_seconds: Option<Vec<f64>>,
    /// Of `custom`: the share by which each wait may deviate, 0 to 0.5.
    jitter: Option<f64>,
}

/// The schedules a destination can have.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ScheduleKind {
    /// n² minutes before attempt n.
    Quadratic,
    /// Eight attempts over 27 h 35 min 5 s, each wait ± 20 %.
    Standard,
    /// One attempt more than `waits_seconds`.
    Custom,
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
    pub(crate) fn create(self, rules: &Rules) -> Result<Destination, ApiError> {
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
        self.update(&mut destination, rules)?;
        Ok(destination)
    }

    /// Changes a destination.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn update(self, destination: &mut Destination, rules: &Rules) -> Result<(), ApiError> {
        let mut faults = Faults::default();
        check_kind(self.kind, destination.kind, &mut faults);
        apply_url(self.url, destination, rules, &mut faults);
        apply_schedule(self.attempts, self.schedule, &mut destination.schedule, &mut faults);
        apply_idempotency_header(self.idempotency_header, &mut destination.idempotency_header, &mut faults);
        apply_headers(self.headers, &mut destination.headers, &mut faults);
        self.paused.apply(&mut destination.paused, false);
        self.max_in_flight.apply(&mut destination.max_in_flight, limits::MAX_IN_FLIGHT_DEFAULT);
        self.rate_per_second.apply_nullable(&mut destination.rate_per_second);
        self.timeout_seconds.apply(&mut destination.timeout_seconds, limits::TIMEOUT_SECONDS_DESTINATION);

        let fine = limits::MAX_IN_FLIGHT.contains(&destination.max_in_flight);
        faults.unless(fine, "max_in_flight", "must be 1 to 1000");
        let fine = destination.rate_per_second.is_none_or(|rate| limits::RATE_PER_SECOND.contains(&rate));
        faults.unless(fine, "rate_per_second", "must be null or 0.1 to 10000");
        let fine = limits::TIMEOUT_SECONDS.contains(&destination.timeout_seconds);
        faults.unless(fine, "timeout_seconds", "must be 1 to 60");
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

fn apply_schedule(
    attempts: Change<u32>,
    schedule: Change<ScheduleInput>,
    field: &mut Schedule,
    faults: &mut Faults,
) {
    let (prefix, new) = match (attempts, schedule) {
        (Change::Set(_), Change::Set(_)) => {
            return faults.add("attempts", "is short for a quadratic schedule: give attempts or schedule");
        }
        (Change::Set(attempts), _) => ("", Schedule::Quadratic { attempts }),
        (_, Change::Set(schedule)) => match schedule.read(faults) {
            Some(schedule) => ("schedule.", schedule),
            None => return,
        },
        (Change::Keep, Change::Keep) => return,
        (Change::Keep | Change::Reset, Change::Keep | Change::Reset) => ("", Schedule::default()),
    };
    match new.check(CUSTOM_WAITS_MAX_DESTINATION) {
        Ok(()) => *field = new,
        Err(fault) => faults.add(format!("{prefix}{}", fault.field()), fault.to_string()),
    }
}

impl ScheduleInput {
    /// The schedule meant, if its fields fit its kind.
    fn read(self, faults: &mut Faults) -> Option<Schedule> {
        let fields = [
            ("attempts", self.attempts.is_some(), ScheduleKind::Quadratic),
            ("waits_seconds", self.waits_seconds.is_some(), ScheduleKind::Custom),
            ("jitter", self.jitter.is_some(), ScheduleKind::Custom),
        ];
        if let Some((field, ..)) = fields.into_iter().find(|(_, set, kind)| *set && *kind != self.kind) {
            faults.add(format!("schedule.{field}"), "does not belong to this kind of schedule");
            return None;
        }
        match self.kind {
            ScheduleKind::Quadratic => {
                Some(Schedule::Quadratic { attempts: self.attempts.unwrap_or(QUADRATIC_ATTEMPTS_DEFAULT) })
            }
            ScheduleKind::Standard => Some(Schedule::Standard),
            ScheduleKind::Custom => {
                let jitter = self.jitter.unwrap_or(0.0);
                let custom =
                    self.waits_seconds.map(|waits_seconds| Schedule::Custom { waits_seconds, jitter });
                faults.unless(custom.is_some(), "schedule.waits_seconds", "is required");
                custom
            }
        }
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

/// What [`settable_header`] wants, for people.
const HEADER_RULE: &str = "must be a header's name, and not Host, Content-Length, webhook-* or hop-by-hop";

fn apply_headers(
    change: Change<BTreeMap<String, Option<String>>>,
    headers: &mut Vec<(String, String)>,
    faults: &mut Faults,
) {
    let wanted = match change {
        Change::Keep => return,
        Change::Reset => BTreeMap::new(),
        Change::Set(wanted) => wanted,
    };
    let fine = wanted.len() <= limits::ENDPOINT_HEADERS_MAX;
    faults.unless(fine, "headers", format!("must be at most {}", limits::ENDPOINT_HEADERS_MAX));
    let stored = std::mem::take(headers);
    for (name, value) in wanted {
        let param = format!("headers.{name}");
        let kept =
            || stored.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name)).map(|it| it.1.clone());
        let Some(value) = value.or_else(kept) else {
            faults.add(param, "null keeps the value that is set, and none is");
            continue;
        };
        faults.unless(settable_header(&name), &param, HEADER_RULE);
        faults.unless(settable_value(&value), &param, "must be at most 4096 bytes of visible ASCII");
        let twice = headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name));
        faults.unless(!twice, &param, "is there twice: header names do not differ by case");
        headers.push((name, value));
    }
}

#[cfg(test)]
mod tests;
