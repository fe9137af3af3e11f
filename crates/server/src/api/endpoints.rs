//! What callers may set of any endpoint: when attempts are made, their headers, and how many at a time.

#[cfg(test)]
pub(crate) mod bench;

use std::collections::BTreeMap;

use restante_core::endpoint::{Sealed, settable_header, settable_value};
use restante_core::limits;
use restante_core::retry::{QUADRATIC_ATTEMPTS_DEFAULT, Schedule};
use serde::Deserialize;
use utoipa::ToSchema;

use super::body::Change;
use super::fault::Faults;
use crate::channel::guard::Rules;
use crate::clock::Clock;
use crate::vault::{Purpose, Vault};

/// What it takes to judge and keep an endpoint's settings.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) vault: &'a Vault,
    pub(crate) clock: &'a dyn Clock,
}

/// When attempts are made.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleInput {
    kind: ScheduleKind,
    /// Of `quadratic`: 1 to 10, the first included.
    attempts: Option<u32>,
    /// Of `custom`: the waits between attempts, each at most 604,800; at most 9 for a destination, 19 for a webhook.
    waits_seconds: Option<Vec<f64>>,
    /// Of `custom`: the share by which each wait may deviate, 0 to 0.5.
    jitter: Option<f64>,
}

/// The schedules an endpoint can have.
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

/// What an endpoint's own kind says about its schedule.
#[derive(Clone, Copy)]
pub(crate) struct ScheduleRules {
    /// What an endpoint gets that sets none.
    pub(crate) default: fn() -> Schedule,
    /// Most waits of a custom schedule.
    pub(crate) waits_max: usize,
}

/// Sets a schedule; `attempts` is short for a quadratic one.
pub(crate) fn apply_schedule(
    attempts: Change<u32>,
    schedule: Change<ScheduleInput>,
    field: &mut Schedule,
    rules: ScheduleRules,
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
        (Change::Keep | Change::Reset, Change::Keep | Change::Reset) => ("", (rules.default)()),
    };
    match new.check(rules.waits_max) {
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

/// What [`settable_header`] wants, for people.
pub(crate) const HEADER_RULE: &str =
    "must be a header's name, and not Host, Content-Length, webhook-* or hop-by-hop";

/// Sets static headers. A null value keeps the one that is set, for values are never read back.
pub(crate) fn apply_headers(
    change: Change<BTreeMap<String, Option<String>>>,
    headers: &mut Vec<(String, Sealed)>,
    judge: Judge<'_>,
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
        faults.unless(settable_header(&name), &param, HEADER_RULE);
        let known =
            stored.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name)).map(|(_, value)| value);
        let value = match value {
            Some(value) => {
                let fine = settable_value(&value);
                faults.unless(fine, &param, "must be at most 4096 bytes of visible ASCII");
                // Sealed anew, the same value would look like another, and setting it like a change.
                let opens = |known: &&Sealed| {
                    let open = judge.vault.open(Purpose::HeaderValue, known);
                    open.is_ok_and(|open| open.expose() == value)
                };
                let same = known.filter(opens).cloned();
                same.unwrap_or_else(|| judge.vault.seal(Purpose::HeaderValue, &value, judge.clock))
            }
            None => match known {
                Some(value) => value.clone(),
                None => {
                    faults.add(param, "null keeps the value that is set, and none is");
                    continue;
                }
            },
        };
        let twice = headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name));
        faults.unless(!twice, &param, "is there twice: header names do not differ by case");
        headers.push((name, value));
    }
}

/// Checks how many attempts an endpoint may get at a time, and how long each may take.
pub(crate) fn check_pace(
    max_in_flight: u32,
    rate_per_second: Option<f64>,
    timeout_seconds: u32,
    faults: &mut Faults,
) {
    let fine = limits::MAX_IN_FLIGHT.contains(&max_in_flight);
    faults.unless(fine, "max_in_flight", "must be 1 to 1000");
    let fine = rate_per_second.is_none_or(|rate| limits::RATE_PER_SECOND.contains(&rate));
    faults.unless(fine, "rate_per_second", "must be null or 0.1 to 10000");
    let fine = limits::TIMEOUT_SECONDS.contains(&timeout_seconds);
    faults.unless(fine, "timeout_seconds", "must be 1 to 60");
}
